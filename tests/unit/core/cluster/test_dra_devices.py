from __future__ import annotations

import pytest

from gpuspawner.core.cluster.dra import NodeDevices, equip_node
from gpuspawner.core.cluster.model import Node

GPU = "nvidia.com/gpu"
BARE = Node(name="n", labels={"zone": "x"}, allocatable={"cpu": 8}, capacity={"cpu": 9})
FOUR = NodeDevices(capacity={GPU: 4}, allocatable={GPU: 3}, claimed={GPU: 2})
UNCOUNTED = NodeDevices(capacity={GPU: 4}, allocatable={GPU: 3}, claimed={GPU: 2}, uncounted=frozenset({GPU}))


@pytest.mark.parametrize("found", [FOUR, UNCOUNTED])
def test_what_kubelet_gives_away_is_not_looked_for_among_devices(found: NodeDevices):
    plugin = Node(name="n", allocatable={GPU: 8}, capacity={GPU: 8})
    assert equip_node(plugin, found) == (plugin, {})


@pytest.mark.parametrize("found", [FOUR, UNCOUNTED])
def test_a_node_says_of_what_a_driver_shows_devices_there(found: NodeDevices):
    node, _ = equip_node(BARE, found, on_unknown_nodes=frozenset({GPU, "amd.com/gpu"}))
    assert (node.published_by_dra, node.uncounted) == ({GPU}, {GPU, "amd.com/gpu"})
