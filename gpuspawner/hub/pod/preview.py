"""Builds the pod that KubeSpawner would create for a user's choice, without creating it.

gpuspawner predicts from this pod whether the server can start. To save time, KubeSpawner builds only one pod without a
choice, and one for each different ``kubespawner_override``. gpuspawner puts the choices into copies of these pods.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from gpuspawner.core.catalog.model import GPUType, TraitValues
from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.catalog.queue import QueueState
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.pod_requirements import calculate_resources, place
from gpuspawner.core.request.selection import Selection, find_image
from gpuspawner.core.verdict.verdict import Verdict, starts_before_rivals
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.patch import (
    PodChoice,
    build_notebook_resources,
    lay_over,
    list_gpu_resources,
    merge_node_affinity,
    patch_pod,
)
from gpuspawner.hub.spawner_protocol import HubSpawner
from gpuspawner.hub.trait_overrides import copy_nested

SpawnerT = TypeVar("SpawnerT", bound=HubSpawner)


def copy_spawner(spawner: SpawnerT) -> SpawnerT:
    """Return a copy of a spawner, with the admin's trait values instead of those that a start has set.

    Setting traits of the copy does not change the original. The copy shares all other attributes with the original, so
    use the copy only to build manifests and forms.
    """
    kind: Any = type(spawner)
    duplicate: SpawnerT = kind.__new__(kind)
    # This is faster than copy.copy, which searches all class attributes for trait observers.
    duplicate.__dict__ = {**spawner.__dict__, **duplicate.__dict__}
    private_api.set_trait_values(duplicate, dict(private_api.get_trait_values(spawner)))
    duplicate.trait_overrides = spawner.trait_overrides.copy_for(duplicate)
    duplicate.trait_overrides.restore()
    # During a start, an attribute replaces the method and returns the start's pod. The copy must build pods itself.
    vars(duplicate).pop("get_pod_manifest", None)
    return duplicate


def _drop_functions(duplicate: HubSpawner) -> None:
    """Remove the admin's functions, such as hooks, from a copy of a spawner, because they may have side effects.

    The pod's environment, arguments and volume mounts, which do not affect scheduling, become empty.
    """
    kind, values = type(duplicate), private_api.get_trait_values(duplicate)
    functions = [name for name, value in values.items() if callable(value)]
    values |= {name: None for name in functions if getattr(kind, name).metadata.get("config")}
    # A hub's pre_spawn_hook may expand names in mounts that KubeSpawner does not know, and fails to expand.
    values["volume_mounts"] = type(values.get("volume_mounts", []))()
    duplicate.get_env, duplicate.get_args = dict, list


def copy_for_profiles(spawner: SpawnerT) -> SpawnerT:
    """Return a copy of a spawner into which KubeSpawner can load a profile, without the admin's functions.

    :param spawner: the user's spawner; it stays unchanged.
    """
    _drop_functions(duplicate := copy_spawner(spawner))
    # The caller sets the one profile that it loads: a copy of all of them would take longer than all else.
    private_api.get_trait_values(duplicate).pop("profile_list", None)
    _copy_mappings(duplicate)
    duplicate.log = _FormLog(spawner.log)
    return duplicate


def _copy_mappings(duplicate: HubSpawner) -> None:
    """Copy the values of a spawner's traits, because overrides are merged into them in place."""
    values = private_api.get_trait_values(duplicate)
    values |= {name: copy_nested(value) for name, value in values.items() if type(value) in (dict, list)}


async def copy_with_group_overrides(spawner: SpawnerT) -> SpawnerT:
    """Return a spawner for a form, with the trait values that ``group_overrides`` sets at the user's starts.

    The result is a copy, or the spawner itself if there are no ``group_overrides``.

    :param spawner: the user's spawner; it stays unchanged.
    """
    if not spawner.group_overrides:
        return spawner
    duplicate = copy_spawner(spawner)
    _copy_mappings(duplicate)
    duplicate.log = _FormLog(spawner.log)
    await duplicate.apply_group_overrides()
    duplicate.log = spawner.log
    return duplicate


class _FormLog(logging.LoggerAdapter[logging.Logger]):
    """Logs INFO messages as DEBUG. Otherwise, the hub's log would list group overrides at each display of the form."""

    @override
    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        self.debug(msg, *args, **kwargs)


def serialize_pod(spawner: HubSpawner, pod: Any) -> dict[str, Any]:
    """Return the manifest of a pod as KubeSpawner sends it to the API server.

    :param spawner: the spawner that creates the pod.
    :param pod: the pod as a model of the Kubernetes client, or as a dict if a hook returned one.
    """
    manifest: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(pod)
    # Add the namespace: KubeSpawner passes it in the request, not in the manifest.
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": spawner.namespace}}


def serialize_for_scheduling(spawner: HubSpawner, pod: Any) -> dict[str, Any]:
    """Return a pod's manifest without ``env`` and volume mounts: they serialize slowly, and schedulers ignore them.

    :param spawner: the spawner that creates the pod.
    :param pod: the pod as a model of the Kubernetes client. If a hook has returned any other type, the whole pod is
        serialized.
    """
    containers = getattr(getattr(pod, "spec", None), "containers", None)
    if not isinstance(containers, list):
        return serialize_pod(spawner, pod)
    bare: list[Any] = [copy(each) for each in containers]
    for each in bare:
        if hasattr(each, "volume_mounts"):  # A plain dict (an admin's extra container) has no attributes, so skip it.
            each.env = each.volume_mounts = None
    changed, changed.spec = copy(pod), copy(pod.spec)
    changed.spec.containers = bare
    return serialize_pod(spawner, changed)


def list_new_claims(spawner: HubSpawner) -> dict[str, str | None]:
    """Return the volume claims that a start creates if they are missing.

    The result maps the claim's name to the name of its StorageClass, or to None for the cluster's default class. If
    KubeSpawner creates no claim, the result is empty.
    """
    return {spawner.pvc_name: spawner.storage_class} if spawner.storage_pvc_ensure else {}


class JudgedPod(NamedTuple):
    """A pod that is not created yet, and when a server with it would start.

    :param pod: the decoded pod, with the node constraints of its volumes.
    :param queue: the state of its Kueue queue; None without one.
    :param verdict: the prediction.
    """

    pod: Pod
    queue: QueueState | None
    verdict: Verdict


async def judge_pod(
    spawner: HubSpawner,
    manifest: Mapping[str, Any],
    *,
    offer: Offer,
    gpu: GPUType | None,
    start_timeout_s: float,
    before: JudgedPod | None = None,
) -> JudgedPod | None:
    """Return when a server with a finished pod would start; None for a malformed pod.

    :param spawner: the spawner that has built the pod.
    :param manifest: JSON of the pod.
    :param offer: what the hub offers now.
    :param gpu: GPU type of the pod; None without a GPU or if the type is unknown.
    :param start_timeout_s: seconds that the hub waits for the server.
    :param before: an earlier result for the same pod, whose claims and queue are not read again; None to read them.
    """
    if before is not None:
        pod, queue = before.pod, before.queue
    else:
        read = await offer.add_volume_topology(manifest, new_claims=list_new_claims(spawner))
        if read is None:
            return None
        pod = read
        queue = await offer.read_queue(manifest, pod, is_namespace_sure=not spawner.enable_user_namespaces)
    verdict = offer.predict_verdict(pod, gpu=gpu, queue=queue, start_timeout_s=start_timeout_s)
    return JudgedPod(pod, queue, await offer.add_node_growth(verdict, gpu=gpu))


def exclude_gpu_nodes(
    manifest: Mapping[str, Any], pod: Pod, *, avoided: tuple[MatchExpression, ...], inventory: Inventory
) -> Mapping[str, Any]:
    """Return a pod's manifest, changed to require a node without GPUs if the pod would start on such a node now.

    Otherwise, the result is the object ``manifest`` itself, so the caller can compare with ``is``.

    :param manifest: JSON of the finished pod, as sent to the API server.
    :param pod: the decoded manifest, with the node constraints of its volumes.
    :param avoided: node selector expressions that keep the pod off GPU nodes; if empty, ``manifest`` is returned.
    :param inventory: the cluster, with the age of its data.
    """
    if not avoided:
        return manifest
    spec = manifest["spec"]
    affinity = merge_node_affinity(spec.get("affinity"), required=avoided)
    narrowed = {**manifest, "spec": {**spec, "affinity": affinity}}
    decoded = decode.decode_pod(narrowed)
    if decoded is None:
        return manifest
    constraints = replace(pod.constraints, node_terms=decoded.constraints.node_terms)
    return narrowed if starts_before_rivals(replace(pod, constraints=constraints), inventory) else manifest


_PreviewKey = tuple[object, ...]
"""Key of a cached pod: a tuple of these parts of the user's selection:

- the image's CUDA version and architectures, and the image's slug if the image has a ``kubespawner_override``
- the GPU type
- the choices in other fields, such as the priority"""
_BaseKey = tuple[str, ...]
"""Key of a pod without a user's choice: the ``repr`` of each ``kubespawner_override`` that the pod has."""


class _BasePod(NamedTuple):
    """A pod without any user's choice, as a model and as JSON, and the spawner that has built it."""

    spawner: HubSpawner
    pod: Any
    manifest: dict[str, Any]


class _Preview(NamedTuple):
    """A cached pod: its spec as JSON, its namespace's LimitRanges, the decoded pod, and its Kueue queue's state."""

    spec: dict[str, Any]
    limit_ranges: Sequence[object]
    pod: Pod
    queue: QueueState | None


@dataclass(slots=True)
class PodPreviews:
    """Builds and caches the pods that KubeSpawner would create for several choices of one user.

    :param spawner: the user's spawner; it stays unchanged.
    :param offer: what the hub offers now.
    """

    spawner: HubSpawner
    offer: Offer
    _bases: dict[_BaseKey, _BasePod] = field(default_factory=dict)
    """The pods as KubeSpawner builds them, without a user's choice."""
    _pods: dict[_PreviewKey, _Preview] = field(default_factory=dict)

    async def prepare(self, selection: Selection, *, more_types: Iterable[str] = ()) -> None:
        """Build the pods that :meth:`find_pod` needs: for a selection, and for the selection with other GPU types.

        :param selection: a selection that is valid in the catalog of ``offer``.
        :param more_types: slugs of the other GPU types.
        """
        for slug in (selection.gpu, *more_types):
            variant = _replace_type(selection, slug)
            key = self._make_key(variant)
            if key not in self._pods and (found := await self._make(variant)):
                self._pods[key] = found

    def find_pod(self, selection: Selection) -> Pod | None:
        """Return a selection's pod, or None if :meth:`prepare` built no pod for it.

        The built pod may have other amounts of CPU, memory and GPUs: this method sets the selection's amounts.

        :param selection: a valid selection.
        """
        found = self._pods.get(self._make_key(selection))
        if found is None:
            return None
        spec, chosen = found.spec, calculate_resources(selection, self.offer.catalog)
        notebook, *others = spec["containers"]
        resources = build_notebook_resources(notebook["resources"], chosen, resources=self._gpu_resources)
        changed = self.offer.complete_spec(
            {**spec, "containers": [{**notebook, "resources": resources}, *others]}, found.limit_ranges
        )
        return replace(found.pod, requests=decode.decode_requests(changed))

    def find_queue(self, selection: Selection) -> QueueState | None:
        """Return the state of the Kueue queue of a selection's pod.

        The result is None if the hub could not read the state, or if Kueue does not queue the pod.

        :param selection: a valid selection for which :meth:`find_pod` returns a pod.
        """
        found = self._pods.get(self._make_key(selection))
        return None if found is None else found.queue

    def find_start_timeout(self, selection: Selection) -> float:
        """Return the seconds that the hub waits for a server with a selection.

        :param selection: a valid selection.
        """
        own = place(selection, self.offer.catalog).start_timeout_s
        return float(own or self.spawner.trait_overrides["start_timeout"])

    async def find_priority(self, selection: Selection | None) -> int | None:
        """Return the priority with which a server's pod preempts other pods.

        The result is None if the priority is unknown, or if the pod preempts no other pods.

        :param selection: a valid selection; None for the priority that the admin has set in KubeSpawner's traits.
        """
        placement = None if selection is None else place(selection, self.offer.catalog)
        base = await self._build_base(() if placement is None else placement.overrides)
        spec = _set_priority(base.manifest["spec"], None if placement is None else placement.priority)
        return decode.find_preempting_priority(spec, classes=self.offer.inventory.priority_classes)

    async def _build_base(self, layers: tuple[TraitValues, ...]) -> _BasePod:
        key = tuple(map(repr, layers))
        if key not in self._bases:
            _drop_functions(duplicate := copy_spawner(self.spawner))
            for layer in layers:
                lay_over(duplicate, layer)
            pod = await duplicate.get_pod_manifest()
            self._bases[key] = _BasePod(duplicate, pod, serialize_for_scheduling(duplicate, pod))
        return self._bases[key]

    async def _make(self, selection: Selection) -> _Preview | None:
        placement = place(selection, self.offer.catalog)
        base = await self._build_base(placement.overrides)
        patched = patch_pod(base.pod, PodChoice(placement=placement, resources=self._gpu_resources))
        whole = serialize_for_scheduling(base.spawner, patched)
        whole["spec"] = spec = _set_priority(whole["spec"], placement.priority)
        pod = await self.offer.add_volume_topology(whole, new_claims=list_new_claims(base.spawner))
        if pod is None:
            return None
        limit_ranges = await self.offer.read_limit_ranges(self.spawner.namespace)
        is_sure = not self.spawner.enable_user_namespaces
        return _Preview(spec, limit_ranges, pod, await self.offer.read_queue(whole, pod, is_namespace_sure=is_sure))

    @property
    def _gpu_resources(self) -> frozenset[str]:
        return list_gpu_resources(self.offer.catalog)

    def _make_key(self, selection: Selection) -> _PreviewKey:
        image = find_image(selection, self.offer.catalog)
        overriding = image.slug if image.overrides else None
        return image.cuda, image.architectures, overriding, selection.gpu, *selection.choices.values()


def _set_priority(spec: dict[str, Any], priority: Priority | None) -> dict[str, Any]:
    """Return a pod's spec with the PriorityClass that the user chose, if any.

    The result also contains the class's priority value, so that the hub need not read the PriorityClass.
    """
    if priority is None:
        return spec
    return {**spec, "priorityClassName": priority.priority_class, "priority": priority.value}


def _replace_type(selection: Selection, slug: str | None) -> Selection:
    return replace(selection, gpu=slug, gpu_count=0 if slug is None else selection.gpu_count or 1)
