"""Reads on demand what the cluster-autoscaler says about its node groups: whether they may grow.

The hub reads it only if a server waits for a node that the hub knows nothing of. Without the ConfigMap, the right to
read it or a recent status, the result is unseen. That is no error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth, find_node_growth
from gpuspawner.kube.client.api_requests import APIUnavailableError, is_allowed, read_json
from gpuspawner.kube.client.pacing import CachedAnswers

STATUS_NAMESPACE, STATUS_NAME = "kube-system", "cluster-autoscaler-status"
STATUS_CACHE_S = 30.0
STATUS_RETRY_S = 10.0
"""Seconds until the next request after a failed one."""
STATUS_ABSENT_S = 60.0
"""Seconds until the next request if there is no such ConfigMap, or if the hub may not read it."""
_TIMEOUT_S = 3.0
_REFUSALS = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def _get_time() -> datetime:
    return datetime.now(UTC)


class NodeGrowthReader:
    """Reads and caches whether the node groups of the cluster-autoscaler may grow.

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    """

    def __init__(
        self,
        api_client: Any,
        *,
        timeout_s: float = _TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _get_time,
    ) -> None:
        self._api_client = api_client
        self._timeout_s = timeout_s
        self._now = now
        self._answers: CachedAnswers[str, NodeGrowth] = CachedAnswers(clock=clock)

    async def read_growth(self, *, wait_s: float | None = None) -> NodeGrowth:
        """Return whether the node groups may grow; the last answer, or UNSEEN, if there is none in time."""
        found = await self._answers.read(STATUS_NAME, self._ask, wait_s=wait_s)
        return self._get_last() if found is None else found

    def _get_last(self) -> NodeGrowth:
        last = self._answers.get(STATUS_NAME)
        return NodeGrowth.UNSEEN if last is None else last.value

    async def _ask(self) -> tuple[NodeGrowth, float]:
        try:
            return await self._read()
        except APIUnavailableError as error:
            return NodeGrowth.UNSEEN, STATUS_ABSENT_S if error.status in _REFUSALS else STATUS_RETRY_S

    async def _read(self) -> tuple[NodeGrowth, float]:
        # Check the hub's right first, because a refused request would appear in the audit log.
        if self._get_last() is NodeGrowth.UNSEEN and not await self._may_read():
            return NodeGrowth.UNSEEN, STATUS_ABSENT_S
        method: Any = CoreV1Api(self._api_client).read_namespaced_config_map
        status = await read_json(method, name=STATUS_NAME, namespace=STATUS_NAMESPACE, _request_timeout=self._timeout_s)
        return find_node_growth(status, now=self._now()), STATUS_CACHE_S

    async def _may_read(self) -> bool:
        attributes = {"verb": "get", "resource": "configmaps", "namespace": STATUS_NAMESPACE, "name": STATUS_NAME}
        return await is_allowed(self._api_client, attributes, timeout_s=self._timeout_s) is not False
