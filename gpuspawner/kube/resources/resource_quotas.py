"""Reads what the ResourceQuotas of a namespace leave, where the hub may: the tightest limit there is for everybody.

Nothing is watched: a quota's status changes with every pod, and is of interest only while somebody looks at a form or
starts a server. Many who do so at the same moment share one request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, Protocol

from gpuspawner.core.json_access import as_dict
from gpuspawner.core.policy.usage import RemainingQuota, read_remaining_quota
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, read_body, send_request

QUOTA_CACHE_S = 3.0
QUOTA_RETRY_S = 10.0
"""After a failure nobody waits for another one for so long."""
QUOTA_DENIED_S = 60.0
"""The same after a refusal, each of which is a line in the audit log."""
_MAX_CACHED = 4096


class QuotasAPI(Protocol):
    """What is used of ``kubernetes_asyncio.client.CoreV1Api``."""

    @property
    def list_namespaced_resource_quota(self) -> APIMethod:
        """List the quotas of a namespace."""


class _CachedQuota(NamedTuple):
    """What was found.

    :param at: when it was asked for.
    :param holds_s: seconds until it is asked for again, whoever asks; None where those who ask say so.
    """

    quota: RemainingQuota | None
    at: float
    holds_s: float | None = None


class ResourceQuotas:
    """Remembers what quotas leave, for everybody in this process.

    :param timeout_s: seconds for a request.
    :param clock: monotonic seconds.
    """

    def __init__(self, api: QuotasAPI, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._clock = clock
        self._read: dict[str, _CachedQuota] = {}
        self._asking: dict[str, asyncio.Task[_CachedQuota]] = {}

    async def read_remaining(self, namespace: str, *, max_age_s: float = QUOTA_CACHE_S) -> RemainingQuota | None:
        """Return what quotas leave in a namespace; None where there are none, or none can be read.

        :param max_age_s: how old an answer may be, in seconds.
        """
        known = self._read.get(namespace)
        if known is not None and self._clock() - known.at < (max_age_s if known.holds_s is None else known.holds_s):
            return known.quota
        if namespace not in self._asking:
            task = self._asking[namespace] = asyncio.ensure_future(self._ask(namespace))
            task.add_done_callback(lambda _: self._asking.pop(namespace, None))
        # Shielded: whoever gives up waiting does not take the answer from the others.
        return (await asyncio.shield(self._asking[namespace])).quota

    async def _ask(self, namespace: str) -> _CachedQuota:
        asked_at = self._clock()
        try:
            found = _CachedQuota(await self._list(namespace), asked_at)
        except APIUnavailableError as error:
            found = _CachedQuota(
                None, asked_at, QUOTA_DENIED_S if error.status == HTTPStatus.FORBIDDEN else QUOTA_RETRY_S
            )
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
