"""Runs a watch as long as the hub runs: retries after failures, and explains missing data in a sentence for users.

Users see these sentences, so they contain no addresses or other details for admins.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_numbers
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from gpuspawner.core.text.i18n import gettext_lazy
from gpuspawner.kube.client.api_requests import APIUnavailableError
from gpuspawner.kube.client.pacing import Backoff
from gpuspawner.kube.watch.watch import RelistError, Watch

NOT_READ_YET = gettext_lazy("The cluster is still being read; open this page again in a few seconds.")
BEING_READ_AGAIN = gettext_lazy("The cluster is being read again.")
NOT_UNDERSTOOD = gettext_lazy("The Kubernetes API server's answer could not be understood.")
HUB_STOPPING = gettext_lazy("The hub is shutting down.")

_STATUS_REASONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: gettext_lazy("Kubernetes refused the hub's credentials."),
    HTTPStatus.TOO_MANY_REQUESTS: gettext_lazy("The Kubernetes API server is overloaded."),
}


def describe_failure(status: int | None, *, missing_right: str) -> str:
    """Return a sentence for users about a failed request.

    :param status: HTTP status with which the API server refused the request; None for any other failure.
    :param missing_right: the sentence for status 403.
    """
    if status is None:
        return gettext_lazy("The Kubernetes API server cannot be reached.")
    if status == HTTPStatus.FORBIDDEN:
        return missing_right
    return _STATUS_REASONS.get(status) or gettext_lazy(
        "The Kubernetes API server answered with an error ({status}).", status=status
    )


def describe_missing_right(verb: str, *, what: str) -> str:
    """Return a sentence such as "The hub may not list the cluster's nodes", for users.

    :param what: the resource, in words for users.
    """
    return gettext_lazy("The hub may not {verb} {what}.", verb=verb, what=what)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelays:
    """Maximum seconds before a retry; the actual delay is random.

    :param first_s: maximum after the first failure. It doubles with each further failure, up to ``longest_s``.
    :param lost_s: maximum if the hub has lost the right to read the resource.
    :param never_had_s: maximum if the hub never had this right. Large, because it is usually denied on purpose.
    """

    first_s: float = 0.5
    longest_s: float = 8.0
    lost_s: float = 8.0
    never_had_s: float = 60.0


class WatchLoop:
    """Lists and watches one resource, with retries, until its task is cancelled.

    :param description: words for the resource that follow "The hub may not list" in a sentence for users.
    :param find_missing_verb: returns a verb that the hub may not use on the resource, or an empty string for none;
        returns ``NOT_SERVED`` if the API server does not serve the resource.
    :param random: returns a random number of at least 0 and below 1.
    :param on_change: called when one of the attributes below may have changed.
    :ivar is_known: whether the cache holds a complete list, even if it is old.
    :ivar confirmed_at: seconds of the watch's clock at which the cache was last known to be complete, or None.
    :ivar reason: sentence for users about the current problem, or empty.
    :ivar missing_right: the last result of ``find_missing_verb``.
    :ivar restarts: number of failed lists and watches; a watch that ends after its full length has not failed.
    """

    def __init__(
        self,
        description: str,
        *,
        find_missing_verb: Callable[[], Awaitable[str]],
        pauses: RetryDelays,
        random: Callable[[], float] = random_numbers.random,
        on_change: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.is_known = False
        self.confirmed_at: float | None = None
        self.reason = ""
        self.missing_right = ""
        self.restarts = 0
        self.first_attempt = asyncio.Event()
        """Event that is set once the first list has succeeded or failed."""
        self._what = description
        self._missing_verb = find_missing_verb
        self._pauses = pauses
        self._random = random
        self._changed = on_change
        self._sleep = sleep
        self._backoff = Backoff(first_s=pauses.first_s, longest_s=pauses.longest_s, random=random)
        # Lists are expensive in a large cluster, so a successful list does not reset this backoff. Only a watch that
        # runs to its regular end resets it.
        self._list_backoff = Backoff(first_s=pauses.first_s, longest_s=pauses.longest_s, random=random)
        self._was_known = False
        self._is_suspect = False
        self._logged: set[type[Exception]] = set()

    def confirm(self, moment: float) -> None:
        """Record that the cache was complete at a time, and clear :attr:`reason`.

        :param moment: seconds of the watch's clock.
        """
        self.confirmed_at = moment if self.confirmed_at is None else max(self.confirmed_at, moment)
        if self.reason:
            self.reason = ""
            self._changed()

    async def run(self, watch: Watch) -> None:
        """List and watch the resource until the task is cancelled; no failure ends the loop."""
        while True:
            try:
                pause_s = await self._attempt(watch)
            except APIUnavailableError as error:
                pause_s = self._note_failure(error.status, verb="list" if watch.needs_list else "watch")
            except Exception as error:  # noqa: BLE001  # no answer of a server or proxy may end the loop
                self.restarts += 1
                self._log_once(error)
                watch.forget()
                self._set_reason(NOT_UNDERSTOOD)
                pause_s = self._list_backoff.draw_delay_s()
            await self._sleep(pause_s)

    async def _attempt(self, watch: Watch) -> float:
        if watch.needs_list or self._is_suspect:
            self.missing_right = await self._missing_verb()
            if self.missing_right:
                return await self._deny(self.missing_right, watch)
            self._is_suspect = False
        if watch.needs_list:
            await watch.relist()
            self._backoff.reset()
            self.is_known = self._was_known = True
            self.first_attempt.set()
            self._changed()
        before = self.confirmed_at
        try:
            await watch.stream()
        except RelistError as error:
            self.restarts += 1
            _log.debug("Capacity: %s are listed again: %s", self._what, error)
            watch.forget()
            return self._list_backoff.draw_delay_s()
        except APIUnavailableError:
            if self.confirmed_at != before:
                self._backoff.reset()
            raise
        self._backoff.reset()
        self._list_backoff.reset()
        return 0.0

    async def _deny(self, verb: str, watch: Watch) -> float:
        self.is_known = False
        self.confirmed_at = None
        self._set_reason(describe_missing_right(verb, what=self._what))
        await watch.clear()
        longest_s = self._pauses.lost_s if self._was_known else self._pauses.never_had_s
        return longest_s * (1 + self._random()) / 2

    def _note_failure(self, status: int | None, *, verb: str) -> float:
        self.restarts += 1
        if status == HTTPStatus.FORBIDDEN:
            # An API server that has just started answers 403 until it has loaded its roles. A 403 alone thus proves
            # nothing, so the next attempt asks the API server whether the hub has the right to read the resource.
            self._is_suspect = True
        self._set_reason(describe_failure(status, missing_right=describe_missing_right(verb, what=self._what)))
        return self._backoff.draw_delay_s()

    def _log_once(self, error: Exception) -> None:
        level = logging.DEBUG if type(error) in self._logged else logging.WARNING
        self._logged.add(type(error))
        _log.log(level, "Capacity: %s could not be read", self._what, exc_info=error)

    def _set_reason(self, reason: str) -> None:
        self.reason = reason
        self.first_attempt.set()
        self._changed()
