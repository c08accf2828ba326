"""Several GPU types as one choice: any of these, or any with at least so much memory.

Such a choice is a GPU type like every other, of the same resource as its members: a pod asks for one resource by
its name. Its members say which nodes will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.catalog.software import deduplicate_platforms
from gpuspawner.core.text.i18n import gettext_lazy
from gpuspawner.core.text.wording import join_with_and, join_with_or
from gpuspawner.core.units.quantity import format_memory

V = TypeVar("V")

_NAMES_BY_UNIT = {
    UnitKind.CARD: gettext_lazy("Any GPU with at least {memory}"),
    UnitKind.MIG: gettext_lazy("Any GPU slice with at least {memory}"),
    UnitKind.SHARED: gettext_lazy("Any shared GPU with at least {memory}"),
}

LabelMatch = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedType:
    """A choice of several types, as the admin describes it: by ``any_of`` or by ``min_memory_bytes``.

    :param gpu: what is said of the choice itself; ``max_count`` is 0 where its members say. For ``min_memory_bytes`` it
        has the resource and the unit that its members must have.
    :param any_of: slugs of the types, wherever they come from.
    :param min_memory_bytes: memory of one unit that each type must have.
    """

    gpu: GPUType
    any_of: tuple[str, ...] = ()
    min_memory_bytes: int | None = None


def combine_types(union: CombinedType, gpus: Mapping[str, GPUType]) -> GPUType | None:
    """Return the type that stands for a choice of several, None while none of them is offered.

    :param gpus: what is offered besides unions.
    """
    members = _find_members(union, gpus)
    if not members:
        return None
    own, first = union.gpu, members[0]
    tolerations = (each for gpu in (own, *members) for each in gpu.tolerations)
    return replace(
        own,
        display_name=own.display_name or _build_name(union, members),
        resource=first.resource,
        vendor=first.vendor,
        unit=first.unit,
        match={},
        members=members,
        platforms=deduplicate_platforms(each for gpu in members for each in gpu.platforms),
        spot=_find_common_value([gpu.spot for gpu in members]) if own.spot is None else own.spot,
        interconnect=_find_common_value([gpu.interconnect for gpu in members])
        if own.interconnect is None
        else own.interconnect,
        max_count=own.max_count or max(gpu.max_count for gpu in members),
        memory_bytes=_find_smallest([gpu.memory_bytes for gpu in members]),
        description=own.description
        or gettext_lazy(
            "Any of {names}.", names=join_with_and([gpu.display_name for gpu in members], translate=gettext_lazy)
        ),
        note=own.note or _find_common_value([gpu.note for gpu in members]) or "",
        tolerations=_deduplicate(tolerations),
        environment={**_intersect([gpu.environment for gpu in members]), **own.environment},
        runtime_class=own.runtime_class or next((gpu.runtime_class for gpu in members if gpu.runtime_class), None),
        shm=own.shm or max((gpu.shm for gpu in members if gpu.shm), default=None),
        start_timeout_s=own.start_timeout_s
        or max((gpu.start_timeout_s for gpu in members if gpu.start_timeout_s), default=None),
        # Which of them it will be is not known when the pod is made, and no type's own limit may be passed.
        max_runtime_s=min((each for gpu in (own, *members) if (each := gpu.max_runtime_s) is not None), default=None),
    )


def merge_matches(gpu: GPUType) -> LabelMatch | None:
    """Return a single match that stands for all a type's members, None when no single one does.

    Matches are put together where they differ in the values of one label alone. With two labels that differ, the first
    value of one would go with the second value of the other as well.
    """
    first, *others = gpu.label_matches
    joined = dict(first)
    differing = {key for match in others for key in {*first, *match} if match.get(key) != first.get(key)}
    if len(differing) > 1:
        return None
    for key in differing:
        if not all(match.get(key) for match in gpu.label_matches):
            return None
        joined[key] = _deduplicate(value for match in gpu.label_matches for value in match[key])
    return joined


def _find_members(union: CombinedType, gpus: Mapping[str, GPUType]) -> tuple[GPUType, ...]:
    least = union.min_memory_bytes
    if least is None:
        found = [gpus[slug] for slug in union.any_of if slug in gpus]
        # What the nodes bring may turn out to be of another resource than what comes first.
        return tuple(gpu for gpu in found if gpu.resource == found[0].resource)
    return tuple(
        gpu
        for gpu in gpus.values()
        if gpu.resource == union.gpu.resource and gpu.unit is union.gpu.unit and (gpu.memory_bytes or 0) >= least
    )


def _build_name(union: CombinedType, members: Iterable[GPUType]) -> str:
    if union.min_memory_bytes is None:
        return join_with_or([gpu.display_name for gpu in members], translate=gettext_lazy)
    return gettext_lazy(_NAMES_BY_UNIT[union.gpu.unit], memory=format_memory(union.min_memory_bytes))


def _intersect(mappings: list[Mapping[str, str]]) -> dict[str, str]:
    """Return what all mappings agree on."""
    first, *others = mappings
    return {key: value for key, value in first.items() if all(each.get(key) == value for each in others)}


def _find_common_value(values: list[V]) -> V | None:
    return values[0] if all(value == values[0] for value in values) else None


def _find_smallest(sizes: list[int | None]) -> int | None:
    """Return the smallest of sizes, None when one is not known."""
    known = [size for size in sizes if size is not None]
    return min(known) if len(known) == len(sizes) else None


def _deduplicate(values: Iterable[V]) -> tuple[V, ...]:
    return tuple(dict.fromkeys(values))
