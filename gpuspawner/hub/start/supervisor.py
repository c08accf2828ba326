"""Ends a start of which nothing will come, with the reason, instead of when its time is up.

KubeSpawner waits for a pod until JupyterHub's timer ends the start, whatever becomes of the pod. Here somebody looks at
it meanwhile, whether or not a page is open, until the program in it listens. What only waits for room ends just before
that timer does: JupyterHub would count it among the failures that end the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any

from gpuspawner.core.progress.model import Stage, StartFailure
from gpuspawner.core.progress.tracker import Tracker
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.core.units.duration import format_duration
from gpuspawner.hub.errors import RefusedStart, SlowStartError
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.metrics import starts
from gpuspawner.hub.start.alternatives import add_alternatives
from gpuspawner.hub.start.observer import StartObserver
from gpuspawner.hub.start.state import StartingSpawner
from gpuspawner.hub.start.stream import ProgressFeed, wait_until_listening

_PAUSE_S = 1.0
_EARLY_END_S = 2.0
_EARLY_END_SHARE = 0.2
"""A start is ended so much before JupyterHub does it, in seconds or as a part of its timeout, whichever is less."""
_ALTERNATIVES_SHARE = 0.3
"""Part of that time that may go by before other choices are looked for."""
_ALTERNATIVES_S = 10.0
"""Seconds that may go by where nothing will come of a start, and nobody else ends it."""


async def supervise_start(spawner: StartingSpawner, start: Awaitable[Any], *, feed: ProgressFeed) -> Any:
    """Wait for a start and return what it returns, unless nothing will come of it.

    :param start: KubeSpawner's; cancelled where this ends it.
    :param feed: has begun when JupyterHub's timer did.
    :raises RefusedStart: nothing will come of it, or it waited for room until its time was up.
    :raises SlowStartError: its time is up, and it waited for something else.
    """
    follower = _Supervisor(spawner, feed)
    starting = asyncio.ensure_future(start)
    ending = asyncio.create_task(follower.watch_until_end())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # The hub was too busy to end it in time, so that JupyterHub's timer came first.
        if follower.is_late:
            raise (follower.make_no_room_error() or follower.make_slow_start_error()) from None
        raise
    else:
        # Of two that are done at once, because the hub is busy, a start that succeeds counts.
        if ending.done() and (not starting.done() or starting.exception() is not None):
            raise ending.result()
        # KubeSpawner has a timer of its own, which goes off up to a tenth earlier or later than JupyterHub's.
        timeout = starting.exception()
        if isinstance(timeout, TimeoutError) and (refused := follower.make_no_room_error()) is not None:
            raise refused from timeout
        found = starting.result()
        await _cancel_all(ending)
        if (early := await follower.watch_until_listening(found)) is not None:
            raise early
        return found
    finally:
        try:
            await _cancel_all(starting, ending)
        finally:
            feed.close()


async def _cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """End tasks and wait until they are over.

    One that waits with ``asyncio.wait_for``, as KubeSpawner does for each of its requests, forgets before Python 3.12
    that it was cancelled where the answer comes in the same moment. So it is told again.
    """
    left: set[asyncio.Future[Any]] = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_PAUSE_S)
    await asyncio.gather(*tasks, return_exceptions=True)


class _Supervisor:
    """Looks at a start again and again, and tells what is new."""

    def __init__(self, spawner: StartingSpawner, feed: ProgressFeed) -> None:
        self._spawner = spawner
        self._feed = feed
        self._observer = StartObserver(spawner, feed)
        self._progress = Tracker()
        self._logged: set[type[Exception]] = set()
        self._timeout_s = float(spawner.start_timeout)
        self._early_s = min(_EARLY_END_S, _EARLY_END_SHARE * self._timeout_s)

    @property
    def is_late(self) -> bool:
        """The time has come when this would have ended the start: whoever cuts it off now is JupyterHub's timer.

        That timer was set before this began to count, so on a busy hub it goes off when less than all of it has passed.
        """
        return self._left_s() <= 0

    async def watch_until_end(self) -> Exception:
        """Look until the start has to end, and return why."""
        while (left_s := self._left_s()) > 0:
            hopeless = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    hopeless = await self.observe()
            if hopeless is not None:
                return await self._refuse(hopeless)
            await asyncio.sleep(min(_PAUSE_S, left_s))
        no_room = self.make_no_room_error()
        if no_room is None:
            return self.make_slow_start_error()
        return await add_alternatives(
            no_room, self._spawner, patience_s=_ALTERNATIVES_SHARE * self._early_s + self._left_s()
        )

    async def watch_until_listening(self, address: object) -> Exception | None:
        """Look on until the program of a pod that runs listens; return why it never will, None once it does.

        :param address: what KubeSpawner's start returned.
        """
        timeout_s = min(float(self._spawner.http_timeout), self._left_s())
        answer = asyncio.create_task(wait_until_listening(address, timeout_s=timeout_s))
        try:
            while True:
                hopeless = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_S):
                        hopeless = await self.observe(even_if_unchanged=True)
                if hopeless is not None:
                    return await self._refuse(hopeless)
                if answer.done():
                    return None
                await asyncio.wait([answer], timeout=_PAUSE_S)
        finally:
            await _cancel_all(answer)

    async def _refuse(self, hopeless: StartFailure) -> Exception:
        refused = RefusedStart(hopeless.sentence, reason=hopeless.code, status_code=HTTPStatus.CONFLICT)
        return await add_alternatives(refused, self._spawner, patience_s=min(_ALTERNATIVES_S, self._left_s()))

    async def observe(self, *, even_if_unchanged: bool = False) -> StartFailure | None:
        """Look once, and return why nothing will come of it where that is so.

        :param even_if_unchanged: also when nothing has changed.
        """
        try:
            facts = await self._observer.observe(even_if_unchanged=even_if_unchanged)
            # KubeSpawner removes the pod itself where it cannot do what comes after it, and says why.
            if facts is None or self._spawner.start_state.is_removing:
                return None
            if facts.pod is not None:
                starts.note_pod(self._spawner, facts.pod)
            reports = self._progress.observe(facts)
        except Exception as error:  # whatever it is, the start itself may well succeed
            if type(error) not in self._logged:
                self._logged.add(type(error))
                self._spawner.log.exception(
                    "Cannot tell how the start of %s gets on", private_api.get_log_name(self._spawner)
                )
            return None
        self._feed.publish(reports, percent=self._progress.percent)
        for report in reports:
            starts.enter_stage(self._spawner, report.stage)
        return next((report.failure for report in reports if report.failure is not None), None)

    def make_no_room_error(self) -> RefusedStart | None:
        """Return that there was no room until now; None where that is not what is waited for."""
        last, gpu, waited = self._feed.last, self._feed.gpu, _format_wait(self._timeout_s)
        if last is None or not last.lacks_room:
            return None
        match last.stage:
            case Stage.QUEUED:
                told = gettext(
                    "Your server was still in the queue after {duration}, so it was stopped.", duration=waited
                )
            case Stage.SCALING:
                told = gettext("No new node was ready after {duration}, so your server was stopped.", duration=waited)
            case Stage.WAITING if gpu is not None:
                told = gettext(
                    "There was no room for your server with {gpu} within {duration}, so it was stopped.",
                    gpu=gpu.display_name,
                    duration=waited,
                )
            case Stage.WAITING:
                told = gettext(
                    "There was no room for your server within {duration}, so it was stopped.", duration=waited
                )
            case _:
                return None
        reason = "no_capacity" if gpu is None else "gpu_unavailable"
        return RefusedStart(told, reason=reason, status_code=HTTPStatus.SERVICE_UNAVAILABLE)

    def make_slow_start_error(self) -> SlowStartError:
        """Return that the time is up."""
        last = self._feed.last
        told = gettext(
            "Your server was not ready after {duration}, so it was stopped.", duration=_format_wait(self._timeout_s)
        )
        seen = gettext("Last seen: {sentence}", sentence=last.sentence) if last else ""
        return SlowStartError(join_sentences(told, seen))

    def _left_s(self) -> float:
        """Return the seconds until the start has to end, below 0 after that."""
        return self._timeout_s - self._early_s - self._feed.elapsed_s


def _format_wait(timeout_s: float) -> str:
    """Return how long a start was waited for, in words."""
    seconds = round(timeout_s)
    if seconds < 120 or seconds % 60:  # noqa: PLR2004 - two minutes
        return ngettext("{number} second", "{number} seconds", number=seconds)
    return format_duration(seconds)
