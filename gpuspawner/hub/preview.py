"""The pod a choice would become, made by KubeSpawner itself and created nowhere.

A verdict is only worth something for the pod that would really be created: with the admin's node selector, affinity,
tolerations and containers, and with whatever a hook has set on this very spawner. So a twin of the spawner takes the
choice, and the spawner keeps its values.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.core import decode
from gpuspawner.core.inventory import Pod
from gpuspawner.core.placement import Placement, place
from gpuspawner.core.selection import Selection
from gpuspawner.hub import gpu_resources
from gpuspawner.hub.apply import Choice, trait_values
from gpuspawner.hub.offers import Offer
from gpuspawner.hub.pod_overrides import notebook_resources

__all__ = ["Previews", "twin_of", "written"]


def twin_of(spawner: Any) -> Any:
    """Return a copy of a spawner whose traits can be set without changing the spawner's.

    Everything but its traits and the admin's values is shared with the spawner: it is for making manifests only.
    """
    twin = copy.copy(spawner)
    twin._base = spawner._base.of(twin)
    return twin


def written(spawner: Any, pod: Any) -> dict[str, Any]:
    """Return the manifest of a pod as it goes to the API server.

    :param pod: the client's model of it, which a hook may have replaced by a plain dict.
    """
    manifest: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(pod)
    # KubeSpawner names the namespace in the request, not in the manifest.
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": spawner.namespace}}


@dataclass(slots=True)
class Previews:
    """Pods of choices of one person. KubeSpawner writes one manifest for each GPU type; amounts are put in here.

    :param spawner: the person's; not changed.
    """

    spawner: Any
    offer: Offer
    _pods: dict[str | None, tuple[dict[str, Any], Pod]] = field(default_factory=dict)
    """By GPU type, the spec of the manifest and the pod that it stands for."""
    _twin: Any = None
    """Takes one choice after the other, each of which sets the same traits: a new twin makes a manifest take twice as
    long, as KubeSpawner works out all its defaults again."""

    async def prepare(self, selection: Selection, *, more_types: Iterable[str] = ()) -> None:
        """Make the manifests of a selection and of the same with other GPU types; :meth:`pod` needs them."""
        for slug in (selection.gpu, *more_types):
            if slug not in self._pods and (found := await self._make(_with_type(selection, slug))):
                self._pods[slug] = found

    def pod(self, selection: Selection) -> Pod | None:
        """Return the pod of a selection, None where the manifest of its GPU type was not prepared."""
        if selection.gpu not in self._pods:
            return None
        spec, pod = self._pods[selection.gpu]
        catalogue = self.offer.catalogue
        resources = gpu_resources.of_catalogue(catalogue)
        return replace(
            pod, requests=decode.requested(_with_amounts(spec, place(selection, catalogue), resources=resources))
        )

    async def _make(self, selection: Selection) -> tuple[dict[str, Any], Pod] | None:
        catalogue = self.offer.catalogue
        choice = Choice(placement=place(selection, catalogue), resources=gpu_resources.of_catalogue(catalogue))
        if self._twin is None:
            self._twin = twin_of(self.spawner)
        twin = self._twin
        twin._base.assign(trait_values(choice, twin._base))
        manifest = written(twin, await twin.get_pod_manifest())
        pod = await self.offer.located(manifest)
        return None if pod is None else (manifest["spec"], pod)


def _with_type(selection: Selection, slug: str | None) -> Selection:
    return replace(selection, gpu=slug, gpu_count=0 if slug is None else selection.gpu_count or 1)


def _with_amounts(spec: Mapping[str, Any], placement: Placement, *, resources: frozenset[str]) -> dict[str, Any]:
    """Return a pod's spec with the amounts of another placement in the notebook's container, which is the first."""
    notebook, *others = spec["containers"]
    amounts = notebook_resources(notebook.get("resources") or {}, placement, resources=resources)
    return {**spec, "containers": [{**notebook, "resources": amounts}, *others]}
