"""Lists Karpenter's NodePools, which say which nodes Karpenter may add.

There are few NodePools, so a list every 10 s costs less than a watch. In a cluster without Karpenter the result is
empty. If the hub may not list NodePools, the result is unknown. Neither is an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client import CustomObjectsApi

from gpuspawner.core.autoscaling.karpenter import decode_node_pools
from gpuspawner.core.cluster.model import ScalableNodePool
from gpuspawner.kube.client.api_requests import NOT_SERVED, APIUnavailableError, find_missing_verb, list_each

KARPENTER_GROUP, KARPENTER_VERSION, NODE_POOLS_PLURAL = "karpenter.sh", "v1", "nodepools"

NODE_POOLS_INTERVAL_S = 10.0
NODE_POOLS_ABSENT_S = 60.0
"""Seconds between two lists while there are no NodePools or the hub may not list them."""
NODE_POOLS_MAX_AGE_S = 90.0
"""If the hub last listed the NodePools more than this many seconds ago, the NodePools count as unknown."""

_PER_PAGE = 100
_REFUSALS = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})

_log = logging.getLogger(__name__)


class KarpenterNodePools:
    """Lists Karpenter's NodePools repeatedly and keeps the last list.

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    """

    def __init__(
        self,
        api_client: Any,
        *,
        clock: Callable[[], float],
        answer_s: float = 10.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.first_attempt = asyncio.Event()
        """Event that is set once the first list has succeeded or failed."""
        self.generation = 0
        """Number of changes of the NodePools so far."""
        self._api_client = api_client
        self._clock = clock
        self._answer_s = answer_s
        self._sleep = sleep
        self._read_at = 0.0
        self._scalable_node_pools: tuple[ScalableNodePool, ...] | None = None

    @property
    def scalable_node_pools(self) -> tuple[ScalableNodePool, ...] | None:
        """The NodePools that Karpenter can scale up, or None if unknown."""
        return self._scalable_node_pools if self._clock() - self._read_at <= NODE_POOLS_MAX_AGE_S else None

    async def run(self) -> None:
        """List the NodePools repeatedly until the task is cancelled; no failure ends the loop."""
        while True:
            try:
                pause_s = await self._read()
            except APIUnavailableError as error:
                _log.debug("Capacity: NodePools could not be read: %s", error)
                pause_s = NODE_POOLS_INTERVAL_S
            except Exception as error:  # noqa: BLE001  # no answer of a server may end the loop
                _log.warning("Capacity: NodePools could not be read: %s", type(error).__name__)
                pause_s = NODE_POOLS_ABSENT_S
            self.first_attempt.set()
            await self._sleep(pause_s)

    async def _read(self) -> float:
        """List the NodePools once, and return the number of seconds until the next list."""
        asked_at = self._clock()
        # Check the hub's right first, because a refused list would appear in the audit log. If NodePools are in memory,
        # a recent list succeeded, and the check is unnecessary.
        if not self.scalable_node_pools and (verb := await self._missing_verb()):
            return self._keep(_explain_unlisted(verb), asked_at)
        found: list[object] = []
        method = CustomObjectsApi(self._api_client).list_cluster_custom_object
        try:
            await list_each(
                partial(method, group=KARPENTER_GROUP, version=KARPENTER_VERSION, plural=NODE_POOLS_PLURAL),
                found.append,
                limit=_PER_PAGE,
                _request_timeout=(self._answer_s, self._answer_s),
            )
        except APIUnavailableError as error:
            if error.status not in _REFUSALS:
                raise
            verb = await self._missing_verb()
            # A 403 does not prove that the hub may not list NodePools: an API server that has just started answers 403
            # to all requests. If a check of the hub's rights finds that the hub may list them, keep the last NodePools.
            if self.scalable_node_pools and not verb:
                raise
            return self._keep(_explain_unlisted(verb), asked_at)
        return self._keep(decode_node_pools(found), asked_at)

    async def _missing_verb(self) -> str:
        return await find_missing_verb(
            self._api_client, NODE_POOLS_PLURAL, group=KARPENTER_GROUP, verbs=("list",), timeout_s=self._answer_s
        )

    def _keep(self, scalable_pools: tuple[ScalableNodePool, ...] | None, read_at: float) -> float:
        is_lost = scalable_pools is None and bool(self._scalable_node_pools)
        self.generation += scalable_pools != self._scalable_node_pools
        self._scalable_node_pools, self._read_at = scalable_pools, read_at
        # If the NodePools were known until now (is_lost), retry soon: the API server may have just started. It then
        # denies all rights for a short time.
        return NODE_POOLS_INTERVAL_S if scalable_pools or is_lost else NODE_POOLS_ABSENT_S


def _explain_unlisted(verb: str) -> tuple[ScalableNodePool, ...] | None:
    return () if verb == NOT_SERVED else None
