"""What there is of each GPU type, as an admin is told: the hub's counts, the nodes behind them, and who may have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuspawner.cli.cluster.looking import Looked
from gpuspawner.cli.common.output import Paint, columns
from gpuspawner.cli.inventory.entitled import Entitled, entitled
from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.catalog.stocks import is_silent, may_have, stocks
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.node_states import is_passing
from gpuspawner.core.cluster.overview import overview
from gpuspawner.core.cluster.tolerations import untolerated
from gpuspawner.core.units.words import memory
from gpuspawner.core.verdict.availability import Availability, availability

_TITLES = ("TYPE", "NAME", "RESOURCE", "MEMORY", "NODES", "TOTAL", "HEALTHY", "FREE", "LARGEST FREE", "TAINTS", "FOR")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRow:
    """One GPU type. What is not known is None.

    :param offered: people are shown it.
    :param nodes: how many nodes servers may get it on.
    :param reserved: how many more have it that a taint keeps servers off.
    :param taints: of all these nodes, those that last, and whether servers with the type tolerate it.
    :param for_whom: by the policy; None without values.
    """

    gpu: GPUType
    offered: bool
    nodes: int | None
    reserved: int | None
    there_is: Availability
    taints: tuple[tuple[Taint, bool], ...] = ()
    for_whom: Entitled | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
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
        if self.for_whom is not None:
            who = self.for_whom
            names = {"groups": list(who.groups), "users": list(who.users)}
            document["usable_by"] = (
                {"everybody": True, "but": names} if who.everybody else {"everybody": False, **names}
            )
        return document

    def cells(self) -> tuple[str, ...]:
        """Return it as a line of the table."""
        gpu, found = self.gpu, self.there_is
        return (
            gpu.slug,
            str(gpu.display_name),
            gpu.resource,
            "?" if gpu.memory_bytes is None else memory(gpu.memory_bytes, up=False),
            f"{number(self.nodes)} (+{self.reserved} reserved)" if self.reserved else number(self.nodes),
            *map(number, (found.total, found.healthy, found.free, found.largest)),
            ", ".join(_taint_text(taint, tolerated=tolerated) for taint, tolerated in self.taints) or "-",
            "hidden by the settings" if not self.offered else "" if self.for_whom is None else self.for_whom.text(),
        )


def type_rows(looked: Looked) -> tuple[TypeRow, ...]:
    """Return all GPU types, those that are offered first."""
    catalogue = looked.catalogue
    who = entitled(catalogue) if looked.values.merged else {}
    offered = tuple(catalogue.gpus.values())
    gpus = (*offered, *hidden_types(looked))
    counts = availability(gpus, looked.inventory, tolerations=looked.tolerations)
    sites = _sites(gpus, looked)
    return tuple(
        TypeRow(
            gpu=gpu,
            offered=place < len(offered),
            nodes=None if site is None else len(site[0]),
            reserved=None if site is None else len(site[1]),
            there_is=there_is,
            taints=()
            if site is None
            else tuple(_taints((*site[0], *site[1]), (*gpu.tolerations, *looked.tolerations))),
            for_whom=who.get(gpu.slug),
        )
        for place, (gpu, there_is, site) in enumerate(zip(gpus, counts, sites, strict=True))
    )


def hidden_types(looked: Looked) -> tuple[GPUType, ...]:
    """Return the GPU types that the settings hide, without those found by labels that stand for the same GPUs."""
    written = looked.settings.configured
    return tuple(gpu for gpu in looked.catalogue.hidden if gpu in written.hidden_gpus or gpu.slug in written.hidden)


def type_table(rows: Iterable[TypeRow], *, paint: Paint) -> Iterator[str]:
    """Yield the lines of a table; without a policy nobody is named in it."""
    lines: list[tuple[str, ...]] = [row.cells() for row in rows]
    titles: tuple[str, ...] = _TITLES
    if not any(line[-1] for line in lines):
        titles, lines = titles[:-1], [line[:-1] for line in lines]
    if lines:
        yield from columns(lines, titles=titles, paint=paint)
    else:
        yield "No GPU types."


def number(value: int | None) -> str:
    """Return a number, or a question mark for one that is not known."""
    return "?" if value is None else str(value)


def _sites(gpus: tuple[GPUType, ...], looked: Looked) -> list[tuple[list[Node], list[Node]] | None]:
    """Return for each type the nodes that servers may get it on, and those that are reserved for others."""
    known = overview(looked.inventory)
    if known is None:
        return [None] * len(gpus)
    table = known.occupancy.table
    found: list[tuple[list[Node], list[Node]] | None] = []
    for stock in stocks(gpus, table, tolerations=looked.tolerations):
        resource = stock.gpu.resource
        pools = ([table.at(row) for pool in pools for row in pool.rows] for pools in (stock.pools, stock.reserved))
        there, others = ([node for node in nodes if _has(node, resource)] for nodes in pools)
        found.append((there, others))
    return found


def _has(node: Node, resource: str) -> bool:
    return may_have(node, resource) or is_silent(node, resource)


def _taints(nodes: Iterable[Node], tolerations: tuple[Toleration, ...]) -> Iterator[tuple[Taint, bool]]:
    seen: dict[Taint, bool] = {}
    for node in nodes:
        keeping = frozenset(untolerated(node, tolerations))
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not is_passing(taint):
                seen[taint] = taint not in keeping
    yield from sorted(seen.items(), key=lambda each: (each[1], each[0].key, each[0].value, each[0].effect))


def _taint_text(taint: Taint, *, tolerated: bool) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}{'' if tolerated else ' (not tolerated)'}"
