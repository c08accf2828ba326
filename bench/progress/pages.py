"""Progress pages that stay open: a browser's page keeps one stream of events open, and so does this.

In a process of its own, so that what reads them is not measured, and does not take turns with what measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit

from devcluster import DevclusterError
from devcluster.namespaces import die_with_parent
from devcluster.processes import poll

OPEN_TIMEOUT_S = 120
STOP_TIMEOUT_S = 15
OPENED_AT_ONCE = 20
EVENT = b"data: "

_spawning = multiprocessing.get_context("spawn")


class Pages:
    """Open pages of servers that start; inside the block they stay open.

    :param url: address of the hub, without a slash at the end.
    :param users: whose default server each page is about; a name may come several times.
    """

    def __init__(self, url: str, *, token: str, users: Sequence[str]) -> None:
        self._pages = len(users)
        self._opened = _spawning.Value("L", 0)
        self._events = _spawning.Value("L", 0)
        self._ended = _spawning.Value("L", 0)
        self._is_over = _spawning.Event()
        arguments = (url, token, tuple(users), (self._opened, self._events, self._ended), self._is_over)
        self._process = _spawning.Process(target=_keep_open, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        """Open all pages, and return when each has shown something."""
        self._process.start()
        if not poll(lambda: self._opened.value == self._pages, timeout_s=OPEN_TIMEOUT_S):
            self.__exit__()
            raise DevclusterError(f"only {self._opened.value} of {self._pages} progress pages show something")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._process.join(STOP_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    @property
    def events(self) -> int:
        """How many events all pages have received so far."""
        return int(self._events.value)

    def check(self) -> None:
        """Raise DevclusterError where a page is not open any more."""
        if self._ended.value or not self._process.is_alive():
            raise DevclusterError(f"{self._ended.value} of {self._pages} progress pages did not stay open")


def _keep_open(url: str, token: str, users: Sequence[str], counts: tuple[Any, Any, Any], is_over: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the program that started this, which ends it
    die_with_parent(signal.SIGKILL)
    asyncio.run(_all_pages(url, token, users=users, counts=counts, is_over=is_over))


async def _all_pages(url: str, token: str, *, users: Sequence[str], counts: tuple[Any, Any, Any], is_over: Any) -> None:
    turn = asyncio.Semaphore(OPENED_AT_ONCE)
    pages = [asyncio.create_task(_page(url, token, user=user, turn=turn, counts=counts)) for user in users]
    await asyncio.to_thread(is_over.wait)
    for page in pages:
        page.cancel()
    await asyncio.gather(*pages, return_exceptions=True)


async def _page(url: str, token: str, *, user: str, turn: asyncio.Semaphore, counts: tuple[Any, Any, Any]) -> None:
    opened, events, ended = counts
    address = urlsplit(url)
    try:
        async with turn:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            request = f"GET /hub/api/users/{user}/server/progress HTTP/1.1"
            headers = (f"Host: {address.netloc}", f"Authorization: token {token}", "Accept: text/event-stream")
            writer.write("\r\n".join((request, *headers, "", "")).encode())
            await _next_event(reader)
            opened.value += 1
        with contextlib.closing(writer):
            while True:
                await _next_event(reader)
                events.value += 1
    except (OSError, EOFError):
        ended.value += 1


async def _next_event(reader: asyncio.StreamReader) -> None:
    """Read on until the line of an event; an answer of another kind has none, and ends."""
    while not (line := await reader.readline()).startswith(EVENT):
        if not line:
            raise EOFError
