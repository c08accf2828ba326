"""The messages about a user's server while it starts: the hub's own stream of progress, read to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from devcluster.hub import Hub
from devcluster.processes import poll


@dataclass
class Told:
    """Everything that one open page has received so far.

    :param events: as the hub sent them, each with ``at``, the seconds since the page was opened.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    is_over: bool = False

    @property
    def sentences(self) -> list[str]:
        return [str(event["message"]) for event in self.events if "message" in event]

    @property
    def bar(self) -> list[int]:
        return [int(event["progress"]) for event in self.events if "progress" in event]

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1] if self.events else {}

    def wait(self, text: str, *, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until a sentence with this text has come and return its event.

        :raises AssertionError: it did not, in time or before the end; the message ends with what did.
        """

        def look() -> bool:
            return self.is_over or self._find(text) is not None

        poll(look, timeout_s=timeout_s, interval_s=0.1)
        found = self._find(text)
        assert found is not None, f"nothing of {text!r}, but {self.sentences} {self.error}"
        return found

    def wait_over(self, *, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until there is no more to come and return the last event.

        :raises AssertionError: there was, or the page could not be read; the message ends with what came.
        """
        poll(lambda: self.is_over, timeout_s=timeout_s, interval_s=0.1)
        assert (self.is_over, self.error) == (True, ""), f"not over, but {self.sentences}"
        return self.last

    def _find(self, text: str) -> dict[str, Any] | None:
        return next((event for event in self.events if text in str(event.get("message", ""))), None)


@contextmanager
def listening(hub: Hub, user: str) -> Iterator[Told]:
    """Have a page open on the progress of a user's server; it stays open when the block ends before it does."""
    told, opened = Told(), time.monotonic()

    def listen() -> None:
        try:
            for event in hub.client.progress(user):
                told.events.append({**event, "at": round(time.monotonic() - opened, 1)})
        except OSError as error:
            told.error = str(error)
        told.is_over = True

    threading.Thread(target=listen, daemon=True).start()
    yield told
