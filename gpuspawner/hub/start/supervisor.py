"""Ends a start that cannot succeed, with the reason, before JupyterHub's ``start_timeout``.

KubeSpawner waits for a pod until ``start_timeout``, whatever happens to the pod. The supervisor observes the pod until
the server's port accepts connections, even if no progress page is open. Just before ``start_timeout``, the supervisor
ends a start that waits for free capacity: JupyterHub counts timeouts as failures, and too many failures stop the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import Any

from gpuspawner.core.progress.model import Report, Stage, StartFailure
from gpuspawner.core.progress.tracker import Tracker
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.core.units.duration import format_duration
from gpuspawner.hub.errors import RefusedStart, SlowStartError, explain_cluster_error
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import renew_watches
from gpuspawner.hub.metrics import registry, starts
from gpuspawner.hub.start.alternatives import AlternativesFinder, add_alternatives
from gpuspawner.hub.start.observer import StartObserver
from gpuspawner.hub.start.open_starts import end_tasks
from gpuspawner.hub.start.state import StartingSpawner
from gpuspawner.hub.start.stream import LISTEN_POLL_S, ProgressFeed, wait_until_listening

_PAUSE_S = 1.0
"""Seconds between two observations of a start while a progress page is open."""
_UNREAD_PAUSE_S = 4.0
"""Seconds between two observations of a start while no progress page is open. A page that opens ends the pause."""
_EARLY_END_S = 2.0
_EARLY_END_SHARE = 0.2
"""The supervisor's own deadline is this share of ``start_timeout``, but at most 2 s, before ``start_timeout``."""
_ALTERNATIVES_SHARE = 0.3
"""When a start reaches the supervisor's deadline, the hub searches for similar choices to name in the error. Before the
search, it waits until the searches of other starts have ended, at most for this share of the time that is left until
``start_timeout``."""
_RESUMED_S = 8.0
"""After a restart of the hub, the supervisor observes a start for at least this many seconds, even if its
``start_timeout`` has passed."""
_ALTERNATIVES_S = 10.0
"""When a start fails before the supervisor's deadline, the error names similar choices. To find them, the hub may wait
at most this many seconds for other starts' searches."""


async def supervise_start(spawner: StartingSpawner, start: Awaitable[Any], *, feed: ProgressFeed) -> Any:
    """Wait for a start and return its result; cancel the start if it cannot succeed.

    :raises RefusedStart: the start cannot succeed, or waited for free capacity until its timeout.
    :raises SlowStartError: the start reached its timeout, but did not wait for free capacity.
    :raises ClusterFailure: the start reached its timeout before the API server accepted a dry run of the pod.
    """
    supervisor = _Supervisor(spawner, feed)
    starting = asyncio.ensure_future(start)
    ending = asyncio.create_task(supervisor.watch_until_end())
    has_reason = False
    try:
        return await _wait_until_end(supervisor, starting, ending=ending)
    except Exception:
        has_reason = True
        raise
    finally:
        try:
            await end_tasks(starting, ending)
        except asyncio.CancelledError:
            # JupyterHub's timeout can cancel this wait. If the start has failed before, the user must read that reason.
            if not has_reason:
                raise
        finally:
            feed.close()


async def _wait_until_end(
    supervisor: _Supervisor, starting: asyncio.Future[Any], *, ending: asyncio.Task[Exception]
) -> Any:
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # If JupyterHub's timeout was faster than the supervisor, raise the supervisor's error, which has a reason.
        if supervisor.is_late:
            raise (supervisor.make_no_room_error() or supervisor.make_slow_start_error()) from None
        raise
    # Both tasks may be done at the same time. A successful start wins.
    if ending.done() and (not starting.done() or starting.exception() is not None):
        raise ending.result()
    # KubeSpawner's own timeout may come first: it varies by 10 %. The supervisor's error explains a lack of capacity.
    timeout = starting.exception()
    if isinstance(timeout, TimeoutError) and (refused := supervisor.make_no_room_error()) is not None:
        raise refused from timeout
    address = starting.result()
    await end_tasks(ending)
    if (failure := await supervisor.watch_until_listening(address)) is not None:
        raise failure
    return address


class _Supervisor:
    def __init__(self, spawner: StartingSpawner, feed: ProgressFeed) -> None:
        self._spawner = spawner
        self._feed = feed
        self._observer = StartObserver(spawner, feed)
        self._alternatives = AlternativesFinder(spawner, feed)
        self._progress = Tracker(is_resumed=feed.is_resumed)
        self._logged: set[type[Exception]] = set()
        self._idle_scheduler = ""
        self._explained: set[str] = set()
        self._timeout_s = float(spawner.start_timeout)
        self._early_s = min(_EARLY_END_S, _EARLY_END_SHARE * self._timeout_s)

    @property
    def is_late(self) -> bool:
        """Whether the supervisor's own deadline has passed, shortly before ``start_timeout``."""
        return self._left_s() <= 0

    async def watch_until_end(self) -> Exception:
        while (left_s := self._left_s()) > 0:
            # Without an open progress page, few observations are enough. An open page ends this wait.
            await self._feed.wait_for_reader(timeout_s=min(_UNREAD_PAUSE_S, left_s))
            if self.is_late:
                break  # During one more observation, JupyterHub's timeout could end the start.
            failure = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._left_s()):
                    failure = await self.observe()
                    if failure is None:
                        await self._alternatives.update()
            if failure is not None:
                return await self._refuse(failure)
            if self._feed.is_read:
                await asyncio.sleep(min(_PAUSE_S, left_s))
        no_room = self.make_no_room_error()
        if no_room is None:
            return self.make_slow_start_error()
        return await add_alternatives(
            no_room, self._spawner, patience_s=_ALTERNATIVES_SHARE * self._early_s + self._left_s()
        )

    async def watch_until_listening(self, address: object) -> Exception | None:
        timeout_s = min(float(self._spawner.http_timeout), self._left_s())
        answer = asyncio.create_task(wait_until_listening(address, timeout_s=timeout_s))
        try:
            # Most servers accept connections at once. Without an open progress page, such a start needs no observation.
            await asyncio.wait([answer], timeout=LISTEN_POLL_S if self._feed.is_read else _PAUSE_S)
            if answer.done() and answer.result() and not self._feed.is_read:
                starts.note_pod(self._spawner)
                starts.enter_stage(self._spawner, Stage.READY)  # otherwise, an observation enters it
                return None
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
            await end_tasks(answer)

    async def _refuse(self, failure: StartFailure) -> Exception:
        refused = RefusedStart(failure.sentence, reason=failure.code, status_code=HTTPStatus.CONFLICT)
        return await add_alternatives(refused, self._spawner, patience_s=min(_ALTERNATIVES_S, self._left_s()))

    async def observe(self, *, even_if_unchanged: bool = False) -> StartFailure | None:
        failure = None
        try:
            renew_watches(self._spawner)
            facts = await self._observer.observe(even_if_unchanged=even_if_unchanged)
            # While the hub deletes the pod, report nothing: KubeSpawner raises the error that led to the deletion.
            if facts is None or self._spawner.start_state.is_removing:
                return None
            if facts.pod is not None:
                self._spawner.start_state.is_pod_unseen = False
                starts.note_pod(self._spawner, facts.pod)
            reports = self._progress.observe(facts)
            self._note_idle_scheduler()
            self._log_admin_texts(reports)
            failure = next((report.failure for report in reports if report.failure is not None), None)
            self._show(reports)
        except Exception as error:  # Log the error: a failed observation must not end the start.
            if type(error) not in self._logged:
                self._logged.add(type(error))
                self._spawner.log.exception(
                    "Cannot tell how the start of %s gets on", private_api.get_log_name(self._spawner)
                )
        return failure

    def _note_idle_scheduler(self) -> None:
        name = self._progress.idle_scheduler
        if name and name != self._idle_scheduler:
            registry.count_idle_scheduler(name)
            self._spawner.log.warning(
                "The pod of %s waits, and its scheduler %s has not looked at it: does that scheduler run?",
                private_api.get_log_name(self._spawner),
                name,
            )
        self._idle_scheduler = name

    def _log_admin_texts(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if report.admin_text and report.status not in self._explained:
                self._explained.add(report.status)
                name = private_api.get_log_name(self._spawner)
                self._spawner.log.warning("The start of %s has a problem: %s", name, report.admin_text)

    def _show(self, reports: Sequence[Report]) -> None:
        self._feed.publish(reports, percent=self._progress.percent)
        for report in reports:
            starts.enter_stage(self._spawner, report.stage)

    def make_no_room_error(self) -> RefusedStart | None:
        last, gpu, waited = self._feed.last, self._feed.gpu, format_wait(self._timeout_s)
        if last is None or not last.lacks_room:
            return None
        match last.stage:
            case Stage.QUEUED:
                sentence = gettext(
                    "Your server was still in the queue after {duration}, so the start was canceled.", duration=waited
                )
            case Stage.SCALING:
                sentence = gettext(
                    "No new node was ready after {duration}, so the start was canceled.", duration=waited
                )
            case Stage.WAITING if gpu is not None:
                sentence = gettext(
                    "No room for your server with {gpu} opened up within {duration}, so the start was canceled.",
                    gpu=gpu.display_name,
                    duration=waited,
                )
            case Stage.WAITING:
                sentence = gettext(
                    "No room for your server opened up within {duration}, so the start was canceled.", duration=waited
                )
            case _:
                return None
        reason = "no_capacity" if gpu is None else "gpu_unavailable"
        return RefusedStart(sentence, reason=reason, status_code=HTTPStatus.SERVICE_UNAVAILABLE)

    def make_slow_start_error(self) -> Exception:
        unaccepted = self._spawner.start_state.unaccepted
        explained: Exception | None = explain_cluster_error(unaccepted) if unaccepted is not None else None
        if explained is not None:
            return explained
        last = self._feed.last
        sentence = gettext(
            "Your server was not ready after {duration}, so it was stopped.", duration=format_wait(self._timeout_s)
        )
        # The time until the hub gives up is over, so leave it out.
        status = gettext("Last status: {sentence}", sentence=last.status or last.sentence) if last else ""
        return SlowStartError(join_sentences(sentence, status))

    def _left_s(self) -> float:
        left_s = self._timeout_s - self._early_s - self._feed.elapsed_s
        # The timeout may have passed while the hub was down. Observe the start a little longer to find the real reason.
        return max(left_s, _RESUMED_S - self._feed.observed_s) if self._feed.is_resumed else left_s


def format_wait(timeout_s: float) -> str:
    """Return a time limit as users read it: ``90 seconds``, ``15 minutes``."""
    seconds = round(timeout_s)
    if seconds < 120 or seconds % 60:  # noqa: PLR2004 - two minutes
        return ngettext("{number} second", "{number} seconds", number=seconds)
    return format_duration(seconds)
