"""What the hub counts of starts, beside JupyterHub's own metrics on its ``/hub/metrics``.

Names begin as JupyterHub's do (``JUPYTERHUB_METRICS_PREFIX``). Labels are slugs of GPU types, codes and names of
stages: so many at most, and nothing that a person typed or is called. What there is when somebody asks, as opposed to
what happened: :mod:`gpuspawner.hub.metrics.registry.cluster_metrics`.
"""

from __future__ import annotations

from jupyterhub.metrics import metrics_prefix
from prometheus_client import Counter, Histogram

NO_GPU = "none"
OTHER_LABEL = "other"
"""Stands for what is not known by its name, and for all that would be too much."""

_SUBSYSTEM = "gpuspawner"
METRICS_PREFIX = f"{metrics_prefix}_{_SUBSYSTEM}"

_MAX_VALUES = 100
"""Values of one label: a cluster with more GPU types shows the first ones that were used."""

_BUCKETS_S = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
"""Upper ends of the buckets in seconds: from a warm image on a free node to a new node with a large image."""

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


class BoundedLabel:
    """The values of one label; when there are too many, those that come later are all called the same."""

    def __init__(self, *, most: int = _MAX_VALUES) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return a value as it is shown."""
        if value in self._seen:
            return value
        if len(self._seen) >= self._most:
            return OTHER_LABEL
        self._seen.add(value)
        return value


gpu_label = BoundedLabel()
"""GPU types, by slug; those in use by pods are counted under the same names as those of starts."""
_reason_label = BoundedLabel()
_stage_label = BoundedLabel()


def count_spawn(gpu: str, outcome: str, *, seconds: float) -> None:
    """Count a start that has ended.

    :param gpu: slug of its GPU type, or :data:`NO_GPU`.
    :param outcome: ``ready``, or a code of a closed list
        (:func:`gpuspawner.hub.metrics.starts.classify_outcome`).
    :param seconds: since it was asked for.
    """
    _SPAWNS.labels(gpu=gpu_label(gpu), outcome=_reason_label(outcome)).inc()
    if outcome == "ready":
        _READY.labels(gpu=gpu_label(gpu)).observe(seconds)


def observe_stage(gpu: str, stage: str, *, seconds: float) -> None:
    """Note how long a start was in a stage, in seconds."""
    _STAGES.labels(gpu=gpu_label(gpu), stage=_stage_label(stage)).observe(seconds)


def count_verdict(verdict: str, outcome: str) -> None:
    """Count what came of a verdict."""
    _VERDICTS.labels(verdict=verdict, outcome=outcome).inc()


def count_refusal(reason: str) -> None:
    """Count a choice that was refused.

    :param reason: code of the first reason.
    """
    _REFUSALS.labels(reason=_reason_label(reason)).inc()
