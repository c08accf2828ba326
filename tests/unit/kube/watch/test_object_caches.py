"""Objects become what matters of them; what cannot be read is left out."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.kube.watch.object_caches import NodeCache, PodCache, decode_object, find_object_key, make_key
from tests.unit.kube.watch_server import node, pod


@pytest.fixture
def occupancy() -> Occupancy:
    return Occupancy()


@pytest.mark.parametrize(("make", "raw"), [(NodeCache, node("n1")), (PodCache, pod("p"))], ids=["node", "pod"])
def test_an_object_is_listed_under_its_key_until_it_is_dropped(occupancy: Occupancy, make: Any, raw: dict[str, Any]):
    target = make(occupancy)
    found = decode_object(raw, target)
    assert found is not None
    key, value = found
    target.put(value)
    listed = list(target.list_values())
    target.drop(key)
    assert (make_key(value), listed, list(target.list_values())) == (key, [value], [])


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
