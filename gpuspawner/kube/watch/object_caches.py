"""Where watched objects go: each is projected to what matters of it, put into the occupancy, and forgotten."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from typing_extensions import override

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Occupancy

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace (empty for nodes) and name."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class ObjectCache(Protocol[_T]):
    """Takes the objects of one resource."""

    def decode(self, raw: object) -> _T | None:
        """Return what matters of an object, None for what has to be left out; a strange one may cause any error."""

    def put(self, value: _T) -> None:
        """Keep this, in the place of what has the same key."""

    def drop(self, key: ObjectKey) -> None:
        """Forget an object."""

    def list_values(self) -> Sequence[_T]:
        """Return everything that is kept."""

    def make_key(self, value: _T) -> ObjectKey:
        """Return the key of something that is kept."""


class NodeCache(ObjectCache[Node]):
    """Puts nodes into an occupancy."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy

    @override
    def decode(self, raw: object) -> Node | None:
        return decode.decode_node(raw)

    @override
    def put(self, value: Node) -> None:
        self._occupancy.put_node(value)

    @override
    def drop(self, key: ObjectKey) -> None:
        self._occupancy.remove_node(key[1])

    @override
    def list_values(self) -> Sequence[Node]:
        return self._occupancy.nodes

    @override
    def make_key(self, value: Node) -> ObjectKey:
        return ("", value.name)


class PodCache(ObjectCache[Pod]):
    """Puts pods that are not finished into an occupancy."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy

    @override
    def decode(self, raw: object) -> Pod | None:
        return decode.decode_pod(raw)

    @override
    def put(self, value: Pod) -> None:
        self._occupancy.put_pod(value)

    @override
    def drop(self, key: ObjectKey) -> None:
        self._occupancy.remove_pod(*key)

    @override
    def list_values(self) -> Sequence[Pod]:
        return list(self._occupancy.iter_pods())

    @override
    def make_key(self, value: Pod) -> ObjectKey:
        return (value.namespace, value.name)


def decode_object(raw: object, cache: ObjectCache[_T]) -> tuple[ObjectKey, _T | None] | None:
    """Return an object's key and what matters of it; None for what has no name and so cannot be told from others."""
    key = find_object_key(raw)
    if key is None:
        return None
    try:
        return key, cache.decode(raw)
    except Exception:  # noqa: BLE001  # one broken object of somebody's must not take the counts away from everybody
        _log.debug("Capacity: %s is left out, it cannot be read", "/".join(filter(None, key)), exc_info=True)
        return key, None


def find_object_key(raw: object) -> ObjectKey | None:
    """Return an object's key, None for what has no name."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    if not isinstance(metadata, Mapping):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return None
    return (namespace if isinstance(namespace, str) else "", name)
