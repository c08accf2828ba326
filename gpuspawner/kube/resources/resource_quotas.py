"""Reads how much a namespace's ResourceQuotas leave for new pods.

The hub reads quotas only for a form or a start and does not watch them, because their status changes with every pod.
Simultaneous callers for the same namespace share one request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple, Protocol

from gpuspawner.core.json_access import as_dict
from gpuspawner.core.policy.usage import RemainingQuota, read_remaining_quota
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, read_body, send_request
from gpuspawner.kube.client.pacing import SharedTasks

QUOTA_CACHE_S = 3.0
QUOTA_RETRY_S = 10.0
"""Seconds until the next request for a namespace's quotas after a failed one."""
QUOTA_DENIED_S = 60.0
"""Seconds until the next request after the API server refused one; each refusal appears in the audit log."""
_MAX_CACHED = 4096


class QuotasAPI(Protocol):
    """The part of ``kubernetes_asyncio.client.CoreV1Api`` that this module uses."""

    @property
    def list_namespaced_resource_quota(self) -> APIMethod:
        """List the ResourceQuotas of a namespace."""


class _CachedQuota(NamedTuple):
    """The cached result of one request for a namespace's quotas.

    :param at: seconds of the clock at which the hub sent the request, or at which it failed.
    :param holds_s: seconds for which the hub reuses the result; None if the caller's ``max_age_s`` decides.
    """

    quota: RemainingQuota | None
    at: float
    holds_s: float | None = None


class ResourceQuotas:
    """Reads and caches how much the ResourceQuotas of each namespace leave for new pods.

    :param api: the hub's ``CoreV1Api``.
    :param timeout_s: timeout of a request in seconds.
    :param clock: monotonic seconds.
    """

    def __init__(self, api: QuotasAPI, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._clock = clock
        self._read: dict[str, _CachedQuota] = {}
        self._requests: SharedTasks[str, _CachedQuota] = SharedTasks()

    async def read_remaining(
        self, namespace: str, *, max_age_s: float = QUOTA_CACHE_S, wait_s: float | None = None
    ) -> RemainingQuota | None:
        """Return how much a namespace's quotas leave, or None if it has none or the hub cannot read them in time.

        :param namespace: namespace of the pods.
        :param max_age_s: greatest age in seconds of a cached result.
        :param wait_s: seconds to wait at most; None for no limit besides the request's timeout.
        """
        known = self._read.get(namespace)
        if known is not None and self._clock() - known.at < (max_age_s if known.holds_s is None else known.holds_s):
            return known.quota
        found = await self._requests.wait_for(namespace, partial(self._ask, namespace), wait_s=wait_s)
        return None if found is None else found.quota

    async def _ask(self, namespace: str) -> _CachedQuota:
        asked_at = self._clock()
        try:
            found = _CachedQuota(await self._list(namespace), asked_at)
        except APIUnavailableError as error:
            holds_s = QUOTA_DENIED_S if error.status == HTTPStatus.FORBIDDEN else QUOTA_RETRY_S
            found = _CachedQuota(None, self._clock(), holds_s)
        if len(self._read) >= _MAX_CACHED:
            self._read.clear()
        self._read[namespace] = found
        return found

    async def _list(self, namespace: str) -> RemainingQuota | None:
        method = self._api.list_namespaced_resource_quota
        response = await send_request(method, namespace=namespace, _request_timeout=self._timeout_s)
        try:
            return read_remaining_quota(as_dict(json.loads(await read_body(response))).get("items"))
        except (ValueError, RecursionError) as error:
            raise APIUnavailableError("the answer is no JSON") from error
