"""One row for each node: its GPU resources, and the reasons why servers cannot get the node's GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.cluster.cluster_view import ClusterView
from gpuspawner.cli.common.output import Paint, format_columns
from gpuspawner.cli.inventory.gpu_type_rows import format_count, list_hidden_types
from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.nodes_by_type import count_units, has_silent_plugin, may_have_units
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.cluster.state import Occupancy, get_occupancy
from gpuspawner.core.cluster.taints import find_untolerated_taints, is_transient_taint
from gpuspawner.core.warnings.nodes import AdminWarning, find_node_warnings

_TITLES = ("NODE", "TYPE", "RESOURCE", "FREE", "TOTAL", "STATE")
_CORDON_TAINT = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGPUs:
    """One GPU resource of a node.

    :param resource: name of the resource, such as ``nvidia.com/gpu``.
    :param types: slugs of the GPU types that match the resource and the node's labels.
    :param total: number of GPUs, None if unknown.
    :param free: number of GPUs that no pod holds, None if unknown.
    """

    resource: str
    types: tuple[str, ...]
    total: int | None
    free: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node.

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
    nodes = view.inventory.nodes or ()
    return find_node_warnings(nodes, view.catalog, table=view.settings.table, tolerations=view.tolerations)


def format_node_table(rows: Iterable[NodeRow], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of the table of nodes."""
    yield from format_columns((cells for row in rows for cells in row.format_cells()), titles=_TITLES, paint=paint)


def _list_gpus(node: Node, types: Sequence[GPUType], *, occupancy: Occupancy | None) -> Iterator[NodeGPUs]:
    resources = {gpu.resource for gpu in types}
    names = {*node.capacity, *node.allocatable, *node.uncounted}
    free = occupancy.get_free(node.name) if occupancy is not None else None
    for name in sorted(each for each in names if each in resources or find_vendor(each) is not None):
        own = tuple(gpu.slug for gpu in types if gpu.resource == name and gpu.matches_labels(node.labels))
        is_silent = has_silent_plugin(node, name)
        if not may_have_units(node, name) and not (is_silent and own):
            continue  # skip 0 units: a node has 0 of nvidia.com/gpu if all its GPUs are split into MIG slices
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
