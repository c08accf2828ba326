"""Merges a user's choice into the admin's ``extra_pod_config`` and ``extra_container_config``.

KubeSpawner replaces whole fields of the pod with these traits: a node selector in ``extra_pod_config``, for example,
would remove the GPU type's node selector. This module therefore merges the choice into each field that the admin sets.
Field names may be those of the API (``nodeSelector``) or of the Python client (``node_selector``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Any

from gpuspawner.core.catalog.model import NO_LIMIT, Catalog
from gpuspawner.core.catalog.node_labels import MatchExpression, find_vendor
from gpuspawner.core.request.pod_requirements import (
    GPU_HIDING_ENVIRONMENT,
    ContainerResources,
    PodRequirements,
    list_shown_variables,
)
from gpuspawner.hub.pod.merge import (
    append_entries,
    build_preferences,
    escape_braces,
    format_tolerations,
    merge_required_terms,
)
from gpuspawner.hub.trait_overrides import copy_nested


def list_gpu_resources(catalog: Catalog) -> frozenset[str]:
    """Return the extended resources of all GPU types in a catalog, including types that users cannot choose.

    :param catalog: the catalog that the hub offers.
    """
    return frozenset(gpu.resource for gpu in (*catalog.gpus.values(), *catalog.hidden))


def drop_gpu_resources(amounts: Mapping[str, Any] | None, resources: Collection[str]) -> dict[str, Any]:
    """Return the admin's limits or requests without GPUs, because only the user's choice sets GPUs.

    This function removes all resources of known GPU vendors, and the given resources. A server without a GPU type
    therefore gets no GPU.

    :param amounts: name of a resource → the admin's amount.
    :param resources: extended resources of the catalog's GPU types.
    """
    return {name: value for name, value in (amounts or {}).items() if name not in resources and not find_vendor(name)}


ExtraConfig = Mapping[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MOUNTS = ("volumeMounts", "volume_mounts")
_DEADLINE = ("activeDeadlineSeconds", "active_deadline_seconds")


def build_pod_config(
    admins: ExtraConfig | None,
    placement: PodRequirements,
    *,
    volumes: list[dict[str, Any]],
    resources: Collection[str] = (),
) -> dict[str, Any]:
    """Return the admin's ``extra_pod_config`` with the choice merged into it.

    If the admin and the GPU type both set a runtime class, the admin's applies. If the admin and the choice both set a
    maximum run time, the shorter one applies.

    :param admins: the admin's ``extra_pod_config``.
    :param placement: the choice's requirements for the pod.
    :param volumes: volumes to append to the pod's volumes.
    :param resources: extended resources of the catalog's GPU types; the result drops the admin's amounts of these.
    """
    config: dict[str, Any] = {}
    for name, own in copy_nested(dict(admins or {})).items():
        match name:
            case "nodeSelector" | "node_selector":
                config[name] = {**(own or {}), **placement.node_selector}
            case "affinity":
                config[name] = merge_node_affinity(
                    serialize_models(own),
                    required=placement.required,
                    alternatives=placement.alternatives,
                    avoided=placement.avoided,
                )
            case "tolerations":
                config[name] = append_entries(own, format_tolerations(placement.tolerations))
            case "volumes":
                config[name] = append_entries(own, volumes)
            case "activeDeadlineSeconds" | "active_deadline_seconds":
                config[name] = _pick_shorter(own, placement.run_time_s)
            case "initContainers" | "init_containers":
                config[name] = isolate_containers(own, resources)
            case "priorityClassName" | "priority_class_name" if placement.additions.priority_class is not None:
                config[name] = escape_braces(placement.additions.priority_class)
            case _:
                config[name] = own
    return {**config, **_build_own_fields(placement, written=config.keys())}


def _build_own_fields(placement: PodRequirements, *, written: Collection[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if placement.runtime_class is not None and {"runtimeClassName", "runtime_class_name"}.isdisjoint(written):
        fields["runtimeClassName"] = escape_braces(placement.runtime_class)
    if placement.run_time_s is not None and frozenset(_DEADLINE).isdisjoint(written):
        fields[_DEADLINE[0]] = placement.run_time_s
    return fields


def find_run_time(admins: ExtraConfig | None, placement: PodRequirements) -> int | None:
    """Return the pod's maximum run time in seconds, or None if it is unlimited or the admin's value is not a number.

    :param admins: the admin's ``extra_pod_config``.
    :param placement: the choice's requirements for the pod.
    """
    own = next(((admins or {})[name] for name in _DEADLINE if name in (admins or {})), None)
    seconds = _pick_shorter(own, placement.run_time_s)
    return int(seconds) if isinstance(seconds, int | float) else None


def build_container_config(
    admins: ExtraConfig | None, placement: PodRequirements, *, mounts: list[dict[str, Any]], resources: Collection[str]
) -> dict[str, Any]:
    """Return the admin's ``extra_container_config`` with the choice merged into it.

    :param admins: the admin's ``extra_container_config``.
    :param placement: the choice's requirements for the pod.
    :param mounts: volume mounts to append to the container's mounts.
    :param resources: extended resources of the catalog's GPU types; the result drops the admin's amounts of these.
    """
    config: dict[str, Any] = {}
    for name, own in copy_nested(dict(admins or {})).items():
        if name == "resources":
            config[name] = build_notebook_resources(serialize_models(own) or {}, placement, resources=resources)
        elif name == "env":
            replaced = (*placement.removed_environment, *placement.environment)
            known = frozenset(map(read_variable_name, own or ()))
            information = {name: value for name, value in placement.information.items() if name not in known}
            config[name] = _merge_variables(own, {**information, **placement.environment}, replaced=replaced)
        else:
            config[name] = append_entries(own, mounts) if name in _MOUNTS else own
    return config


def isolate_containers(admins: Any, resources: Collection[str]) -> Any:
    """Return the admin's sidecar or init containers without GPUs, because only the notebook container gets GPUs.

    An image may set ``NVIDIA_VISIBLE_DEVICES=all``, which shows the node's GPUs to the container. This function
    therefore sets such variables in ``env`` to values that hide the GPUs; ``env`` overrides the image and ``envFrom``.
    It leaves out a variable if the container keeps a device of this vendor, such as ``habana.ai/gaudi``.

    :param admins: value of ``extra_containers`` or ``init_containers``: a list, a dict of containers or None.
    :param resources: extended resources of the catalog's GPU types; the result drops the admin's amounts of these.
    """
    if isinstance(admins, Mapping):
        return {key: _isolate_container(each, resources) for key, each in admins.items()}
    return [_isolate_container(each, resources) for each in admins or []]


def _isolate_container(admins: Any, resources: Collection[str]) -> Any:
    container = serialize_models(admins)
    if not isinstance(container, dict):
        return admins
    amounts = container.get("resources") or {}
    kept = {kind: drop_gpu_resources(amounts[kind], resources) for kind in ("limits", "requests") if kind in amounts}
    shown = find_shown_variables(kept.get("limits"))
    hidden = {name: value for name, value in GPU_HIDING_ENVIRONMENT.items() if name not in shown}
    changed: dict[str, Any] = {
        "env": _merge_variables(container.get("env"), hidden, replaced=GPU_HIDING_ENVIRONMENT),
        **({"resources": {**amounts, **kept}} if amounts else {}),
    }
    return {**container, **changed}


def find_shown_variables(limits: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the environment variables that would hide the devices of a container, so that it must not have them.

    :param limits: name of a resource → amount, without the resources that :func:`drop_gpu_resources` drops.
    """
    asked = [name for name, amount in (limits or {}).items() if str(amount) not in ("0", "None")]
    return frozenset(chain.from_iterable(map(list_shown_variables, asked)))


def find_container_mounts(admins: ExtraConfig | None, *, otherwise: Any) -> Any:
    """Return the volume mounts in ``extra_container_config`` if it has any, else those in the trait ``volume_mounts``.

    :param admins: the admin's ``extra_container_config``.
    :param otherwise: value of the trait ``volume_mounts``.
    """
    return next(((admins or {})[name] for name in _MOUNTS if name in (admins or {})), otherwise)


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


def _pick_shorter(own: Any, run_time_s: int | None) -> Any:
    """Return the shorter of two maximum run times, the admin's and the choice's; None if neither is set.

    If the admin's value is not a number, return it unchanged, so that the API server rejects the pod.
    """
    if run_time_s is None or own is None:
        return own if run_time_s is None else run_time_s
    return min(own, run_time_s) if isinstance(own, int | float) else own


def merge_node_affinity(
    own: Any,
    *,
    required: tuple[MatchExpression, ...] = (),
    alternatives: tuple[tuple[MatchExpression, ...], ...] = (),
    avoided: tuple[MatchExpression, ...] = (),
) -> Any:
    """Return a pod's affinity as JSON, with requirements and preferences added to its node affinity.

    :param own: JSON of the affinity, or None.
    :param required: expressions that a node must match.
    :param alternatives: sets of expressions; a node must match all expressions of at least one set.
    :param avoided: expressions of the preference, such as a ``NotIn`` for a label of nodes that the pod should avoid.
    """
    nodes = dict((own or {}).get("nodeAffinity") or {})
    selector = dict(nodes.get(_REQUIRED) or {})
    if terms := merge_required_terms(selector.get("nodeSelectorTerms"), required, alternatives=alternatives):
        nodes[_REQUIRED] = {**selector, "nodeSelectorTerms": terms}
    if preferred := append_entries(nodes.get(_PREFERRED), build_preferences(avoided)):
        nodes[_PREFERRED] = preferred
    return {**(own or {}), "nodeAffinity": nodes} if nodes else own


def build_notebook_resources(
    own: ExtraConfig, chosen: ContainerResources, *, resources: Collection[str]
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


def _merge_variables(own: list[Any] | None, variables: Mapping[str, str], *, replaced: Collection[str]) -> list[Any]:
    kept = [variable for variable in own or [] if read_variable_name(variable) not in replaced]
    return [*kept, *({"name": name, "value": value} for name, value in variables.items())]


def read_variable_name(variable: Any) -> Any:
    """Return the name of an environment variable in a container.

    :param variable: the variable as JSON, or as a model of the Kubernetes client.
    """
    return variable.get("name") if isinstance(variable, Mapping) else getattr(variable, "name", None)
