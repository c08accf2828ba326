from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.model import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    SelectorRequirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from gpuspawner.core.cluster.node_groups import NodeGrouping
from gpuspawner.core.scheduling.node_filters import NodeFilters, build_node_grouping
from gpuspawner.core.scheduling.results import Obstacle, Reason

NODE = Node(name="a", labels={"zone": "x"})
TAINTS = tuple(Taint(key=key, effect="NoSchedule") for key in ("gpu", "team"))
HERE, ELSEWHERE = (
    NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=(zone,)),))
    for zone in ("x", "y")
)
SPREAD = SpreadConstraint(max_skew=1, topology_key="rack", selector=())
NEAR = PodAffinityTerm(topology_key="rack", selector=(), namespaces=frozenset({"n"}))


def pod(**constraints: Any) -> Pod:
    return Pod(name="p", namespace="n", node=None, constraints=PodConstraints(**constraints))


@pytest.mark.parametrize(
    ("constraints", "node", "expected"),
    [
        ({}, NODE, []),
        ({}, replace(NODE, ready=False), []),
        ({}, replace(NODE, unschedulable=True), [(Reason.UNSCHEDULABLE, "")]),
        ({"tolerations": (Toleration(operator="Exists"),)}, replace(NODE, unschedulable=True, taints=TAINTS), []),
        ({}, replace(NODE, taints=TAINTS), [(Reason.TAINT, "gpu"), (Reason.TAINT, "team")]),
        ({"node_selector": {"zone": "x"}}, NODE, []),
        ({"node_selector": {"zone": "y"}}, NODE, [(Reason.NODE_AFFINITY, "")]),
        ({"node_selector": {"rack": ""}}, NODE, [(Reason.NODE_AFFINITY, "")]),
        ({"node_terms": (ELSEWHERE, HERE)}, NODE, []),
        ({"node_terms": (ELSEWHERE,)}, NODE, [(Reason.NODE_AFFINITY, "")]),
        ({"node_terms": ()}, NODE, [(Reason.NODE_AFFINITY, "")]),
        ({"volume_terms": ((HERE, ELSEWHERE), (HERE,))}, NODE, []),
        ({"volume_terms": ((HERE,), (ELSEWHERE,))}, NODE, [(Reason.VOLUME_NODE_AFFINITY, "")]),
        ({"spread_constraints": (SPREAD,)}, NODE, [(Reason.SPREAD, "rack")]),
        ({"affinity": (NEAR,)}, NODE, [(Reason.POD_AFFINITY, "rack")]),
        ({"anti_affinity": (NEAR,)}, NODE, []),
    ],
)
def test_a_node_may_be_none_for_a_pod(constraints: dict[str, Any], node: Node, expected: list[tuple[Reason, str]]):
    found = [(each.reason, each.detail) for each in NodeFilters(pod(**constraints)).find_obstacles(node)]
    assert found == expected


def test_a_pod_that_names_its_node_wants_no_other():
    named = replace(pod(), node="b")
    assert NodeFilters(named).find_obstacles(NODE) == (Obstacle(reason=Reason.NODE_NAME),)
    assert NodeFilters(replace(named, node="a")).find_obstacles(NODE) == ()


def test_nodes_are_alike_that_have_the_same_of_all_a_pod_looks_at():
    found = build_node_grouping(
        pod(node_selector={"arch": "amd64"}, node_terms=(HERE,), volume_terms=((HERE,),), spread_constraints=(SPREAD,))
    )
    assert found == NodeGrouping(values=("arch", "zone"), presence=("rack",))


def test_names_matter_to_a_pod_that_asks_for_them():
    by_field = NodeSelectorTerm(fields=(SelectorRequirement(key="metadata.name", operator="In", values=("a",)),))
    assert build_node_grouping(pod(node_terms=(by_field,))).by_name
    assert build_node_grouping(replace(pod(), node="a")).by_name
    assert not build_node_grouping(pod(node_terms=(HERE,))).by_name
