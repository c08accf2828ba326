from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.choices import (
    check_any_gpu,
    check_bounds,
    check_drivers,
    check_types_exist,
)
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from gpuspawner.core.cluster.model import Node, Taint
from tests.unit.cli.doctor.cases import GPU, PRODUCT, T4, codes, facts, gpu_type, named, node

ALONE: dict[ObjectKind, list[Any]] = {ObjectKind.DEPLOYMENTS: []}
"""No autoscaler anywhere."""
GROWING = {"max_nodes": 1, "gpus_per_node": 1, "minutes": 5}
DRIVER = "nvidia.com/cuda.driver-version.major"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(), None),
        (facts(node(gpus=0, labels={}), read=ALONE), "fault"),
        (facts(node(gpus=0, labels={}), settings={"gpus": {"t": gpu_type(scale_up=GROWING)}}, read=ALONE), "note"),
        (facts(node(gpus=0, labels={}), read={ObjectKind.DEPLOYMENTS: [named("cluster-autoscaler")]}), "note"),
        (facts(node(gpus=0, labels={}), read={**ALONE, ObjectKind.NODE_POOLS: [named("gpus")]}), "note"),
        (facts(node(gpus=0, labels={"cloud.google.com/gke-nodepool": "cpus"}), read=ALONE), "note"),
        (facts(node(gpus=0, labels={}, published_by_dra=frozenset({"nvidia.com/gpu"}))), None),
    ],
)
def test_a_cluster_without_a_gpu_is_reported(found: ClusterFacts, expected: str | None):
    assert codes(check_any_gpu, found) == ([] if expected is None else [(expected, "no-gpu", ())])


@pytest.mark.parametrize(
    ("entry", "read", "expected"),
    [
        ({}, ALONE, None),
        ({"match": {PRODUCT: "Tesla-T5"}}, ALONE, "fault"),
        ({"match": {PRODUCT: "Tesla-T5"}}, {ObjectKind.DEPLOYMENTS: [named("karpenter")]}, "warning"),
        ({"match": {PRODUCT: "Tesla-T5"}, "scale_up": GROWING}, ALONE, None),
        ({"resource": "nvidia.com/mig-1g.5gb"}, ALONE, "fault"),
    ],
)
def test_a_type_that_no_node_has_is_reported(
    entry: dict[str, Any], read: dict[ObjectKind, list[Any]], expected: str | None
):
    found = facts(settings={"gpus": {"t": gpu_type(**entry)}}, read=read)
    assert codes(check_types_exist, found) == ([] if expected is None else [(expected, "type-without-node", ("t",))])


def test_the_nearest_value_of_the_label_is_named():
    (found,) = check_types_exist(facts(settings={"gpus": {"t": gpu_type(match={PRODUCT: "Tesla-T5"})}}, read=ALONE))
    assert found.what == "GPU type t: no node has nvidia.com/gpu.product = Tesla-T5. Did you mean 'Tesla-T4'?"


def test_nodes_that_match_without_the_resource_are_named():
    (found,) = check_types_exist(facts(settings={"gpus": {"t": gpu_type(resource="a.b/c", vendor="amd")}}, read=ALONE))
    assert found.what == "GPU type t: Node n match, and have no a.b/c."


@pytest.mark.parametrize(
    ("drivers", "image", "expected"),
    [
        (["470", "580"], {"cuda": "12.8"}, ("warning", ("i", "n0"))),
        (["470"], {"cuda": "12.8"}, ("fault", ("i", "n0"))),
        (["570"], {"cuda": "13.0"}, ("fault", ("i", "n0"))),
        (["580"], {"cuda": "13.0"}, None),
        (["470"], {}, None),
        (["470"], {"vendors": ["amd"]}, None),
    ],
)
def test_drivers_too_old_for_an_image_are_reported(drivers: list[str], image: dict[str, Any], expected: Any):
    nodes = [node(f"n{number}", labels={**T4, DRIVER: driver}) for number, driver in enumerate(drivers)]
    settings = {"images": {"i": {"display_name": "I", "image": "i", **image}}}
    found = codes(check_drivers, facts(*nodes, settings=settings))
    assert found == ([] if expected is None else [(expected[0], "driver-too-old", expected[1])])


def amounts(**more: Any) -> dict[str, Any]:
    return {"cpu": {"max": 8, "guarantee": 1, **more}, "memory": {"max": "16G"}}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (amounts(), []),
        (amounts(max=16), [("warning", "limit-too-large", ("cpu",))]),
        (amounts(max=16, guarantee=0.5), []),
        (amounts(max=16, default=12), [("fault", "limit-too-large", ("cpu",))]),
        ({"memory": {"max": "64G"}}, [("warning", "limit-too-large", ("memory",))]),
        ({"gpus": {"t": gpu_type(max_count=8)}}, [("warning", "limit-too-large", ("t",))]),
        ({"gpus": {"t": gpu_type(max_count=4)}}, []),
        ({"gpus": {"t": gpu_type(max_count=8, scale_up=GROWING)}}, []),
        ({"gpus": {"t": gpu_type()}}, []),
    ],
)
def test_bounds_beyond_every_node_are_reported(settings: dict[str, Any], expected: list[Any]):
    assert codes(check_bounds, facts(settings=settings, read=ALONE)) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node(capacity={GPU: 8}, allocatable={GPU: 7})], []),
        ([node(capacity={GPU: 4}, allocatable={GPU: 0})], [("warning", "limit-too-large", ("t",))]),
        ([node(gpus=4), node("dra", gpus=0, uncounted=frozenset({GPU}))], []),
    ],
)
def test_a_gpu_that_does_not_work_now_changes_no_setting(nodes: list[Node], expected: list[Any]):
    assert codes(check_bounds, facts(*nodes, settings={"gpus": {"t": gpu_type(max_count=8)}}, read=ALONE)) == (expected)


def test_nodes_of_the_control_plane_hold_no_servers():
    large = {"cpu": 64000, "memory": 256 * 1024**3}
    taint = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    master = node("m", gpus=0, labels={}, capacity=large, allocatable=large, taints=(taint,))
    settings = {"cpu": {"max": 16, "guarantee": 1}, "memory": {"max": "64G"}}
    assert codes(check_bounds, facts(node(), master, settings=settings, read=ALONE)) == [
        ("warning", "limit-too-large", ("cpu",)),
        ("warning", "limit-too-large", ("memory",)),
    ]
    assert codes(check_bounds, facts(master, settings=settings, read=ALONE)) == []


def test_where_nodes_may_be_added_their_size_is_unknown():
    assert codes(check_bounds, facts(settings=amounts(max=16))) == []
