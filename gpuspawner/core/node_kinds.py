"""Nodes that are alike in all that a catalogue is made of: a few dozen kinds where there are thousands of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpuspawner.core.inventory import Node
from gpuspawner.core.node_gpus import is_gpu_label


def kinds(nodes: Iterable[Node], *, labels: Collection[str] = ()) -> tuple[Node, ...]:
    """Return the first node of each kind that has an extended resource, also one of which nothing works.

    Nodes of one kind have the same amounts of extended resources and the same GPU labels.

    :param labels: labels whose values matter besides (those that an admin's GPU types name).
    """
    found = [node for node in nodes if _extended(node.capacity) or _extended(node.allocatable)]
    present = {key for node in found for key in node.labels}
    telling = sorted(key for key in present if key in labels or is_gpu_label(key))
    first: dict[tuple[object, ...], Node] = {}
    for node in found:
        key = (_extended(node.capacity), _extended(node.allocatable), *map(node.labels.get, telling))
        first.setdefault(key, node)
    return tuple(first.values())


def _extended(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the extended resources among amounts: their names have a domain."""
    return tuple((name, number) for name, number in amounts.items() if "/" in name)
