"""The result of a scrape of the hub's metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from gpuspawner.hub.metrics.registry import ClusterMetrics
from tests.unit.hub.metrics.test_registry_server_counts import pod


def scraped(pods: dict[str, Any], *, store: Any = None) -> dict[str, float]:
    """Return what is scraped, line by line."""
    events = SimpleNamespace(resources={"hub/event": {}})
    reflectors = {("pods", "hub"): SimpleNamespace(pods=pods), ("events", "hub"): events}
    registry = CollectorRegistry()
    registry.register(ClusterMetrics(lambda: reflectors, lambda: store))
    lines = generate_latest(registry).decode().splitlines()
    told = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.removeprefix("jupyterhub_gpuspawner_"): float(value) for name, value in told}


def test_servers_and_gpus_are_counted_by_type_and_by_whether_they_have_a_node():
    found = scraped({"hub/a": pod("a100", "2"), "hub/b": pod("a100", "4", node="n"), "hub/c": pod(node="n")})
    assert found == {
        'servers{gpu="a100",state="held"}': 1,
        'servers{gpu="a100",state="requested"}': 1,
        'servers{gpu="none",state="held"}': 1,
        'servers{gpu="none",state="requested"}': 0,
        'gpus{gpu="a100",state="held"}': 4,
        'gpus{gpu="a100",state="requested"}': 2,
    }


def test_metrics_of_reading_the_cluster_come_from_the_store():
    store = SimpleNamespace(age_s=4.5, restarts={"nodes": 1, "pods": 3})
    found = scraped({}, store=store)
    told = {name: value for name, value in found.items() if not name.startswith("servers")}
    assert told == {
        "inventory_age_seconds": 4.5,
        'watch_restarts_total{resource="nodes"}': 1,
        'watch_restarts_total{resource="pods"}': 3,
    }


def test_while_nothing_is_known_there_is_no_age():
    assert not [name for name in scraped({}, store=SimpleNamespace(age_s=None, restarts={})) if "age" in name]
