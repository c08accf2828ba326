"""Discovered GPU types beside those that the admin describes: on the nodes that these leave over.

The pod's node selector decides where a server lands, so a discovered type says what its nodes have and the described
ones' nodes have not; where no label says so, it is not offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuspawner.core.catalog.catalogue import GPUType, UnitKind
from gpuspawner.core.catalog.stocks import may_have_units
from gpuspawner.core.cluster.model import Node

_MAX_VALUES = 32
"""Of a label, such as a node's own name, in the node affinity of every pod."""


def find_nodes_of_type(gpu: GPUType, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes that have GPUs of a type, or may have some."""
    return tuple(node for node in nodes if may_have_units(node, gpu.resource) and gpu.matches_labels(node.labels))


def subtract_described_types(found: GPUType, described: Iterable[GPUType], *, nodes: Sequence[Node]) -> GPUType | None:
    """Return a discovered type without the nodes of other types; itself where they have none in common.

    A type that asks for all that the discovered one does, and for more, counts as one that will have such nodes: where
    a label tells them apart, what is offered does not change when the first of them comes.

    :param nodes: one of each kind is enough.
    :return: None where no node is left, or where no one label tells all that are left from the others.
    """
    rivals = [gpu for gpu in described if gpu.resource == found.resource]
    own = find_nodes_of_type(found, nodes)
    left = tuple(node for node in own if not any(gpu.matches_labels(node.labels) for gpu in rivals))
    if not left:
        return None
    sharing = [gpu for gpu in rivals if any(gpu.matches_labels(node.labels) for node in own)]
    if sharing and not found.match:
        # Of its nodes no label tells anything: those of a model whose labels are still to come are among them.
        return None
    match = dict(found.match)
    for rival in rivals:
        if rival in sharing or _is_narrower_match(rival.match, found.match):
            apart = _find_distinguishing_label(rival.match, left, known=match)
            if apart is None and rival in sharing:
                return None
            match |= apart or {}
    if match == found.match and len(left) == len(own):
        return found
    most = 1 if found.unit is UnitKind.SHARED else max(1, *(node.allocatable.get(found.resource, 0) for node in left))
    return replace(found, match=match, max_count=most)


def _is_narrower_match(match: Mapping[str, tuple[str, ...]], whole: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell whether a match asks for each label of another, with a value that is allowed there."""
    common = all(not set(values).isdisjoint(match.get(key, ())) for key, values in whole.items() if values)
    return common and any(whole.values()) and not any(match.get(key) for key, values in whole.items() if not values)


def _find_distinguishing_label(
    match: Mapping[str, tuple[str, ...]], left: Iterable[Node], *, known: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]] | None:
    """Return a label and what it is on the nodes that are left, and on none that match; None where there is no such.

    A label that is asked for anyway comes first, then one that none of them has: it stays so when more nodes come.

    :param known: what is asked for anyway.
    """
    values = {key: {node.labels.get(key) for node in left} for key in match}
    usable = [
        (key not in known, len(texts), key, tuple(sorted(texts)))
        for key, found in values.items()
        if (texts := _list_other_values(found, match[key])) is not None and len(texts) <= _MAX_VALUES
    ]
    return {min(usable)[2]: min(usable)[3]} if usable else None


def _list_other_values(found: set[str | None], asked: tuple[str, ...]) -> set[str] | None:
    """Return the values of a label where none is asked for, empty where it is never there; None where that is mixed.

    :param found: values, None for a node without the label.
    :param asked: by the other type; empty: the label must not be there.
    """
    texts = {text for text in found if text is not None}
    if None in found:
        return None if texts or not asked else texts
    return texts if texts.isdisjoint(asked) else None
