"""Nodes as rows of a table: amounts of each resource in columns, and rows that are alike together in pools.

A survey of thousands of nodes in a few milliseconds takes both: what a pod demands of labels and taints is looked at
once a pool, and amounts are compared column by column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from gpuspawner.core.cluster.model import Node

_T = TypeVar("_T")
_K = TypeVar("_K")

_MAX_GROUPINGS = 32
"""Ways to pool nodes that are kept up to date; there is one for each kind of pod that people ask about."""
_MAX_CHANGES = 512
"""Last changes of what is free that are remembered by their rows."""
_MAX_COLUMNS = 64
"""Resources whose amounts are kept as columns: those that pods asked for lately."""

_AmountReader = Callable[[Node], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGrouping:
    """What of a node tells pools apart, besides its taints, what it has uncounted and whether it is cordoned.

    :param values: labels whose values matter.
    :param presence: labels of which it only matters whether they are there.
    :param by_name: each node is a pool of its own.
    """

    values: tuple[str, ...] = ()
    presence: tuple[str, ...] = ()
    by_name: bool = False

    def build_key(self, node: Node) -> tuple[object, ...]:
        """Return what is the same for all nodes of a pool."""
        labels = node.labels
        return (
            node.unschedulable,
            node.taints,
            node.uncounted,
            *map(labels.get, self.values),
            *(label in labels for label in self.presence),
            node.name if self.by_name else None,
        )


class EquivalentNodes:
    """Rows of nodes that are alike.

    :ivar example: one of the nodes.
    :ivar cache: what was computed of these nodes, forgotten when one of them changes.
    """

    __slots__ = ("_pick", "_rows", "cache", "example")

    def __init__(self, example: Node) -> None:
        self.example = example
        self.cache: dict[object, Any] = {}
        self._rows: dict[int, None] = {}
        self._pick: Callable[[list[int]], tuple[int, ...]] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    @property
    def rows(self) -> Sequence[int]:
        """The rows, in the order of :meth:`pick`."""
        return tuple(self._rows)

    def has_any(self, rows: Collection[int]) -> bool:
        """Tell whether one of these rows is a node of the pool."""
        return not self._rows.keys().isdisjoint(rows)

    def pick(self, column: list[int]) -> tuple[int, ...]:
        """Return the values a column has for these nodes."""
        if self._pick is None:
            self._pick = make_picker(self.rows)
        return self._pick(column)

    def add(self, row: int, node: Node) -> None:
        """Take a node in, or a changed one that is still alike."""
        self.example = node
        self.cache.clear()
        if row not in self._rows:
            self._rows[row] = None
            self._pick = None

    def discard(self, row: int) -> None:
        """Take a node out."""
        self.cache.clear()
        if self._rows.pop(row, row) is None:
            self._pick = None


def make_picker(rows: Sequence[int]) -> Callable[[list[_T]], tuple[_T, ...]]:
    """Return a function that picks these rows of a column."""
    if len(rows) > 1:
        return itemgetter(*rows)
    return lambda column: tuple(column[row] for row in rows)


class NodeTable:
    """All nodes, each in a row that it keeps; rows of nodes that left are used again.

    :param requested: node name and resource → how much of it is requested there.
    :ivar change_count: how often something was taken from a node or given back.
    """

    def __init__(self, requested: Callable[[str, str], int]) -> None:
        self._requested = requested
        self._rows: dict[str, int] = {}
        self._nodes: list[Node | None] = []
        self._unused: list[int] = []
        self._free: dict[str, list[int]] = {}
        self._allocatable: dict[str, list[int]] = {}
        self._pools: dict[NodeGrouping, dict[tuple[object, ...], EquivalentNodes]] = {}
        self.change_count = 0
        self._changed_rows: deque[int] = deque(maxlen=_MAX_CHANGES)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self._nodes if node is not None)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, name: str) -> Node | None:
        """Return a node by its name."""
        row = self._rows.get(name)
        return None if row is None else self._nodes[row]

    def find_row(self, name: str) -> int | None:
        """Return the row of a node."""
        return self._rows.get(name)

    def get_by_row(self, row: int) -> Node:
        """Return the node in a row that is used."""
        node = self._nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def put(self, node: Node) -> None:
        """Take a new node, or a changed one, in."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._add_row(node.name)
        known, self._nodes[row] = self._nodes[row], node
        for name, column in self._free.items():
            column[row] = node.allocatable.get(name, 0) - self._requested(node.name, name)
        for name, column in self._allocatable.items():
            column[row] = node.allocatable.get(name, 0)
        for layout, pools in self._pools.items():
            _move_row(
                pools,
                row,
                known=None if known is None else layout.build_key(known),
                node=node,
                key=layout.build_key(node),
            )

    def remove(self, name: str) -> None:
        """Take a node out, if it is there."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        known, self._nodes[row] = self._nodes[row], None
        self._unused.append(row)
        for layout, pools in self._pools.items():
            if known is not None:
                _remove_row(pools, row, key=layout.build_key(known))

    def reserve(self, name: str, amounts: Mapping[str, int], *, sign: int = 1) -> None:
        """Take amounts away from what is free on a node, if it is there.

        :param sign: -1 to give them back.
        """
        row = self._rows.get(name)
        if row is None:
            return
        self.change_count += 1
        self._changed_rows.append(row)
        for resource, amount in amounts.items():
            column = self._free.get(resource)
            if column is not None:
                column[row] -= sign * amount

    def find_changed_rows(self, since: int) -> frozenset[int] | None:
        """Return the rows in which something was taken or given back, None when that is too long ago to tell.

        :param since: what ``touches`` was.
        """
        number = self.change_count - since
        if number > len(self._changed_rows):
            return None
        return frozenset(islice(reversed(self._changed_rows), number))

    def get_free_column(self, resource: str) -> list[int]:
        """Return what each row still has of a resource; less than nothing where more was promised than is there."""
        return self._get_column(self._free, resource, amount=partial(self._compute_free, resource))

    def list_free(self, nodes: Iterable[Node], resource: str) -> list[int]:
        """Return what each of these nodes, all of them here, still has of a resource; see :meth:`free`."""
        column = self.get_free_column(resource)
        return [column[self._rows[node.name]] for node in nodes]

    def get_allocatable_column(self, resource: str) -> list[int]:
        """Return what each row has of a resource."""
        return self._get_column(self._allocatable, resource, amount=lambda node: node.allocatable.get(resource, 0))

    def group_nodes(self, grouping: NodeGrouping) -> list[EquivalentNodes]:
        """Return all nodes in pools of which each is the same in all that a layout names."""
        found = self._pools.pop(grouping, None)
        if found is None:
            found = {}
            for row, node in enumerate(self._nodes):
                if node is not None:
                    _add_row(found, row, node=node, key=grouping.build_key(node))
        self._pools[grouping] = found  # last in the order, as it was used last
        _drop_oldest(self._pools, _MAX_GROUPINGS)
        return list(found.values())

    def _compute_free(self, resource: str, node: Node) -> int:
        return node.allocatable.get(resource, 0) - self._requested(node.name, resource)

    def _get_column(self, columns: dict[str, list[int]], resource: str, *, amount: _AmountReader) -> list[int]:
        column = columns.get(resource)
        if column is None:
            column = columns[resource] = [0 if node is None else amount(node) for node in self._nodes]
            _drop_oldest(columns, _MAX_COLUMNS)
        return column

    def _add_row(self, name: str) -> int:
        if self._unused:
            row = self._unused.pop()
        else:
            row = len(self._nodes)
            self._nodes.append(None)
            for column in (*self._free.values(), *self._allocatable.values()):
                column.append(0)
        self._rows[name] = row
        return row


_NodesByKey = dict[tuple[object, ...], EquivalentNodes]


def _move_row(
    pools: _NodesByKey, row: int, *, known: tuple[object, ...] | None, node: Node, key: tuple[object, ...]
) -> None:
    if known is not None and known != key:
        _remove_row(pools, row, key=known)
    _add_row(pools, row, node=node, key=key)


def _add_row(pools: _NodesByKey, row: int, *, node: Node, key: tuple[object, ...]) -> None:
    pool = pools.get(key)
    if pool is None:
        pool = pools[key] = EquivalentNodes(node)
    pool.add(row, node)


def _remove_row(pools: _NodesByKey, row: int, *, key: tuple[object, ...]) -> None:
    pool = pools[key]
    pool.discard(row)
    if not pool:
        del pools[key]


def _drop_oldest(kept: dict[_K, _T], most: int) -> None:
    """Forget what was put in, or used, the longest ago."""
    while len(kept) > most:
        kept.pop(next(iter(kept)))
