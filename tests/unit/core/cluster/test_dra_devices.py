from __future__ import annotations

import pytest

from gpuspawner.core.cluster.dra import ClusterDevices, NodeDevices, equip_node
from gpuspawner.core.cluster.model import Node

GPU = "nvidia.com/gpu"
BARE = Node(name="n", labels={"zone": "x"}, allocatable={"cpu": 8}, capacity={"cpu": 9})
FOUR = NodeDevices(capacity={GPU: 4}, allocatable={GPU: 3}, claimed={GPU: 2})
UNCOUNTED = NodeDevices(capacity={GPU: 4}, allocatable={GPU: 3}, claimed={GPU: 2}, uncounted=frozenset({GPU}))


def test_devices_become_amounts_of_their_extended_resource():
    node, taken = equip_node(BARE, FOUR)
    assert (node.allocatable, node.capacity, taken) == ({"cpu": 8, GPU: 3}, {"cpu": 9, GPU: 4}, {GPU: 2})
    assert (node.name, node.labels, node.uncounted) == ("n", {"zone": "x"}, frozenset())


@pytest.mark.parametrize("found", [FOUR, UNCOUNTED])
def test_what_kubelet_gives_away_is_not_looked_for_among_devices(found: NodeDevices):
    plugin = Node(name="n", allocatable={GPU: 8}, capacity={GPU: 8})
    assert equip_node(plugin, found) == (plugin, {})


def test_what_a_device_plugin_left_behind_is_replaced():
    node, _ = equip_node(Node(name="n", allocatable={GPU: 0}, capacity={GPU: 8}), FOUR)
    assert (node.allocatable, node.capacity) == ({GPU: 3}, {GPU: 4})


def test_devices_without_a_count_are_no_amount():
    node, taken = equip_node(BARE, UNCOUNTED)
    assert (node.allocatable, node.capacity, node.uncounted, taken) == ({"cpu": 8}, {"cpu": 9}, {GPU}, {})


def test_a_node_without_devices_is_as_it_was():
    node, taken = equip_node(BARE, NodeDevices())
    assert (node is BARE, taken) == (True, {})


def test_what_may_be_anywhere_is_uncounted_on_every_node():
    amd = "amd.com/gpu"
    with_some, _ = equip_node(BARE, FOUR, on_unknown_nodes=frozenset({amd}))
    without, _ = equip_node(BARE, NodeDevices(), on_unknown_nodes=frozenset({amd}))
    assert (with_some.uncounted, with_some.capacity) == ({amd}, {"cpu": 9, GPU: 4})
    assert (without.uncounted, without.capacity) == ({amd}, {"cpu": 9})


@pytest.mark.parametrize("found", [FOUR, UNCOUNTED])
def test_a_node_says_of_what_a_driver_shows_devices_there(found: NodeDevices):
    node, _ = equip_node(BARE, found, on_unknown_nodes=frozenset({GPU, "amd.com/gpu"}))
    assert (node.published_by_dra, node.uncounted) == ({GPU}, {GPU, "amd.com/gpu"})


def test_what_there_is_on_a_node_is_found_by_its_name():
    devices = ClusterDevices(nodes={"n": FOUR}, on_unknown_nodes=frozenset({"amd.com/gpu"}))
    assert (devices.get_node_devices("n"), devices.get_node_devices("other")) == (FOUR, NodeDevices())
