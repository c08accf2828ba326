"""Decodes watched objects to the few fields that gpuspawner uses, and stores them.

Nodes and pods are stored in an :class:`Occupancy`, which counts what each node has free. The objects of any other
resource are stored in a :class:`VersionedCache`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

from typing_extensions import override

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.kube.client.pacing import take_turns

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace and name of an object; the namespace of a cluster-wide object is empty."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class ObjectCache(Protocol[_T]):
    """Decodes and stores the objects of one resource."""

    def decode(self, raw: object) -> _T | None:
        """Return the decoded object, or None if the cache ignores it; a malformed object may raise any exception."""

    def put(self, value: _T) -> None:
        """Store a decoded object; it replaces the stored object with the same key."""

    def drop(self, key: ObjectKey) -> None:
        """Remove an object."""

    def list_values(self) -> Sequence[_T]:
        """Return all stored objects."""


class NodeCache(ObjectCache[Node]):
    """Stores the cluster's nodes in an :class:`Occupancy`, which counts what each node has free."""

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


class PodCache(ObjectCache[Pod]):
    """Stores the cluster's unfinished pods in an :class:`Occupancy`, which counts what each node has free."""

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


class VersionedCache(ObjectCache[_T]):
    """Stores the decoded objects of one resource other than nodes and pods, and counts the changes.

    :param read: decodes a JSON object of the resource.
    :param on_put: called with each object that is put; None for no call.
    :ivar version: number of times so far that an object was added, changed or removed.
    """

    def __init__(self, read: Callable[[object], _T], *, on_put: Callable[[_T], None] | None = None) -> None:
        self.version = 0
        self._read = read
        self._on_put = on_put
        self._values: dict[ObjectKey, _T] = {}

    @override
    def decode(self, raw: object) -> _T | None:
        return self._read(raw)

    @override
    def put(self, value: _T) -> None:
        key = make_key(value)
        if self._values.get(key) != value:
            self._values[key] = value
            self.version += 1
        if self._on_put is not None:
            self._on_put(value)

    @override
    def drop(self, key: ObjectKey) -> None:
        if self._values.pop(key, None) is not None:
            self.version += 1

    @override
    def list_values(self) -> Sequence[_T]:
        return tuple(self._values.values())


def make_key(value: Any) -> ObjectKey:
    """Return the key of a decoded object, which has a ``name`` and perhaps a ``namespace``."""
    return getattr(value, "namespace", ""), value.name


MAX_CHANGES_AT_ONCE = 500
"""Maximum number of changes that :func:`replace_objects` makes in one step; they take about 10 ms."""


async def replace_objects(cache: ObjectCache[_T], listed: dict[ObjectKey, _T]) -> None:
    """Drop the cache's objects that a new list does not contain, and put those that are new or have changed.

    No other code may change the cache meanwhile.

    :param listed: the complete list by key; the function removes what has not changed.
    """
    gone: list[ObjectKey] = []
    async for held in take_turns(cache.list_values()):
        key = make_key(held)
        if key not in listed:
            gone.append(key)
        elif listed[key] == held:
            del listed[key]
    changes = chain(
        (partial(cache.drop, key) for key in gone), (partial(cache.put, value) for value in listed.values())
    )
    for number, change in enumerate(changes, start=1):
        change()
        if number % MAX_CHANGES_AT_ONCE == 0:
            await asyncio.sleep(0)


def decode_object(raw: object, cache: ObjectCache[_T]) -> tuple[ObjectKey, _T | None] | None:
    """Return an object's key and its decoded form, or None if the object has no name.

    The decoded form is None if the cache ignores the object or cannot decode it.
    """
    key = find_object_key(raw)
    if key is None:
        return None
    try:
        return key, cache.decode(raw)
    except Exception:  # noqa: BLE001  # one malformed object must not make all counts unknown
        _log.debug("Capacity: %s is left out, it cannot be read", "/".join(filter(None, key)), exc_info=True)
        return key, None


def find_object_key(raw: object) -> ObjectKey | None:
    """Return the key of a JSON object, or None if it has no name."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    if not isinstance(metadata, Mapping):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return None
    return (namespace if isinstance(namespace, str) else "", name)
