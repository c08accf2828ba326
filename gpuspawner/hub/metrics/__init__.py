"""Counts starts, refusals, verdicts, servers and GPUs for Prometheus, on JupyterHub's ``/hub/metrics``.

A verdict is the prediction, made at a start, whether the pod starts now. The input is starts, the pods in KubeSpawner's
reflectors, the age of the cluster's data in memory, and the state of the settings files. The output is metrics with
JupyterHub's prefix. A label's value is a slug, a code, a stage, or a name from the cluster such as a scheduler's, never
text that a user typed. This package has no effect on starts and sends no requests to the API server.

- ``registry``: counters and histograms of starts, stages, verdicts and refusals, and the metrics whose values are
  computed at each scrape.
- ``starts``: measures one start, and classifies its outcome.
"""

from gpuspawner.hub.metrics.registry import ClusterMetrics, SettingsMetrics, count_refusal
from gpuspawner.hub.metrics.starts import SpawnMeter, begin_measuring, enter_stage, note_pod

__all__ = [
    "ClusterMetrics",
    "SettingsMetrics",
    "SpawnMeter",
    "begin_measuring",
    "count_refusal",
    "enter_stage",
    "note_pod",
]
