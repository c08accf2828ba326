"""Servers and GPUs that are held or asked for, told from the pods alone."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.hub.metrics.registry import count_servers


def pod(gpu: str = "", number: str = "1", *, node: str = "", phase: str = "Pending", **limits: str) -> dict[str, Any]:
    annotations = {"gpuspawner.jupyter.org/gpu": gpu, "gpuspawner.jupyter.org/gpu-count": number} if gpu else {}
    container = {"name": "notebook", "resources": {"limits": limits}}
    return {
        "metadata": {"name": "jupyter-x", "annotations": annotations},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_finished_holds_nothing(phase: str):
    assert count_servers([pod("a100", node="n", phase=phase)], label=str) == ({}, {})


def test_gpus_that_a_hook_gave_count_as_of_another_type():
    servers, gpus = count_servers([pod(node="n", **{"nvidia.com/gpu": "3", "cpu": "2"})], label=str)
    assert (dict(servers), dict(gpus)) == ({("other", "held"): 1}, {("other", "held"): 3})


def test_gpus_that_no_label_tells_apart_count_as_of_another_type():
    annotations = {"gpuspawner.jupyter.org/gpu": "", "gpuspawner.jupyter.org/gpu-count": "3"}
    raw = {**pod(node="n"), "metadata": {"name": "jupyter-x", "annotations": annotations}}
    servers, gpus = count_servers([raw], label=str)
    assert (dict(servers), dict(gpus)) == ({("other", "held"): 1}, {("other", "held"): 3})


def test_types_are_called_as_the_label_says():
    servers, _ = count_servers([pod("unknown-type")], label=lambda slug: "other")
    assert dict(servers) == {("other", "requested"): 1}


@pytest.mark.parametrize("strange", [{}, {"metadata": {}}, pod("a100", "many"), {"metadata": None, "spec": None}])
def test_a_strange_pod_leaves_the_other_counts_as_they_are(strange: dict[str, Any]):
    servers, _ = count_servers([strange, pod("a100")], label=str)
    assert dict(servers) == {("a100", "requested"): 1}
