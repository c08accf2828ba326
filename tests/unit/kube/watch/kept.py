"""A cache of a watch that keeps one value of each object."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuspawner.kube.watch.object_caches import ObjectKey, find_object_key, make_key


class Value(NamedTuple):
    """What is kept of an object."""

    namespace: str
    name: str
    value: Any


class Kept:
    """A target that keeps a value by each object's key, of pods that run their node, and counts its changes."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, Value] = {}
        self.changes = 0

    def decode(self, raw: Any) -> Value | None:
        key = find_object_key(raw)
        assert key is not None
        return None if raw["status"]["phase"] == "Failed" else Value(*key, raw["spec"]["nodeName"])

    def put(self, value: Value) -> None:
        self.changes += 1
        self.objects[make_key(value)] = value

    def drop(self, key: ObjectKey) -> None:
        self.changes += 1
        self.objects.pop(key, None)

    def list_values(self) -> list[Value]:
        return list(self.objects.values())

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.objects)
