"""Nothing that may exist unseen is ever called impossible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.model import Node, Pod, PodConstraints
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.verdict.reasons import may_need_unseen_devices

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
SOME = frozenset({GPU})
LABELS = {"product": "A100"}


def node(name: str = "n", gpus: int = 0, **changes: Any) -> Node:
    has = {"cpu": 8000} | ({GPU: gpus} if gpus else {})
    return replace(Node(name=name, labels=LABELS, allocatable=has, capacity=has), **changes)


def pod(gpus: int = 1, cpu: int = 1000, **more: int) -> Pod:
    return Pod(
        name="p",
        namespace="s",
        node=None,
        requests={"cpu": cpu, GPU: gpus, **more},
        constraints=PodConstraints(node_selector=LABELS),
    )


def unseen(wanted: Pod, *nodes: Node, resources: frozenset[str] | None = SOME) -> bool:
    return may_need_unseen_devices(wanted, Occupancy.build(nodes, ()).node_groups, dra_resources=resources)


@pytest.mark.parametrize("resources", [SOME, None])
def test_devices_may_be_unseen_on_a_node_that_shows_none(resources: frozenset[str] | None):
    assert unseen(pod(8), node("a", 4), node("b"), resources=resources)
    assert not unseen(pod(8, cpu=9000), node("a", 4), node("b"), resources=resources)


def test_a_driver_may_show_only_some_of_its_devices():
    assert unseen(pod(8), node(gpus=4, published_by_dra=SOME))


def test_who_asks_for_no_device_misses_none():
    assert not unseen(pod(0, cpu=9000), node(), resources=None)


def test_one_of_several_unseen_resources_is_enough():
    assert unseen(pod(1, **{NIC: 1}), node(gpus=4), resources=None)
    assert not unseen(pod(8, **{NIC: 1}), node("a", 4), node("b", 4, capacity={NIC: 1}), resources=None)
