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

from gpuspawner.core.progress.progress import Progress
from gpuspawner.core.progress.stages import Hopeless, Stage
from gpuspawner.core.text.language import gettext, ngettext
from gpuspawner.core.text.sentences import paragraph
from gpuspawner.core.units.duration import format_duration
from gpuspawner.hub.errors import RefusedStart, SlowStartError
from gpuspawner.hub.metrics import spawn_meter
from gpuspawner.hub.start.answering import listening
from gpuspawner.hub.start.following import Following
from gpuspawner.hub.start.instead import with_choices
from gpuspawner.hub.start.lookout import Lookout

_PAUSE_S = 1.0
_EARLY_S = 2.0
_EARLY_SHARE = 0.2
"""A start is ended so much before JupyterHub does it, in seconds or as a part of its timeout, whichever is less."""
_PATIENCE = 0.3
"""Part of that time that may go by before other choices are looked for."""
_PATIENCE_S = 10.0
"""Seconds that may go by where nothing will come of a start, and nobody else ends it."""


async def decided(spawner: Any, start: Awaitable[Any], *, following: Following) -> Any:
    """Wait for a start and return what it returns, unless nothing will come of it.

    :param start: KubeSpawner's; cancelled where this ends it.
    :param following: has begun when JupyterHub's timer did.
    :raises RefusedStart: nothing will come of it, or it waited for room until its time was up.
    :raises SlowStartError: its time is up, and it waited for something else.
    """
    follower = _Follower(spawner, following)
    starting = asyncio.ensure_future(start)
    ending = asyncio.create_task(follower.ending())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # The hub was too busy to end it in time, so that JupyterHub's timer came first.
        if follower.is_late:
            raise (follower.no_room() or follower.slow()) from None
        raise
    else:
        # Of two that are done at once, because the hub is busy, a start that succeeds counts.
        if ending.done() and (not starting.done() or starting.exception() is not None):
            raise ending.result()
        # KubeSpawner has a timer of its own, which goes off up to a tenth earlier or later than JupyterHub's.
        timeout = starting.exception()
        if isinstance(timeout, TimeoutError) and (refused := follower.no_room()) is not None:
            raise refused from timeout
        found = starting.result()
        await _cancelled(ending)
        if (early := await follower.ended_early(found)) is not None:
            raise early
        return found
    finally:
        try:
            await _cancelled(starting, ending)
        finally:
            following.end()


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
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


class _Follower:
    """Looks at a start again and again, and tells what is new."""

    def __init__(self, spawner: Any, following: Following) -> None:
        self._spawner = spawner
        self._following = following
        self._lookout = Lookout(spawner, following)
        self._progress = Progress()
        self._logged: set[type[Exception]] = set()
        self._timeout_s = float(spawner.start_timeout)
        self._early_s = min(_EARLY_S, _EARLY_SHARE * self._timeout_s)

    @property
    def is_late(self) -> bool:
        """The time has come when this would have ended the start: whoever cuts it off now is JupyterHub's timer.

        That timer was set before this began to count, so on a busy hub it goes off when less than all of it has passed.
        """
        return self._left_s() <= 0

    async def ending(self) -> Exception:
        """Look until the start has to end, and return why."""
        while (left_s := self._left_s()) > 0:
            hopeless = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    hopeless = await self.look()
            if hopeless is not None:
                return await self._refused(hopeless)
            await asyncio.sleep(min(_PAUSE_S, left_s))
        no_room = self.no_room()
        if no_room is None:
            return self.slow()
        return await with_choices(no_room, self._spawner, patience_s=_PATIENCE * self._early_s + self._left_s())

    async def ended_early(self, address: object) -> Exception | None:
        """Look on until the program of a pod that runs listens; return why it never will, None once it does.

        :param address: what KubeSpawner's start returned.
        """
        timeout_s = min(float(self._spawner.http_timeout), self._left_s())
        answer = asyncio.create_task(listening(address, timeout_s=timeout_s))
        try:
            while True:
                hopeless = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_S):
                        hopeless = await self.look(whatever=True)
                if hopeless is not None:
                    return await self._refused(hopeless)
                if answer.done():
                    return None
                await asyncio.wait([answer], timeout=_PAUSE_S)
        finally:
            await _cancelled(answer)

    async def _refused(self, hopeless: Hopeless) -> Exception:
        refused = RefusedStart(hopeless.sentence, reason=hopeless.code, status_code=HTTPStatus.CONFLICT)
        return await with_choices(refused, self._spawner, patience_s=min(_PATIENCE_S, self._left_s()))

    async def look(self, *, whatever: bool = False) -> Hopeless | None:
        """Look once, and return why nothing will come of it where that is so.

        :param whatever: also when nothing has changed.
        """
        try:
            facts = await self._lookout.look(whatever=whatever)
            # KubeSpawner removes the pod itself where it cannot do what comes after it, and says why.
            if facts is None or self._spawner._this_start.is_removing:
                return None
            if facts.pod is not None:
                spawn_meter.note_pod(self._spawner, facts.pod)
            reports = self._progress.observe(facts)
        except Exception as error:  # whatever it is, the start itself may well succeed
            if type(error) not in self._logged:
                self._logged.add(type(error))
                self._spawner.log.exception("Cannot tell how the start of %s gets on", self._spawner._log_name)
            return None
        self._following.tell(reports, percent=self._progress.percent)
        for report in reports:
            spawn_meter.enter(self._spawner, report.stage)
        return next((report.hopeless for report in reports if report.hopeless is not None), None)

    def no_room(self) -> RefusedStart | None:
        """Return that there was no room until now; None where that is not what is waited for."""
        last, gpu, waited = self._following.last, self._following.gpu, _waited(self._timeout_s)
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

    def slow(self) -> SlowStartError:
        """Return that the time is up."""
        last = self._following.last
        told = gettext(
            "Your server was not ready after {duration}, so it was stopped.", duration=_waited(self._timeout_s)
        )
        seen = gettext("Last seen: {sentence}", sentence=last.sentence) if last else ""
        return SlowStartError(paragraph(told, seen))

    def _left_s(self) -> float:
        """Return the seconds until the start has to end, below 0 after that."""
        return self._timeout_s - self._early_s - self._following.elapsed_s


def _waited(timeout_s: float) -> str:
    """Return how long a start was waited for, in words."""
    seconds = round(timeout_s)
    if seconds < 120 or seconds % 60:  # noqa: PLR2004 - two minutes
        return ngettext("{number} second", "{number} seconds", number=seconds)
    return format_duration(seconds)
