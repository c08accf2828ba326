"""Reads Karpenter's NodePools, which say what it may add, again and again for as long as the hub runs.

They are few, and a form asks for itself again every ten seconds: a list as often costs less than a watch. A cluster
without Karpenter has none. With Karpenter, what it may add is unknown to a hub that may not read them; that is no
error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client import CustomObjectsApi

from gpuspawner.core.autoscaling.nodepools import pools
from gpuspawner.core.cluster.model import Growth
from gpuspawner.kube.client.access import NOT_SERVED, missing_verb
from gpuspawner.kube.client.listing import list_each
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.client.requests import APIUnavailableError

GROUP, VERSION, PLURAL = "karpenter.sh", "v1", "nodepools"

EVERY_S = 10.0
KEPT_S = 90.0
"""Age in seconds from which on what was read is not relied on."""

_PER_PAGE = 100
_REFUSALS = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})

_log = logging.getLogger(__name__)


class NodePools:
    """What the NodePools say, as of the last list.

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    :param every_s: seconds from one list to the next.
    :param absent_s: the same while there are none, or they may not be read.
    :param answer_s: seconds for each request.
    :param clock: steady seconds.
    """

    def __init__(
        self,
        api_client: Any,
        *,
        clock: Callable[[], float],
        every_s: float = EVERY_S,
        absent_s: float = 60.0,
        answer_s: float = 10.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.tried = asyncio.Event()
        """Set once there is something to say."""
        self.changes = 0
        """Grows when what is known changes."""
        self._api_client = api_client
        self._clock = clock
        self._every_s = every_s
        self._absent_s = absent_s
        self._answer_s = answer_s
        self._sleep = sleep
        self._read_at = 0.0
        self._growths: tuple[Growth, ...] | None = None

    @property
    def growths(self) -> tuple[Growth, ...] | None:
        """What may be added, None while that is not known."""
        return self._growths if self._clock() - self._read_at <= KEPT_S else None

    async def run(self) -> None:
        """List them until cancelled; nothing else ends this."""
        while True:
            try:
                pause_s = await self._read()
            except APIUnavailableError as error:
                _log.debug("Capacity: NodePools could not be read: %s", error)
                pause_s = self._every_s
            except Exception as error:  # noqa: BLE001  # whatever a server sends must not end this, nor the hub
                _log.warning("Capacity: NodePools could not be read: %s", type(error).__name__)
                pause_s = self._absent_s
            self.tried.set()
            await self._sleep(pause_s)

    async def _read(self) -> float:
        """Read them once; return the pause after it, in seconds.

        :raises APIUnavailableError: the API server did not answer, or not with a list.
        """
        asked_at = self._clock()
        # Asked first, as a refusal is a line in the audit log; of what was there a moment ago it is not needed.
        if not self.growths and (verb := await self._missing_verb()):
            return self._keep(_unlisted(verb), asked_at)
        found: list[object] = []
        method = CustomObjectsApi(self._api_client).list_cluster_custom_object
        try:
            await list_each(
                partial(method, group=GROUP, version=VERSION, plural=PLURAL),
                found.append,
                pacer=Pacer(),
                limit=_PER_PAGE,
                _request_timeout=(self._answer_s, self._answer_s),
            )
        except APIUnavailableError as error:
            if error.status not in _REFUSALS:
                raise
            verb = await self._missing_verb()
            # What was there is not taken for gone at once: an API server that has just started refuses everybody.
            if self.growths and not verb:
                raise
            return self._keep(_unlisted(verb), asked_at)
        return self._keep(pools(found), asked_at)

    async def _missing_verb(self) -> str:
        return await missing_verb(self._api_client, PLURAL, group=GROUP, verbs=("list",), timeout_s=self._answer_s)

    def _keep(self, growths: tuple[Growth, ...] | None, read_at: float) -> float:
        is_lost = growths is None and bool(self._growths)
        self.changes += growths != self._growths
        self._growths, self._read_at = growths, read_at
        # Right after a start an API server refuses everybody, and says that it does so rightly.
        return self._every_s if growths or is_lost else self._absent_s


def _unlisted(verb: str) -> tuple[Growth, ...] | None:
    """Return what is known of what cannot be listed: that there are none, only if nobody serves them."""
    return () if verb == NOT_SERVED else None
