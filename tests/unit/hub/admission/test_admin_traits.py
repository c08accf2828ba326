"""GPU nodes are ruled out only where another node certainly takes the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kubernetes_asyncio.client import V1Container, V1ResourceRequirements

from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression
from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.cluster.model import Node, Taint
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.hub.admission.admin_traits import has_cpu_node_room

CATALOG = Catalog(
    images={"a": Image(slug="a", display_name="A", image="a")},
    cpu=None,
    memory=None,
    gpus={
        "g": GPUType(slug="g", display_name="G", resource="nvidia.com/gpu", vendor="nvidia", match={"product": ("g",)})
    },
)
FREE = {"cpu": 4000, "memory": 8 * 2**30, "pods": 10}
PLACEMENT = PodRequirements(
    image="a", cpu_limit_millis=2000, cpu_request_millis=1000, memory_limit_bytes=2**30, memory_request_bytes=2**30
)
BASE: dict[str, Any] = {
    "node_affinity_required": [],
    "extra_pod_config": {},
    "extra_container_config": {},
    "extra_resource_limits": {},
    "extra_resource_guarantees": {},
    "extra_containers": [],
    "init_containers": [],
    "node_selector": {},
    "tolerations": [],
    "cpu_guarantee": None,
    "cpu_limit": None,
    "mem_guarantee": None,
    "mem_limit": None,
}


def inventory(*, labels: Any = None, taints: tuple[Taint, ...] = (), **allocatable: int) -> Inventory:
    return Inventory(
        nodes=(Node(name="n", labels=labels or {}, taints=taints, allocatable={**FREE, **allocatable}),), pods=()
    )


def room(found: Inventory, placement: PodRequirements = PLACEMENT, **base: Any) -> bool:
    return has_cpu_node_room(placement, CATALOG, inventory=found, base={**BASE, **base})


def test_a_free_node_without_gpus_is_room():
    assert room(inventory())


def test_a_node_with_gpus_is_no_room():
    assert not room(inventory(labels={"product": "g"}))


def test_a_full_node_is_no_room():
    assert not room(inventory(cpu=999))


def test_an_unknown_cluster_is_no_room():
    assert not room(Inventory())


@pytest.mark.parametrize(("labels", "expected"), [({"pool": "users"}, True), ({"pool": "system"}, False)])
def test_an_admins_node_selector_narrows_what_counts(labels: dict[str, str], expected: bool):
    assert room(inventory(labels=labels), node_selector={"pool": "users"}) is expected


@pytest.mark.parametrize("base", [{"node_affinity_required": [{}]}, {"extra_pod_config": {"affinity": {}}}])
def test_an_admins_required_affinity_leaves_it_open(base: dict[str, Any]):
    assert not room(inventory(), **base)


ASKING = {"name": "x", "resources": {"requests": {"cpu": 1}}}


@pytest.mark.parametrize(
    "base",
    [
        {"extra_resource_limits": {"example.com/fpga": "1"}},
        {"extra_resource_guarantees": {"example.com/fpga": "1"}},
        {"extra_containers": [ASKING]},
        {"init_containers": {"a": ASKING}},
        {"init_containers": [V1Container(name="x", resources=V1ResourceRequirements())]},
        {"extra_container_config": {"resources": {"limits": {"example.com/fpga": "1"}}}},
        {"extra_pod_config": {"tolerations": []}},
        {"extra_pod_config": {"initContainers": [ASKING]}},
    ],
)
def test_needs_that_are_not_counted_leave_it_open(base: dict[str, Any]):
    assert not room(inventory(), **base)


@pytest.mark.parametrize(
    "base",
    [
        {"extra_resource_limits": {"nvidia.com/gpu": "1"}},
        {"init_containers": [{"name": "block-cloud-metadata"}]},
        {"extra_containers": {"a": V1Container(name="x")}},
        {"extra_pod_config": {"dnsPolicy": "None"}},
    ],
)
def test_what_takes_no_room_is_no_matter(base: dict[str, Any]):
    assert room(inventory(), **base)


@pytest.mark.parametrize("shape", ["list", "dict"])
def test_a_tainted_node_is_room_when_the_admin_tolerates_it(shape: str):
    taint = Taint(key="hub", value="user", effect="NoSchedule")
    tolerations = [{"key": "hub", "operator": "Equal", "value": "user", "effect": "NoSchedule"}]
    found = inventory(taints=(taint,))
    assert not room(found)
    assert room(found, tolerations=tolerations if shape == "list" else {"a": tolerations[0]})


def test_a_node_that_the_image_does_not_run_on_is_no_room():
    expression = MatchExpression(key="kubernetes.io/arch", operator="In", values=("amd64",))
    placement = replace(PLACEMENT, required=(expression,))
    assert room(inventory(labels={"kubernetes.io/arch": "amd64"}), placement)
    assert not room(inventory(labels={"kubernetes.io/arch": "arm64"}), placement)


@pytest.mark.parametrize(("guarantee", "expected"), [(4.0, True), (4.5, False)])
def test_what_nobody_chose_is_the_admins_guarantee(guarantee: float, expected: bool):
    placement = PodRequirements(
        image="a", cpu_limit_millis=None, cpu_request_millis=None, memory_limit_bytes=None, memory_request_bytes=None
    )
    assert room(inventory(), placement, cpu_guarantee=guarantee) is expected
