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
    FULL,
    GIB,
    GPU,
    GROWING,
    ON_T4,
    PRODUCT,
    T4,
    added,
    judged,
    node,
    node_pool,
    nodes,
    pod,
    pods,
    said,
)

LABELS_OF_CLOUDS = {
    "kOps": {"kops.k8s.io/instancegroup": "nodes-a", "node.kubernetes.io/instance-type": "m5.large"},
    "Gardener": {"worker.gardener.cloud/pool": "cpu", "worker.garden.sapcloud.io/group": "cpu"},
    "Cluster API": {"node.cluster.x-k8s.io/machine-deployment": "md-0"},
    "Magnum": {"magnum.openstack.org/nodegroup": "default-worker", "magnum.openstack.org/role": "worker"},
    "DigitalOcean": {"doks.digitalocean.com/node-pool": "pool-a", "doks.digitalocean.com/node-pool-id": "1"},
    "Scaleway": {"k8s.scaleway.com/pool-name": "default", "k8s.scaleway.com/pool": "2"},
    "Linode": {"lke.linode.com/pool-id": "12345"},
    "OKE": {"oci.oraclecloud.com/fault-domain": "FAULT-DOMAIN-1", "name": "pool1"},
    "groups of one's own on EKS": {"node.kubernetes.io/instance-type": "m5.large"},
    "OpenShift MachineAutoscaler": {"node.openshift.io/os_id": "rhcos", "node-role.kubernetes.io/worker": ""},
    "IKS": {"ibm-cloud.kubernetes.io/worker-pool-name": "default"},
    "ACK": {"alibabacloud.com/nodepool-id": "np1"},
    "Rancher": {"rke.cattle.io/machine": "abc", "cattle.io/os": "linux"},
    "OVHcloud": {"nodepool": "pool-a"},
    "Exoscale": {"node.exoscale.net/nodepool-id": "1"},
    "Vultr": {"vke.vultr.com/node-pool": "pool"},
    "Hetzner": {"hcloud/node-group": "pool1"},
    "GKE": {"cloud.google.com/gke-nodepool": "default-pool"},
    "EKS": {"eks.amazonaws.com/nodegroup": "cpu"},
    "eksctl": {"alpha.eksctl.io/nodegroup-name": "cpu"},
    "AKS": {"kubernetes.azure.com/agentpool": "agentpool"},
    "Karpenter": {"karpenter.sh/nodepool": "default"},
}
"""Where an autoscaler runs → labels of a node of its pool for CPUs. Pools with GPUs or large machines have no nodes."""
SMALL = {"cpu": 2000, "memory": 7 * GIB, "pods": 110}


def name_hosts(*names: str) -> tuple[NodeSelectorTerm, ...]:
    return (
        NodeSelectorTerm(expressions=(SelectorRequirement(key="kubernetes.io/hostname", operator="In", values=names),)),
    )


@pytest.mark.parametrize("labels", LABELS_OF_CLOUDS.values(), ids=LABELS_OF_CLOUDS)
def test_no_labels_of_nodes_refuse_a_start_for_a_pool_at_zero_nodes(labels: dict[str, str]):
    small = node("small", labels=labels, allocatable=SMALL, capacity=SMALL)
    huge = replace(pod(), requests={"cpu": 1000, "memory": 450 * GIB}, constraints=PodConstraints())
    elsewhere = replace(huge, requests={"cpu": 1000}, constraints=PodConstraints(node_selector={"type": "r5.16xlarge"}))
    found = [
        judged(wanted, small, gpu=gpu, new_nodes=True) for wanted, gpu in ((pod(), T4), (huge, None), (elsewhere, None))
    ]
    assert [(each.outcome, each.may_add_node) for each in found] == [(Outcome.UNKNOWN, True)] * 3


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


def test_what_scale_up_describes_is_all_there_is_only_if_nothing_else_is_added():
    wanted = pod(gpus=5)
    assert judged(wanted, gpu=GROWING).outcome is Outcome.NEVER
    assert judged(wanted, gpu=GROWING, new_nodes=True).may_add_node


def test_what_node_pools_describe_is_all_there_is_only_if_nothing_else_is_added():
    pools = (node_pool(limits={GPU: 4}),)
    assert judged(pod(gpus=5), scalable_pools=pools).outcome is Outcome.NEVER
    assert judged(pod(gpus=5), scalable_pools=pools, new_nodes=True).may_add_node


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


def test_a_busy_type_is_waited_for_as_before():
    assert said(pod(), node(), pods=FULL, new_nodes=True) == "Will wait: all 4 are in use. You'd be next in line."
