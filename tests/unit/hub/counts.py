"""What the hub's metrics stand at."""

from __future__ import annotations

from prometheus_client import REGISTRY

from gpuspawner.hub.metrics.registry import METRICS_PREFIX


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"{METRICS_PREFIX}_{name}", labels) or 0.0
