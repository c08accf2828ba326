from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.accelerators import AcceleratorTable
from gpuspawner.core.catalogue import Catalogue, GPUType, Image, Toleration
from gpuspawner.core.discovery import discover
from gpuspawner.core.flags import Concern, Flag, flagged
from gpuspawner.core.inventory import Node, Taint

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
TABLE = AcceleratorTable()
IMAGES = {"i": Image(slug="i", display_name="I", image="i")}
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})


def node(name: str = "n", gpus: int = 4, product: str = "T4", **changes: Any) -> Node:
    has = {GPU: gpus} if gpus else {}
    labels = {PRODUCT: product, "nvidia.com/gpu.count": "4"}
    return replace(Node(name=name, labels=labels, allocatable=has, capacity=has), **changes)


def concerns(*nodes: Node, gpus: tuple[GPUType, ...] = (T4,), **options: Any) -> list[Concern]:
    catalogue = Catalogue(images=IMAGES, cpu=None, memory=None, gpus={gpu.slug: gpu for gpu in gpus})
    return [flag.concern for flag in flagged(nodes, catalogue, table=TABLE, **options)]


def test_nothing_is_the_matter_with_a_good_node():
    assert concerns(node(), Node(name="m")) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"product": "A100-MIG-INVALID"}, Concern.MIG_INVALID),
        ({"product": "L4", "gpus": 8}, Concern.MIXED_MODELS),
        ({"product": "L4"}, Concern.NO_TYPE),
        ({"gpus": 0}, Concern.NO_RESOURCE),
        ({"capacity": {GPU: 5}, "labels": {PRODUCT: "T4"}}, Concern.BROKEN),
        ({"taints": (Taint(key="team", effect="NoSchedule"),)}, Concern.UNTOLERATED),
    ],
)
def test_what_is_the_matter_is_told_apart(changes: dict[str, Any], expected: Concern):
    assert concerns(node(**changes)) == [expected]


def test_a_mixed_node_that_servers_of_a_type_may_land_on_is_flagged():
    catalogue = Catalogue(images=IMAGES, cpu=None, memory=None, gpus={"t4": T4})
    (flag,) = flagged([node(gpus=8)], catalogue, table=TABLE)
    assert (flag.concern, flag.message.partition(":")[0]) == (
        Concern.MIXED_MODELS,
        "Its nvidia.com/gpu may not be what t4 says",
    )


def test_a_flag_says_what_helps():
    catalogue = Catalogue(images=IMAGES, cpu=None, memory=None, gpus={"t4": T4})
    assert flagged([node(taints=(Taint(key="team", effect="NoSchedule"),))], catalogue, table=TABLE) == (
        Flag(
            node="n",
            resource=GPU,
            concern=Concern.UNTOLERATED,
            message="Nobody gets its nvidia.com/gpu: no GPU type on it tolerates the taint team. "
            "Add a toleration to the type, unless the node is for others.",
        ),
    )


@pytest.mark.parametrize(
    "changes", [{"taints": (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)}, {"unschedulable": True}]
)
def test_what_passes_is_no_concern(changes: dict[str, Any]):
    assert concerns(node(**changes)) == []


def test_a_taint_that_every_server_tolerates_is_no_concern():
    tainted = node(taints=(Taint(key="team", effect="NoSchedule"),))
    assert concerns(tainted, tolerations=(Toleration(key="team", operator="Exists"),)) == []


def test_gpus_that_the_admin_took_out_are_no_concern():
    catalogue = Catalogue(images=IMAGES, cpu=None, memory=None, hidden=(T4,))
    assert flagged([node()], catalogue, table=TABLE) == ()


@pytest.mark.parametrize("changes", [{}, {"product": "A100-MIG-INVALID"}, {"product": "L4", "gpus": 8}])
def test_what_discovery_leaves_out_is_flagged_and_nothing_else(changes: dict[str, Any]):
    found = {gpu.slug: gpu for gpu in discover([node(**changes)], TABLE)}
    catalogue = Catalogue(images=IMAGES, cpu=None, memory=None, gpus=found)
    assert bool(flagged([node(**changes)], catalogue, table=TABLE)) == (not found)
