from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, Taint
from gpuspawner.core.verdict.verdict import find_pods_ahead

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})
NODE = Node(name="n", labels={PRODUCT: "T4", "zone": "a"})
MINE = Pod(
    name="mine", namespace="s", node=None, requests={GPU: 1}, constraints=PodConstraints(node_selector={PRODUCT: "T4"})
)


def ahead(*others: Pod, own: Pod = MINE, nodes: tuple[Node, ...] = (NODE,)) -> list[str]:
    return [each.name for each in find_pods_ahead(own, others, nodes=nodes, gpu=T4)]


def other(**changes: Any) -> Pod:
    return replace(MINE, name="other", **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["other"]),
        ({"requests": {GPU: 4, "cpu": 1}}, ["other"]),
        ({"requests": {"cpu": 1}}, []),
        ({"requests": {"amd.com/gpu": 1}}, []),
        ({"constraints": PodConstraints(node_selector={"zone": "a"})}, ["other"]),
        ({"constraints": PodConstraints(node_selector={"zone": "b"})}, []),
        ({"constraints": PodConstraints(node_selector={PRODUCT: "T4"}, is_gated=True)}, []),
        ({"terminating": True}, []),
        ({"priority": -1}, []),
        ({"priority": 1}, ["other"]),
        ({"created": "2026-01-01T00:00:00Z"}, ["other"]),
        ({"name": "mine"}, []),
        ({"name": "mine", "namespace": "other"}, ["mine"]),
    ],
)
def test_who_wants_the_same_and_comes_first_is_ahead(changes: dict[str, Any], expected: list[str]):
    assert ahead(replace(MINE, **{"name": "other", **changes})) == expected


@pytest.mark.parametrize(
    ("created", "priority", "expected"),
    [("2026-01-01", 0, ["other"]), ("2026-01-03", 0, []), ("2026-01-03", 1, ["other"])],
)
def test_a_pod_that_waits_already_is_behind_older_ones_alone(created: str, priority: int, expected: list[str]):
    own = replace(MINE, created="2026-01-02")
    assert ahead(other(created=created, priority=priority), own=own) == expected


def test_a_server_without_a_gpu_waits_behind_those_without_one():
    own = replace(MINE, requests={"cpu": 1}, constraints=PodConstraints())
    assert ahead(other(requests={"cpu": 2}, constraints=PodConstraints()), other(), own=own) == ["other"]


def test_who_does_not_tolerate_the_nodes_is_not_ahead():
    tainted = replace(NODE, taints=(Taint(key="team", effect="NoSchedule"),))
    assert ahead(other(constraints=PodConstraints(node_selector={"zone": "a"})), nodes=(tainted,)) == []


@pytest.mark.parametrize(("product", "expected"), [("T4", ["other"]), ("A100", [])])
def test_while_there_is_no_node_the_types_labels_tell(product: str, expected: list[str]):
    constraints = PodConstraints(node_selector={PRODUCT: product, "zone": "a"})
    assert ahead(other(constraints=constraints), nodes=()) == expected
