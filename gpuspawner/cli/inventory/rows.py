"""Rows of the tables of ``gpuspawner inventory``.

A row of the first table describes a GPU type: its GPUs, nodes, taints, and the users that may choose it. A row of the
second table describes a node: its GPU resources, and the reasons why servers cannot get the node's GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.cluster.cluster_view import ClusterView
from gpuspawner.cli.common.output import Paint, format_columns
from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.nodes_by_type import count_units, group_nodes_by_type, has_silent_plugin, may_have_units
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.state import Occupancy, get_occupancy
from gpuspawner.core.cluster.taints import find_untolerated_taints, is_transient_taint
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.units.quantity import format_rounded_memory
from gpuspawner.core.verdict.availability import Availability, count_availability
from gpuspawner.core.warnings.nodes import AdminWarning, find_node_warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAccess:
    """Users that the policy allows to choose a GPU type, even if they have reached a limit now.

    :param everybody: if true, all users except ``groups`` and ``users`` may choose the type; if false, only ``groups``
        and ``users`` may.
    :param groups: names of groups.
    :param users: names of users.
    """

    everybody: bool
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the users as text, such as "group guests, user ann"."""
        named = [f"group {name}" for name in self.groups] + [f"user {name}" for name in self.users]
        if self.everybody:
            return f"all users except {', '.join(named)}" if named else "all users"
        return ", ".join(named) or "no user"


def find_type_access(catalog: Catalog) -> dict[str, TypeAccess]:
    """Return slug of a GPU type → users that may choose it.

    The function applies the policy to an imaginary user without groups, to an imaginary member of each group, and to
    each user that the policy names. It does not know the groups of the named users.
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


_TYPE_TITLES = (
    "TYPE",
    "NAME",
    "RESOURCE",
    "MEMORY",
    "NODES",
    "TOTAL",
    "HEALTHY",
    "FREE",
    "LARGEST FREE",
    "TAINTS",
    "FOR",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRow:
    """The row of one GPU type in the table; unknown numbers are None.

    Temporary taints, such as ``node.kubernetes.io/not-ready``, do not count.

    :param gpu: the GPU type.
    :param offered: false if the settings hide the type.
    :param nodes: number of nodes with GPUs of the type, without the reserved nodes.
    :param reserved: number of nodes that have GPUs of the type and a taint that servers of the type do not tolerate.
    :param there_is: numbers of total, healthy and free GPUs, and the largest number that one server could get now.
    :param taints: (taint, whether servers of the type tolerate it) for each NoSchedule or NoExecute taint of the nodes.
    :param access: users that may choose the type; None for a hidden type, or without values files.
    """

    gpu: GPUType
    offered: bool
    nodes: int | None
    reserved: int | None
    there_is: Availability
    taints: tuple[tuple[Taint, bool], ...] = ()
    access: TypeAccess | None = None

    @property
    def largest_free(self) -> int | None:
        """The most GPUs that one server could get now; a server gets one share, however many shares are free."""
        largest = self.there_is.largest
        return None if largest is None else min(largest, self.gpu.max_count)

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
            "largest_free": self.largest_free,
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
            *map(format_count, (found.total, found.healthy, found.free, self.largest_free)),
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
    """Return the GPU types that the settings disable by their slugs (``enabled: false``).

    Types found by node labels are missing if the hub hides them only because a disabled type matches their nodes.
    """
    configured = view.settings.configured
    return tuple(gpu for gpu in view.catalog.hidden if gpu in configured.hidden_gpus or gpu.slug in configured.hidden)


def format_type_table(rows: Iterable[TypeRow], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of GPU types, without the column FOR if all its cells are empty."""
    lines: list[tuple[str, ...]] = [row.format_cells() for row in rows]
    titles: tuple[str, ...] = _TYPE_TITLES
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
    """Return (usable nodes, reserved nodes) of each type, as in :class:`TypeRow`; each is None if nodes are unknown."""
    known = get_occupancy(view.inventory)
    if known is None:
        return [None] * len(gpus)
    found: list[tuple[list[Node], list[Node]] | None] = []
    for type_nodes in group_nodes_by_type(gpus, known.occupancy.node_groups, tolerations=view.tolerations):
        resource = type_nodes.gpu.resource
        usable, reserved = (
            [node for pool in pools for node in pool.values() if _has_resource(node, resource)]
            for pools in (type_nodes.pools, type_nodes.reserved)
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


_NODE_TITLES = ("NODE", "TYPE", "RESOURCE", "FREE", "TOTAL", "STATE")
_CORDON_TAINT = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGPUs:
    """One GPU resource of a node.

    :param resource: name of the resource, such as ``nvidia.com/gpu``.
    :param types: slugs of the GPU types that match the resource and the node's labels.
    :param total: number of GPUs, None if unknown.
    :param free: number of allocatable GPUs that no pod on the node requests, None if unknown.
    """

    resource: str
    types: tuple[str, ...]
    total: int | None
    free: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """The row of one node in the table.

    :param name: name of the node.
    :param gpus: GPU resources of the node.
    :param why_not: sentences that explain why servers cannot get some or all GPUs of the node.
    """

    name: str
    gpus: tuple[NodeGPUs, ...]
    why_not: tuple[str, ...]

    def serialize(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        gpus = [
            {"resource": each.resource, "types": list(each.types), "free": each.free, "total": each.total}
            for each in self.gpus
        ]
        return {"name": self.name, "gpus": gpus, "why_not": list(self.why_not)}

    def format_cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of the node's lines in the table: one line for each GPU resource, at least one line."""
        state = " ".join(self.why_not) or ("ok" if self.gpus else "no GPU")
        for each in self.gpus:
            yield (
                self.name,
                ", ".join(each.types) or "-",
                each.resource,
                format_count(each.free),
                format_count(each.total),
                state,
            )
        if not self.gpus:
            yield self.name, "-", "-", "-", "-", state


def build_node_rows(view: ClusterView) -> tuple[NodeRow, ...] | None:
    """Return the rows of all nodes in the order of their names, or None if nodes cannot be read.

    :param view: the state of the cluster.
    """
    known = get_occupancy(view.inventory)
    if known is None:
        return None
    catalog, occupancy = view.catalog, known.occupancy
    warnings: dict[str, list[str]] = {}
    for flag in list_node_flags(view):
        for name in flag.nodes:
            warnings.setdefault(name, []).append(flag.message)
    hidden = list_hidden_types(view)
    types = [gpu for gpu in (*catalog.gpus.values(), *hidden) if not gpu.members]
    rows = []
    for node in occupancy.nodes:
        gpus = tuple(_list_gpus(node, types, occupancy=occupancy if known.pods_known else None))
        tolerated = _list_tolerations(gpus, catalog, common=view.tolerations)
        states, notes = _describe_states(node, tolerated), _describe_hidden_types(gpus, hidden)
        why_not = (*states, *notes, *warnings.get(node.name, ()))
        rows.append(NodeRow(name=node.name, gpus=gpus, why_not=why_not))
    return tuple(rows)


def list_node_flags(view: ClusterView) -> tuple[AdminWarning, ...]:
    """Return the hub's warnings to admins about the nodes' GPUs."""
    return find_node_warnings(
        view.inventory.nodes or (),
        view.catalog,
        table=view.settings.table,
        tolerations=view.tolerations,
        slices=view.slices,
    )


def format_node_table(rows: Iterable[NodeRow], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of nodes."""
    yield from format_columns((cells for row in rows for cells in row.format_cells()), titles=_NODE_TITLES, paint=paint)


def _list_gpus(node: Node, types: Sequence[GPUType], *, occupancy: Occupancy | None) -> Iterator[NodeGPUs]:
    resources = {gpu.resource for gpu in types}
    names = {*node.capacity, *node.allocatable, *node.uncounted}
    free = occupancy.get_free(node.name) if occupancy is not None else None
    for name in sorted(each for each in names if each in resources or find_vendor(each) is not None):
        own = tuple(gpu.slug for gpu in types if gpu.resource == name and gpu.matches_labels(node.labels))
        is_silent = has_silent_plugin(node, name)
        if not may_have_units(node, name) and not (is_silent and own):
            continue  # skip 0 GPUs: a node has 0 of nvidia.com/gpu if all its GPUs are split into MIG slices
        is_counted = name not in node.uncounted and not is_silent
        yield NodeGPUs(
            resource=name,
            types=own,
            total=count_units(node, name) if is_counted else None,
            free=free.get(name, 0) if is_counted and free is not None else None,
        )


def _list_tolerations(
    gpus: Iterable[NodeGPUs], catalog: Catalog, *, common: tuple[Toleration, ...]
) -> tuple[Toleration, ...]:
    slugs = {slug for each in gpus for slug in each.types}
    own = (each for slug in slugs if slug in catalog.gpus for each in catalog.gpus[slug].tolerations)
    return (*common, *own)


def _describe_states(node: Node, tolerations: tuple[Toleration, ...]) -> Iterator[str]:
    if node.unschedulable:
        yield "Cordoned."
    if not node.ready:
        yield "Not ready."
    for taint in find_untolerated_taints(node, tolerations):
        if is_transient_taint(taint) and taint.key != _CORDON_TAINT and node.ready:
            yield f"Takes no servers for the time being: {taint.key}."


def _describe_hidden_types(gpus: Iterable[NodeGPUs], hidden: Iterable[GPUType]) -> Iterator[str]:
    slugs = {gpu.slug for gpu in hidden}
    for each in gpus:
        yield from (f"The settings hide {slug}." for slug in each.types if slug in slugs)
