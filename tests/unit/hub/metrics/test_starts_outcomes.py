"""The outcome of a start, in one word."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tornado import web

from gpuspawner.hub.errors import ClusterFailure, RefusedStart, SpawnException
from gpuspawner.hub.metrics.starts import classify_outcome, classify_verdict, measure_wait_s


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(None, "ready", id="success"),
        pytest.param(RefusedStart("No.", reason="gpu_quota", status_code=403), "gpu_quota", id="refused by us"),
        pytest.param(ClusterFailure("Kubernetes does not answer."), "cluster", id="cluster"),
        pytest.param(TimeoutError("too slow"), "timeout", id="timeout"),
        pytest.param(asyncio.CancelledError(), "cancelled", id="cancelled"),
        pytest.param(web.HTTPError(403, "the hook says no"), "refused", id="refused by a hook"),
        pytest.param(SpawnException("x", reason="ada is late", status_code=409), "refused", id="reason of a hook"),
        pytest.param(web.HTTPError(502, "no"), "error", id="server error"),
        pytest.param(ValueError("broken"), "error", id="bug"),
    ],
)
def test_an_end_has_one_code_and_none_of_a_strangers(error: BaseException | None, outcome: str):
    assert classify_outcome(error) == outcome


def test_a_refusal_keeps_its_code_where_the_hub_calls_each_one_an_error():
    refused = RefusedStart("No.", reason="gpu_quota", status_code=403)
    refused.reason = "error"  # as JupyterHub 5 does before its future of the start ends
    assert classify_outcome(refused) == "gpu_quota"


@pytest.mark.parametrize(
    ("outcome", "refused", "waited", "came"),
    [
        ("ready", False, 1.0, "ready"),
        ("ready", False, None, "ready"),
        ("ready", False, 60.0, "waited"),
        ("timeout", False, None, "no_node"),
        ("timeout", False, 1.0, "failed"),
        ("never_fits", True, None, "refused"),
        ("never_fits", False, None, "no_node"),
        ("cancelled", False, None, "cancelled"),
    ],
)
def test_the_node_decides_whether_a_verdict_was_right(outcome: str, refused: bool, waited: float | None, came: str):
    assert classify_verdict(outcome, refused=refused, waited_s=waited) == came


def pod(**more: Any) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": "2026-11-22T10:00:00Z"}, "spec": {}, "status": {}, **more}


BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T10:01:30Z"}


def test_a_pod_waited_until_it_had_a_node():
    assert measure_wait_s(pod(spec={"nodeName": "n"}, status={"conditions": [BOUND]})) == 90


@pytest.mark.parametrize("waiting", [None, {}, pod(), pod(status={"conditions": [{**BOUND, "status": "False"}]})])
def test_a_pod_without_a_node_still_waits(waiting: dict[str, Any] | None):
    assert measure_wait_s(waiting) is None


def test_a_pod_that_was_put_on_its_node_by_name_did_not_wait():
    assert measure_wait_s(pod(spec={"nodeName": "n"})) == 0
