"""Defines the metrics of starts, stages, verdicts and refusals, on JupyterHub's ``/hub/metrics``.

A verdict is the prediction, made at a start, whether the pod starts now. The names of metrics have JupyterHub's prefix
(``JUPYTERHUB_METRICS_PREFIX``). The values of labels are slugs of GPU types, codes, stages and names of schedulers,
never a user's name or text. Each label has a limited number of values. ``metrics.collectors`` has the metrics that are
computed at a scrape.
"""

from __future__ import annotations

from jupyterhub.metrics import metrics_prefix
from prometheus_client import Counter, Histogram

NO_GPU = "none"
OTHER_LABEL = "other"
"""Label value for GPUs whose type is unknown or that users cannot choose.

The value also replaces each new value of a label that already has :data:`_MAX_VALUES` values."""

_SUBSYSTEM = "gpuspawner"
METRICS_PREFIX = f"{metrics_prefix}_{_SUBSYSTEM}"

_MAX_VALUES = 100
"""Maximum number of values of a label; each further value counts as :data:`OTHER_LABEL`."""

_BUCKETS_S = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
"""Upper bounds of the histograms' buckets in seconds: from starts with a cached image to starts on a new node."""

_SPAWNS = Counter(
    "spawns",
    "Starts that have ended, by GPU type and by what became of them: ready, or the code of the reason",
    ["gpu", "outcome"],
    namespace=metrics_prefix,
    subsystem=_SUBSYSTEM,
)
_READY = Histogram(
    "spawn_ready_duration_seconds",
    "Seconds from the request for a server until it answers, of starts that succeed",
    ["gpu"],
    namespace=metrics_prefix,
    subsystem=_SUBSYSTEM,
    buckets=_BUCKETS_S,
)
_STAGES = Histogram(
    "spawn_stage_duration_seconds",
    "Seconds that starts spend in each stage",
    ["gpu", "stage"],
    namespace=metrics_prefix,
    subsystem=_SUBSYSTEM,
    buckets=_BUCKETS_S,
)
_VERDICTS = Counter(
    "verdicts",
    "Starts by what was foretold when they began, and what came of it",
    ["verdict", "outcome"],
    namespace=metrics_prefix,
    subsystem=_SUBSYSTEM,
)
_REFUSALS = Counter(
    "refusals",
    "Choices that were refused before anything was created, on the form or at a start, by the code of the first reason",
    ["reason"],
    namespace=metrics_prefix,
    subsystem=_SUBSYSTEM,
)
_IDLE_SCHEDULERS = Counter(
    "idle_scheduler_starts",
    "Starts whose pod no scheduler had looked at for 30 s, by the pod's schedulerName",
    ["scheduler"],
    namespace=metrics_prefix,
    subsystem=_SUBSYSTEM,
)


class BoundedLabel:
    """Limits the number of values of one label: after the maximum, each new value becomes :data:`OTHER_LABEL`.

    :param most: maximum number of values.
    """

    def __init__(self, *, most: int = _MAX_VALUES) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the value, or :data:`OTHER_LABEL` if the value is new and the label has its maximum of values."""
        if value in self._seen:
            return value
        if len(self._seen) >= self._most:
            return OTHER_LABEL
        self._seen.add(value)
        return value


gpu_label = BoundedLabel()
"""Returns the label value for the slug of a GPU type.

Metrics of pods and of starts share this object, so that a GPU type has one label value in all metrics."""
_reason_label = BoundedLabel()
_stage_label = BoundedLabel()
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
    :param stage: the stage's name.
    :param seconds: seconds that the start spent in the stage.
    """
    _STAGES.labels(gpu=gpu_label(gpu), stage=_stage_label(stage)).observe(seconds)


def count_verdict(verdict: str, outcome: str) -> None:
    """Count a start by its verdict (the prediction whether its pod starts now) and by its real outcome.

    :param verdict: the predicted outcome.
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
