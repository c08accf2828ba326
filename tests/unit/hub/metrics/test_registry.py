"""Counts of starts, with labels that stay few."""

from __future__ import annotations

from prometheus_client import REGISTRY

from gpuspawner.hub.metrics import registry
from gpuspawner.hub.metrics.registry import METRICS_PREFIX, OTHER_LABEL, BoundedLabel


def sample(name: str, **labels: str) -> float:
    """Return what a metric stands at."""
    return REGISTRY.get_sample_value(f"{METRICS_PREFIX}_{name}", labels) or 0.0


def test_names_begin_as_jupyterhubs_do():
    assert METRICS_PREFIX == "jupyterhub_gpuspawner"


def test_a_start_that_becomes_ready_is_counted_and_its_seconds_with_it():
    before = sample("spawn_ready_duration_seconds_sum", gpu="t4-metrics")
    registry.count_spawn("t4-metrics", "ready", seconds=12.5)
    assert sample("spawns_total", gpu="t4-metrics", outcome="ready") == 1
    assert sample("spawn_ready_duration_seconds_sum", gpu="t4-metrics") - before == 12.5


def test_the_seconds_of_a_start_that_failed_say_nothing_of_getting_ready():
    registry.count_spawn("l4-metrics", "timeout", seconds=900)
    assert sample("spawns_total", gpu="l4-metrics", outcome="timeout") == 1
    assert sample("spawn_ready_duration_seconds_count", gpu="l4-metrics") == 0


def test_stages_are_measured_by_type():
    registry.observe_stage("a2-metrics", "pulling", seconds=42)
    assert sample("spawn_stage_duration_seconds_sum", gpu="a2-metrics", stage="pulling") == 42


def test_verdicts_stand_beside_what_came_of_them():
    before = sample("verdicts_total", verdict="now", outcome="no_node")
    registry.count_verdict("now", "no_node")
    assert sample("verdicts_total", verdict="now", outcome="no_node") - before == 1


def test_refusals_are_counted_by_their_reason():
    before = sample("refusals_total", reason="gpu_quota")
    registry.count_refusal("gpu_quota")
    assert sample("refusals_total", reason="gpu_quota") - before == 1


def test_starts_that_no_scheduler_looked_at_are_counted_by_the_scheduler_s_name():
    before = sample("idle_scheduler_starts_total", scheduler="site-scheduler")
    registry.count_idle_scheduler("site-scheduler")
    assert sample("idle_scheduler_starts_total", scheduler="site-scheduler") - before == 1


def test_a_label_has_so_many_values_at_most():
    label = BoundedLabel(most=2)
    assert [label(value) for value in ("a", "b", "c", "a", "b", "d")] == ["a", "b", OTHER_LABEL, "a", "b", OTHER_LABEL]
