"""Counts of starts, with labels that stay few."""

from __future__ import annotations

from gpuspawner.hub.metrics import registry
from gpuspawner.hub.metrics.registry import METRICS_PREFIX, OTHER_LABEL, BoundedLabel
from tests.unit.hub.counts import sample


def test_names_begin_as_jupyterhubs_do():
    assert METRICS_PREFIX == "jupyterhub_gpuspawner"


def test_each_count_stands_under_its_own_labels():
    registry.count_spawn("t4-metrics", "ready", seconds=12.5)
    registry.count_spawn("l4-metrics", "timeout", seconds=900)
    registry.observe_stage("a2-metrics", "pulling", seconds=42)
    registry.count_verdict("now", "no_node-metrics")
    registry.count_refusal("gpu_quota-metrics")
    registry.count_idle_scheduler("scheduler-metrics")
    assert sample("spawns_total", gpu="t4-metrics", outcome="ready") == 1
    assert sample("spawn_ready_duration_seconds_sum", gpu="t4-metrics") == 12.5
    assert sample("spawns_total", gpu="l4-metrics", outcome="timeout") == 1
    assert sample("spawn_ready_duration_seconds_count", gpu="l4-metrics") == 0  # it never became ready
    assert sample("spawn_stage_duration_seconds_sum", gpu="a2-metrics", stage="pulling") == 42
    assert sample("verdicts_total", verdict="now", outcome="no_node-metrics") == 1
    assert sample("refusals_total", reason="gpu_quota-metrics") == 1
    assert sample("idle_scheduler_starts_total", scheduler="scheduler-metrics") == 1


def test_a_label_has_so_many_values_at_most():
    label = BoundedLabel(most=2)
    assert [label(value) for value in ("a", "b", "c", "a", "b", "d")] == ["a", "b", OTHER_LABEL, "a", "b", OTHER_LABEL]
