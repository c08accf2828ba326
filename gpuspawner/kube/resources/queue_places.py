"""Reads a pod's place in a queue of Kueue, or the state of the queue if the pod does not exist yet.

The place consists of the pod's position and the reason why Kueue does not admit the pod. The state of a LocalQueue
consists of the quotas of its ClusterQueue and the priorities of the Workloads that wait in the ClusterQueue.

Kueue's visibility API calculates positions for each request and stores them nowhere, so the hub cannot watch them. The
reasons are in the pod's Workload and in the LocalQueue. The quotas are in ClusterQueues and ResourceFlavors.
If Kueue is missing, or the hub may not read one of these resources, the part of the result that needs the resource is
unknown. This is not an error.
https://kueue.sigs.k8s.io/docs/tasks/manage/monitor_pending_workloads/pending_workloads_on_demand/
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from gpuspawner.core.catalog.kueue import (
    QueueReason,
    read_capacity,
    read_queue_problem,
)
from gpuspawner.core.catalog.queue import QueueState
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text
from gpuspawner.core.progress.model import QueuePlace
from gpuspawner.core.progress.scheduler_events import WorkloadState, read_workload_state
from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, read_json
from gpuspawner.kube.client.pacing import Answer, CachedAnswers

_VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's APIs, newest first; Kueue 0.9 and later serve v1beta1."""
_POSITIONS_PATH = (
    "/apis/visibility.kueue.x-k8s.io/{version}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
)
_LIST_PATH = "/apis/kueue.x-k8s.io/{version}/namespaces/{namespace}/{plural}"
_CLUSTER_LIST_PATH = "/apis/kueue.x-k8s.io/{version}/{plural}"
_WAITING_PATH = "/apis/visibility.kueue.x-k8s.io/{version}/clusterqueues/{queue}/pendingworkloads"
_POD_LABEL = "kueue.x-k8s.io/job-uid"
"""Label on a Workload; its value is the uid of the Workload's pod."""

QUEUE_CACHE_S = 5.0
"""Seconds for which the hub reuses an answer of the API server about a queue, for all pods in the queue."""
QUEUE_SETUP_CACHE_S = 30.0
"""Seconds for which the hub reuses ResourceFlavors and WorkloadPriorityClasses, which only admins change."""
QUEUE_DENIED_S = 60.0
"""Seconds until the hub repeats a request that the API server refused (HTTP status 401, 403 or 404)."""
_MAX_CACHE_TIMES = 2
"""An answer older than this multiple of its caching time (:data:`QUEUE_CACHE_S` or :data:`QUEUE_SETUP_CACHE_S`) counts
as unknown. Until then, the hub uses it if no newer answer arrives."""
NEW_POD_S = 1.0
"""Seconds for which the hub reuses a list of Workloads that was requested without a certain pod, such as a new pod."""
_FORGOTTEN_S = 30.0
"""The hub stops requesting a pod's Workload this many seconds after the last :meth:`QueuePlaces.find_place` for it."""
_PER_REQUEST = 100
"""Maximum number of pods in one request for Workloads. The URL contains the uid of each pod, so this number limits the
URL's length."""

_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})

_log = logging.getLogger(__name__)

_Positions = Mapping[str, int]
"""Name of a Workload, or uid of its pod → number of Workloads ahead of it in the ClusterQueue."""
_Workloads = Mapping[str, WorkloadState | None]
"""Uid of a pod → state of its Workload, or None if Kueue has created no Workload."""


_CLUSTER_QUEUES, _FLAVORS, _CLASSES = "clusterqueues", "resourceflavors", "workloadpriorityclasses"


class _LocalQueue(NamedTuple):
    """State of a LocalQueue: why it admits no pods (None if it admits pods), and the name of its ClusterQueue."""

    problem: QueueReason | None
    cluster_queue: str = ""


_UNKNOWN: Answer[Any] = Answer(None, at=float("-inf"), until=float("-inf"))


class QueuePlaces:
    """Reads and caches pods' positions in Kueue's queues, and the queues' quotas, for all servers of the hub.

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    """

    def __init__(
        self,
        api_client: Any,
        *,
        timeout_s: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api_client = api_client
        self._timeout_s = timeout_s
        self._clock = clock
        self._now = now
        self._answers: CachedAnswers[tuple[str, ...], Any] = CachedAnswers(clock=clock)
        self._asked_at: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Namespace → uid of a pod → seconds of the clock at the last call of :meth:`find_place` for the pod."""

    async def find_place(self, pod: Mapping[str, object], *, queue: str, wait_s: float | None = None) -> QueuePlace:
        """Return a pod's position in its queue, and why Kueue does not admit the pod; unknown values are None.

        :param pod: JSON of the pod.
        :param queue: name of the LocalQueue.
        """
        metadata = as_dict(pod.get("metadata"))
        namespace, uid = as_text(metadata.get("namespace")), as_text(metadata.get("uid"))
        began_at = self._clock()
        local_queue, workloads = await asyncio.gather(
            self._read_local_queue(namespace, queue, wait_s=wait_s), self._read_workloads(namespace, uid, wait_s=wait_s)
        )
        found: _LocalQueue | None = local_queue.value
        if found is not None and found.problem is not None:
            # Do not read positions: a missing queue has none, and in a queue that admits no pods, they do not show how
            # long the pod will wait.
            return QueuePlace(queue=queue, reason=found.problem)
        left_s = None if wait_s is None else max(0.0, wait_s - (self._clock() - began_at))
        positions = await self._read_positions(namespace, queue, wait_s=left_s)
        state = _find_state(uid, workloads, is_kueue_up=positions is not None)
        return QueuePlace(
            queue=queue,
            position=_find_position(metadata, positions or {}),
            reason=state.reason,
            requeue_s=self._count_seconds_until(state.requeue_at),
        )

    async def read_state(
        self, namespace: str, queue: str, *, priority_class: str, priority: int | None, wait_s: float | None = None
    ) -> QueueState:
        """Return the state of a queue for a server whose pod does not exist yet; unknown values are None.

        :param queue: name of the LocalQueue.
        :param priority_class: name of the pod's WorkloadPriorityClass; empty for none.
        :param priority: the pod's Kubernetes priority, used if ``priority_class`` is empty; None if unknown.
        """
        began_at = self._clock()
        plurals = [_CLUSTER_QUEUES, _FLAVORS, *([_CLASSES] if priority_class else ())]
        local_queue, *lists = await asyncio.gather(
            self._read_local_queue(namespace, queue, wait_s=wait_s),
            *(self._read_list(plural, wait_s=wait_s) for plural in plurals),
        )
        found: _LocalQueue | None = local_queue.value
        reads = dict(zip(plurals, lists, strict=True))
        capacity = waiting = None
        if found is not None and found.problem in (None, QueueReason.INACTIVE):
            cluster_queues = reads[_CLUSTER_QUEUES].value or ()
            named = (raw for raw in cluster_queues if _read_name(raw) == found.cluster_queue)
            capacity = next((read_capacity(raw, flavors=reads[_FLAVORS].value) for raw in named), None)
        # If the ClusterQueue's status says that no Workload waits, skip the request for the waiting Workloads.
        if found is not None and found.problem is None and capacity is not None and capacity.pending != 0:
            left_s = None if wait_s is None else max(0.0, wait_s - (self._clock() - began_at))
            waiting = await self._read_waiting(found.cluster_queue, wait_s=left_s)
        classes = _read_classes(reads[_CLASSES].value) if priority_class else None
        known = [each.at for each in (local_queue, *lists, waiting) if each is not None and each.value is not None]
        return QueueState(
            name=queue,
            namespace=namespace,
            problem=None if found is None else found.problem,
            capacity=capacity,
            waiting=None if waiting is None else waiting.value,
            priority=(classes or {}).get(priority_class) if priority_class else priority,
            missing_class="" if classes is None or priority_class in classes else priority_class,
            age_s=self._clock() - min(known, default=self._clock()),
        )

    def _count_seconds_until(self, at: str) -> float | None:
        try:
            return max(0.0, (datetime.fromisoformat(at) - self._now()).total_seconds()) if at else None
        except (TypeError, ValueError):
            return None

    async def _read_positions(self, namespace: str, queue: str, *, wait_s: float | None) -> _Positions | None:
        async def ask() -> _Positions:
            return _parse_positions(await self._get(_POSITIONS_PATH, {"namespace": namespace, "queue": queue}))

        found: _Positions | None = (await self._read(("positions", namespace, queue), ask, wait_s=wait_s)).value
        return found

    async def _read_waiting(self, cluster_queue: str, *, wait_s: float | None) -> Answer[Any]:
        async def ask() -> tuple[int, ...]:
            return _parse_priorities(await self._get(_WAITING_PATH, {"queue": cluster_queue}))

        return await self._read(("waiting", cluster_queue), ask, wait_s=wait_s)

    async def _read_list(self, plural: str, *, wait_s: float | None) -> Answer[Any]:
        async def ask() -> list[dict[str, object]]:
            return _list_items(await self._get(_CLUSTER_LIST_PATH, {"plural": plural}))

        kept_s = QUEUE_CACHE_S if plural == _CLUSTER_QUEUES else QUEUE_SETUP_CACHE_S
        return await self._read(("list", plural), ask, wait_s=wait_s, kept_s=kept_s)

    async def _read_local_queue(self, namespace: str, queue: str, *, wait_s: float | None) -> Answer[Any]:
        async def ask() -> _LocalQueue:
            # Send a list request: an empty list means that the queue is missing, and 404 that the API is missing. A
            # get request would return 404 in both cases.
            query = {"fieldSelector": f"metadata.name={queue}"}
            answer = await self._get(_LIST_PATH, {"namespace": namespace, "plural": "localqueues"}, query=query)
            return next(map(_read_local_queue, _list_items(answer)), _LocalQueue(QueueReason.NO_QUEUE))

        return await self._read(("local queue", namespace, queue), ask, wait_s=wait_s)

    async def _read_workloads(self, namespace: str, uid: str, *, wait_s: float | None) -> _Workloads:
        self._asked_at[namespace][uid] = self._clock()
        key = ("workloads", namespace)
        known = self._answers.get(key) or _UNKNOWN
        lacks_pod = known.value is not None and uid not in known.value
        renew = lacks_pod and self._clock() >= known.at + NEW_POD_S
        found = await self._read(key, partial(self._ask_workloads, namespace), wait_s=wait_s, renew=renew)
        return found.value or {}

    async def _ask_workloads(self, namespace: str) -> _Workloads:
        asked_at = self._asked_at[namespace]
        for uid in [each for each, at_s in asked_at.items() if self._clock() - at_s > _FORGOTTEN_S]:
            del asked_at[uid]
        found: dict[str, WorkloadState | None] = dict.fromkeys(asked_at)
        uids = list(asked_at)
        for first in range(0, len(uids), _PER_REQUEST):
            query = {"labelSelector": f"{_POD_LABEL} in ({','.join(uids[first : first + _PER_REQUEST])})"}
            answer = await self._get(_LIST_PATH, {"namespace": namespace, "plural": "workloads"}, query=query)
            for workload in _list_items(answer):
                state = read_workload_state(workload)
                found |= dict.fromkeys(_list_owners(workload) & found.keys(), state)
        return found

    async def _read(
        self,
        key: tuple[str, ...],
        ask: Callable[[], Awaitable[Any]],
        *,
        wait_s: float | None,
        kept_s: float = QUEUE_CACHE_S,
        renew: bool = False,
    ) -> Answer[Any]:
        await self._answers.read(key, partial(_try, ask, kept_s=kept_s), wait_s=wait_s, renew=renew)
        known = self._answers.get(key) or _UNKNOWN
        return _UNKNOWN if self._clock() - known.at > _MAX_CACHE_TIMES * kept_s else known

    async def _get(self, path: str, names: Mapping[str, str], *, query: Mapping[str, str] | None = None) -> object:
        parameters = list((query or {}).items())
        for version in _VERSIONS[:-1]:
            try:
                return await self._send(path, {"version": version, **names}, query=parameters)
            except APIUnavailableError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        return await self._send(path, {"version": _VERSIONS[-1], **names}, query=parameters)

    async def _send(self, path: str, names: Mapping[str, str], *, query: list[tuple[str, str]]) -> object:
        method: APIMethod = partial(
            self._api_client.call_api,
            path,
            "GET",
            path_params=dict(names),
            query_params=query,
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        return await read_json(method, _request_timeout=self._timeout_s)


async def _try(ask: Callable[[], Awaitable[Any]], *, kept_s: float) -> tuple[Any, float]:
    try:
        return await ask(), kept_s
    except APIUnavailableError as error:
        return None, QUEUE_DENIED_S if error.status in _REFUSALS else QUEUE_CACHE_S
    except Exception:  # noqa: BLE001  # a strange answer must neither fail a form nor be asked for at once again
        _log.exception("Kueue's answer cannot be read")
        return None, QUEUE_CACHE_S


def _list_items(answer: object) -> list[dict[str, object]]:
    items = as_dict(answer).get("items")
    if not isinstance(items, list):
        # Raise an error for a malformed answer: an empty list would say that a queue or a Workload does not exist.
        raise APIUnavailableError("the answer is no list of objects")
    return as_dicts(items)


def _parse_priorities(answer: object) -> tuple[int, ...]:
    found = [as_int(each.get("priority")) for each in _list_items(answer)]
    known = tuple(each for each in found if each is not None)
    if len(known) < len(found):
        raise APIUnavailableError("a waiting Workload has no priority")
    return known


def _read_local_queue(raw: Mapping[str, object]) -> _LocalQueue:
    return _LocalQueue(read_queue_problem(raw), as_text(as_dict(raw.get("spec")).get("clusterQueue")))


def _read_classes(raw: Iterable[Mapping[str, object]] | None) -> dict[str, int | None] | None:
    """Return name → value of all WorkloadPriorityClasses, or None if they are unknown."""
    if raw is None:
        return None
    return {_read_name(each): as_int(each.get("value")) for each in raw}


def _read_name(raw: Mapping[str, object]) -> str:
    return as_text(as_dict(raw.get("metadata")).get("name"))


def _list_owners(workload: Mapping[str, object]) -> set[str]:
    owners = as_dicts(as_dict(workload.get("metadata")).get("ownerReferences"))
    return set(filter(None, (as_text(owner.get("uid")) for owner in owners)))


def _find_state(uid: str, workloads: _Workloads, *, is_kueue_up: bool) -> WorkloadState:
    if uid in workloads and workloads[uid] is None:
        return WorkloadState(QueueReason.NOT_TAKEN if is_kueue_up else None)
    return workloads.get(uid) or WorkloadState()


def _find_position(pod_metadata: Mapping[str, object], positions: _Positions) -> int | None:
    found = positions.get(as_text(pod_metadata.get("uid")))
    if found is not None:
        return found
    # Kueue gave no position for the pod's uid. Find the Workload by its name, which consists of "pod", the pod's name
    # and a hash.
    name = re.compile(rf"pod-{re.escape(as_text(pod_metadata.get('name')))}-[0-9a-f]{{5}}")
    return next((position for workload, position in positions.items() if name.fullmatch(workload)), None)


def _parse_positions(answer: object) -> dict[str, int]:
    found: dict[str, int] = {}
    for workload in as_dicts(as_dict(answer).get("items")):
        # Do not read positionInLocalQueue: Kueue admits in the order of the ClusterQueue, which LocalQueues may share.
        position = as_int(workload.get("positionInClusterQueue"))
        if position is None:
            continue
        name = as_text(as_dict(workload.get("metadata")).get("name"))
        found |= dict.fromkeys(filter(None, (name, *_list_owners(workload))), position)
    return found
