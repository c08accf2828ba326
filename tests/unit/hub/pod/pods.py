"""Pods of a KubeSpawner that needs no hub and no cluster, and what a choice makes of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kubespawner import KubeSpawner
from typing_extensions import override

from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.hub.pod.patch import PodChoice, patch_pod, serialize_models
from gpuspawner.hub.trait_overrides import TraitOverrides

AMOUNTS = {"cpu_limit_millis": 1500, "cpu_request_millis": 750, "memory_limit_bytes": 8, "memory_request_bytes": 4}
UNCHOSEN: dict[str, Any] = dict.fromkeys(AMOUNTS)
"""Amounts of a choice that leaves CPU and memory as the admin has set them."""


class PodBuilder(KubeSpawner):  # type: ignore[misc]
    """A KubeSpawner with an admin's traits, whose constructor does not ask for a hub or a cluster."""

    def __init__(self, traits: dict[str, Any] | None = None) -> None:
        self.user = SimpleNamespace(name="ada", id=1, url="/user/ada/", escaped_name="ada")
        self.pod_name, self.secret_name, self.pvc_name, self.port = "jupyter-ada", "jupyter-ada", "claim-ada", 8888
        self.trait_overrides = TraitOverrides(self)
        for name, value in (traits or {}).items():
            setattr(self, name, value)

    @override
    def get_env(self) -> dict[str, Any]:
        """Return the admin's variables, without those of JupyterHub, which need a hub."""
        return {name: self._expand_all(value) for name, value in self.environment.items()}

    @override
    def get_args(self) -> list[str]:
        return []

    def build(self) -> Any:
        """Return the pod as GPUSpawner builds it: KubeSpawner's pod, with the choice in it if there is one."""
        building = self.get_pod_manifest()
        try:
            # KubeSpawner awaits only functions that an admin has set, so one step brings it to its end.
            building.send(None)
        except StopIteration as end:
            return self.trait_overrides.patch(end.value) if self.trait_overrides.patch else end.value
        raise AssertionError


def make_choice(*, resources: frozenset[str] = frozenset(), **placed: Any) -> PodChoice:
    return PodChoice(placement=PodRequirements(**{"image": "chosen", **AMOUNTS, **placed}), resources=resources)


def make_pod(traits: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    """Return the pod of an admin's traits with a choice in it, as JSON."""
    pod: dict[str, Any] = serialize_models(patch_pod(PodBuilder(traits).build(), make_choice(**choice)))
    return pod


def make_spec(traits: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    spec: dict[str, Any] = make_pod(traits, **choice)["spec"]
    return spec


def make_notebook(traits: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    """Return the container of the user's server, as JSON."""
    notebook: dict[str, Any] = make_spec(traits, **choice)["containers"][0]
    return notebook
