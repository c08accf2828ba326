from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.progress.events import AUTOSCALER_SOURCES, EventSource, find_newest_event, parse_events
from tests.unit.core.starts import event
from tests.unit.hostile import JSON


@pytest.mark.parametrize(
    ("component", "source"),
    [
        ("default-scheduler", EventSource.SCHEDULER),
        ("jhub-user-scheduler", EventSource.SCHEDULER),
        ("gke.io/optimize-utilization-scheduler", EventSource.SCHEDULER),
        ("volcano", EventSource.SCHEDULER),
        ("cluster-autoscaler", EventSource.CLUSTER_AUTOSCALER),
        ("karpenter", EventSource.KARPENTER),
        ("eks-auto-mode/compute", EventSource.KARPENTER),
        ("kubelet", EventSource.KUBELET),
        ("pod-kueue-controller", EventSource.KUEUE),
        ("kueue-admission", EventSource.KUEUE),
        ("attachdetach-controller", EventSource.CONTROLLER),
        ("taint-eviction-controller", EventSource.CONTROLLER),
        ("horizontal-pod-autoscaler", EventSource.OTHER),
        ("", EventSource.OTHER),
    ],
)
def test_events_are_distinguished_by_their_writer(component: str, source: EventSource):
    (read,) = parse_events([event(component, "FailedScheduling")], scheduler="volcano")
    assert read.source is source


@pytest.mark.parametrize(
    "raw",
    [
        {"source": {"component": "kubelet"}},
        {"source": {}, "reportingComponent": "kubelet"},
        {"source": None, "reportingController": "kubelet"},
        {"deprecatedSource": {"component": "kubelet"}, "reportingController": "other"},
    ],
)
def test_the_writer_of_an_event_is_read_from_either_field(raw: dict[str, Any]):
    assert parse_events([raw])[0].source is EventSource.KUBELET


def test_an_event_of_the_newer_recorder_is_read_with_its_series():
    raw = {
        "reportingController": "default-scheduler",
        "note": "no node",
        "reason": "FailedScheduling",
        "eventTime": "2026-05-04T08:00:00.123456Z",
        "firstTimestamp": None,
        "lastTimestamp": None,
        "count": None,
        "series": {"count": 7, "lastObservedTime": "2026-05-04T08:09:00.000000Z"},
    }
    later = event("kubelet", "Pulling", at_s=60)
    first, last = parse_events([raw, later])
    assert (first.reason, last.reason, last.count, last.message) == ("Pulling", "FailedScheduling", 7, "no node")


def test_events_are_in_the_order_of_their_times_and_stay_where_they_have_none():
    events = [event("a", "3", at_s=3), {"reason": "after-3"}, event("a", "1", at_s=1), event("a", "2", at_s=2)]
    assert [each.reason for each in parse_events(events)] == ["1", "2", "3", "after-3"]


def test_whole_seconds_come_before_their_fractions():
    micro = {"reason": "later", "eventTime": "2026-05-04T08:00:01.500000Z"}
    assert [each.reason for each in parse_events([micro, event("a", "sooner", at_s=1)])] == ["sooner", "later"]


def test_the_newest_of_some_is_found():
    events = parse_events([event("karpenter", "Nominated"), event("kubelet", "Pulling"), event("karpenter", "Evicted")])
    found = (
        find_newest_event(events, AUTOSCALER_SOURCES),
        find_newest_event(events, AUTOSCALER_SOURCES, reasons={"Nominated"}),
        find_newest_event(events, {EventSource.KUEUE}),
    )
    assert [each.reason if each else None for each in found] == ["Evicted", "Nominated", None]


@given(st.lists(JSON | st.dictionaries(st.sampled_from(["source", "series", "message", "involvedObject"]), JSON)))
def test_any_json_is_read(raw: list[Any]):
    assert len(parse_events(raw)) == len(raw)
