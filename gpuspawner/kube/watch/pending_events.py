"""What a watch sends, taken in by the handful: of an object that changed several times, only the last state is read.

A pod changes about five times while it starts, and each state has ten kilobytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuspawner.kube.client.json_stream import strip_managed_fields
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.object_caches import ObjectCache, ObjectKey, decode_object, find_object_key

_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")
_EVENT_START = re.compile(
    rb'\{"type":"(?P<kind>ADDED|MODIFIED|DELETED)","object":\{"kind":"\w+","apiVersion":"v1","metadata":\{'
    rb'"name":"(?P<name>[-.a-z0-9]+)"(?:,"generateName":"[-.a-z0-9]*")?(?:,"namespace":"(?P<namespace>[-a-z0-9]+)")?'
    rb',"uid":"[-\w]+","resourceVersion":"(?P<version>\d+)"'
)
"""How the API server begins an event. One that begins in another way is read to find the same, and once more later."""


MAX_PENDING_BYTES = 512 * 1024
"""Of events that may wait while nobody asks: about fifty pods, which are read in a few milliseconds."""


class RelistError(Exception):
    """The watch cannot be taken up again where it ended: what is in memory has to be compared with a new list."""


class PendingEvents:
    """Events that wait to be read, and how far the target has come.

    :ivar version: ``resourceVersion`` up to which everything is in the target; empty when that is not known.
    """

    def __init__(self, cache: ObjectCache[Any]) -> None:
        self.version = ""
        self._cache = cache
        self._last: dict[ObjectKey, tuple[str, bytes]] = {}
        """The last event of each object, with its version, in the order they came in; empty for one that is gone."""
        self._bytes = 0
        self._bookmark = ""

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing waits."""
        return not self._last

    @property
    def is_full(self) -> bool:
        """Tell whether no more should wait."""
        return self._bytes >= MAX_PENDING_BYTES

    def reset(self, version: str) -> None:
        """Forget what waits, and go on from a version."""
        self.version = version
        self._last.clear()
        self._bytes = 0
        self._bookmark = ""

    def add_line(self, line: bytes) -> bool:
        """Take note of one line of a watch; tell whether it is a bookmark.

        :raises RelistError: the API server ended the watch for good, or what it sends is no watch.
        """
        if match := _EVENT_START.match(line):
            known = ((match["namespace"] or b"").decode(), match["name"].decode())
            self._note(known, b"" if match["kind"] == b"DELETED" else line, version=match["version"].decode())
            return False
        event = _parse_event(line)
        kind = event.get("type")
        if kind == "ERROR":
            # 410 Gone mostly: the version is too old. What the others mean for the next watch, nobody says.
            raise RelistError("the API server ended the watch with an error")
        if kind == "BOOKMARK":
            self._bookmark = _read_version(event) or self._bookmark
            return True
        # Something new stays without effect, and the version where it is.
        if kind in _EVENT_TYPES and (key := find_object_key(event.get("object"))):
            self._note(key, b"" if kind == "DELETED" else line, version=_read_version(event))
        return False

    async def apply(self, pacer: Pacer) -> None:
        """Bring the target to the last state of everything that changed.

        :raises RelistError: what the API server sends is no watch.
        """
        for key, (version, line) in self._last.items():
            self._apply_line(key, line)
            self.version = version or self.version
            await pacer.yield_if_due()
        self.reset(self._bookmark or self.version)

    def _note(self, key: ObjectKey, line: bytes, *, version: str) -> None:
        _, before = self._last.pop(key, ("", b""))
        self._bytes += len(line) - len(before)
        self._last[key] = (version, line)
        # A bookmark counts only behind all changes; which of two versions is the later one cannot be told from them.
        self._bookmark = ""

    def _apply_line(self, key: ObjectKey, line: bytes) -> None:
        found = decode_object(_parse_event(line).get("object"), self._cache) if line else None
        if found is None or found[1] is None:
            self._cache.drop(key)
        else:
            self._cache.put(found[1])


def _parse_event(line: bytes) -> Mapping[str, object]:
    try:
        event = json.loads(strip_managed_fields(line))
    except (ValueError, RecursionError) as error:
        raise RelistError("an event is no JSON") from error
    return event if isinstance(event, dict) else {}


def _read_version(event: Mapping[str, object]) -> str:
    raw = event.get("object")
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""
