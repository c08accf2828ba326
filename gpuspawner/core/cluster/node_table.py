"""Keep nodes in a table with one row per node and one column per resource, and equivalent nodes in groups.

A check of a pod against all nodes compares labels and taints once per group, and amounts column by column, so thousands
of nodes take milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from gpuspawner.core.cluster.model import Node

_T = TypeVar("_T")
_K = TypeVar("_K")

_MAX_GROUPINGS = 32
"""Maximum number of :class:`NodeGrouping` objects for which the table caches the groups of nodes."""
_MAX_CHANGES = 512
"""The table remembers the rows of this many changes of free amounts. For older changes,
:meth:`NodeTable.find_changed_rows` returns None."""
_MAX_COLUMNS = 64
"""Maximum number of resources in each cache: one for allocatable amounts, and one for free amounts per priority."""
_MAX_FLOORS = 8
"""Maximum number of pod priorities for which the table caches free amounts."""

_AmountReader = Callable[[Node], int]


class _RequestedReader(Protocol):
    def __call__(self, node: str, resource: str, /, *, floor: int | None) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGrouping:
    """A rule that groups nodes.

    All nodes of a group have the same taints, resources from DRA drivers and ``spec.unschedulable``.

    :param values: labels whose values must be equal.
    :param presence: labels that either all nodes of a group have, or all lack.
    :param by_name: True if each node is a group of its own.
    """

    values: tuple[str, ...] = ()
    presence: tuple[str, ...] = ()
    by_name: bool = False

    def build_key(self, node: Node) -> tuple[object, ...]:
        """Return the key of a node's group: two nodes are equivalent if their keys are equal."""
        labels = node.labels
        return (
            node.unschedulable,
            node.taints,
            node.uncounted,
            node.published_by_dra,
            *map(labels.get, self.values),
            *(label in labels for label in self.presence),
            node.name if self.by_name else None,
        )


class EquivalentNodes:
    """A group of nodes that a :class:`NodeGrouping` treats as equivalent, stored as rows of a :class:`NodeTable`.

    :ivar example: one of the nodes.
    :ivar cache: results that callers computed for these nodes; cleared when a node joins the group, changes or leaves.
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
        """Indexes of the group's rows in the table; :meth:`pick` returns values in the same order."""
        return tuple(self._rows)

    def has_any(self, rows: Collection[int]) -> bool:
        """Return whether at least one of the given rows is in the group of nodes."""
        return not self._rows.keys().isdisjoint(rows)

    def pick(self, column: list[int]) -> tuple[int, ...]:
        """Return the values of a table's column in the rows of this group of nodes."""
        if self._pick is None:
            self._pick = make_picker(self.rows)
        return self._pick(column)

    def add(self, row: int, node: Node) -> None:
        """Add a node to the group, or update a node that stays in the group."""
        self.example = node
        self.cache.clear()
        if row not in self._rows:
            self._rows[row] = None
            self._pick = None

    def discard(self, row: int) -> None:
        """Remove a node's row from the group; do nothing if the group does not have the row."""
        self.cache.clear()
        if self._rows.pop(row, row) is None:
            self._pick = None


def make_picker(rows: Sequence[int]) -> Callable[[list[_T]], tuple[_T, ...]]:
    """Return a function that takes a column and returns its values in the given rows."""
    if len(rows) > 1:
        return itemgetter(*rows)
    return lambda column: tuple(column[row] for row in rows)


_NodesByKey = dict[tuple[object, ...], EquivalentNodes]


class NodeTable:
    """A table of all nodes. A node keeps its row; the row of a removed node is reused.

    Several methods take a ``floor``, which is a priority. These methods count the amounts of pods with a lower priority
    as free, because kube-scheduler may preempt these pods. Without a floor (None), no pod's amounts count as free.

    :param requested: function of a node name, a resource and ``floor``; returns the amount that is taken on the node,
        in the units of :class:`Node`. Pods with a priority below ``floor`` do not count.
    :ivar change_count: number of changes of free amounts by :meth:`reserve` and :meth:`recount` so far. Changes by
        :meth:`put` do not count.
    """

    def __init__(self, requested: _RequestedReader) -> None:
        self._requested = requested
        self._rows: dict[str, int] = {}
        self._nodes: list[Node | None] = []
        self._unused: list[int] = []
        self._free: dict[int | None, dict[str, list[int]]] = {}
        """Priority → resource → free amount in each row. Pods of lower priority do not count; None = all count."""
        self._allocatable: dict[str, list[int]] = {}
        self._groups: dict[NodeGrouping, _NodesByKey] = {}
        self.change_count = 0
        self._changed_rows: deque[int] = deque(maxlen=_MAX_CHANGES)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self._nodes if node is not None)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, name: str) -> Node | None:
        """Return a node by name, or None if it is unknown."""
        row = self._rows.get(name)
        return None if row is None else self._nodes[row]

    def find_row(self, name: str) -> int | None:
        """Return the index of a node's row, or None if the node is unknown."""
        return self._rows.get(name)

    def get_by_row(self, row: int) -> Node:
        """Return the node in a row.

        :raises KeyError: for an unused row.
        """
        node = self._nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def put(self, node: Node) -> None:
        """Add or update a node."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._add_row(node.name)
        previous, self._nodes[row] = self._nodes[row], node
        for floor, columns in self._free.items():
            for name, column in columns.items():
                column[row] = self._compute_free(name, node, floor=floor)
        for name, column in self._allocatable.items():
            column[row] = node.allocatable.get(name, 0)
        for grouping, groups in self._groups.items():
            key = grouping.build_key(node)
            if previous is not None and (previous_key := grouping.build_key(previous)) != key:
                _remove_row(groups, row, key=previous_key)
            _add_row(groups, row, node=node, key=key)

    def remove(self, name: str) -> None:
        """Remove a node if it is known."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        previous, self._nodes[row] = self._nodes[row], None
        self._unused.append(row)
        for grouping, groups in self._groups.items():
            if previous is not None:
                _remove_row(groups, row, key=grouping.build_key(previous))

    def reserve(self, name: str, amounts: Mapping[str, int], *, priority: int, sign: int = 1) -> None:
        """Subtract amounts from the free amounts of a node; do nothing if the node is unknown.

        :param name: name of the node.
        :param amounts: resource → amount, in the units of :class:`Node`.
        :param priority: priority of the pod that holds the amounts.
        :param sign: 1 to reserve the amounts, -1 to release them.
        """
        row = self._rows.get(name)
        if row is None:
            return
        self.change_count += 1
        self._changed_rows.append(row)
        for floor, columns in self._free.items():
            if floor is None or priority >= floor:
                for resource, amount in amounts.items():
                    column = columns.get(resource)
                    if column is not None:
                        column[row] -= sign * amount

    def recount(self, name: str, resources: Iterable[str]) -> None:
        """Compute the free amounts of some resources on a node again; do nothing if the node is unknown.

        :param name: name of the node.
        :param resources: the resources whose requested amounts may have changed.
        """
        row = self._rows.get(name)
        if row is None:
            return
        self.change_count += 1
        self._changed_rows.append(row)
        node = self.get_by_row(row)
        for floor, columns in self._free.items():
            for resource in columns.keys() & set(resources):
                columns[resource][row] = self._compute_free(resource, node, floor=floor)

    def find_changed_rows(self, since: int) -> frozenset[int] | None:
        """Return the rows that :meth:`reserve` or :meth:`recount` changed since an earlier moment.

        The result is None if the table no longer remembers all these changes (:data:`_MAX_CHANGES`).

        :param since: value of :attr:`change_count` at the earlier moment.
        """
        changes = self.change_count - since
        if changes > len(self._changed_rows):
            return None
        return frozenset(islice(reversed(self._changed_rows), changes))

    def get_free_column(self, resource: str, floor: int | None = None) -> list[int]:
        """Return each row's free amount of a resource; negative if requests exceed the allocatable amount.

        :param floor: a priority; the amounts of pods with a lower priority count as free.
        """
        # Move ``floor`` to the end of the dict, because ``_drop_oldest`` drops the first keys.
        columns = self._free.pop(floor, {})
        self._free[floor] = columns
        _drop_oldest(self._free, _MAX_FLOORS)
        return self._get_column(columns, resource, amount=partial(self._compute_free, resource, floor=floor))

    def list_free(self, nodes: Iterable[Node], resource: str, *, floor: int | None = None) -> list[int]:
        """Return the free amount of a resource on each of the given nodes, which must be in the table.

        :param floor: a priority; the amounts of pods with a lower priority count as free.
        """
        column = self.get_free_column(resource, floor)
        return [column[self._rows[node.name]] for node in nodes]

    def get_allocatable_column(self, resource: str) -> list[int]:
        """Return each row's allocatable amount of a resource."""
        return self._get_column(self._allocatable, resource, amount=lambda node: node.allocatable.get(resource, 0))

    def group_nodes(self, grouping: NodeGrouping) -> list[EquivalentNodes]:
        """Return all nodes, in the groups that the rule ``grouping`` forms."""
        groups = self._groups.pop(grouping, None)
        if groups is None:
            groups = {}
            for row, node in enumerate(self._nodes):
                if node is not None:
                    _add_row(groups, row, node=node, key=grouping.build_key(node))
        # Move ``grouping`` to the end of the dict, because ``_drop_oldest`` drops the first keys.
        self._groups[grouping] = groups
        _drop_oldest(self._groups, _MAX_GROUPINGS)
        return list(groups.values())

    def _compute_free(self, resource: str, node: Node, *, floor: int | None) -> int:
        return node.allocatable.get(resource, 0) - self._requested(node.name, resource, floor=floor)

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
            for columns in (*self._free.values(), self._allocatable):
                for column in columns.values():
                    column.append(0)
        self._rows[name] = row
        return row


def _add_row(groups: _NodesByKey, row: int, *, node: Node, key: tuple[object, ...]) -> None:
    group = groups.get(key)
    if group is None:
        group = groups[key] = EquivalentNodes(node)
    group.add(row, node)


def _remove_row(groups: _NodesByKey, row: int, *, key: tuple[object, ...]) -> None:
    group = groups[key]
    group.discard(row)
    if not group:
        del groups[key]


def _drop_oldest(entries: dict[_K, _T], max_entries: int) -> None:
    while len(entries) > max_entries:
        entries.pop(next(iter(entries)))
