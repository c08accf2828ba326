"""Keeps a placement where ``extra_pod_config`` and ``extra_container_config`` would remove it.

KubeSpawner replaces whole fields of the pod and of its container by what stands there, without a look inside: a node
selector of the admin's would send a server with GPUs to nodes without them. So the placement goes in there as well. A
field the admin does not name is KubeSpawner's, from the traits. Names are those of the API or of its Python client.

Tells which extended resources are GPUs: how many of them a server gets is the user's choice alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.request.pod_requirements import ContainerResources, PodRequirements
from gpuspawner.hub.pod.merge import (
    append_entries,
    build_preferences,
    escape_braces,
    format_tolerations,
    merge_required_terms,
)
from gpuspawner.hub.trait_overrides import copy_nested


def list_gpu_resources(catalogue: Catalog) -> frozenset[str]:
    """Return the resources of all types in a catalogue, those that nobody may pick among them."""
    return frozenset(gpu.resource for gpu in (*catalogue.gpus.values(), *catalogue.hidden))


def drop_gpu_resources(amounts: Mapping[str, Any] | None, resources: Collection[str]) -> dict[str, Any]:
    """Return an admin's limits or requests without GPUs, which would add to a choice or contradict it.

    :param resources: those of the catalogue; every resource of a known vendor's GPUs goes as well, since a server that
        asked for no GPU must not get one that is only not offered.
    """
    return {name: value for name, value in (amounts or {}).items() if name not in resources and not find_vendor(name)}


ExtraConfig = Mapping[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MOUNTS = ("volumeMounts", "volume_mounts")
_DEADLINE = ("activeDeadlineSeconds", "active_deadline_seconds")


def build_pod_config(
    admins: ExtraConfig | None, placement: PodRequirements, *, volumes: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the admin's ``extra_pod_config`` with the placement in it, and the type's runtime class unless it has one.

    Of two run times, the admin's and the one chosen, the shorter one counts.

    :param volumes: what is added to the pod's volumes.
    """
    config: dict[str, Any] = {}
    for name, own in copy_nested(dict(admins or {})).items():
        match name:
            case "nodeSelector" | "node_selector":
                config[name] = {**(own or {}), **placement.node_selector}
            case "affinity":
                config[name] = _merge_affinity(serialize_models(own), placement)
            case "tolerations":
                config[name] = append_entries(own, format_tolerations(placement.tolerations))
            case "volumes":
                config[name] = append_entries(own, volumes)
            case "activeDeadlineSeconds" | "active_deadline_seconds":
                config[name] = _pick_shorter(own, placement.run_time_s)
            case "priorityClassName" | "priority_class_name" if placement.additions.priority_class is not None:
                config[name] = escape_braces(placement.additions.priority_class)
            case _:
                config[name] = own
    if placement.runtime_class is not None and not {"runtimeClassName", "runtime_class_name"} & config.keys():
        config["runtimeClassName"] = escape_braces(placement.runtime_class)
    if placement.run_time_s is not None and config.keys().isdisjoint(_DEADLINE):
        config[_DEADLINE[0]] = placement.run_time_s
    return config


def find_run_time(admins: ExtraConfig | None, placement: PodRequirements) -> int | None:
    """Return the seconds that a pod may run, None where it runs on, or where what the admin wrote is no number."""
    own = next(((admins or {})[name] for name in _DEADLINE if name in (admins or {})), None)
    seconds = _pick_shorter(own, placement.run_time_s)
    return int(seconds) if isinstance(seconds, int | float) else None


def build_container_config(
    admins: ExtraConfig | None, placement: PodRequirements, *, mounts: list[dict[str, Any]], resources: Collection[str]
) -> dict[str, Any]:
    """Return the admin's ``extra_container_config`` with the placement in it.

    :param mounts: what is added to the container's volume mounts.
    :param resources: extended resources of the catalogue.
    """
    config: dict[str, Any] = {}
    for name, own in copy_nested(dict(admins or {})).items():
        if name == "resources":
            config[name] = build_notebook_resources(serialize_models(own) or {}, placement, resources=resources)
        elif name == "env":
            config[name] = _merge_variables(own, placement)
        else:
            config[name] = append_entries(own, mounts) if name in _MOUNTS else own
    return config


def find_container_mounts(admins: ExtraConfig | None, *, otherwise: Any) -> Any:
    """Return the volume mounts the container will have: those of ``extra_container_config``, else the trait's."""
    return next(((admins or {})[name] for name in _MOUNTS if name in (admins or {})), otherwise)


def serialize_models(value: Any) -> Any:
    """Return a value with the Kubernetes models in it as the dicts the API takes, all of it copied."""
    names = getattr(value, "attribute_map", None)
    if names is not None:
        attributes = ((written, getattr(value, name)) for name, written in names.items())
        return {written: serialize_models(attribute) for written, attribute in attributes if attribute is not None}
    if isinstance(value, dict):
        return {key: serialize_models(item) for key, item in value.items()}
    return [serialize_models(item) for item in value] if isinstance(value, list) else value


def _pick_shorter(own: Any, run_time_s: int | None) -> Any:
    """Return the shorter of two run times; what of the admin's is no number is left for Kubernetes to refuse."""
    if run_time_s is None or own is None:
        return own if run_time_s is None else run_time_s
    return min(own, run_time_s) if isinstance(own, int | float) else own


def _merge_affinity(own: Any, placement: PodRequirements) -> Any:
    """Return an affinity with the placement's expressions in its node affinity."""
    nodes = dict((own or {}).get("nodeAffinity") or {})
    required = dict(nodes.get(_REQUIRED) or {})
    own_terms = required.get("nodeSelectorTerms")
    if terms := merge_required_terms(own_terms, placement.required, alternatives=placement.alternatives):
        nodes[_REQUIRED] = {**required, "nodeSelectorTerms": terms}
    if preferred := append_entries(nodes.get(_PREFERRED), build_preferences(placement.avoided)):
        nodes[_PREFERRED] = preferred
    return {**(own or {}), "nodeAffinity": nodes} if nodes else own


def build_notebook_resources(
    own: ExtraConfig, chosen: ContainerResources, *, resources: Collection[str]
) -> dict[str, Any]:
    """Return limits and requests of the notebook's container: what was chosen wins, the rest stays as it is.

    :param own: limits and requests as they are.
    :param resources: extended resources of the catalogue.
    """
    limits = _format_amounts(chosen.cpu_limit_millis, chosen.memory_limit_bytes)
    requests = _format_amounts(chosen.cpu_request_millis, chosen.memory_request_bytes)
    extended = {name: str(number) for name, number in chosen.extended_resources.items()}
    return {
        **own,
        "limits": {**drop_gpu_resources(own.get("limits"), resources), **limits, **extended},
        "requests": {**drop_gpu_resources(own.get("requests"), resources), **requests},
    }


def _format_amounts(millis: int | None, size_bytes: int | None) -> dict[str, Any]:
    amounts = {"cpu": None if millis is None else millis / 1000, "memory": size_bytes}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _merge_variables(own: list[Any] | None, placement: PodRequirements) -> list[Any]:
    """Return environment variables without those that must not be there, and with the placement's."""
    replaced = {*placement.removed_environment, *placement.environment}
    kept = [variable for variable in own or [] if _read_name(variable) not in replaced]
    return [*kept, *({"name": name, "value": value} for name, value in placement.environment.items())]


def _read_name(variable: Any) -> Any:
    return variable.get("name") if isinstance(variable, Mapping) else getattr(variable, "name", None)
