from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.discovery.build_catalog import subtract_described_types

GPU = "nvidia.com/gpu"
MODEL, SPOT, POOL = "cloud.google.com/gke-accelerator", "cloud.google.com/gke-spot", "pool"
Match = dict[str, tuple[str, ...]]


def node(number: int = 2, **labels: str) -> Node:
    names = {"model": MODEL, "spot": SPOT, "pool": POOL}
    has = {GPU: number}
    return Node(name="n", labels={names[key]: value for key, value in labels.items()}, allocatable=has, capacity=has)


def gpu(match: Match, slug: str = "own") -> GPUType:
    return GPUType(slug=slug, display_name=slug, resource=GPU, vendor="nvidia", match=match)


L4 = replace(gpu({MODEL: ("l4",)}, "l4"), max_count=8)
L4_SPOT = gpu({MODEL: ("l4",), SPOT: ("true",)}, "l4-spot")


def match_of(others: list[GPUType], *nodes: Node, found: GPUType = L4) -> Match | None:
    left = subtract_described_types(found, others, nodes=nodes)
    return None if left is None else dict(left.match)


def test_a_type_that_shares_no_node_stays_as_it_is():
    nodes = (node(model="l4"), node(model="t4"))
    assert subtract_described_types(L4, [gpu({MODEL: ("t4",)}), gpu({POOL: ("a",)})], nodes=nodes) is L4


@pytest.mark.parametrize(
    "nodes",
    [(node(model="l4"), node(model="l4", spot="true")), (node(model="l4"),)],
    ids=["beside one of them", "before the first of them comes"],
)
def test_a_label_that_only_the_others_nodes_have_must_not_be_there(nodes: tuple[Node, ...]):
    assert match_of([L4_SPOT], *nodes) == {MODEL: ("l4",), SPOT: ()}


def test_a_label_that_must_be_missing_there_is_on_those_that_are_left():
    ordinary = gpu({MODEL: ("l4",), SPOT: ()})
    assert match_of([ordinary], node(model="l4"), node(model="l4", spot="true")) == {MODEL: ("l4",), SPOT: ("true",)}


def test_values_that_the_type_asks_for_anyway_are_enough():
    both = gpu({MODEL: ("h100-nvl", "h100-sxm")}, "h100")
    described = gpu({MODEL: ("h100-sxm",), POOL: ("a",)})
    nodes = (node(model="h100-sxm", pool="a"), node(model="h100-nvl", pool="b"))
    assert match_of([described], *nodes, found=both) == {MODEL: ("h100-nvl",)}


def test_several_types_each_take_their_nodes():
    nodes = (
        node(model="l4", pool="a"),
        node(model="l4", pool="a", spot="true"),
        node(model="l4", pool="b"),
    )
    assert match_of([L4_SPOT, gpu({POOL: ("b",)})], *nodes) == {MODEL: ("l4",), SPOT: (), POOL: ("a",)}


def test_a_label_with_too_many_values_tells_nothing_apart():
    described = gpu({POOL: ("p0",)})
    nodes = [node(model="l4", pool=f"p{number}") for number in range(34)]
    assert match_of([described], *nodes) is None
    assert len((match_of([described], *nodes[:33]) or {})[POOL]) == 32


def test_types_that_share_nodes_and_cannot_be_distinguished_take_nothing_away_before():
    described = gpu({MODEL: ("l4",), POOL: ("a",)})
    assert match_of([described], node(model="l4", pool="b"), node(model="l4")) == {MODEL: ("l4",)}


@pytest.mark.parametrize("found", [{MODEL: ("l4",), SPOT: ()}, {MODEL: ("t4",)}], ids=["missing label", "other model"])
def test_what_can_share_no_node_takes_nothing_away(found: Match):
    own = gpu(found, "found")
    assert subtract_described_types(own, [L4_SPOT], nodes=(node(model="l4"), node(model="t4"))) is own


def test_nodes_without_labels_are_not_offered_beside_others():
    anything = gpu({}, "nvidia-gpu")
    assert match_of([L4_SPOT], node(), node(model="l4", spot="true"), found=anything) is None
    assert subtract_described_types(anything, [L4_SPOT], nodes=(node(),)) is anything


@pytest.mark.parametrize(("unit", "most"), [(UnitKind.CARD, 4), (UnitKind.SHARED, 1)])
def test_the_most_in_one_server_is_that_of_the_nodes_that_are_left(unit: UnitKind, most: int):
    nodes = (node(8, model="l4", spot="true"), node(4, model="l4"))
    left = subtract_described_types(replace(L4, unit=unit), [L4_SPOT], nodes=nodes)
    assert left is not None
    assert left.max_count == most
