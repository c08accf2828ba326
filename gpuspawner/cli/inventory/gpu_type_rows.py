"""Table of GPU types for ``gpuspawner inventory``: each type's GPUs, nodes, taints, and users that may choose it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.cluster.cluster_view import ClusterView
from gpuspawner.cli.common.output import Paint, format_columns
from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.nodes_by_type import group_nodes_by_type, has_silent_plugin, may_have_units
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.state import get_occupancy
from gpuspawner.core.cluster.taints import find_untolerated_taints, is_transient_taint
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.units.formatting import format_rounded_memory
from gpuspawner.core.verdict.availability import Availability, count_availability


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAccess:
    """Users that the policy allows to choose a GPU type, regardless of the GPUs that they use now.

    :param everybody: if true, all users except ``groups`` and ``users``; if false, only ``groups`` and ``users``.
    :param groups: names of groups.
    :param users: names of users.
    """

    everybody: bool
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the users in words."""
        named = [f"group {name}" for name in self.groups] + [f"user {name}" for name in self.users]
        if self.everybody:
            return f"everybody but {', '.join(named)}" if named else "everybody"
        return ", ".join(named) or "nobody"


def find_type_access(catalog: Catalog) -> dict[str, TypeAccess]:
    """Return slug of a GPU type → users that may choose it.

    The function applies the policy to an imaginary user without groups, to an imaginary user in each group, and to each
    user that the policy names. It does not know the groups of the named users, so it applies no group rules to them.
    """
    policy = catalog.policy
    if policy is None:
        return dict.fromkeys(catalog.gpus, TypeAccess(everybody=True))
    default = _list_allowed_types(catalog, Person(name=""))
    groups = {name: _list_allowed_types(catalog, Person(name="", groups=frozenset({name}))) for name in policy.groups}
    users = {name: _list_allowed_types(catalog, Person(name=name)) for name in policy.users}
    found = {}
    for slug in catalog.gpus:
        everybody = slug in default
        other_groups = tuple(name for name, allowed in groups.items() if (slug in allowed) is not everybody)
        other_users = tuple(name for name, allowed in users.items() if (slug in allowed) is not everybody)
        found[slug] = TypeAccess(everybody=everybody, groups=other_groups, users=other_users)
    return found


def _list_allowed_types(catalog: Catalog, person: Person) -> frozenset[str]:
    return frozenset(resolve_allowance(catalog, person, usage=Usage()).catalog.gpus)


_TITLES = ("TYPE", "NAME", "RESOURCE", "MEMORY", "NODES", "TOTAL", "HEALTHY", "FREE", "LARGEST FREE", "TAINTS", "FOR")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRow:
    """One GPU type; unknown numbers are None.

    A taint is permanent if it does not mark a temporary state of the node, such as starting.

    :param gpu: the GPU type.
    :param offered: false if the settings hide the type.
    :param nodes: number of nodes with GPUs of the type, without the nodes that ``reserved`` counts.
    :param reserved: number of nodes with such GPUs and a permanent taint that servers of the type don't tolerate.
    :param there_is: numbers of total, healthy and free GPUs, and the largest number that one server could get now.
    :param taints: each permanent NoSchedule or NoExecute taint of the type's nodes, and whether servers of the type
        tolerate the taint.
    :param access: users that may choose the type; None for a hidden type, or without values files.
    """

    gpu: GPUType
    offered: bool
    nodes: int | None
    reserved: int | None
    there_is: Availability
    taints: tuple[tuple[Taint, bool], ...] = ()
    access: TypeAccess | None = None

    def serialize(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        gpu, found = self.gpu, self.there_is
        document: dict[str, Any] = {
            "slug": gpu.slug,
            "display_name": str(gpu.display_name),
            "resource": gpu.resource,
            "vendor": gpu.vendor,
            "unit": gpu.unit.value,
            "memory_bytes": gpu.memory_bytes,
            "offered": self.offered,
            "nodes": self.nodes,
            "reserved_nodes": self.reserved,
            "total": found.total,
            "healthy": found.healthy,
            "free": found.free,
            "largest_free": found.largest,
            "waiting": found.waiting,
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect, "tolerated": tolerated}
                for taint, tolerated in self.taints
            ],
        }
        if self.access is not None:
            who = self.access
            names = {"groups": list(who.groups), "users": list(who.users)}
            document["usable_by"] = (
                {"everybody": True, "but": names} if who.everybody else {"everybody": False, **names}
            )
        return document

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of the table's line for the GPU type."""
        gpu, found = self.gpu, self.there_is
        return (
            gpu.slug,
            str(gpu.display_name),
            gpu.resource,
            "?" if gpu.memory_bytes is None else format_rounded_memory(gpu.memory_bytes, round_up=False),
            f"{format_count(self.nodes)} (+{self.reserved} reserved)" if self.reserved else format_count(self.nodes),
            *map(format_count, (found.total, found.healthy, found.free, found.largest)),
            ", ".join(_format_taint(taint, tolerated=tolerated) for taint, tolerated in self.taints) or "-",
            "hidden by the settings" if not self.offered else "" if self.access is None else self.access.describe(),
        )


def build_type_rows(view: ClusterView) -> tuple[TypeRow, ...]:
    """Return the rows of all GPU types: first those that users can choose, then those of :func:`list_hidden_types`.

    :param view: the state of the cluster.
    """
    catalog = view.catalog
    access = find_type_access(catalog) if view.values.merged else {}
    offered = tuple(catalog.gpus.values())
    gpus = (*offered, *list_hidden_types(view))
    counts = count_availability(gpus, view.inventory, tolerations=view.tolerations, priority=view.priority)
    return tuple(
        TypeRow(
            gpu=gpu,
            offered=place < len(offered),
            nodes=None if nodes is None else len(nodes[0]),
            reserved=None if nodes is None else len(nodes[1]),
            there_is=there_is,
            taints=()
            if nodes is None
            else tuple(_list_taints((*nodes[0], *nodes[1]), (*gpu.tolerations, *view.tolerations))),
            access=access.get(gpu.slug),
        )
        for place, (gpu, there_is, nodes) in enumerate(zip(gpus, counts, _find_type_nodes(gpus, view), strict=True))
    )


def list_hidden_types(view: ClusterView) -> tuple[GPUType, ...]:
    """Return the GPU types that the settings hide by their slug (``enabled: false``).

    The hub also hides a discovered type if types in the settings match all its nodes, and at least one of these types
    is hidden. The result does not contain such discovered types.
    """
    configured = view.settings.configured
    return tuple(gpu for gpu in view.catalog.hidden if gpu in configured.hidden_gpus or gpu.slug in configured.hidden)


def format_type_table(rows: Iterable[TypeRow], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of GPU types, without the column FOR if all its cells are empty."""
    lines: list[tuple[str, ...]] = [row.format_cells() for row in rows]
    titles: tuple[str, ...] = _TITLES
    if not any(line[-1] for line in lines):
        titles, lines = titles[:-1], [line[:-1] for line in lines]
    if lines:
        yield from format_columns(lines, titles=titles, paint=paint)
    else:
        yield "No GPU types."


def format_count(value: int | None) -> str:
    """Return a number, or "?" for None."""
    return "?" if value is None else str(value)


def _find_type_nodes(gpus: tuple[GPUType, ...], view: ClusterView) -> list[tuple[list[Node], list[Node]] | None]:
    """Return (usable nodes, nodes reserved for other pods) of each type.

    If nodes cannot be read, the list has None for each type.
    """
    known = get_occupancy(view.inventory)
    if known is None:
        return [None] * len(gpus)
    table = known.occupancy.table
    found: list[tuple[list[Node], list[Node]] | None] = []
    for type_nodes in group_nodes_by_type(gpus, table, tolerations=view.tolerations):
        resource = type_nodes.gpu.resource
        rows = ([row for pool in pools for row in pool.rows] for pools in (type_nodes.pools, type_nodes.reserved))
        usable, reserved = (
            [node for node in map(table.get_by_row, each) if _has_resource(node, resource)] for each in rows
        )
        found.append((usable, reserved))
    return found


def _has_resource(node: Node, resource: str) -> bool:
    return may_have_units(node, resource) or has_silent_plugin(node, resource)


def _list_taints(nodes: Iterable[Node], tolerations: tuple[Toleration, ...]) -> Iterator[tuple[Taint, bool]]:
    seen: dict[Taint, bool] = {}
    for node in nodes:
        keeping = frozenset(find_untolerated_taints(node, tolerations))
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not is_transient_taint(taint):
                seen[taint] = taint not in keeping
    yield from sorted(seen.items(), key=lambda each: (each[1], each[0].key, each[0].value, each[0].effect))


def _format_taint(taint: Taint, *, tolerated: bool) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}{'' if tolerated else ' (not tolerated)'}"
