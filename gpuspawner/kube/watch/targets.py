"""Where watched objects go: each is projected to what matters of it, put into the occupancy, and forgotten."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from typing_extensions import override

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.occupancy import Occupancy

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for nodes) and name."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Target(Protocol[T]):
    """Takes the objects of one resource."""

    def read(self, raw: object) -> T | None:
        """Return what matters of an object, None for what has to be left out; a strange one may cause any error."""

    def put(self, value: T) -> None:
        """Keep this, in the place of what has the same key."""

    def drop(self, key: Key) -> None:
        """Forget an object."""

    def held(self) -> Sequence[T]:
        """Return everything that is kept."""

    def key(self, value: T) -> Key:
        """Return the key of something that is kept."""


class NodeTarget(Target[Node]):
    """Puts nodes into an occupancy."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy

    @override
    def read(self, raw: object) -> Node | None:
        return decode.node(raw)

    @override
    def put(self, value: Node) -> None:
        self._occupancy.put_node(value)

    @override
    def drop(self, key: Key) -> None:
        self._occupancy.drop_node(key[1])

    @override
    def held(self) -> Sequence[Node]:
        return self._occupancy.nodes

    @override
    def key(self, value: Node) -> Key:
        return ("", value.name)


class PodTarget(Target[Pod]):
    """Puts pods that are not finished into an occupancy."""

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy

    @override
    def read(self, raw: object) -> Pod | None:
        return decode.pod(raw)

    @override
    def put(self, value: Pod) -> None:
        self._occupancy.put_pod(value)

    @override
    def drop(self, key: Key) -> None:
        self._occupancy.drop_pod(*key)

    @override
    def held(self) -> Sequence[Pod]:
        return list(self._occupancy.pods())

    @override
    def key(self, value: Pod) -> Key:
        return (value.namespace, value.name)


def read(raw: object, target: Target[T]) -> tuple[Key, T | None] | None:
    """Return an object's key and what matters of it; None for what has no name and so cannot be told from others."""
    key = key_of(raw)
    if key is None:
        return None
    try:
        return key, target.read(raw)
    except Exception:  # noqa: BLE001  # one broken object of somebody's must not take the counts away from everybody
        _log.debug("Capacity: %s is left out, it cannot be read", "/".join(filter(None, key)), exc_info=True)
        return key, None


def key_of(raw: object) -> Key | None:
    """Return an object's key, None for what has no name."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    if not isinstance(metadata, Mapping):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return None
    return (namespace if isinstance(namespace, str) else "", name)
