"""Ends a start that cannot succeed early and with the reason, instead of by JupyterHub's timer.

KubeSpawner waits for a pod until JupyterHub's timer ends the start, whatever happens to the pod. The supervisor
observes the pod until the server's port accepts connections, whether or not a page is open. A start that still waits
for room ends just before the timer: JupyterHub would count a timeout among the failures that end the hub.
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
"""How much before JupyterHub's timer a start ends: seconds, or a share of its timeout if that is less."""
_ALTERNATIVES_SHARE = 0.3
"""Share of that time to wait for a turn to search for other choices."""
_ALTERNATIVES_S = 10.0
"""Seconds to wait for that turn when a start fails before its time is up."""


async def supervise_start(spawner: StartingSpawner, start: Awaitable[Any], *, feed: ProgressFeed) -> Any:
    """Wait for a start and return its result, unless it cannot succeed.

    :param spawner: the server's.
    :param start: KubeSpawner's start; cancelled if the supervisor ends it.
    :param feed: the start's, begun together with JupyterHub's timer.
    :raises RefusedStart: the start cannot succeed, or waited for room until its time was up.
    :raises SlowStartError: its time is up, and it waited for something other than room.
    """
    supervisor = _Supervisor(spawner, feed)
    starting = asyncio.ensure_future(start)
    ending = asyncio.create_task(supervisor.watch_until_end())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # JupyterHub's timer came first because the event loop was busy.
        if supervisor.is_late:
            raise (supervisor.make_no_room_error() or supervisor.make_slow_start_error()) from None
        raise
    else:
        # Both may be done if the event loop was busy: a start that has succeeded counts.
        if ending.done() and (not starting.done() or starting.exception() is not None):
            raise ending.result()
        # KubeSpawner's own timer ends up to a tenth earlier or later than JupyterHub's.
        timeout = starting.exception()
        if isinstance(timeout, TimeoutError) and (refused := supervisor.make_no_room_error()) is not None:
            raise refused from timeout
        address = starting.result()
        await _cancel_all(ending)
        if (failure := await supervisor.watch_until_listening(address)) is not None:
            raise failure
        return address
    finally:
        try:
            await _cancel_all(starting, ending)
        finally:
            feed.close()


async def _cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have ended.

    Before Python 3.12, ``asyncio.wait_for`` loses a cancellation that coincides with the result. KubeSpawner uses it
    for each request, so the cancellation is repeated.
    """
    left: set[asyncio.Future[Any]] = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_PAUSE_S)
    await asyncio.gather(*tasks, return_exceptions=True)


class _Supervisor:
    """Observes a start once a second and publishes what is new."""

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
        """Whether the supervisor's own deadline has passed, so that a cancellation now comes from JupyterHub's timer.

        JupyterHub sets its timer before the feed begins, so a busy hub may reach it before the feed counts all of it.
        """
        return self._left_s() <= 0

    async def watch_until_end(self) -> Exception:
        """Observe until the start has to end, and return the error to end it with."""
        while (left_s := self._left_s()) > 0:
            failure = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    failure = await self.observe()
            if failure is not None:
                return await self._refuse(failure)
            await asyncio.sleep(min(_PAUSE_S, left_s))
        no_room = self.make_no_room_error()
        if no_room is None:
            return self.make_slow_start_error()
        return await add_alternatives(
            no_room, self._spawner, patience_s=_ALTERNATIVES_SHARE * self._early_s + self._left_s()
        )

    async def watch_until_listening(self, address: object) -> Exception | None:
        """Observe until the server's port accepts connections; return an error if the start fails first, else None.

        :param address: URL, as KubeSpawner's start returns it.
        """
        timeout_s = min(float(self._spawner.http_timeout), self._left_s())
        answer = asyncio.create_task(wait_until_listening(address, timeout_s=timeout_s))
        try:
            while True:
                failure = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_S):
                        failure = await self.observe(even_if_unchanged=True)
                if failure is not None:
                    return await self._refuse(failure)
                if answer.done():
                    return None
                await asyncio.wait([answer], timeout=_PAUSE_S)
        finally:
            await _cancel_all(answer)

    async def _refuse(self, failure: StartFailure) -> Exception:
        refused = RefusedStart(failure.sentence, reason=failure.code, status_code=HTTPStatus.CONFLICT)
        return await add_alternatives(refused, self._spawner, patience_s=min(_ALTERNATIVES_S, self._left_s()))

    async def observe(self, *, even_if_unchanged: bool = False) -> StartFailure | None:
        """Observe once and publish what is new; return the failure if the start cannot succeed.

        :param even_if_unchanged: evaluate the facts although nothing has changed.
        """
        try:
            facts = await self._observer.observe(even_if_unchanged=even_if_unchanged)
            # KubeSpawner deletes the pod and raises an error where a later step of the start fails.
            if facts is None or self._spawner.start_state.is_removing:
                return None
            if facts.pod is not None:
                starts.note_pod(self._spawner, facts.pod)
            reports = self._progress.observe(facts)
        except Exception as error:  # the start itself may still succeed
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
        """Return the error for a start that has found no room; None if it waits for something else."""
        last, gpu, waited = self._feed.last, self._feed.gpu, _format_wait(self._timeout_s)
        if last is None or not last.lacks_room:
            return None
        match last.stage:
            case Stage.QUEUED:
                sentence = gettext(
                    "Your server was still in the queue after {duration}, so it was stopped.", duration=waited
                )
            case Stage.SCALING:
                sentence = gettext(
                    "No new node was ready after {duration}, so your server was stopped.", duration=waited
                )
            case Stage.WAITING if gpu is not None:
                sentence = gettext(
                    "There was no room for your server with {gpu} within {duration}, so it was stopped.",
                    gpu=gpu.display_name,
                    duration=waited,
                )
            case Stage.WAITING:
                sentence = gettext(
                    "There was no room for your server within {duration}, so it was stopped.", duration=waited
                )
            case _:
                return None
        reason = "no_capacity" if gpu is None else "gpu_unavailable"
        return RefusedStart(sentence, reason=reason, status_code=HTTPStatus.SERVICE_UNAVAILABLE)

    def make_slow_start_error(self) -> SlowStartError:
        """Return the error for a start whose time is up."""
        last = self._feed.last
        sentence = gettext(
            "Your server was not ready after {duration}, so it was stopped.", duration=_format_wait(self._timeout_s)
        )
        last_seen = gettext("Last seen: {sentence}", sentence=last.sentence) if last else ""
        return SlowStartError(join_sentences(sentence, last_seen))

    def _left_s(self) -> float:
        """Return the seconds until the start has to end, negative after that."""
        return self._timeout_s - self._early_s - self._feed.elapsed_s


def _format_wait(timeout_s: float) -> str:
    seconds = round(timeout_s)
    if seconds < 120 or seconds % 60:  # noqa: PLR2004 - two minutes
        return ngettext("{number} second", "{number} seconds", number=seconds)
    return format_duration(seconds)
