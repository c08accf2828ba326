"""The pod a choice would become, from a manifest that KubeSpawner itself writes; created nowhere.

A verdict is only worth something for the pod that would really be created: with the admin's node selector, affinity,
tolerations and containers, and with whatever a hook has set on this very spawner. So KubeSpawner writes the pod as the
admin has set it, once for all choices of a form, and each choice is put into it as it is into ``extra_pod_config``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.request.pod_requirements import ContainerResources, calculate_resources, place
from gpuspawner.core.request.selection import Selection
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.pod import overrides
from gpuspawner.hub.pod.overrides import build_notebook_resources, build_pod_config
from gpuspawner.hub.pod.trait_values import format_volume

_PLACING = ("nodeSelector", "affinity", "tolerations")
"""Fields of a pod's spec that a GPU type and an image have a say in."""


def copy_spawner(spawner: Any) -> Any:
    """Return a copy of a spawner with the admin's values, whose traits can be set without changing the spawner's.

    Everything but its traits is shared with the spawner: it is for making manifests only.
    """
    kind: Any = type(spawner)
    twin = kind.__new__(kind)
    # As copy.copy would, but that looks for observers at all attributes of the class, and they are there already.
    values = {"_trait_values": dict(spawner._trait_values)}
    twin.__dict__ = {**spawner.__dict__, **twin.__dict__, **values}
    twin._trait_overrides = spawner._trait_overrides.copy_for(twin)
    twin._trait_overrides.restore()
    return twin


def serialize_pod(spawner: Any, pod: Any) -> dict[str, Any]:
    """Return the manifest of a pod as it goes to the API server.

    :param pod: the client's model of it, which a hook may have replaced by a plain dict.
    """
    manifest: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(pod)
    # KubeSpawner names the namespace in the request, not in the manifest.
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": spawner.namespace}}


_PreviewKey = tuple[str, str | None, *tuple[str, ...]]
"""Image, GPU type and closed choices: what a choice's pod depends on besides amounts. Images that people name make no
difference."""


@dataclass(slots=True)
class PodPreviews:
    """Pods of choices of one person.

    :param spawner: the person's; not changed.
    """

    spawner: Any
    offer: Offer
    _manifest: dict[str, Any] | None = None
    """Of a pod without a choice."""
    _pods: dict[_PreviewKey, tuple[dict[str, Any], Pod]] = field(default_factory=dict)
    """The spec of the manifest and the pod that it stands for."""

    async def prepare(self, selection: Selection, *, more_types: Iterable[str] = ()) -> None:
        """Make the pods of a selection and of the same with other GPU types; :meth:`pod` needs them."""
        for slug in (selection.gpu, *more_types):
            wanted = _replace_type(selection, slug)
            if _make_key(wanted) not in self._pods and (found := await self._make(wanted)):
                self._pods[_make_key(wanted)] = found

    def find_pod(self, selection: Selection) -> Pod | None:
        """Return the pod of a selection, None where that of its image and GPU type was not prepared."""
        if _make_key(selection) not in self._pods:
            return None
        spec, pod = self._pods[_make_key(selection)]
        chosen = calculate_resources(selection, self.offer.catalogue)
        return replace(pod, requests=decode.decode_requests({**spec, "containers": self._containers(spec, chosen)}))

    async def _make(self, selection: Selection) -> tuple[dict[str, Any], Pod] | None:
        if self._manifest is None:
            twin = copy_spawner(self.spawner)
            twin.get_env = dict  # no scheduler looks at an environment, and an admin's functions may fill it
            self._manifest = serialize_pod(twin, await twin.get_pod_manifest())
        spec: dict[str, Any] = self._manifest["spec"]
        placement = place(selection, self.offer.catalogue)
        # Its own shared memory and runtime class do not matter to where it fits.
        placing = build_pod_config({name: spec.get(name) for name in _PLACING}, placement, volumes=[])
        spec = {**spec, **placing, "containers": self._containers(spec, placement)}
        if placement.additions.volumes:
            spec["volumes"] = [*(spec.get("volumes") or []), *map(format_volume, placement.additions.volumes)]
        if placement.additions.priority is not None:
            spec["priority"] = placement.additions.priority  # the API server looks it up when a pod is created
        metadata = self._manifest["metadata"]
        labels = {**placement.labels, **(metadata.get("labels") or {})}
        pod = await self.offer.add_volume_topology(
            {**self._manifest, "metadata": {**metadata, "labels": labels}, "spec": spec}
        )
        return None if pod is None else (spec, pod)

    def _containers(self, spec: Mapping[str, Any], chosen: ContainerResources) -> list[Any]:
        """Return a pod's containers with the amounts chosen in the notebook's, which is the first."""
        notebook, *others = spec["containers"]
        gpus = overrides.list_gpu_resources(self.offer.catalogue)
        resources = build_notebook_resources(notebook.get("resources") or {}, chosen, resources=gpus)
        return [{**notebook, "resources": resources}, *others]


def _make_key(selection: Selection) -> _PreviewKey:
    return selection.image, selection.gpu, *selection.choices.values()


def _replace_type(selection: Selection, slug: str | None) -> Selection:
    return replace(selection, gpu=slug, gpu_count=0 if slug is None else selection.gpu_count or 1)
