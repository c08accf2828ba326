from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.model import (
    Node,
    Pod,
    PodConstraints,
    SelectorRequirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.pod_topology import SpreadCheck

WEB = (SelectorRequirement(key="app", operator="In", values=("web",)),)
EVEN = SpreadConstraint(max_skew=1, topology_key="zone", selector=WEB)
X, Y, Z = (Node(name=zone, labels={"zone": zone, "rack": "1"}) for zone in "xyz")


def pods(*zones: str, **changes: Any) -> list[Pod]:
    web = Pod(name="", namespace="n", node=None, labels={"app": "web"})
    return [replace(web, name=f"{zone}-{number}", node=zone, **changes) for number, zone in enumerate(zones)]


def allowed(constraint: SpreadConstraint, *found: Pod, nodes: tuple[Node, ...] = (X, Y), **changes: Any) -> str:
    """Return the zones of the nodes that a pod with this constraint may go to."""
    constraints = PodConstraints(spread_constraints=(constraint,), **changes.pop("constraints", {}))
    own = replace(Pod(name="own", namespace="n", node=None, labels={"app": "web"}, constraints=constraints), **changes)
    spread = SpreadCheck(constraint, own, occupancy=Occupancy.build(nodes, found))
    return "".join(node.name for node in nodes if "zone" in node.labels and spread.allows(node))


def test_pods_go_where_there_are_fewer():
    assert allowed(EVEN) == "xy"
    assert allowed(EVEN, *pods("x")) == "y"
    assert allowed(EVEN, *pods("x", "y")) == "xy"
    assert allowed(replace(EVEN, max_skew=2), *pods("x")) == "xy"
    assert allowed(replace(EVEN, max_skew=2), *pods("x", "x")) == "y"


def test_a_pod_that_the_constraint_does_not_select_does_not_count_itself():
    assert allowed(EVEN, *pods("x"), labels={}) == "xy"
    assert allowed(EVEN, *pods("x", "x"), labels={}) == "y"


@pytest.mark.parametrize("changes", [{"terminating": True}, {"namespace": "m"}, {"labels": {"app": "db"}}])
def test_pods_that_go_or_are_others_do_not_count(changes: dict[str, Any]):
    assert allowed(EVEN, *pods("x", **changes)) == "xy"


def test_with_too_few_domains_the_emptiest_counts_as_empty():
    assert allowed(EVEN, *pods("x", "y")) == "xy"
    assert allowed(replace(EVEN, min_domains=3), *pods("x", "y")) == ""
    assert allowed(replace(EVEN, min_domains=2), *pods("x", "y")) == "xy"


def test_a_selector_that_selects_everything_counts_nothing_but_the_pod():
    assert allowed(replace(EVEN, selector=()), *pods("x", "x")) == "xy"
    assert allowed(replace(EVEN, selector=None), *pods("x", "x")) == "xy"


def test_nodes_that_the_pod_may_not_use_make_no_domain():
    selector = {"constraints": {"node_selector": {"zone": "x"}}}
    assert allowed(EVEN, *pods("x"), **selector) == "x" + "y"  # y is no domain, so x is the emptiest
    assert allowed(replace(EVEN, honor_affinity=False), *pods("x"), **selector) == "y"


def test_tainted_nodes_make_domains_unless_taints_are_honored():
    tainted = replace(Y, taints=(Taint(key="gpu", effect="NoSchedule"),))
    honoring = replace(EVEN, honor_taints=True)
    assert allowed(EVEN, *pods("x"), nodes=(X, tainted)) == "y"
    assert "x" in allowed(honoring, *pods("x"), nodes=(X, tainted))
    tolerant = {"constraints": {"tolerations": (Toleration(operator="Exists"),)}}
    assert allowed(honoring, *pods("x"), nodes=(X, tainted), **tolerant) == "y"


def test_nodes_need_the_labels_of_all_constraints_to_make_domains():
    by_rack = replace(EVEN, topology_key="rack")
    constraints = PodConstraints(spread_constraints=(EVEN, by_rack))
    own = Pod(name="own", namespace="n", node=None, labels={"app": "web"}, constraints=constraints)
    no_rack = replace(Z, labels={"zone": "z"})
    spread = SpreadCheck(EVEN, own, occupancy=Occupancy.build([X, Y, no_rack], pods("x", "y")))
    assert (spread.allows(X), spread.allows(Y)) == (True, True)
