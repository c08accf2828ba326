"""A cache of a watch that keeps one value of each object."""

from __future__ import annotations

from typing import Any

from gpuspawner.kube.watch.object_caches import ObjectKey, find_object_key


class Kept:
    """A target that keeps a value by each object's key, of pods that run their node, and counts its changes."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, tuple[ObjectKey, Any]] = {}
        self.changes = 0

    def decode(self, raw: Any) -> tuple[ObjectKey, Any] | None:
        key = find_object_key(raw)
        assert key is not None
        return None if raw["status"]["phase"] == "Failed" else (key, raw["spec"]["nodeName"])

    def put(self, value: tuple[ObjectKey, Any]) -> None:
        self.changes += 1
        self.objects[value[0]] = value

    def drop(self, key: ObjectKey) -> None:
        self.changes += 1
        self.objects.pop(key, None)

    def list_values(self) -> list[tuple[ObjectKey, Any]]:
        return list(self.objects.values())

    def make_key(self, value: tuple[ObjectKey, Any]) -> ObjectKey:
        return value[0]

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.objects)
