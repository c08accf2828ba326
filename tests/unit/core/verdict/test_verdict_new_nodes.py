"""Nodes that an autoscaler may add without a trace in the cluster: what the hub doesn't see, it doesn't deny."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth
from gpuspawner.core.cluster.model import (
    Node,
    NodeSelectorTerm,
    PodConstraints,
    ScalableNodePool,
    SelectorRequirement,
    Taint,
)
from gpuspawner.core.verdict.verdict import Outcome
from gpuspawner.core.verdict.wording import format_verdict, format_verdict_label
from tests.unit.core.verdicts import (
    GPU,
    GROWING,
    ON_T4,
    PRODUCT,
    T4,
    added,
    judged,
    node,
    nodes,
    pod,
    pods,
    said,
)

"""Where an autoscaler runs → labels of a node of its pool for CPUs. Pools with GPUs or large machines have no nodes."""


def name_hosts(*names: str) -> tuple[NodeSelectorTerm, ...]:
    return (
        NodeSelectorTerm(expressions=(SelectorRequirement(key="kubernetes.io/hostname", operator="In", values=names),)),
    )


def test_a_kind_of_node_that_is_not_running_may_be_added_while_the_server_waits():
    found = judged(pod(), new_nodes=True, start_timeout_s=600)
    assert format_verdict(found) == (
        "No such node is running: there is no T4 in the cluster. One may be added; your server waits up to 10 min."
    )
    assert format_verdict_label(found) == "No such node is running"


@pytest.mark.parametrize(
    ("growth", "timeout_s", "expected"),
    [
        (NodeGrowth.UNSEEN, 600, "One may be added; your server waits up to 10 min."),
        (NodeGrowth.UNSEEN, None, "One may be added."),
        (NodeGrowth.POSSIBLE, 600, "The cluster-autoscaler may add one; your server waits up to 10 min."),
        (NodeGrowth.POSSIBLE, None, "The cluster-autoscaler may add one."),
        (NodeGrowth.FULL, 600, "All node groups have their largest size; your server waits up to 10 min."),
        (NodeGrowth.FULL, None, "All node groups have their largest size."),
    ],
    ids=lambda each: each.name if isinstance(each, NodeGrowth) else "",
)
def test_what_the_cluster_autoscaler_says_is_said_of_the_missing_node(
    growth: NodeGrowth, timeout_s: float | None, expected: str
):
    found = replace(judged(pod(), new_nodes=True, start_timeout_s=timeout_s), growth=growth)
    assert format_verdict(found) == f"No such node is running: there is no T4 in the cluster. {expected}"


def test_a_larger_node_than_all_that_run_may_be_added():
    wanted = replace(pod(), requests={"cpu": 96_000}, constraints=PodConstraints())
    assert said(wanted, node(), gpu=None, new_nodes=True, start_timeout_s=300) == (
        "No such node is running: no node has 96 CPUs; the largest has 64. "
        "One may be added; your server waits up to 5 min."
    )


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(node(taints=(Taint(key="team", effect="NoSchedule"),)), id="reserved for others"),
        pytest.param(node(labels={PRODUCT: "T4", "kubernetes.io/arch": "arm64"}), id="another processor"),
        pytest.param(node(labels={PRODUCT: "T4", "zone": "b"}), id="another zone than the volume's"),
    ],
)
def test_a_new_node_may_differ_from_those_that_run(there: Node):
    terms = (NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=("a",)),)),)
    arch = (
        NodeSelectorTerm(
            expressions=(SelectorRequirement(key="kubernetes.io/arch", operator="In", values=("amd64",)),)
        ),
    )
    wanted = pod(constraints=replace(ON_T4, volume_terms=(terms,), node_terms=arch))
    assert judged(wanted, there, new_nodes=True).may_add_node
    assert judged(wanted, there).outcome is Outcome.NEVER


@pytest.mark.parametrize(
    "named",
    [
        pytest.param({"volume_terms": (name_hosts("n"),)}, id="volume on a node's disk"),
        pytest.param({"volume_terms": (name_hosts("n", "m"),)}, id="volume on the disks of two nodes"),
        pytest.param({"node_selector": {"kubernetes.io/hostname": "n"}}, id="node selector"),
        pytest.param({"node_terms": (*name_hosts("n"), *name_hosts("m"))}, id="either of two"),
        pytest.param(
            {
                "node_terms": (
                    NodeSelectorTerm(fields=(SelectorRequirement(key="metadata.name", operator="In", values=("n",)),)),
                )
            },
            id="name of the node",
        ),
    ],
)
def test_no_new_node_is_one_that_the_pod_names(named: dict[str, Any]):
    there = [node(name, labels={PRODUCT: "T4", "kubernetes.io/hostname": name}) for name in ("n", "m")]
    wanted = pod(gpus=5, constraints=replace(ON_T4, **named))
    assert judged(wanted, *there, new_nodes=True).outcome is Outcome.NEVER


@pytest.mark.parametrize(
    "named",
    [
        pytest.param({"volume_terms": (name_hosts("gone"),)}, id="a node that may come back"),
        pytest.param({"node_terms": (*name_hosts("n"), *name_hosts("gone"))}, id="either of two, one is gone"),
        pytest.param(
            {
                "node_terms": (
                    NodeSelectorTerm(
                        expressions=(SelectorRequirement(key="kubernetes.io/hostname", operator="Exists"),)
                    ),
                )
            },
            id="any name",
        ),
    ],
)
def test_a_node_that_is_not_there_may_be_added_by_its_name(named: dict[str, Any]):
    there = node(labels={PRODUCT: "T4", "kubernetes.io/hostname": "n"})
    wanted = pod(gpus=5, constraints=replace(ON_T4, **named))
    assert judged(wanted, there, new_nodes=True).may_add_node


def test_similar_choices_help_while_no_such_node_is_running():
    assert [
        judged(*wanted, new_nodes=True).needs_alternatives
        for wanted in ((pod(),), (pod(), node()), (replace(pod(), created=""), node(uncounted=frozenset({GPU}))))
    ] == [True, False, False]


@given(nodes, pods, st.integers(1, 6), st.sampled_from([T4, GROWING]), added)
def test_what_may_be_added_unseen_changes_nothing_but_what_would_be_impossible(
    drawn: list[dict[str, Any]],
    others: list[Any],
    gpus: int,
    gpu: Any,
    scalable_pools: tuple[ScalableNodePool, ...] | None,
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    closed, open_ = (
        judged(pod(gpus=gpus), *own, pods=named, gpu=gpu, scalable_pools=scalable_pools, new_nodes=new_nodes)
        for new_nodes in (False, True)
    )
    expected = (
        replace(closed, outcome=Outcome.UNKNOWN, may_add_node=True) if closed.outcome is Outcome.NEVER else closed
    )
    assert open_ == expected
