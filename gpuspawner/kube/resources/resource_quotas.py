"""Reads how much a namespace's ResourceQuotas leave for new pods, and the LimitRanges of a namespace.

The hub reads both only for a form or a start. It does not watch them, because the status of a quota changes with every
pod. Simultaneous callers for the same namespace share one request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Generic, TypeVar

from gpuspawner.core.json_access import as_dict, as_dicts
from gpuspawner.core.policy.usage import RemainingQuota, read_remaining_quota
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, CoreAPI, read_json
from gpuspawner.kube.client.pacing import CachedAnswers

QUOTA_CACHE_S = 3.0
LIMIT_RANGE_CACHE_S = 60.0
QUOTA_RETRY_S = 10.0
"""Seconds until the next request for a namespace's ResourceQuotas or LimitRanges after a failed request. After HTTP
status 403, :data:`QUOTA_DENIED_S` applies instead."""
QUOTA_DENIED_S = 60.0
"""Seconds until the next request after HTTP status 403. This is longer than :data:`QUOTA_RETRY_S`, because each refused
request appears in the API server's audit log."""
_TIMEOUT_S = 3.0

_T = TypeVar("_T")


class _NamespaceReader(Generic[_T]):
    """Lists the objects of one kind in a namespace, and caches the result.

    :param holds_s: seconds for which the hub reuses a result.
    """

    def __init__(
        self,
        method: APIMethod,
        read: Callable[[object], _T],
        *,
        holds_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._method = method
        self._read = read
        self._holds_s = holds_s
        self._clock = clock
        self._answers: CachedAnswers[str, _T | None] = CachedAnswers(clock=clock)

    async def get(self, namespace: str, *, wait_s: float | None, max_age_s: float = math.inf) -> _T | None:
        known = self._answers.get(namespace)
        # After a failed request, no caller gets a new answer earlier than another.
        is_old = known is not None and known.value is not None and self._clock() - known.at >= max_age_s
        return await self._answers.read(namespace, partial(self._ask, namespace), wait_s=wait_s, renew=is_old)

    async def _ask(self, namespace: str) -> tuple[_T | None, float]:
        try:
            answer = await read_json(self._method, namespace=namespace, _request_timeout=_TIMEOUT_S)
        except APIUnavailableError as error:
            return None, QUOTA_DENIED_S if error.status == HTTPStatus.FORBIDDEN else QUOTA_RETRY_S
        return self._read(as_dict(answer).get("items")), self._holds_s


class ResourceQuotas:
    """Reads and caches how much the ResourceQuotas of each namespace leave for new pods."""

    def __init__(self, api: CoreAPI, *, clock: Callable[[], float] = time.monotonic) -> None:
        method = api.list_namespaced_resource_quota
        self._reader = _NamespaceReader(method, read_remaining_quota, holds_s=QUOTA_CACHE_S, clock=clock)

    async def read_remaining(
        self, namespace: str, *, max_age_s: float = QUOTA_CACHE_S, wait_s: float | None = None
    ) -> RemainingQuota | None:
        """Return how much a namespace's ResourceQuotas leave for new pods.

        The result is None if no quota applies, or if the hub cannot read the quotas in time.

        :param wait_s: seconds to wait at most; None for no limit besides the request's timeout.
        """
        return await self._reader.get(namespace, max_age_s=max_age_s, wait_s=wait_s)


class LimitRanges:
    """Reads the LimitRanges of each namespace, and caches them for :data:`LIMIT_RANGE_CACHE_S` seconds."""

    def __init__(self, api: CoreAPI, *, clock: Callable[[], float] = time.monotonic) -> None:
        method = api.list_namespaced_limit_range
        self._reader = _NamespaceReader(method, as_dicts, holds_s=LIMIT_RANGE_CACHE_S, clock=clock)

    async def read(self, namespace: str, *, wait_s: float | None = None) -> Sequence[object]:
        """Return the LimitRanges (v1) of a namespace as JSON; an empty tuple if the hub cannot read them in time.

        :param wait_s: seconds to wait at most; None for no limit besides the request's timeout.
        """
        return await self._reader.get(namespace, wait_s=wait_s) or ()
