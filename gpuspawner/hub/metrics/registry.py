"""Defines the metrics on JupyterHub's ``/hub/metrics``.

The hub counts starts, stages, verdicts and refusals as they happen. At each scrape it computes servers and GPUs by
type, the age of the cluster's data, and the state of the settings files. A scrape reads the pods in KubeSpawner's
reflectors from memory and sends no requests to the API server.

A verdict is the prediction, made at a start, whether the pod starts now. The names of metrics have JupyterHub's prefix
(``JUPYTERHUB_METRICS_PREFIX``). The values of labels are slugs of GPU types, codes, stages and names of schedulers,
never a user's name or text. Each label has a limited number of values. The names of the settings metrics are modeled on
Prometheus' own ``prometheus_config_last_reload_successful``.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jupyterhub.metrics import metrics_prefix
from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.hub.config.settings_files import ReloadingSettings
from gpuspawner.kube.store import ClusterStore

NO_GPU = "none"
OTHER_LABEL = "other"
"""Label value for GPUs of an unknown type, or of a type that users cannot choose.

If a label already has :data:`_MAX_VALUES` values, this value also replaces each new value of the label."""

METRICS_PREFIX = f"{metrics_prefix}_gpuspawner"

_MAX_VALUES = 100
"""Maximum number of values of a label; each further value counts as :data:`OTHER_LABEL`."""

_BUCKETS_S = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
"""Upper bounds of the histograms' buckets in seconds."""

_SPAWNS = Counter(
    "spawns",
    "Starts that have ended, by GPU type and outcome: ready, or the code of the reason",
    ["gpu", "outcome"],
    namespace=METRICS_PREFIX,
)
_READY = Histogram(
    "spawn_ready_duration_seconds",
    "Seconds from the request for a server until it answers, of starts that succeed",
    ["gpu"],
    namespace=METRICS_PREFIX,
    buckets=_BUCKETS_S,
)
_STAGES = Histogram(
    "spawn_stage_duration_seconds",
    "Seconds that starts spend in each stage",
    ["gpu", "stage"],
    namespace=METRICS_PREFIX,
    buckets=_BUCKETS_S,
)
_VERDICTS = Counter(
    "verdicts",
    "Starts by the verdict at their beginning, and by their outcome",
    ["verdict", "outcome"],
    namespace=METRICS_PREFIX,
)
_REFUSALS = Counter(
    "refusals",
    "Choices refused in the form or at a start, before anything was created, by the code of the first reason",
    ["reason"],
    namespace=METRICS_PREFIX,
)
_IDLE_SCHEDULERS = Counter(
    "idle_scheduler_starts",
    "Starts whose pod no scheduler had looked at for 30 s, by the pod's schedulerName",
    ["scheduler"],
    namespace=METRICS_PREFIX,
)


class BoundedLabel:
    """Limits the number of values of one label: once the maximum is reached, new values become :data:`OTHER_LABEL`.

    :param most: maximum number of values.
    """

    def __init__(self, *, most: int = _MAX_VALUES) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the value, or :data:`OTHER_LABEL` if it is new and the label has its maximum number of values."""
        if value in self._seen:
            return value
        if len(self._seen) >= self._most:
            return OTHER_LABEL
        self._seen.add(value)
        return value


gpu_label = BoundedLabel()
"""Function from the slug of a GPU type to the label value: the slug, or :data:`OTHER_LABEL` if there are too many.

Metrics of pods and of starts share this object, so that a GPU type has one label value in all metrics."""
_reason_label = BoundedLabel()
_scheduler_label = BoundedLabel()


def count_spawn(gpu: str, outcome: str, *, seconds: float) -> None:
    """Count a start that has ended.

    :param gpu: slug of the start's GPU type, or :data:`NO_GPU`.
    :param outcome: result of :func:`gpuspawner.hub.metrics.starts.classify_outcome`, such as ``ready``.
    :param seconds: seconds since the user requested the start.
    """
    _SPAWNS.labels(gpu=gpu_label(gpu), outcome=_reason_label(outcome)).inc()
    if outcome == "ready":
        _READY.labels(gpu=gpu_label(gpu)).observe(seconds)


def observe_stage(gpu: str, stage: str, *, seconds: float) -> None:
    """Record the time that a start spent in a stage.

    :param gpu: slug of the start's GPU type, or :data:`NO_GPU`.
    """
    _STAGES.labels(gpu=gpu_label(gpu), stage=stage).observe(seconds)


def count_verdict(verdict: str, outcome: str) -> None:
    """Count a start by its verdict (the prediction whether its pod starts now) and by its real outcome.

    :param outcome: the real outcome, as a code from :func:`gpuspawner.hub.metrics.starts.classify_verdict`.
    """
    _VERDICTS.labels(verdict=verdict, outcome=outcome).inc()


def count_refusal(reason: str) -> None:
    """Count a refusal of user options.

    :param reason: code of the first reason for the refusal.
    """
    _REFUSALS.labels(reason=_reason_label(reason)).inc()


def count_idle_scheduler(name: str) -> None:
    """Count a start whose pod no scheduler has handled within 30 s.

    :param name: the pod's ``schedulerName``.
    """
    _IDLE_SCHEDULERS.labels(scheduler=_scheduler_label(name)).inc()


REQUESTED = "requested"
HELD = "held"

_GPU, _COUNT = f"{ANNOTATION_PREFIX}gpu", f"{ANNOTATION_PREFIX}gpu-count"
_FINISHED = frozenset({"Succeeded", "Failed"})

GPUState = tuple[str, str]
"""Labels of the metrics for servers and GPUs: the label of the GPU type, and :data:`HELD` or :data:`REQUESTED`."""


def count_servers(
    pods: Iterable[Mapping[str, Any]], *, label: Callable[[str], str]
) -> tuple[collections.Counter[GPUState], collections.Counter[GPUState]]:
    """Return two counters with GPU type and state as the key: the number of servers, and the number of GPUs.

    A pod with a node holds its GPUs (:data:`HELD`); a pod without a node requests them (:data:`REQUESTED`).

    :param pods: JSON of the pods, as the API server sends them; finished and malformed pods do not count.
    :param label: function that returns the metric label for the slug of a GPU type.
    """
    servers: collections.Counter[GPUState] = collections.Counter()
    gpus: collections.Counter[GPUState] = collections.Counter()
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
        return label(annotations[_GPU] or OTHER_LABEL), int(annotations.get(_COUNT, 1))
    # A pod without the annotation for the GPU type may still have GPUs, if an earlier version of gpuspawner made the
    # pod, or a hook added the GPUs. Count the GPUs in the containers' limits.
    limits = ((each.get("resources") or {}).get("limits") or {} for each in pod["spec"]["containers"])
    number = sum(int(amount) for each in limits for name, amount in each.items() if find_vendor(name))
    return (OTHER_LABEL, number) if number else (NO_GPU, 0)


class ClusterMetrics(Collector):
    """Collects counts of servers and GPUs, the age of a :class:`ClusterStore`'s data, and the restarts of its watches.

    :param reflectors: function that returns KubeSpawner's reflectors, by kind and namespace.
    :param store: function that returns the :class:`ClusterStore` of this process, or None before its first use.
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
            "Age in seconds of the hub's data about the cluster; absent before the first successful read",
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

    :param followed: the settings that come from files; each scrape iterates over them.
    """

    def __init__(self, followed: Iterable[ReloadingSettings]) -> None:
        self._followed = followed

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield two metrics: whether all settings files are valid, and when the hub last read valid files.

        Without settings files, yield nothing. Each :class:`ReloadingSettings` has its own time; yield the earliest.
        """
        found = list(self._followed)
        for settings in found:
            settings.reload_if_changed()
        if not found:
            return
        yield GaugeMetricFamily(
            f"{METRICS_PREFIX}_settings_last_reload_successful",
            "1 if the last read of the settings files succeeded; 0 if not: the hub then keeps the previous settings",
            value=float(all(settings.is_valid for settings in found)),
        )
        yield GaugeMetricFamily(
            f"{METRICS_PREFIX}_settings_last_reload_success_timestamp_seconds",
            "When the files of settings were last read and right",
            value=min(settings.read_at for settings in found),
        )
