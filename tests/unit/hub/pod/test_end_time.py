"""When a pod ends, from the pod alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuspawner.hub.pod.run_time import RUN_TIME_ANNOTATION, find_end_time, read_run_time_s

START = "2026-11-22T10:00:00Z"


def pod(*, deadline: object = None, told: object = None, start: object = START) -> dict[str, Any]:
    return {
        "metadata": {"annotations": {} if told is None else {RUN_TIME_ANNOTATION: told}},
        "spec": {} if deadline is None else {"activeDeadlineSeconds": deadline},
        "status": {"startTime": start},
    }


def test_the_end_is_counted_from_when_the_node_took_the_pod():
    assert find_end_time(pod(deadline=3600)) == datetime(2026, 11, 22, 11, tzinfo=UTC)


def test_what_kubernetes_enforces_counts_more_than_what_was_said():
    assert read_run_time_s(pod(deadline=60, told="3600")) == 60


def test_the_annotation_counts_where_kubernetes_enforces_nothing():
    assert find_end_time(pod(told="1800")) == datetime(2026, 11, 22, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize("start", [None, "", "soon", 5])
def test_nothing_runs_out_before_a_node_took_the_pod(start: object):
    assert find_end_time(pod(deadline=60, start=start)) is None


@pytest.mark.parametrize("told", [None, "", "1h", "-5", "²", "9" * 5000, 60])
def test_a_pod_that_names_no_seconds_runs_on(told: object):
    assert find_end_time(pod(told=told)) is None


@pytest.mark.parametrize("deadline", [True, "60", 1.5])
def test_a_deadline_that_is_no_number_is_none(deadline: object):
    assert read_run_time_s(pod(deadline=deadline)) is None


def test_an_end_beyond_all_calendars_is_no_end():
    assert find_end_time(pod(deadline=10**12)) is None


def test_a_time_without_a_zone_is_utc():
    assert find_end_time(pod(deadline=60, start="2026-11-22T10:00:00")) == datetime(2026, 11, 22, 10, 1, tzinfo=UTC)


@pytest.mark.parametrize("strange", [{}, {"spec": [], "status": "x"}, {"metadata": {"annotations": []}}])
def test_a_strange_pod_runs_on(strange: dict[str, Any]):
    assert find_end_time(strange) is None
