"""Tell what is being set up: calmly, one line when something ends, one that says what is still running."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TextIO

TERMINAL_REFRESH_S = 1.0
PLAIN_REFRESH_S = 30.0
MAX_COLUMNS = 110


class Progress:
    """Where a set-up stands, on a terminal (one line that changes) or in a log (a line now and then).

    :param stream: where it is written to.
    :param running: says what runs right now, as step name → latest line of its output.
    """

    def __init__(self, stream: TextIO, running: Callable[[], Mapping[str, str]]) -> None:
        self._stream = stream
        self._running = running
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb" and os.environ.get("CI") != "true"
        self._thread = threading.Thread(target=self._refresh, name="progress", daemon=True)

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._started

    def start(self) -> None:
        """Begin to say what is running."""
        self._thread.start()

    def stop(self) -> None:
        """Say no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._erase()

    def line(self, text: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._erase()
            print(text, file=self._stream, flush=True)

    def _refresh(self) -> None:
        while not self._ended.wait(TERMINAL_REFRESH_S if self._live else PLAIN_REFRESH_S):
            running = self._running()
            text = _status(self.elapsed_s, running, columns=self._columns() if self._live else 2 * MAX_COLUMNS)
            with self._lock:
                if self._live:
                    self._stream.write("\r\x1b[K" + text)
                    self._stream.flush()
                elif running:
                    print(text, file=self._stream, flush=True)

    def _erase(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _columns(self) -> int:
        try:
            return min(MAX_COLUMNS, os.get_terminal_size(self._stream.fileno()).columns - 1)
        except OSError:
            return MAX_COLUMNS


def clock(seconds: float) -> str:
    """Write a duration as a clock does: 0:07, 12:34."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def for_standard_error(running: Callable[[], Mapping[str, str]]) -> Progress:
    """Progress on standard error, so that a command's own output stays clean."""
    return Progress(sys.stderr, running)


def _status(elapsed_s: float, running: Mapping[str, str], *, columns: int) -> str:
    """Give every running step the same room; the end of a line is cut, its beginning says more."""
    room = (columns - 10) // max(1, len(running)) - 2
    parts = [_shorten(f"{name}: {latest}", room) for name, latest in running.items()]
    return f"  {clock(elapsed_s):>6}  {'; '.join(parts)}"


def _shorten(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."
