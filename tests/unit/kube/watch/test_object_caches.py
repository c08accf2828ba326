"""Objects become what matters of them; what cannot be read is left out."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.kube.watch.object_caches import NodeCache, PodCache, decode_object, find_object_key, make_key
from tests.unit.kube.watch_server import node, pod


@pytest.fixture
def occupancy() -> Occupancy:
    return Occupancy()


def test_a_node_is_kept_under_its_name(occupancy: Occupancy):
    target = NodeCache(occupancy)
    found = decode_object(node("n1", gpus=8), target)
    assert found is not None
    key, value = found
    target.put(value)
    assert (key, occupancy.nodes, list(target.list_values())) == (("", "n1"), (value,), [value])
    assert (make_key(value), value.allocatable["nvidia.com/gpu"]) == (key, 8)


def test_a_node_is_forgotten(occupancy: Occupancy):
    target = NodeCache(occupancy)
    target.put(decode.decode_node(node("n1")))
    target.drop(("", "n1"))
    assert (occupancy.nodes, list(target.list_values())) == ((), [])


def test_a_pod_is_kept_under_its_namespace_and_name(occupancy: Occupancy):
    NodeCache(occupancy).put(decode.decode_node(node("n1", gpus=8)))
    target = PodCache(occupancy)
    found = decode_object(pod("p", gpus=3), target)
    assert found is not None
    key, value = found
    assert value is not None
    target.put(value)
    assert (key, make_key(value), list(target.list_values())) == (("other", "p"), ("other", "p"), [value])
    assert occupancy.get_free("n1")["nvidia.com/gpu"] == 5


def test_a_pod_is_forgotten(occupancy: Occupancy):
    target = PodCache(occupancy)
    value = decode.decode_pod(pod("p"))
    assert value is not None
    target.put(value)
    target.drop(("other", "p"))
    assert list(target.list_values()) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_finished_is_left_out(occupancy: Occupancy, phase: str):
    assert decode_object(pod("p", phase=phase), PodCache(occupancy)) == (("other", "p"), None)


class Unreadable(dict[str, Any]):
    """An object that fails when it is read."""

    def items(self) -> Any:
        raise RuntimeError

    def get(self, key: str, default: Any = None) -> Any:
        if key == "metadata":
            return {"name": "p", "namespace": "other"}
        raise RuntimeError


@pytest.mark.parametrize("target", [NodeCache, PodCache])
def test_what_cannot_be_read_is_left_out(occupancy: Occupancy, target: Any):
    assert decode_object(Unreadable(), target(occupancy)) == (("other", "p"), None)


@pytest.mark.parametrize("target", [NodeCache, PodCache])
def test_an_object_without_a_name_is_nothing(occupancy: Occupancy, target: Any):
    assert decode_object({"metadata": {}}, target(occupancy)) is None


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"metadata": {"name": "a"}}, ("", "a")),
        ({"metadata": {"name": "a", "namespace": "b"}}, ("b", "a")),
        ({"metadata": {"name": "a", "namespace": 3}}, ("", "a")),
        ({"metadata": {"name": ""}}, None),
        ({"metadata": {"name": 3}}, None),
        ({"metadata": []}, None),
        ({}, None),
        (None, None),
        ("metadata", None),
    ],
)
def test_an_object_is_known_by_namespace_and_name(raw: object, key: object):
    assert find_object_key(raw) == key
