"""Kueue's part of the stage: puts up a fleet's queue, takes it down, and tells when Kueue has nothing left to do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from bench.api import Api, RefusedError
from bench.truth.queue_facts import QueueView, list_states, list_work
from bench.truth.queues import API_VERSION, Queue, Trouble
from bench.truth.vocabulary import NAMESPACE, Manifest

_ROOT = f"/apis/{API_VERSION}"
_LOCAL = f"{_ROOT}/namespaces/{NAMESPACE}"
_PATHS = {
    "ResourceFlavor": f"{_ROOT}/resourceflavors",
    "Cohort": f"{_ROOT}/cohorts",
    "ClusterQueue": f"{_ROOT}/clusterqueues",
    "LocalQueue": f"{_LOCAL}/localqueues",
    "WorkloadPriorityClass": f"{_ROOT}/workloadpriorityclasses",
}
WORKLOADS = f"{_LOCAL}/workloads"
_VISIBLE = f"/apis/visibility.{API_VERSION}/clusterqueues"

REST_S = 1.6
"""Kueue waits a second before it looks again at what it refused (``RequeueBatchPeriodProd`` of its
``pkg/cache/queue/inadmissible_workloads.go``), so quota that became free is not taken before."""


class QueueStage:
    """Kueue in one cluster; for one fleet at a time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._states: frozenset[tuple[str, bool]] = frozenset()
        self._disturbed_at = 0.0

    def create(self, queue: Queue) -> None:
        """Create the objects of a queue."""
        for each in queue.objects:
            self._api.create(_PATHS[each["kind"]], each)

    def is_ready(self, queue: Queue) -> bool:
        """Return whether Kueue has taken note of a queue's ClusterQueues and LocalQueues."""
        plurals = [_PATHS["ClusterQueue"], *([] if queue.trouble is Trouble.NO_LOCAL_QUEUE else [_PATHS["LocalQueue"]])]
        found = [each for path in plurals for each in self._api.get(path)["items"]]
        return all(each.get("status", {}).get("conditions") for each in found)

    def delete(self, queue: Queue) -> None:
        """Delete the objects of a queue; call again until they are gone."""
        for each in reversed(queue.objects):
            self._api.delete(f"{_PATHS[each['kind']]}/{each['metadata']['name']}")
        self._states = frozenset()

    def is_gone(self) -> bool:
        """Return whether there is no object of a queue."""
        return not any(self._api.get(path)["items"] for path in (*_PATHS.values(), WORKLOADS))

    def look(self) -> QueueView:
        """Return Kueue's objects."""
        cluster_queues = self._api.get(_PATHS["ClusterQueue"])["items"]
        names = [each["metadata"]["name"] for each in cluster_queues]
        return QueueView(
            workloads=self._api.get(WORKLOADS)["items"],
            cluster_queues=cluster_queues,
            pending={name: self._list_pending(name) for name in names},
        )

    def list_work(self, queue: Queue, view: QueueView, pods: Iterable[Manifest]) -> Iterator[str]:
        """Yield what Kueue is still about to do."""
        states = list_states(view)
        if not self._states <= states:
            self._disturbed_at = time.monotonic()
        self._states = states
        absent = queue.settings.get("priority_class", "") if queue.trouble is Trouble.NO_CLASS else ""
        yield from list_work(view, pods, absent_class=absent)
        if view.workloads and time.monotonic() - self._disturbed_at < REST_S:
            yield "Kueue looks again at what it refused"

    def _list_pending(self, cluster_queue: str) -> list[str]:
        try:
            items = self._api.get(f"{_VISIBLE}/{cluster_queue}/pendingworkloads")["items"]
        except RefusedError:
            return []
        return [each["metadata"]["name"] for each in items]
