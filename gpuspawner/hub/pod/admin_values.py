"""Reads what the admin's own traits of KubeSpawner give each server, whatever its user chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from gpuspawner.core.catalog.model import OwnAmount, OwnResources
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.units.quantity import QuantityError, parse_memory, parse_millis, parse_whole_units
from gpuspawner.hub.pod.patch import serialize_models


class AdminValues(Protocol):
    """Mapping from a trait's name to the value that the admin has given this trait."""

    def __getitem__(self, trait: str) -> Any: ...


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


def parse_admin_tolerations(trait: Any) -> tuple[Toleration, ...]:
    """Return the admin's tolerations as :class:`Toleration` objects.

    :param trait: value of KubeSpawner's ``tolerations``: a list of tolerations, or a dict with tolerations as values.
    """
    entries = trait.values() if isinstance(trait, dict) else trait or []
    return tuple(
        Toleration(
            key=entry.get("key") or "",
            operator=entry.get("operator") or "Equal",
            value=entry.get("value") or "",
            effect=entry.get("effect") or "",
        )
        for entry in entries
        if isinstance(entry, dict)
    )
