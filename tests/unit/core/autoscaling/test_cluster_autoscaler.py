"""The status of the cluster-autoscaler, in the two forms in which it has been written."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.autoscaling.cluster_autoscaler import (
    MAX_STATUS_LENGTH,
    NodeGroupStatus,
    NodeGrowth,
    decode_autoscaler_status,
    find_node_growth,
)

AS_YAML = """time: 2026-01-01 10:00:00 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    nodeCounts: {registered: {total: 4, ready: 4}}
  scaleUp:
    status: NoActivity
nodeGroups:
- name: cpu
  health:
    status: Healthy
    nodeCounts:
      registered:
        total: 3
    cloudProviderTarget: 3
    minSize: 1
    maxSize: 3
  scaleUp:
    status: NoActivity
- health:
    status: Healthy
    cloudProviderTarget: 1
    maxSize: 4
  name: gpu
  scaleUp:
    status: Backoff
    backoffInfo:
      errorCode: QUOTA_EXCEEDED
      errorMessage: maxSize of the project is reached
- name: huge
  health:
    status: Unhealthy
    maxSize: 2
"""
AS_LINES = """Cluster-autoscaler status at 2021-01-01 10:00:00.1 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=4 unready=0 registered=4)
               LastProbeTime:      2021-01-01 10:00:00 +0000 UTC m=+1
  ScaleUp:     NoActivity (ready=4 registered=4)

NodeGroups:
  Name:        cpu
  Health:      Healthy (ready=3 unready=0 registered=3 cloudProviderTarget=3 (minSize=1, maxSize=3))
               LastProbeTime:      2021-01-01 10:00:00 +0000 UTC m=+1
  ScaleUp:     NoActivity (ready=3 cloudProviderTarget=3)

  Name:        gpu
  Health:      Healthy (ready=1 registered=1 cloudProviderTarget=1 (minSize=0, maxSize=4))
  ScaleUp:     Backoff (ready=1 cloudProviderTarget=1)

  Name:        huge
  Health:      Unhealthy (ready=0 registered=0 cloudProviderTarget=0 (minSize=0, maxSize=2))
"""
CPU = NodeGroupStatus(name="cpu", target=3, least=1, most=3)
GPU = NodeGroupStatus(name="gpu", target=1, least=0, most=4, trouble="Backoff")
HUGE = NodeGroupStatus(name="huge", target=0, least=0, most=2, trouble="Unhealthy")


@pytest.mark.parametrize("status", [AS_YAML, AS_LINES], ids=["YAML", "lines"])
def test_both_forms_say_the_same(status: str):
    assert decode_autoscaler_status({"data": {"status": status}}) == (CPU, GPU, HUGE)


def test_a_group_is_full_where_it_has_grown_as_far_as_it_may():
    fixed = CPU._replace(least=3)
    unknown = CPU._replace(most=None)
    assert [group.is_full for group in (CPU, GPU, fixed, unknown)] == [True, False, False, False]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"data": {"status": ["x"]}}, id="no text"),
        pytest.param({"data": {"status": "autoscalerStatus: Initializing\n"}}, id="no groups yet"),
        pytest.param({"data": {"status": "nodeGroups:\n"}}, id="no group"),
        pytest.param({"data": {"status": f"nodeGroups:\n{' ' * 200_000}- name: gpu\n"}}, id="too far to the right"),
        pytest.param({"data": {"status": AS_YAML + "x" * MAX_STATUS_LENGTH}}, id="too long"),
        pytest.param({"data": {"status": "nodeGroups:\n" + "- name: a\n" * 1001}}, id="too many groups"),
    ],
)
def test_what_cannot_be_read_names_no_group(raw: object):
    assert decode_autoscaler_status(raw) == ()


NOW = datetime(2026, 1, 1, 10, 0, 30, tzinfo=UTC)


def config_map(
    *groups: str, updated: str = "2026-01-01 10:00:21.354884346 +0000 UTC", health: str = "Healthy"
) -> object:
    status = f"clusterWide:\n  health:\n    status: {health}\nnodeGroups:\n{''.join(groups)}"
    annotations = {"cluster-autoscaler.kubernetes.io/last-updated": updated}
    return {"metadata": {"annotations": annotations}, "data": {"status": status}}


def group(target: int, most: int | str, *, least: int = 0, health: str = "Healthy") -> str:
    sizes = f"    cloudProviderTarget: {target}\n    minSize: {least}\n    maxSize: {most}\n"
    return f"- name: g\n  health:\n    status: {health}\n{sizes}"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param([group(3, 3), group(1, 4)], NodeGrowth.POSSIBLE, id="one may grow"),
        pytest.param([group(3, 3), group(4, 4)], NodeGrowth.FULL, id="all are full"),
        pytest.param([group(3, 3), group(2, 2, least=2)], NodeGrowth.FULL, id="the others have a fixed size"),
        pytest.param([group(5, 4)], NodeGrowth.FULL, id="more than allowed"),
        pytest.param([group(3, 3), group(1, 4, health="Unhealthy")], NodeGrowth.UNSEEN, id="only one in trouble may"),
        pytest.param([group(3, 3), group(1, "?")], NodeGrowth.UNSEEN, id="a size is unknown"),
        pytest.param([], NodeGrowth.UNSEEN, id="no group"),
    ],
)
def test_whether_a_node_may_be_added_depends_on_the_sizes_of_all_groups(groups: list[str], expected: NodeGrowth):
    assert find_node_growth(config_map(*groups), now=NOW) == expected


@pytest.mark.parametrize(
    ("updated", "expected"),
    [
        ("2026-01-01 10:00:30 +0000 UTC", NodeGrowth.POSSIBLE),
        ("2026-01-01 12:00:30.1 +0200 CEST", NodeGrowth.POSSIBLE),
        ("2026-01-01 09:45:31 +0000 UTC", NodeGrowth.POSSIBLE),
        ("2026-01-01 09:45:29 +0000 UTC", NodeGrowth.UNSEEN),
        ("2026-13-01 09:45:29 +0000 UTC", NodeGrowth.UNSEEN),
        ("2026-01-01 10:00:30 +9999 UTC", NodeGrowth.UNSEEN),
        ("yesterday", NodeGrowth.UNSEEN),
        ("", NodeGrowth.UNSEEN),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_status_that_an_autoscaler_left_behind_says_nothing(updated: str, expected: NodeGrowth):
    assert find_node_growth(config_map(group(1, 4), updated=updated), now=NOW) == expected


def test_an_autoscaler_in_trouble_with_the_whole_cluster_promises_no_node():
    assert find_node_growth(config_map(group(1, 4), health="Unhealthy"), now=NOW) == NodeGrowth.UNSEEN


@pytest.mark.parametrize("status", [AS_YAML, AS_LINES], ids=["YAML", "lines"])
def test_both_forms_say_the_same_about_new_nodes(status: str):
    written = NOW - timedelta(seconds=9)
    metadata = {"annotations": {"cluster-autoscaler.kubernetes.io/last-updated": f"{written:%Y-%m-%d %H:%M:%S %z} UTC"}}
    assert find_node_growth({"metadata": metadata, "data": {"status": status}}, now=NOW) == NodeGrowth.UNSEEN
    healed = status.replace("Backoff", "NoActivity")
    assert find_node_growth({"metadata": metadata, "data": {"status": healed}}, now=NOW) == NodeGrowth.POSSIBLE


@given(st.text())
def test_no_text_is_an_error(text: str):
    decode_autoscaler_status({"data": {"status": f"nodeGroups:\n{text}"}})


@pytest.mark.parametrize("line", ["- \n", " " * 64 + "\n", "name:", "maxSize: 1\n", "status: " * 8])
def test_a_long_status_costs_little(line: str):
    status = "nodeGroups:\n- " + line * ((MAX_STATUS_LENGTH - 20) // len(line))
    began = time.process_time()
    decode_autoscaler_status({"data": {"status": status}})
    assert time.process_time() - began < 1.0
