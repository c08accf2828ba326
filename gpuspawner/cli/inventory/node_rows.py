"""What there is on each node, as an admin is told, and why a node's GPUs are not to be had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.cluster.looking import Looked
from gpuspawner.cli.common.output import Paint, columns
from gpuspawner.cli.inventory.gpu_rows import hidden_types, number
from gpuspawner.core.catalog.catalogue import Catalogue, GPUType
from gpuspawner.core.catalog.node_gpus import vendor_of
from gpuspawner.core.catalog.stocks import is_silent, may_have, units
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.cluster.node_states import is_passing
from gpuspawner.core.cluster.occupancy import Occupancy
from gpuspawner.core.cluster.overview import overview
from gpuspawner.core.cluster.tolerations import untolerated
from gpuspawner.core.warnings.flags import Flag, flagged

_TITLES = ("NODE", "TYPE", "RESOURCE", "FREE", "TOTAL", "STATE")
_CORDON = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGPUs:
    """One GPU resource of a node.

    :param types: slugs of the GPU types it is; empty where no type matches.
    :param total: None where nobody can count it; so for ``free``.
    """

    resource: str
    types: tuple[str, ...]
    total: int | None
    free: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node.

    :param why_not: sentences why its GPUs, or some of them, are not to be had; empty where all is well.
    """

    name: str
    gpus: tuple[NodeGPUs, ...]
    why_not: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        gpus = [
            {"resource": each.resource, "types": list(each.types), "free": each.free, "total": each.total}
            for each in self.gpus
        ]
        return {"name": self.name, "gpus": gpus, "why_not": list(self.why_not)}

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield it as lines of the table."""
        state = " ".join(self.why_not) or ("ok" if self.gpus else "no GPU")
        for each in self.gpus:
            yield self.name, ", ".join(each.types) or "-", each.resource, number(each.free), number(each.total), state
        if not self.gpus:
            yield self.name, "-", "-", "-", "-", state


def node_rows(looked: Looked) -> tuple[NodeRow, ...] | None:
    """Return all nodes in the order of their names, None where they cannot be read."""
    known = overview(looked.inventory)
    if known is None:
        return None
    catalogue, occupancy = looked.catalogue, known.occupancy
    said: dict[str, list[str]] = {}
    for flag in node_flags(looked):
        for name in flag.nodes:
            said.setdefault(name, []).append(flag.message)
    hidden = hidden_types(looked)
    types = [gpu for gpu in (*catalogue.gpus.values(), *hidden) if not gpu.members]
    rows = []
    for node in occupancy.nodes:
        gpus = tuple(_gpus(node, types, occupancy=occupancy if known.pods_known else None))
        tolerated = _tolerations(gpus, catalogue, common=looked.tolerations)
        why_not = (*_states(node, tolerated), *_hidden(gpus, hidden), *said.get(node.name, ()))
        rows.append(NodeRow(name=node.name, gpus=gpus, why_not=why_not))
    return tuple(rows)


def node_flags(looked: Looked) -> tuple[Flag, ...]:
    """Return what the hub tells its admins of the nodes' GPUs."""
    nodes = looked.inventory.nodes or ()
    return flagged(nodes, looked.catalogue, table=looked.settings.table, tolerations=looked.tolerations)


def node_table(rows: Iterable[NodeRow], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of a table."""
    yield from columns((cells for row in rows for cells in row.cells()), titles=_TITLES, paint=paint)


def _gpus(node: Node, types: Sequence[GPUType], *, occupancy: Occupancy | None) -> Iterator[NodeGPUs]:
    """Yield the GPUs of a node: resources that are some by their name, or that a type has.

    :param occupancy: None while pods are not known.
    """
    resources = {gpu.resource for gpu in types}
    names = {*node.capacity, *node.allocatable, *node.uncounted}
    free = occupancy.free(node.name) if occupancy is not None else None
    for name in sorted(each for each in names if each in resources or vendor_of(each) is not None):
        own = tuple(gpu.slug for gpu in types if gpu.resource == name and gpu.is_on(node.labels))
        is_quiet = is_silent(node, name)
        if not may_have(node, name) and not (is_quiet and own):
            continue  # of cards that are all divided, kubelet says that there are none
        is_counted = name not in node.uncounted and not is_quiet
        yield NodeGPUs(
            resource=name,
            types=own,
            total=units(node, name) if is_counted else None,
            free=free.get(name, 0) if is_counted and free is not None else None,
        )


def _tolerations(
    gpus: Iterable[NodeGPUs], catalogue: Catalogue, *, common: tuple[Toleration, ...]
) -> tuple[Toleration, ...]:
    """Return what is tolerated by servers with any of the types that a node has."""
    slugs = {slug for each in gpus for slug in each.types}
    own = (each for slug in slugs if slug in catalogue.gpus for each in catalogue.gpus[slug].tolerations)
    return (*common, *own)


def _states(node: Node, tolerations: tuple[Toleration, ...]) -> Iterator[str]:
    """Yield what a node is going through that keeps servers off it for the time being."""
    if node.unschedulable:
        yield "Cordoned."
    if not node.ready:
        yield "Not ready."
    for taint in untolerated(node, tolerations):
        if is_passing(taint) and taint.key != _CORDON and node.ready:
            yield f"Takes no servers for the time being: {taint.key}."


def _hidden(gpus: Iterable[NodeGPUs], hidden: Iterable[GPUType]) -> Iterator[str]:
    slugs = {gpu.slug for gpu in hidden}
    for each in gpus:
        yield from (f"The settings hide {slug}." for slug in each.types if slug in slugs)
