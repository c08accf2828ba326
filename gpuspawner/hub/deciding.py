"""Ends a start of which nothing will come, with the reason, instead of when its time is up.

KubeSpawner waits for a pod until JupyterHub's timer ends the start, whatever becomes of the pod. Here somebody looks at
it meanwhile, whether or not a page is open. What only waits for room ends just before that timer does: JupyterHub would
count it among the failures that end the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any

from gpuspawner.core.duration import format_duration
from gpuspawner.core.language import gettext, ngettext
from gpuspawner.core.progress import Hopeless, Progress, Stage
from gpuspawner.core.sentences import paragraph
from gpuspawner.hub.errors import SlowStartError
from gpuspawner.hub.following import Following
from gpuspawner.hub.instead import refused_with_choices
from gpuspawner.hub.lookout import Lookout

_PAUSE_S = 1.0
_EARLY_S = 2.0
_EARLY_SHARE = 0.05
"""A start is ended so much before JupyterHub does it, in seconds or as a part of its timeout, whichever is less."""

_FOR_ROOM = frozenset({Stage.QUEUED, Stage.WAITING, Stage.SCALING})
"""Stages in which a server waits for something that others have."""


async def decided(spawner: Any, start: Awaitable[Any], *, following: Following) -> Any:
    """Wait for a start and return what it returns, unless nothing will come of it.

    :param start: KubeSpawner's; cancelled where this ends it.
    :raises RefusedStart: nothing will come of it, or it waited for room until its time was up.
    :raises SlowStartError: its time is up, and it waited for something else.
    """
    following.begin()
    follower = _Follower(spawner, following)
    starting = asyncio.ensure_future(start)
    ending = asyncio.create_task(follower.ending())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            raise ending.result()
        found = starting.result()  # of two that are done at once the start itself counts
        await _cancelled(ending)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await follower.look(whatever=True)
        return found
    finally:
        await _cancelled(starting, ending)
        following.end()


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Follower:
    """Looks at a start again and again, and tells what is new."""

    def __init__(self, spawner: Any, following: Following) -> None:
        self._spawner = spawner
        self._following = following
        self._lookout = Lookout(spawner, following)
        self._progress = Progress()

    async def ending(self) -> Exception:
        """Look until the start has to end, and return why."""
        timeout_s = float(self._spawner.start_timeout)
        due_s = timeout_s - min(_EARLY_S, _EARLY_SHARE * timeout_s)
        while (left_s := due_s - self._following.elapsed_s) > 0:
            hopeless = await self.look()
            if hopeless is not None:
                return await self._refused(hopeless.sentence, reason=hopeless.code, status_code=HTTPStatus.CONFLICT)
            await asyncio.sleep(min(_PAUSE_S, left_s))
        return await self._too_late(timeout_s)

    async def look(self, *, whatever: bool = False) -> Hopeless | None:
        """Look once, and return why nothing will come of it where that is so.

        :param whatever: also when nothing has changed.
        """
        try:
            facts = await self._lookout.look(whatever=whatever)
            if facts is None:
                return None
            reports = self._progress.observe(facts)
        except Exception:  # whatever it is, the start itself may well succeed
            self._spawner.log.exception("Cannot tell how the start of %s gets on", self._spawner._log_name)
            return None
        self._following.tell(reports, percent=self._progress.percent)
        return next((report.hopeless for report in reports if report.hopeless is not None), None)

    async def _too_late(self, timeout_s: float) -> Exception:
        last = self._following.reports[-1] if self._following.reports else None
        if last is not None and last.stage in _FOR_ROOM:
            reason = "gpu_unavailable" if self._following.gpu is not None else "no_capacity"
            sentence = self._no_room(last.stage, waited=_waited(timeout_s))
            return await self._refused(sentence, reason=reason, status_code=HTTPStatus.SERVICE_UNAVAILABLE)
        told = gettext("Your server was not ready after {duration}, so it was stopped.", duration=_waited(timeout_s))
        seen = gettext("This was the last to be seen of it: {sentence}", sentence=last.sentence) if last else ""
        return SlowStartError(paragraph(told, seen))

    def _no_room(self, stage: Stage, *, waited: str) -> str:
        gpu = self._following.gpu
        if stage is Stage.QUEUED:
            return gettext("Your server was still in the queue after {duration}, so it was stopped.", duration=waited)
        if stage is Stage.SCALING:
            return gettext("No new node was ready after {duration}, so your server was stopped.", duration=waited)
        if gpu is None:
            return gettext("There was no room for your server within {duration}, so it was stopped.", duration=waited)
        return gettext(
            "There was no room for your server with {gpu} within {duration}, so it was stopped.",
            gpu=gpu.display_name,
            duration=waited,
        )

    async def _refused(self, sentence: str, *, reason: str, status_code: int) -> Exception:
        return await refused_with_choices(self._spawner, sentence, reason=reason, status_code=status_code)


def _waited(timeout_s: float) -> str:
    """Return how long a start was waited for, in words."""
    seconds = round(timeout_s)
    if seconds < 120 or seconds % 60:  # noqa: PLR2004 - two minutes
        return ngettext("{number} second", "{number} seconds", number=seconds)
    return format_duration(seconds)
