"""Counts starts, refusals, verdicts, servers and GPUs for Prometheus, on JupyterHub's ``/hub/metrics``.

What enters are starts (their spawner, options and end), the pods of KubeSpawner's reflectors and the state of the
cluster store and of the settings files. What leaves are metrics under JupyterHub's prefix. The room decides nothing and
asks the API server nothing; a label's value is a slug, a code or a stage, never text that a user typed.

registry: the metrics of events, and functions that count each of them. starts: measures one start from its request to
its end. collectors: metrics whose values are computed at each scrape.
"""

from gpuspawner.hub.metrics.collectors import ClusterMetrics, SettingsMetrics
from gpuspawner.hub.metrics.registry import NO_GPU, OTHER_LABEL, count_refusal, count_spawn, count_verdict
from gpuspawner.hub.metrics.starts import SpawnMeter, begin_measuring, enter_stage, note_pod

__all__ = [
    "NO_GPU",
    "OTHER_LABEL",
    "ClusterMetrics",
    "SettingsMetrics",
    "SpawnMeter",
    "begin_measuring",
    "count_refusal",
    "count_spawn",
    "count_verdict",
    "enter_stage",
    "note_pod",
]
