"""Combine several GPU types, the members, into one type, such as "any GPU with at least 40 GB".

A user who chooses the combined type gets GPUs of one member: kube-scheduler picks the node. A pod names the extended
resource that it requests, so all members have the same resource. The pod's node affinity selects the nodes of all
members by their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.catalog.software import deduplicate_platforms
from gpuspawner.core.text.i18n import gettext_lazy
from gpuspawner.core.text.wording import join_with_and, join_with_or
from gpuspawner.core.units.quantity import format_memory_lazy

V = TypeVar("V")

_NAMES_BY_UNIT = {
    UnitKind.CARD: gettext_lazy("Any GPU with at least {memory}"),
    UnitKind.MIG: gettext_lazy("Any GPU slice with at least {memory}"),
    UnitKind.SHARED: gettext_lazy("Any shared GPU with at least {memory}"),
}

LabelMatch = Mapping[str, tuple[str, ...]]


def combine_types(union: GPUType, gpus: Mapping[str, GPUType]) -> GPUType | None:
    """Return a combined GPU type, or None if no member is usable.

    The ``overrides`` of a GPU type (values of KubeSpawner's traits) may restrict its servers. If the members have
    different ``overrides``, and the admin sets none for the combined type, the function leaves out the members with
    ``overrides``: users must not evade the restrictions.

    The members' values fill in the fields that the admin did not set. A field such as ``spot`` stays empty if the
    members have different values. The tolerations of the admin and of all members add up. The shortest run time limit
    applies.

    :param union: the admin's definition: ``any_of`` lists the members, or each GPU type is a member that has at least
        ``min_memory_bytes`` per unit, and the same ``resource`` and ``unit``. A ``max_count`` of 0 means the largest
        ``max_count`` of the members.
    :param gpus: slug → GPU type, for all types of the catalog that are not combined.
    """
    members = _leave_out_other_overrides(find_members(union, gpus), union)
    if not members:
        return None
    first = members[0]
    tolerations = (each for gpu in (union, *members) for each in gpu.tolerations)
    return replace(
        union,
        display_name=union.display_name or _build_name(union, members),
        resource=first.resource,
        vendor=first.vendor,
        unit=first.unit,
        match={},
        members=members,
        platforms=deduplicate_platforms(each for gpu in members for each in gpu.platforms),
        spot=_find_common_value([gpu.spot for gpu in members]) if union.spot is None else union.spot,
        interconnect=_find_common_value([gpu.interconnect for gpu in members])
        if union.interconnect is None
        else union.interconnect,
        max_count=union.max_count or max(gpu.max_count for gpu in members),
        memory_bytes=_find_smallest([gpu.memory_bytes for gpu in members]),
        description=union.description or _build_description(members),
        note=union.note or _find_common_value([gpu.note for gpu in members]) or "",
        tolerations=_deduplicate(tolerations),
        environment={**_intersect([gpu.environment for gpu in members]), **union.environment},
        runtime_class=union.runtime_class or next((gpu.runtime_class for gpu in members if gpu.runtime_class), None),
        shm=union.shm or max((gpu.shm for gpu in members if gpu.shm), default=None),
        start_timeout_s=union.start_timeout_s
        or max((gpu.start_timeout_s for gpu in members if gpu.start_timeout_s), default=None),
        new_nodes=any(gpu.new_nodes for gpu in members),
        overrides=union.overrides or _find_common_value([gpu.overrides for gpu in members]) or {},
        # kube-scheduler may pick a node of any member, so the shortest run time limit of all members applies.
        max_runtime_s=min((each for gpu in (union, *members) if (each := gpu.max_runtime_s) is not None), default=None),
    )


def merge_matches(gpu: GPUType) -> LabelMatch | None:
    """Return one label match (label → allowed values) that selects exactly the nodes of a GPU type, or None.

    For a combined type, the function merges the label matches of the members. The result is None in two cases:

    - The matches differ in more than one label. A merged match would also select nodes with the first label of one
      member and the second label of another member.
    - The matches differ in one label, and the nodes of a member need not or must not have this label. A merged match
      cannot express "one of these values, or no such label".
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


def find_members(union: GPUType, gpus: Mapping[str, GPUType]) -> tuple[GPUType, ...]:
    """Return the GPU types that are members of a combined GPU type.

    The result includes members that :func:`combine_types` leaves out because of their ``overrides``.

    :param union: the admin's definition of the combined type.
    :param gpus: slug → GPU type, for all types that are not combined.
    """
    min_bytes = union.min_memory_bytes
    if min_bytes is None:
        found = [gpus[slug] for slug in union.any_of if slug in gpus]
        # A pod requests GPUs of one resource only: leave out members with another resource than the first.
        return tuple(gpu for gpu in found if gpu.resource == found[0].resource)
    return tuple(
        gpu
        for gpu in gpus.values()
        if gpu.resource == union.resource and gpu.unit is union.unit and (gpu.memory_bytes or 0) >= min_bytes
    )


def _leave_out_other_overrides(members: tuple[GPUType, ...], union: GPUType) -> tuple[GPUType, ...]:
    if union.overrides or all(gpu.overrides == members[0].overrides for gpu in members):
        return members
    return tuple(gpu for gpu in members if not gpu.overrides)


def _build_name(union: GPUType, members: Iterable[GPUType]) -> str:
    if union.min_memory_bytes is None:
        return join_with_or([gpu.display_name for gpu in members], translate=gettext_lazy)
    return gettext_lazy(_NAMES_BY_UNIT[union.unit], memory=format_memory_lazy(union.min_memory_bytes))


def _build_description(members: Iterable[GPUType]) -> str:
    names = join_with_and([gpu.display_name for gpu in members], translate=gettext_lazy)
    return gettext_lazy("Any of {names}.", names=names)


def _intersect(mappings: list[Mapping[str, str]]) -> dict[str, str]:
    first, *others = mappings
    return {key: value for key, value in first.items() if all(each.get(key) == value for each in others)}


def _find_common_value(values: list[V]) -> V | None:
    return values[0] if all(value == values[0] for value in values) else None


def _find_smallest(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return min(known) if len(known) == len(sizes) else None


def _deduplicate(values: Iterable[V]) -> tuple[V, ...]:
    return tuple(dict.fromkeys(values))
