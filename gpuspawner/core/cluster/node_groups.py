"""Keep nodes in groups, so that a check of a pod compares labels and taints once per group of equivalent nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpuspawner.core.cluster.model import Node

_MAX_GROUPINGS = 32
"""Maximum number of :class:`NodeGrouping` objects for which the groups of nodes are kept."""

EquivalentNodes: TypeAlias = Mapping[str, Node]
"""Name → node; at least one node. A :class:`NodeGrouping` treats these nodes as equivalent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGrouping:
    """A rule that groups nodes.

    All nodes of a group have the same taints, resources from DRA drivers and ``spec.unschedulable``. Nodes are not
    grouped by all their labels, because some labels are different on each node (``nvidia.com/gfd.timestamp``).

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


class NodeGroups:
    """All nodes by name, and in groups by the rules that callers asked for last."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._groups: dict[NodeGrouping, dict[tuple[object, ...], dict[str, Node]]] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, name: str) -> Node | None:
        """Return a node by name, or None if it is unknown."""
        return self._nodes.get(name)

    def put(self, node: Node) -> None:
        """Add or update a node."""
        previous = self._nodes.get(node.name)
        self._nodes[node.name] = node
        for grouping, groups in self._groups.items():
            key = grouping.build_key(node)
            if previous is not None and (previous_key := grouping.build_key(previous)) != key:
                _remove(previous, groups, key=previous_key)
            groups.setdefault(key, {})[node.name] = node

    def remove(self, name: str) -> None:
        """Remove a node if it is known."""
        node = self._nodes.pop(name, None)
        if node is not None:
            for grouping, groups in self._groups.items():
                _remove(node, groups, key=grouping.build_key(node))

    def group_nodes(self, grouping: NodeGrouping) -> list[EquivalentNodes]:
        """Return all nodes, in the groups that the rule ``grouping`` forms; they change as nodes change."""
        groups = self._groups.pop(grouping, None)
        if groups is None:
            groups = {}
            for node in self:
                groups.setdefault(grouping.build_key(node), {})[node.name] = node
        # Move ``grouping`` to the end of the dict: its first key is the one that was not asked for the longest.
        self._groups[grouping] = groups
        if len(self._groups) > _MAX_GROUPINGS:
            del self._groups[next(iter(self._groups))]
        return list(groups.values())


def get_example(group: EquivalentNodes) -> Node:
    """Return one of the nodes of a group."""
    return next(iter(group.values()))


def _remove(node: Node, groups: dict[tuple[object, ...], dict[str, Node]], *, key: tuple[object, ...]) -> None:
    del groups[key][node.name]
    if not groups[key]:
        del groups[key]
