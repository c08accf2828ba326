"""Computes metrics at each scrape: servers and GPUs by type, the age of the cluster's data, the settings files.

A scrape reads the pods in KubeSpawner's reflectors from memory and sends no requests to the API server. The names of
the settings metrics are modeled on Prometheus' own ``prometheus_config_last_reload_successful``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.hub.config.settings_files import ReloadingSettings
from gpuspawner.hub.metrics.registry import METRICS_PREFIX, NO_GPU, OTHER_LABEL, gpu_label
from gpuspawner.kube.store import ClusterStore

REQUESTED = "requested"
HELD = "held"

_GPU, _COUNT = f"{ANNOTATION_PREFIX}gpu", f"{ANNOTATION_PREFIX}gpu-count"
_FINISHED = frozenset({"Succeeded", "Failed"})

GPUState = tuple[str, str]
"""Metric labels of a count: the label of the GPU type, and :data:`HELD` or :data:`REQUESTED`."""


def count_servers(
    pods: Iterable[Mapping[str, Any]], *, label: Callable[[str], str]
) -> tuple[Counter[GPUState], Counter[GPUState]]:
    """Return two counters with GPU type and state as the key: the number of servers, and the number of GPUs.

    A pod with a node holds its GPUs (:data:`HELD`); a pod without a node requests them (:data:`REQUESTED`).

    :param pods: JSON of the pods, as the API server sends them; finished and malformed pods do not count.
    :param label: returns the metric label for the slug of a GPU type.
    """
    servers: Counter[GPUState] = Counter()
    gpus: Counter[GPUState] = Counter()
    for pod in pods:
        try:
            if (pod.get("status") or {}).get("phase") in _FINISHED:
                continue
            gpu, number = _count_gpus(pod, label=label)
            key = (gpu, HELD if pod["spec"].get("nodeName") else REQUESTED)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        servers[key] += 1
        gpus[key] += number
    return servers, gpus


def _count_gpus(pod: Mapping[str, Any], *, label: Callable[[str], str]) -> tuple[str, int]:
    annotations = pod["metadata"].get("annotations") or {}
    if _GPU in annotations:
        return label(annotations[_GPU]), int(annotations.get(_COUNT, 1))
    # A pod without the annotation may still have GPUs, if an earlier version of gpuspawner made the pod, or a hook
    # added the GPUs. Count the GPUs in the containers' limits.
    limits = ((each.get("resources") or {}).get("limits") or {} for each in pod["spec"]["containers"])
    number = sum(int(amount) for each in limits for name, amount in each.items() if find_vendor(name))
    return (OTHER_LABEL, number) if number else (NO_GPU, 0)


class ClusterMetrics(Collector):
    """Collects counts of servers and GPUs, the age of a :class:`ClusterStore`'s data, and the restarts of its watches.

    :param reflectors: returns KubeSpawner's reflectors, by kind and namespace.
    :param store: returns the :class:`ClusterStore` of this process, or None before its first use.
    """

    def __init__(self, reflectors: Callable[[], Mapping[Any, Any]], store: Callable[[], ClusterStore | None]) -> None:
        self._reflectors = reflectors
        self._store = store

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the metrics with their current values."""
        yield from self._servers()
        yield from self._reading()

    def _servers(self) -> Iterable[Metric]:
        watched = [reflector for (kind, *_), reflector in self._reflectors().items() if kind == "pods"]
        pods = (pod for reflector in watched for pod in reflector.pods.values())
        servers, gpus = count_servers(pods, label=gpu_label)
        labels = ["gpu", "state"]
        shown = {(NO_GPU, HELD), (NO_GPU, REQUESTED), *servers}
        families = (
            ("servers", "Servers by GPU type: those whose pod waits for a node, and those whose pod has one", servers),
            ("gpus", "GPUs by type: those that pods wait for, and those that pods with a node hold", gpus),
        )
        for name, documentation, counts in families:
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


class SettingsMetrics(Collector):
    """Reports whether settings files are valid.

    Each scrape reloads changed files. Otherwise, the metrics would show an error only after a user had opened a form.

    :param followed: the settings that were read from files.
    """

    def __init__(self, followed: Iterable[ReloadingSettings]) -> None:
        self._followed = followed

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield two metrics: whether all settings files are valid, and when the hub last read valid files.

        Yield nothing without settings files. With several :class:`ReloadingSettings`, yield the earliest time.
        """
        found = list(self._followed)
        for settings in found:
            settings.reload_if_changed()
        if not found:
            return
        yield GaugeMetricFamily(
            f"{METRICS_PREFIX}_settings_last_reload_successful",
            "Whether the files of settings were right when they were last read; where not, older settings are in use",
            value=float(all(settings.is_valid for settings in found)),
        )
        yield GaugeMetricFamily(
            f"{METRICS_PREFIX}_settings_last_reload_success_timestamp_seconds",
            "When the files of settings were last read and right",
            value=min(settings.read_at for settings in found),
        )
