"""What a watch sends, taken in by the handful: of an object that changed several times, only the last state is read.

A pod changes about five times while it starts, and each state has ten kilobytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuspawner.kube.client.managed_fields import without_managers
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.targets import Key, Target, key_of, read

_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_CHANGE = re.compile(
    rb'\{"type":"(?P<kind>ADDED|MODIFIED|DELETED)","object":\{"kind":"\w+","apiVersion":"v1","metadata":\{'
    rb'"name":"(?P<name>[-.a-z0-9]+)"(?:,"generateName":"[-.a-z0-9]*")?(?:,"namespace":"(?P<namespace>[-a-z0-9]+)")?'
    rb',"uid":"[-\w]+","resourceVersion":"(?P<version>\d+)"'
)
"""How the API server begins an event. One that begins in another way is read to find the same, and once more later."""


MOST_BYTES = 512 * 1024
"""Of events that may wait while nobody asks: about fifty pods, which are read in a few milliseconds."""


class RelistError(Exception):
    """The watch cannot be taken up again where it ended: what is in memory has to be compared with a new list."""


class Changes:
    """Events that wait to be read, and how far the target has come.

    :ivar version: ``resourceVersion`` up to which everything is in the target; empty when that is not known.
    """

    def __init__(self, target: Target[Any]) -> None:
        self.version = ""
        self._target = target
        self._last: dict[Key, tuple[str, bytes]] = {}
        """The last event of each object, with its version, in the order they came in; empty for one that is gone."""
        self._bytes = 0
        self._bookmark = ""

    @property
    def are_none(self) -> bool:
        """Tell whether nothing waits."""
        return not self._last

    @property
    def are_many(self) -> bool:
        """Tell whether no more should wait."""
        return self._bytes >= MOST_BYTES

    def begin(self, version: str) -> None:
        """Forget what waits, and go on from a version."""
        self.version = version
        self._last.clear()
        self._bytes = 0
        self._bookmark = ""

    def take(self, line: bytes) -> bool:
        """Take note of one line of a watch; tell whether it is a bookmark.

        :raises RelistError: the API server ended the watch for good, or what it sends is no watch.
        """
        if match := _CHANGE.match(line):
            known = ((match["namespace"] or b"").decode(), match["name"].decode())
            self._note(known, b"" if match["kind"] == b"DELETED" else line, version=match["version"].decode())
            return False
        event = _event(line)
        kind = event.get("type")
        if kind == "ERROR":
            # 410 Gone mostly: the version is too old. What the others mean for the next watch, nobody says.
            raise RelistError("the API server ended the watch with an error")
        if kind == "BOOKMARK":
            self._bookmark = _version(event) or self._bookmark
            return True
        # Something new stays without effect, and the version where it is.
        if kind in _CHANGES and (key := key_of(event.get("object"))):
            self._note(key, b"" if kind == "DELETED" else line, version=_version(event))
        return False

    async def apply(self, pacer: Pacer) -> None:
        """Bring the target to the last state of everything that changed.

        :raises RelistError: what the API server sends is no watch.
        """
        for key, (version, line) in self._last.items():
            self._put(key, line)
            self.version = version or self.version
            await pacer.turn()
        self.begin(self._bookmark or self.version)

    def _note(self, key: Key, line: bytes, *, version: str) -> None:
        _, before = self._last.pop(key, ("", b""))
        self._bytes += len(line) - len(before)
        self._last[key] = (version, line)
        # A bookmark counts only behind all changes; which of two versions is the later one cannot be told from them.
        self._bookmark = ""

    def _put(self, key: Key, line: bytes) -> None:
        found = read(_event(line).get("object"), self._target) if line else None
        if found is None or found[1] is None:
            self._target.drop(key)
        else:
            self._target.put(found[1])


def _event(line: bytes) -> Mapping[str, object]:
    try:
        event = json.loads(without_managers(line))
    except (ValueError, RecursionError) as error:
        raise RelistError("an event is no JSON") from error
    return event if isinstance(event, dict) else {}


def _version(event: Mapping[str, object]) -> str:
    raw = event.get("object")
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""
