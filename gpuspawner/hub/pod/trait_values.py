"""Computes the values of KubeSpawner's traits from a user's choice and the admin's values.

:mod:`gpuspawner.hub.pod.merge` merges lists and node selector terms. :mod:`gpuspawner.hub.pod.overrides` builds
``extra_pod_config`` and ``extra_container_config``, which override KubeSpawner's other traits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuspawner.core.catalog.model import OwnAmount, OwnResources
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.request.fields import PodVolume
from gpuspawner.core.request.pod_requirements import GPU_HIDING_ENVIRONMENT, PodRequirements
from gpuspawner.core.units.quantity import QuantityError, parse_memory, parse_millis, parse_whole_units
from gpuspawner.hub.pod import run_time
from gpuspawner.hub.pod.merge import (
    AdminValues,
    OverriddenValues,
    append_entries,
    build_preferences,
    escape_braces,
    format_tolerations,
    merge_required_terms,
)
from gpuspawner.hub.pod.overrides import (
    build_container_config,
    build_pod_config,
    drop_gpu_resources,
    find_container_mounts,
    find_shown_variables,
    isolate_containers,
    serialize_models,
)

_SHM = "gpuspawner-shm"
_SHM_PATH = "/dev/shm"  # noqa: S108 - the path of shared memory in containers


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChoice:
    """The user's choice, to be merged into the admin's values.

    :param placement: the choice's requirements for the pod.
    :param resources: names of the extended resources of the catalog's GPU types. :func:`build_trait_values` removes
        them from the admin's values, so that the server gets only the chosen GPUs.
    """

    placement: PodRequirements
    resources: frozenset[str] = frozenset()


def build_trait_values(choice: PodChoice, base: AdminValues) -> dict[str, Any]:
    """Return a mapping from the name of a KubeSpawner trait to its value for one start.

    The result lacks ``start_timeout``: JupyterHub reads this trait before the start, so ``apply_user_options`` sets it.

    :param choice: the user's choice.
    :param base: the admin's value of each trait.
    """
    resources, base = choice.resources, OverriddenValues(base, choice.placement.overrides)
    placement = _show_own_devices(choice.placement, base, resources=resources)
    placement = run_time.add_run_time(placement, base["extra_pod_config"])
    volumes, mounts = _build_volumes(placement, base)
    priority = placement.additions.priority_class
    return {
        **{trait: value for trait, value in base.changed.items() if trait != "start_timeout"},
        **_convert_amounts(placement, base),
        "image": placement.image,
        "extra_resource_limits": {
            **drop_gpu_resources(base["extra_resource_limits"], resources),
            **{name: str(number) for name, number in placement.extended_resources.items()},
        },
        "extra_resource_guarantees": drop_gpu_resources(base["extra_resource_guarantees"], resources),
        "node_selector": {**(base["node_selector"] or {}), **placement.node_selector},
        "node_affinity_required": merge_required_terms(
            base["node_affinity_required"], placement.required, alternatives=placement.alternatives
        ),
        "node_affinity_preferred": append_entries(
            base["node_affinity_preferred"], build_preferences(placement.avoided)
        ),
        "tolerations": append_entries(base["tolerations"], format_tolerations(placement.tolerations)),
        "environment": _build_environment(placement, base),
        "extra_annotations": {
            **(base["extra_annotations"] or {}),
            **{name: escape_braces(value) for name, value in placement.annotations.items()},
        },
        "extra_labels": {
            **{name: escape_braces(value) for name, value in placement.labels.items()},
            **(base["extra_labels"] or {}),
        },
        "priority_class_name": base["priority_class_name"] if priority is None else priority,
        "volumes": append_entries(base["volumes"], volumes),
        "volume_mounts": append_entries(base["volume_mounts"], mounts),
        **{name: isolate_containers(base[name], resources) for name in ("extra_containers", "init_containers")},
        "extra_pod_config": build_pod_config(base["extra_pod_config"], placement, volumes=volumes, resources=resources),
        "extra_container_config": build_container_config(
            base["extra_container_config"], placement, mounts=mounts, resources=resources
        ),
    }


def list_removed_variables(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the environment variables that the notebook container must not have, because they would hide its devices.

    :param values: the result of :func:`build_trait_values`.
    """
    return tuple(name for name in GPU_HIDING_ENVIRONMENT if name not in values["environment"])


def _show_own_devices(placement: PodRequirements, base: AdminValues, *, resources: Collection[str]) -> PodRequirements:
    """Return the requirements without the variables that would hide the devices that the admin gives each server."""
    config, limits = as_dict(base["extra_container_config"]), base["extra_resource_limits"]
    if "resources" in config:  # KubeSpawner replaces all other resources of the container by these.
        limits = as_dict(serialize_models(config["resources"])).get("limits")
    shown = find_shown_variables(drop_gpu_resources(limits, resources))
    return replace(
        placement,
        environment=_drop_names(placement.environment, shown),
        removed_environment=(*placement.removed_environment, *sorted(shown - {*placement.removed_environment})),
    )


CONTAINER_TRAITS = ("extra_container_config", "extra_containers", "init_containers")
"""Names of the traits that describe containers: a part of the notebook container, or additional containers."""
OWN_RESOURCE_TRAITS = (
    *("cpu_limit", "cpu_guarantee", "mem_limit", "mem_guarantee"),
    *("extra_resource_limits", "node_selector"),
    *CONTAINER_TRAITS,
)
"""Traits that :func:`read_own_resources` reads."""


def read_own_resources(base: AdminValues) -> OwnResources:
    """Return the CPU, memory, GPUs and node selector that KubeSpawner's own traits give each server.

    As in KubeSpawner, an amount of 0 counts as not set. An invalid amount also counts as not set: it has no effect,
    because the API server rejects each pod with such an amount.

    :param base: the admin's values, from a spawner or from Helm values.
    """
    selector = base["node_selector"] if isinstance(base["node_selector"], Mapping) else {}
    return OwnResources(
        cpu=_read_own_amount(base, "cpu", parse=parse_millis),
        memory=_read_own_amount(base, "mem", parse=_parse_bytes),
        gpus=tuple(list_own_gpus(base["extra_resource_limits"])),
        container_gpus=tuple((trait, *gpu) for trait in CONTAINER_TRAITS for gpu in list_container_gpus(base[trait])),
        node_selector=tuple(sorted((str(key), str(value)) for key, value in selector.items())),
    )


def _read_own_amount(base: AdminValues, prefix: str, *, parse: Callable[[object], int]) -> OwnAmount:
    limit, guarantee = (_read_amount(base[f"{prefix}_{kind}"], parse) for kind in ("limit", "guarantee"))
    return OwnAmount(limit=limit, guarantee=guarantee)


def _read_amount(value: Any, parse: Callable[[object], int]) -> int | None:
    if value is None:
        return None  # most admins set no amount, and returning here is faster than catching parse()'s exception
    try:
        return parse(value) or None
    except QuantityError:
        return None


def _parse_bytes(value: object) -> int:
    return parse_memory(value) if isinstance(value, str) else parse_whole_units(value)


def list_own_gpus(limits: Any) -> Iterator[tuple[str, int]]:
    """Yield a pair for each GPU resource in a mapping of resources: the resource's name and the number of GPUs.

    Skip a GPU resource whose number is 0 or invalid.

    :param limits: value of ``extra_resource_limits``, or the limits or requests of a container. If the value is not a
        mapping, the function yields nothing.
    """
    for resource, value in limits.items() if isinstance(limits, Mapping) else ():
        if find_vendor(resource) and (number := _read_amount(value, parse_whole_units)):
            yield resource, number


def list_container_gpus(containers: Any) -> Iterator[tuple[str, int]]:
    """Yield a pair for each GPU resource in the value of a trait: the resource's name and the number of GPUs.

    If several containers have the same GPU resource, yield only the number of the last container.

    :param containers: value of one of :data:`CONTAINER_TRAITS`: a part of a container, or a list or dict of containers.
    """
    if not containers:
        return
    value = serialize_models(containers)
    each_container = value if isinstance(value, list) else [value, *value.values()] if isinstance(value, dict) else []
    resources = [as_dict(as_dict(container).get("resources")) for container in each_container]
    amounts = (each.get(kind) for each in resources for kind in ("requests", "limits"))
    yield from dict(gpu for each in amounts for gpu in list_own_gpus(each)).items()


def _convert_amounts(placement: PodRequirements, base: AdminValues) -> dict[str, Any]:
    """Return the values of KubeSpawner's traits for the limits and guarantees of CPU (in cores) and memory (in bytes).

    For a trait to which the choice gives no value, the result contains the admin's value.
    """
    millis = {"cpu_limit": placement.cpu_limit_millis, "cpu_guarantee": placement.cpu_request_millis}
    size = {"mem_limit": placement.memory_limit_bytes, "mem_guarantee": placement.memory_request_bytes}
    return {
        **{name: base[name] if value is None else value / 1000 for name, value in millis.items()},
        **{name: base[name] if value is None else value for name, value in size.items()},
    }


def _build_environment(placement: PodRequirements, base: AdminValues) -> dict[str, Any]:
    return {
        **{name: escape_braces(value) for name, value in placement.information.items()},
        **_drop_names(base["environment"], placement.removed_environment),
        **{name: escape_braces(value) for name, value in placement.environment.items()},
    }


def _drop_names(mapping: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, Any]:
    removed = frozenset(names)
    return {name: value for name, value in (mapping or {}).items() if name not in removed}


def format_volume(volume: PodVolume) -> dict[str, Any]:
    """Return a volume as JSON for ``spec.volumes`` of a pod.

    :param volume: the volume.
    """
    return {"name": volume.name, **volume.source}


def _build_volumes(placement: PodRequirements, base: AdminValues) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    mounts = find_container_mounts(base["extra_container_config"], otherwise=base["volume_mounts"])
    mounted = [_find_mount_path(each) for each in (mounts.values() if isinstance(mounts, dict) else mounts or [])]
    own_volumes = [*_list_shared_memory(placement), *placement.additions.volumes]
    volumes = [each for each in own_volumes if each.path not in mounted]
    return [format_volume(each) for each in volumes], [_format_mount(each) for each in volumes]


def _list_shared_memory(placement: PodRequirements) -> list[PodVolume]:
    if placement.shm_bytes is None:
        return []
    source = {"emptyDir": {"medium": "Memory", "sizeLimit": str(placement.shm_bytes)}}
    return [PodVolume(name=_SHM, path=_SHM_PATH, source=source)]


def _format_mount(volume: PodVolume) -> dict[str, Any]:
    return {"name": volume.name, "mountPath": volume.path, **({"readOnly": True} if volume.read_only else {})}


def _find_mount_path(mount: Any) -> str | None:
    if isinstance(mount, Mapping):
        return mount.get("mountPath") or mount.get("mount_path")
    return getattr(mount, "mount_path", None)
