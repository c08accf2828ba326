"""Reads a pod's position in a queue of Kueue.

Kueue's visibility API calculates the positions for each request and stores them nowhere. Without Kueue, or without the
right to read the positions, a position is unknown, which is not an error.
https://kueue.sigs.k8s.io/docs/tasks/manage/monitor_pending_workloads/pending_workloads_on_demand/
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, read_body, send_request
from gpuspawner.kube.client.pacing import SharedTasks

_GROUP = "visibility.kueue.x-k8s.io"
_VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's visibility API, newest first; Kueue 0.9 and later serve v1beta1."""
_PATH = "/apis/{group}/{version}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"

QUEUE_CACHE_S = 5.0
"""Seconds for which the hub reuses the positions in a queue, for all pods in the queue."""
QUEUE_DENIED_S = 60.0
"""Seconds until the next request for a queue after the API server refused one."""

_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})

_Positions = Mapping[str, int]
"""Name of a Workload, or uid of its pod → number of Workloads before it in the queue."""


@dataclass(slots=True)
class _CachedQueue:
    positions: _Positions | None = None
    until: float = 0.0


class QueuePositions:
    """Reads and caches the positions in Kueue's queues, for all servers of the hub.

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    :param timeout_s: timeout of each request in seconds.
    :param clock: monotonic seconds.
    """

    def __init__(self, api_client: Any, *, timeout_s: float = 3.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._api_client = api_client
        self._timeout_s = timeout_s
        self._clock = clock
        self._queues: dict[tuple[str, str], _CachedQueue] = {}
        self._requests: SharedTasks[tuple[str, str], None] = SharedTasks()

    async def find_position(self, pod: Mapping[str, object], *, queue: str, wait_s: float | None = None) -> int | None:
        """Return how many Workloads wait before a pod in its queue, or None if that is unknown.

        :param pod: JSON of the pod.
        :param queue: name of the LocalQueue.
        :param wait_s: seconds to wait at most; None for no limit besides the request's timeout.
        """
        metadata = as_dict(pod.get("metadata"))
        positions = await self._read(as_text(metadata.get("namespace")), queue, wait_s=wait_s)
        if positions is None:
            return None
        found = positions.get(as_text(metadata.get("uid")))
        if found is not None:
            return found
        # Otherwise find the Workload by its name, which Kueue builds from "pod", the pod's name and a hash.
        name = re.compile(rf"pod-{re.escape(as_text(metadata.get('name')))}-[0-9a-f]{{5}}")
        return next((position for workload, position in positions.items() if name.fullmatch(workload)), None)

    async def _read(self, namespace: str, queue: str, *, wait_s: float | None) -> _Positions | None:
        known = self._queues.setdefault((namespace, queue), _CachedQueue())
        if self._clock() >= known.until:
            update = partial(self._update, known, namespace, queue=queue)
            await self._requests.wait_for((namespace, queue), update, wait_s=wait_s)
        return known.positions

    async def _update(self, known: _CachedQueue, namespace: str, *, queue: str) -> None:
        kept_s = QUEUE_CACHE_S
        try:
            known.positions = await self._ask(namespace, queue)
        except APIUnavailableError as error:
            known.positions = None
            kept_s = QUEUE_DENIED_S if error.status in _REFUSALS else QUEUE_CACHE_S
        finally:
            known.until = self._clock() + kept_s

    async def _ask(self, namespace: str, queue: str) -> _Positions:
        for version in _VERSIONS[:-1]:
            try:
                return await self._list(version, namespace, queue=queue)
            except APIUnavailableError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        return await self._list(_VERSIONS[-1], namespace, queue=queue)

    async def _list(self, version: str, namespace: str, *, queue: str) -> _Positions:
        path = {"group": _GROUP, "version": version, "namespace": namespace, "queue": queue}
        method: APIMethod = partial(
            self._api_client.call_api,
            _PATH,
            "GET",
            path_params=path,
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        response = await send_request(method, _request_timeout=self._timeout_s)
        try:
            answer = json.loads(await read_body(response))
        except (ValueError, RecursionError) as error:
            raise APIUnavailableError("the answer is no JSON") from error
        return _parse_positions(answer)


def _parse_positions(answer: object) -> dict[str, int]:
    found: dict[str, int] = {}
    for workload in as_dicts(as_dict(answer).get("items")):
        metadata = as_dict(workload.get("metadata"))
        # Not positionInLocalQueue: Kueue admits in the order of the ClusterQueue, which LocalQueues may share.
        position = as_int(workload.get("positionInClusterQueue"))
        if position is None:
            continue
        owners = (as_text(owner.get("uid")) for owner in as_dicts(metadata.get("ownerReferences")))
        found |= dict.fromkeys(filter(None, (as_text(metadata.get("name")), *owners)), position)
    return found
