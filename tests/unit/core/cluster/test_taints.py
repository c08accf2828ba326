from __future__ import annotations

import pytest

from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.taints import accepts_pods, is_reserved_for_others

GPU = Toleration(key="nvidia.com/gpu", operator="Exists")


def tainted(*keys: str, effect: str = "NoSchedule") -> Node:
    return Node(name="n", taints=tuple(Taint(key=key, effect=effect) for key in keys))


@pytest.mark.parametrize(
    ("node", "takes", "reserved"),
    [
        (Node(name="n"), True, False),
        (Node(name="n", unschedulable=True), False, False),
        (tainted("nvidia.com/gpu"), True, False),
        (tainted("team"), False, True),
        (tainted("team", effect="PreferNoSchedule"), True, False),
        (tainted("node.kubernetes.io/not-ready"), False, False),
        (tainted("node.kubernetes.io/not-ready", "team"), False, True),
        (tainted("ToBeDeletedByClusterAutoscaler"), False, False),
        (tainted("karpenter.sh/disrupted"), False, False),
        (tainted("ebs.csi.aws.com/agent-not-ready", effect="NoExecute"), False, False),
        (tainted("cloud.google.com/impending-node-termination"), False, False),
    ],
)
def test_a_node_takes_servers_or_is_reserved_or_will_take_them(node: Node, takes: bool, reserved: bool):
    assert (accepts_pods(node, (GPU,)), is_reserved_for_others(node, (GPU,))) == (takes, reserved)
