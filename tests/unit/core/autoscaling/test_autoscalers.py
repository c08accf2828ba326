from __future__ import annotations

import pytest

from gpuspawner.core.autoscaling.autoscalers import Traces, traces
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.occupancy import Occupancy


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("karpenter.sh/nodepool", Traces(any_shape=True, pools=False)),
        ("cloud.google.com/gke-nodepool", Traces(any_shape=False, pools=True)),
        ("eks.amazonaws.com/nodegroup", Traces(any_shape=False, pools=True)),
        ("pool", Traces(any_shape=False, pools=False)),
    ],
)
def test_labels_tell_what_may_be_added(label: str, expected: Traces):
    nodes = (Node(name="a"), Node(name="b", labels={label: "x"}))
    assert traces(Occupancy.of(nodes, ()).table) == expected


def test_without_nodes_there_is_no_trace():
    assert traces(Occupancy().table) == Traces(any_shape=False, pools=False)
