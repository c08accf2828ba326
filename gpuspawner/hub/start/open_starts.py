"""Follows the starts of one spawner until they have ended and JupyterHub has stopped what they left.

JupyterHub may begin the next start of a server while an earlier start still ends. Each start has requests of its own,
and must not send a pod once it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import ref

_PAUSE_S = 1.0
"""Seconds until a task that goes on after its cancellation is cancelled again."""


@dataclass(slots=True, eq=False)
class _Start:
    """One start.

    :param starting: KubeSpawner's part; None until it has begun.
    :param future: the whole start, which JupyterHub waits for and cancels; None until it has begun.
    :param is_closed: whether JupyterHub has stopped the server since.
    """

    starting: asyncio.Future[Any] | None = None
    future: asyncio.Task[Any] | None = None
    is_closed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the start was cancelled or has ended, although a part of it may still run."""
        return self.future is not None and (self.future.done() or self.future.cancelling() > 0)

    @property
    def has_succeeded(self) -> bool:
        future = self.future
        return future is not None and future.done() and not future.cancelled() and future.exception() is None

    def list_running(self) -> list[asyncio.Future[Any]]:
        return [task for task in (self.future, self.starting) if task is not None and not task.done()]


_current_start: ContextVar[_Start | None] = ContextVar("gpuspawner_current_start", default=None)


def raise_if_over() -> None:
    """End the current task if it belongs to a start that was cancelled or has ended.

    A cancelled start may go on (see :func:`gpuspawner.hub.request.context.raise_if_cancelled`, which looks at the
    current task itself). Call this function before a request that creates something.

    :raises CancelledError: the start is over.
    """
    start = _current_start.get()
    if start is not None and start.is_over:
        raise asyncio.CancelledError


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have ended, even if the caller is cancelled meanwhile.

    A task may ignore a cancellation (see :func:`raise_if_over`), so the function cancels it repeatedly.

    :param tasks: tasks that have begun; they may have ended.
    :raises CancelledError: the caller was cancelled while it waited; the tasks have ended all the same.
    """
    is_cancelled = False
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=_PAUSE_S)
        except asyncio.CancelledError:
            is_cancelled = True
    await asyncio.gather(*tasks, return_exceptions=True)
    if is_cancelled:
        raise asyncio.CancelledError


class OpenStarts:
    """The starts of one spawner that run, or that were cancelled or have failed and may have left a pod.

    A start is open from its beginning until it succeeds, or until JupyterHub has stopped the server.
    """

    def __init__(self) -> None:
        self._starts: list[_Start] = []
        self._request: ref[asyncio.Task[Any]] | None = None

    def follow(
        self,
        begin: Callable[[], Awaitable[Any]],
        supervise: Callable[[asyncio.Future[Any]], Coroutine[Any, Any, Any]],
    ) -> asyncio.Task[Any]:
        """Begin a start, and return its future."""
        start = _Start()
        token = _current_start.set(start)
        try:
            start.starting = starting = asyncio.ensure_future(begin())
            start.future = future = asyncio.create_task(supervise(starting))
        finally:
            _current_start.reset(token)
        self._starts.append(start)
        # If `future` is cancelled before its task has begun, the task cannot cancel KubeSpawner's start itself.
        future.add_done_callback(lambda _: starting.cancel())
        future.add_done_callback(lambda _: self._drop_closed())
        return future

    def _drop_closed(self) -> None:
        self._starts = [
            start for start in self._starts if start.list_running() or not (start.is_closed or start.has_succeeded)
        ]

    @property
    def have_earlier(self) -> bool:
        """Whether starts before the current one run, or need a stop."""
        current = _current_start.get()
        return any(start is not current for start in self._starts)

    @property
    def need_stop(self) -> bool:
        """Whether a start was cancelled or has failed, and JupyterHub has not stopped the server since."""
        return any(start.is_over and not start.is_closed and not start.has_succeeded for start in self._starts)

    async def end(self) -> None:
        """Cancel all starts and wait until they have ended."""
        current = asyncio.current_task()
        running = [task for start in self._starts for task in start.list_running() if task is not current]
        await end_tasks(*running)

    async def end_earlier(self) -> None:
        """Cancel all starts that are over but still run, and wait until they have ended; not the current start."""
        current = _current_start.get()
        running = [task for start in self._starts if start is not current for task in start.list_running()]
        await end_tasks(*running)

    def close_earlier(self) -> None:
        """Forget all starts but the current: nothing is left of them."""
        current = _current_start.get()
        for start in self._starts:
            start.is_closed = start is not current
        self._drop_closed()

    # -- the request that stops the server -----------------------------------------------------------------------------

    def note_request(self) -> None:
        """Remember the current task as the last that has seen a start in progress.

        A request of JupyterHub that cancels a start looks at the spawner immediately before, so it is this task.
        """
        with suppress(RuntimeError):  # no event loop runs
            task = asyncio.current_task()
            self._request = None if task is None else ref(task)

    @property
    def is_stop_ahead(self) -> bool:
        """Whether another request has cancelled the start, and will stop the server."""
        request = self._find_request()
        if request is None or request.done():
            return False
        with suppress(RuntimeError):
            return request is not asyncio.current_task()
        return True

    @property
    def has_lost_stop(self) -> bool:
        """Whether the request that has cancelled the start has ended, without having stopped the server."""
        request = self._find_request()
        return self._request is not None and (request is None or request.done())

    def _find_request(self) -> asyncio.Task[Any] | None:
        return None if self._request is None else self._request()
