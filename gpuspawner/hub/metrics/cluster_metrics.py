"""What servers hold and how well the cluster is read, counted when somebody asks the hub for its metrics.

All of it is in memory: a scrape costs a look at each of the hub's own pods, and nothing of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from gpuspawner.hub.metrics.metrics import METRICS_PREFIX, NO_GPU, gpu_label
from gpuspawner.hub.metrics.server_counts import HELD, REQUESTED, count_servers
from gpuspawner.kube.store import ClusterStore


class ClusterMetrics(Collector):
    """Asks for what there is at each scrape.

    :param reflectors: KubeSpawner's, by kind and namespace.
    :param store: the one of this process; None before anybody asked for it.
    """

    def __init__(self, reflectors: Callable[[], Mapping[Any, Any]], store: Callable[[], ClusterStore | None]) -> None:
        self._reflectors = reflectors
        self._store = store

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield what there is now."""
        yield from self._servers()
        yield from self._reading()

    def _servers(self) -> Iterable[Metric]:
        watched = [reflector for (kind, *_), reflector in self._reflectors().items() if kind == "pods"]
        pods = (pod for reflector in watched for pod in reflector.pods.values())
        servers, gpus = count_servers(pods, label=gpu_label)
        labels = ["gpu", "state"]
        shown = {(NO_GPU, HELD), (NO_GPU, REQUESTED), *servers}
        told = (
            ("servers", "Servers by GPU type: those whose pod waits for a node, and those whose pod has one", servers),
            ("gpus", "GPUs by type: those that pods wait for, and those that pods with a node hold", gpus),
        )
        for name, documentation, counts in told:
            metric = GaugeMetricFamily(f"{METRICS_PREFIX}_{name}", documentation, labels=labels)
            for gpu, state in sorted(shown):
                if name == "servers" or gpu != NO_GPU:
                    metric.add_metric([gpu, state], counts[gpu, state])
            yield metric

    def _reading(self) -> Iterable[Metric]:
        store = self._store()
        age = GaugeMetricFamily(
            f"{METRICS_PREFIX}_inventory_age_seconds",
            "Seconds since what is known of the cluster was confirmed; absent while nothing is known",
        )
        if store is not None and store.age_s is not None:
            age.add_metric([], store.age_s)
        yield age
        restarts = CounterMetricFamily(
            f"{METRICS_PREFIX}_watch_restarts",
            "Times that reading a resource of the cluster failed and began again",
            labels=["resource"],
        )
        for resource, number in sorted(store.restarts.items()) if store is not None else ():
            restarts.add_metric([resource], number)
        yield restarts
