"""Nodes in kinds that offer the same GPUs in the same way: thousands of nodes are of a few dozen kinds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpuspawner.core.catalog.node_gpus import is_gpu_label
from gpuspawner.core.cluster.model import Node

NodeKind = tuple[Node, ...]


def group_nodes_by_kind(nodes: Iterable[Node], *, labels: Collection[str] = ()) -> tuple[NodeKind, ...]:
    """Return nodes in groups with the same extended resources, taints and GPU labels, in the order they first appear.

    :param labels: labels whose values tell kinds apart besides.
    """
    every = tuple(nodes)
    present = {key for node in every for key in node.labels}
    telling = sorted(key for key in present if key in labels or is_gpu_label(key))
    found: dict[tuple[object, ...], list[Node]] = {}
    for node in every:
        amounts = (
            _select_extended_resources(node.capacity),
            _select_extended_resources(node.allocatable),
            node.uncounted,
        )
        found.setdefault((node.taints, amounts, *map(node.labels.get, telling)), []).append(node)
    return tuple(tuple(group) for group in found.values())


def _select_extended_resources(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the extended resources among amounts: their names have a domain."""
    return tuple((name, number) for name, number in amounts.items() if "/" in name)
