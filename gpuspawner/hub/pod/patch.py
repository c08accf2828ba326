"""Puts a user's choice into a server's pod, in two steps: KubeSpawner's own overrides, and a patch on the finished pod.

:func:`apply_choice` sets image, CPU and memory as KubeSpawner does for a profile, so that the environment and hooks see
them. :func:`patch_pod` adds all else to what the admin has set, whichever trait it comes from: node selector, affinity,
tolerations, GPUs, volumes, environment, labels and annotations. The same functions serve forms, ``explain`` and starts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any

from kubernetes_asyncio.client import (
    V1Affinity,
    V1Container,
    V1EnvVar,
    V1NodeAffinity,
    V1NodeSelector,
    V1NodeSelectorTerm,
    V1PreferredSchedulingTerm,
    V1ResourceRequirements,
    V1Toleration,
    V1Volume,
    V1VolumeMount,
)
from kubespawner.utils import get_k8s_model, recursive_update

from gpuspawner.core.catalog.model import NO_LIMIT, Catalog, TraitValues
from gpuspawner.core.catalog.node_labels import MatchExpression, find_vendor
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.json_access import as_text
from gpuspawner.core.policy.admission import PodAdmission
from gpuspawner.core.policy.usage import POOLS_ANNOTATION
from gpuspawner.core.request.pod_requirements import (
    ANNOTATION_PREFIX,
    GPU_HIDING_ENVIRONMENT,
    ContainerResources,
    PodRequirements,
    build_annotations,
    list_shown_variables,
)
from gpuspawner.core.text.i18n import gettext
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner_protocol import HubSpawner
from gpuspawner.hub.trait_overrides import copy_nested

RUN_TIME_ANNOTATION = f"{ANNOTATION_PREFIX}run-time-seconds"
"""Annotation with the maximum run time in seconds, counted from ``status.startTime`` of the pod."""
RUN_TIME_VARIABLE = "GPUSPAWNER_RUN_TIME"
"""Environment variable with the server's maximum run time in seconds."""

_GPU_ANNOTATIONS = frozenset(f"{ANNOTATION_PREFIX}{key}" for key in ("gpu", "gpu-name", "gpu-count"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_PREFERENCE_WEIGHT = 100
_REFERENCE = re.compile(r"\$\(([^)]+)\)")
"""A reference to a variable, which Kubernetes replaces by the variable's value."""
_SHM = "gpuspawner-shm"
_SHM_PATH = "/dev/shm"  # noqa: S108 - the path of shared memory in containers


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChoice:
    """The user's choice, as a pod needs it.

    :param placement: the choice's requirements for the pod.
    :param resources: names of the extended resources of the catalog's GPU types. :func:`patch_pod` removes the admin's
        amounts of them, so that the server gets only the chosen GPUs.
    """

    placement: PodRequirements
    resources: frozenset[str] = frozenset()


def list_gpu_resources(catalog: Catalog) -> frozenset[str]:
    """Return the extended resources of all GPU types in a catalog, including types that users cannot choose.

    :param catalog: the catalog that the hub offers.
    """
    return frozenset(gpu.resource for gpu in (*catalog.gpus.values(), *catalog.hidden))


def apply_choice(spawner: HubSpawner, choice: PodChoice) -> None:
    """Have a spawner build the pod of a choice, until its ``trait_overrides`` are restored.

    The trait ``start_timeout`` stays: JupyterHub reads it before the start, so ``apply_user_options`` sets it.
    """
    placement = choice.placement
    for layer in placement.overrides:
        lay_over(spawner, {trait: value for trait, value in layer.items() if trait != "start_timeout"})
    lay_over(spawner, {"image": placement.image, **_convert_amounts(placement)})
    spawner.trait_overrides.patch = partial(patch_pod, choice=choice)


def lay_over(spawner: HubSpawner, override: TraitValues) -> None:
    """Set traits as KubeSpawner does for a profile's ``kubespawner_override``, until they are restored.

    :param override: name of a trait → its value. A mapping is merged into the trait's mapping; null removes a key. A
        function is the value of a trait such as ``modify_pod_hook``; KubeSpawner would call it for the value.
    """
    spawner.trait_overrides.assign({trait: value for trait, value in override.items() if callable(value)})
    data = {trait: value for trait, value in override.items() if not callable(value)}
    # KubeSpawner merges into a trait's mapping in place, so let it merge into a copy.
    own = {trait: getattr(spawner, trait, None) for trait in data}
    spawner.trait_overrides.assign({trait: _make_room(value, data[trait]) for trait, value in own.items()})
    private_api.apply_overrides(spawner, copy_nested(data))


def _make_room(own: Any, changes: Any) -> Any:
    """Return a copy of a mapping, without the values that are no mappings but get one: KubeSpawner fails at them."""
    if not isinstance(own, dict) or not isinstance(changes, Mapping):
        return own
    return {
        key: _make_room(value, changes.get(key))
        for key, value in own.items()
        if isinstance(value, dict) or not (isinstance(changes.get(key), Mapping) and changes[key])
    }


def merge_overrides(layers: Iterable[TraitValues]) -> dict[str, Any]:
    """Return the trait values that several overrides set together, as KubeSpawner lays each over the ones before.

    :param layers: each a mapping from the name of a trait to its value.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for trait, value in copy_nested(dict(layer)).items():
            if isinstance(value, dict) and isinstance(merged.get(trait), dict):
                merged[trait] = _make_room(merged[trait], value)
                recursive_update(merged[trait], value)
            else:
                merged[trait] = value
    return merged


def _convert_amounts(placement: PodRequirements) -> dict[str, Any]:
    """Return KubeSpawner's traits for CPU (in cores) and memory (in bytes), without those that the choice leaves."""
    millis = {"cpu_limit": placement.cpu_limit_millis, "cpu_guarantee": placement.cpu_request_millis}
    size = {"mem_limit": placement.memory_limit_bytes, "mem_guarantee": placement.memory_request_bytes}
    cores = {name: None if value is None else value / 1000 for name, value in millis.items()}
    return {name: value for name, value in (cores | size).items() if value is not None}


def patch_pod(pod: Any, choice: PodChoice) -> Any:
    """Return a copy of a pod with the choice in it; what the admin has set stays, except GPUs.

    If the admin and the choice both set a runtime class, the admin's applies; of two maximum run times, the shorter.

    :param pod: the pod as KubeSpawner builds it: a model of the Kubernetes client, whose fields may hold JSON where the
        admin has set ``extra_pod_config`` or ``extra_container_config``.
    """
    placement, patched = choice.placement, copy(pod)
    patched.spec, patched.metadata = spec, metadata = copy(pod.spec), copy(pod.metadata)
    notebook, *others = spec.containers
    if isinstance(notebook, dict):
        notebook = get_k8s_model(V1Container, notebook)
    _place(spec, placement)
    spec.active_deadline_seconds = _pick_shorter(spec.active_deadline_seconds, placement.run_time_s)
    annotations, information = dict(placement.annotations), dict(placement.information)
    if isinstance(seconds := spec.active_deadline_seconds, int | float):
        annotations[RUN_TIME_ANNOTATION] = information[RUN_TIME_VARIABLE] = str(int(seconds))
    has_own_shm = any(mount.get("mountPath") == _SHM_PATH for mount in serialize_models(notebook.volume_mounts) or [])
    shm_bytes = None if has_own_shm else placement.shm_bytes
    volume = {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": str(shm_bytes)}}
    spec.volumes = _append_new(spec.volumes, [] if shm_bytes is None else [volume], model=V1Volume)
    spec.containers = [
        _patch_notebook(notebook, choice, has_shm=shm_bytes is not None, information=information),
        *(_isolate_container(container, choice.resources) for container in others),
    ]
    if spec.init_containers:
        spec.init_containers = [_isolate_container(container, choice.resources) for container in spec.init_containers]
    metadata.annotations = {**(metadata.annotations or {}), **annotations}
    metadata.labels = {**placement.labels, **(metadata.labels or {})}
    return patched


def annotate_pod(pod: Any, gpus: PodGPUs, *, catalog: Catalog, profile: str) -> Any:
    """Return a copy of the pod of a KubeSpawner profile, with annotations that say which GPUs it asks for.

    :param pod: the pod as KubeSpawner builds it, as a model of the Kubernetes client.
    :param gpus: the GPUs that the pod asks for.
    :param catalog: the GPU types of the hub.
    :param profile: name of the profile; empty if the choice has none.
    """
    known = catalog.gpus.get(gpus.gpu or "")
    name = ", ".join(sorted(gpus.counts)) if known is None else known.display_name
    summary = " · ".join(filter(None, (profile, _format_gpus(gpus.count, name) if gpus.count else "")))
    annotations = build_annotations(summary, gpu=gpus.gpu, gpu_name=name, gpu_count=gpus.count)
    annotated, annotated.metadata = copy(pod), copy(pod.metadata)
    # A hook may have taken the GPUs out of the pod.
    own = {name: value for name, value in (pod.metadata.annotations or {}).items() if name not in _GPU_ANNOTATIONS}
    annotated.metadata.annotations = {**own, **annotations}
    return annotated


def limit_pod(pod: Any, admission: PodAdmission) -> None:
    """Write the maximum run time and the GPU pools of the policy into the pod of a profile.

    :param pod: the pod as a model of the Kubernetes client, after the admin's hooks.
    :param admission: what the policy sets. Without a policy, the pod stays unchanged.
    """
    if admission.run_time_s is not None:
        pod.spec.active_deadline_seconds = _pick_shorter(pod.spec.active_deadline_seconds, admission.run_time_s)
        pod.metadata.annotations[RUN_TIME_ANNOTATION] = str(pod.spec.active_deadline_seconds)
    if admission.notes_pools:
        # Also without a pool: the pools of a pod without the annotation follow from the user's groups, which may
        # have changed since the start.
        pod.metadata.annotations[POOLS_ANNOTATION] = ",".join(admission.pools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenGPUs:
    """The GPUs of a server, as the annotations of its pod say.

    :param slug: slug of the GPU type; empty without a GPU, and for an unknown type.
    :param text: number and type of the GPUs ("4 × A100 40 GB"); empty without a GPU.
    """

    slug: str
    text: str


def read_chosen_gpus(annotations: Mapping[str, object]) -> ChosenGPUs:
    """Return the GPUs of a server's pod.

    :param annotations: the pod's annotations.
    """
    slug, name, count = (
        as_text(annotations.get(f"{ANNOTATION_PREFIX}{key}")) for key in ("gpu", "gpu-name", "gpu-count")
    )
    return ChosenGPUs(slug=slug, text=_format_gpus(count, name or slug) if count else "")


def _format_gpus(number: int | str, name: str) -> str:
    return gettext("{number} × {gpu}", number=number, gpu=name)


def _place(spec: Any, placement: PodRequirements) -> None:
    """Add to a pod's spec what decides on which node the pod runs."""
    if placement.node_selector:
        spec.node_selector = {**(spec.node_selector or {}), **placement.node_selector}
    if placement.required or placement.alternatives or placement.avoided:
        spec.affinity = _add_node_affinity(spec.affinity, placement)
    if placement.tolerations:
        new = _format_tolerations(placement.tolerations)
        spec.tolerations = _append_new(spec.tolerations, new, model=V1Toleration)
    spec.runtime_class_name = spec.runtime_class_name or placement.runtime_class
    if placement.priority is not None:
        spec.priority_class_name = placement.priority.priority_class or None


def _append_new(own: Any, entries: Iterable[dict[str, Any]], *, model: type[Any]) -> list[Any]:
    """Return a pod's list, followed by the entries that it lacks, as models of the Kubernetes client.

    :raises TypeError: the admin has set something else than a list.
    """
    if not isinstance(own, list | None):
        raise TypeError(f"must be a list, not {type(own).__name__}")
    known = serialize_models(own) or []
    new = [entry for entry in entries if entry not in known]
    # A hook can rely on elements of one type.
    return [*(own or []), *(new if _has_json(own) else [get_k8s_model(model, entry) for entry in new])]


def _has_json(own: Any) -> bool:
    return any(isinstance(entry, dict) for entry in own or ())


def _add_node_affinity(own: Any, placement: PodRequirements) -> Any:
    merged = merge_node_affinity(
        serialize_models(own) or {},
        required=placement.required,
        alternatives=placement.alternatives,
        avoided=placement.avoided,
    )
    if isinstance(own, dict):
        return merged
    merged = merged.get("nodeAffinity", {})
    terms = merged.get(_REQUIRED, {}).get("nodeSelectorTerms")
    affinity = get_k8s_model(V1Affinity, own or {})
    # The models that KubeSpawner itself makes of its traits, for the admin's hooks.
    affinity.node_affinity = V1NodeAffinity(
        required_during_scheduling_ignored_during_execution=V1NodeSelector(
            node_selector_terms=[get_k8s_model(V1NodeSelectorTerm, term) for term in terms]
        )
        if terms
        else None,
        preferred_during_scheduling_ignored_during_execution=[
            get_k8s_model(V1PreferredSchedulingTerm, term) for term in merged.get(_PREFERRED) or []
        ]
        or None,
    )
    return affinity


def merge_node_affinity(
    own: Any,
    *,
    required: tuple[MatchExpression, ...] = (),
    alternatives: tuple[tuple[MatchExpression, ...], ...] = (),
    avoided: tuple[MatchExpression, ...] = (),
) -> Any:
    """Return a pod's affinity as JSON, with requirements and preferences added to its node affinity.

    A node needs to match only one of the required node selector terms, so the requirements are added to each term:
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/

    :param own: JSON of the affinity, or None.
    :param required: expressions that a node must match.
    :param alternatives: sets of expressions; a node must match all expressions of at least one set.
    :param avoided: expressions of the preference, such as a ``NotIn`` for a label of nodes that the pod should avoid.
    """
    nodes = dict((own or {}).get("nodeAffinity") or {})
    selector = dict(nodes.get(_REQUIRED) or {})
    if terms := _narrow_terms(selector.get("nodeSelectorTerms") or [], required, alternatives=alternatives):
        nodes[_REQUIRED] = {**selector, "nodeSelectorTerms": terms}
    preferred = nodes.get(_PREFERRED) or []
    if new := [preference for preference in build_preferences(avoided) if preference not in preferred]:
        nodes[_PREFERRED] = [*preferred, *new]
    return {**(own or {}), "nodeAffinity": nodes} if nodes else own


def _narrow_terms(
    terms: Sequence[Mapping[str, Any]],
    required: tuple[MatchExpression, ...],
    *,
    alternatives: tuple[tuple[MatchExpression, ...], ...],
) -> list[Mapping[str, Any]]:
    added = [[_format_expression(each) for each in (*required, *more)] for more in alternatives or ((),)]
    if not any(added):
        return list(terms)
    narrowed = [_narrow_term(term, expressions) for term in terms for expressions in added]
    return narrowed or [{"matchExpressions": expressions} for expressions in added]


def _narrow_term(term: Mapping[str, Any], added: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return a node selector term with additional expressions, which reduce the nodes that match.

    An empty term matches no node. Additional expressions would make it match some nodes, so an empty term stays empty.
    """
    own = term.get("matchExpressions") or []
    if not own and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*own, *(expression for expression in added if expression not in own)]}


def build_preferences(avoided: tuple[MatchExpression, ...]) -> list[dict[str, Any]]:
    """Return preferred node selector terms, with which a pod avoids some nodes, such as GPU nodes, if possible.

    :param avoided: expressions that match all other nodes, such as a ``NotIn`` for a label of GPU nodes.
    """
    if not avoided:
        return []
    expressions = [_format_expression(expression) for expression in avoided]
    return [{"weight": _PREFERENCE_WEIGHT, "preference": {"matchExpressions": expressions}}]


def _format_expression(expression: MatchExpression) -> dict[str, Any]:
    values = {"values": list(expression.values)} if expression.values else {}
    return {"key": expression.key, "operator": expression.operator, **values}


def _format_tolerations(tolerations: Iterable[Toleration]) -> list[dict[str, str]]:
    fields = ("key", "operator", "value", "effect")
    return [{name: value for name in fields if (value := getattr(toleration, name))} for toleration in tolerations]


def _pick_shorter(own: Any, run_time_s: int | None) -> Any:
    """Return the shorter of two maximum run times, the admin's and the choice's; None if neither is set.

    If the admin's value is not a number, return it unchanged, so that the API server rejects the pod.
    """
    if run_time_s is None or own is None:
        return own if run_time_s is None else run_time_s
    return min(own, run_time_s) if isinstance(own, int | float) else own


# -- containers --------------------------------------------------------------------------------------------------------


def _patch_notebook(own: Any, choice: PodChoice, *, has_shm: bool, information: Mapping[str, str]) -> Any:
    placement, notebook = choice.placement, copy(own)
    amounts = serialize_models(own.resources) or {}
    notebook.resources = _make_resources(
        own.resources, build_notebook_resources(amounts, placement, resources=choice.resources)
    )
    # The variables of devices that the admin gives each server would hide these devices.
    shown = _find_shown_variables(drop_gpu_resources(amounts.get("limits"), choice.resources))
    environment = {name: value for name, value in placement.environment.items() if name not in shown}
    removed = {*placement.removed_environment, *shown, *environment}
    notebook.env = _merge_variables(own.env, environment, information=information, removed=removed)
    if has_shm:
        mount = {"name": _SHM, "mountPath": _SHM_PATH}
        notebook.volume_mounts = _append_new(own.volume_mounts, [mount], model=V1VolumeMount)
    return notebook


def build_notebook_resources(
    own: Mapping[str, Any], chosen: ContainerResources, *, resources: Collection[str]
) -> dict[str, Any]:
    """Return limits and requests of the notebook container; the user's amounts override the container's own amounts.

    :param own: the container's own ``limits`` and ``requests``.
    :param chosen: amounts of CPU, memory and GPUs that the user chose.
    :param resources: extended resources of the catalog's GPU types; the result drops the admin's amounts of these.
    """
    limits = _format_amounts(chosen.cpu_limit_millis, chosen.memory_limit_bytes)
    requests = _format_amounts(chosen.cpu_request_millis, chosen.memory_request_bytes)
    extended = {name: str(number) for name, number in chosen.extended_resources.items()}
    return {
        **own,
        "limits": _drop_unlimited({**drop_gpu_resources(own.get("limits"), resources), **limits, **extended}),
        "requests": _drop_unlimited({**drop_gpu_resources(own.get("requests"), resources), **requests}),
    }


def _format_amounts(millis: int | None, size_bytes: int | None) -> dict[str, Any]:
    amounts = {"cpu": None if millis is None else millis / 1000, "memory": size_bytes}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _drop_unlimited(amounts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: amount for name, amount in amounts.items() if amount != NO_LIMIT or name not in ("cpu", "memory")}


def drop_gpu_resources(amounts: Mapping[str, Any] | None, resources: Collection[str]) -> dict[str, Any]:
    """Return the admin's limits or requests without GPUs, because only the user's choice sets GPUs.

    This function removes all resources of known GPU vendors, and the given resources. A server without a GPU type
    therefore gets no GPU.

    :param amounts: name of a resource → the admin's amount.
    :param resources: extended resources of the catalog's GPU types.
    """
    return {name: value for name, value in (amounts or {}).items() if name not in resources and not find_vendor(name)}


def _isolate_container(own: Any, resources: Collection[str]) -> Any:
    """Return one of the admin's sidecar or init containers without GPUs, because only the notebook container gets GPUs.

    An image may set ``NVIDIA_VISIBLE_DEVICES=all``, which shows the node's GPUs to the container. This function
    therefore sets such variables in ``env`` to values that hide the GPUs; ``env`` overrides the image and ``envFrom``.
    It leaves out a variable if the container keeps a device of this vendor, such as ``habana.ai/gaudi``.
    """
    container = serialize_models(own)
    if not isinstance(container, dict):
        return own
    amounts = container.get("resources") or {}
    kept = {kind: drop_gpu_resources(amounts[kind], resources) for kind in ("limits", "requests") if kind in amounts}
    shown = _find_shown_variables(kept.get("limits"))
    hidden = {name: value for name, value in GPU_HIDING_ENVIRONMENT.items() if name not in shown}
    variables = _merge_variables(container.get("env"), hidden, removed=GPU_HIDING_ENVIRONMENT)
    container["env"] = serialize_models(variables)
    if amounts:
        container["resources"] = {**amounts, **kept}
    return container if isinstance(own, dict) else get_k8s_model(V1Container, container)


def _find_shown_variables(limits: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the environment variables that would hide the devices of a container, so that it must not have them."""
    asked = [name for name, amount in (limits or {}).items() if str(amount) not in ("0", "None")]
    return frozenset(chain.from_iterable(map(list_shown_variables, asked)))


def _make_resources(own: Any, amounts: Mapping[str, Any]) -> Any:
    return amounts if isinstance(own, dict) else get_k8s_model(V1ResourceRequirements, dict(amounts))


def _merge_variables(
    own: Iterable[Any] | None,
    environment: Mapping[str, str],
    *,
    information: Mapping[str, str] = {},
    removed: Collection[str],
) -> list[Any]:
    """Return a container's variables, without those to remove, and with new ones.

    Kubernetes expands ``$(NAME)`` only after NAME. So the new variables stand first, except those with such a text.

    :param environment: variables to add.
    :param information: variables to add unless the container has them.
    """
    kept = [variable for variable in own or [] if read_variable_name(variable) not in removed]
    names = {read_variable_name(variable) for variable in kept}
    added = {**{name: value for name, value in information.items() if name not in names}, **environment}
    make = dict if _has_json(own) else V1EnvVar
    new = {name: make(name=name, value=value) for name, value in added.items()}
    references = {name: _REFERENCE.findall(value) for name, value in added.items()}
    first = [variable for name, variable in new.items() if not references[name]]
    last = _sort_by_reference({name: found for name, found in references.items() if found})
    return [*first, *kept, *(new[name] for name in last)]


def _sort_by_reference(references: Mapping[str, list[str]]) -> list[str]:
    sorter = TopologicalSorter(
        {name: [each for each in found if each in references] for name, found in references.items()}
    )
    try:
        return list(sorter.static_order())
    except CycleError:  # Kubernetes leaves the texts as they are
        return list(references)


def read_variable_name(variable: Any) -> Any:
    """Return the name of an environment variable in a container.

    :param variable: the variable as JSON, or as a model of the Kubernetes client.
    """
    return variable.get("name") if isinstance(variable, Mapping) else getattr(variable, "name", None)


def serialize_models(value: Any) -> Any:
    """Return a copy of a value, with Kubernetes models converted to JSON for the API server.

    :param value: nested dicts, lists and models of the Kubernetes client.
    """
    names = getattr(value, "attribute_map", None)
    if names is not None:
        attributes = ((written, getattr(value, name)) for name, written in names.items())
        return {written: serialize_models(attribute) for written, attribute in attributes if attribute is not None}
    if isinstance(value, dict):
        return {key: serialize_models(item) for key, item in value.items()}
    return [serialize_models(item) for item in value] if isinstance(value, list) else value
