from __future__ import annotations

import pytest

from gpuspawner.core.autoscaling.node_pools import AutoscalerTraces, find_autoscaler_traces
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Occupancy


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("karpenter.sh/nodepool", AutoscalerTraces(any_size=True, fixed_size=False)),
        ("cloud.google.com/gke-nodepool", AutoscalerTraces(any_size=False, fixed_size=True)),
        ("eks.amazonaws.com/nodegroup", AutoscalerTraces(any_size=False, fixed_size=True)),
        ("pool", AutoscalerTraces(any_size=False, fixed_size=False)),
    ],
)
def test_labels_tell_what_may_be_added(label: str, expected: AutoscalerTraces):
    nodes = (Node(name="a"), Node(name="b", labels={label: "x"}))
    assert find_autoscaler_traces(Occupancy.build(nodes, ()).table) == expected


def test_without_nodes_there_is_no_trace():
    assert find_autoscaler_traces(Occupancy().table) == AutoscalerTraces(any_size=False, fixed_size=False)
