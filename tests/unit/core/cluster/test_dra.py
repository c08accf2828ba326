from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.dra import (
    AttributeTerm,
    Device,
    DeviceClass,
    DeviceCounter,
    DeviceId,
    ResourceClaim,
    ResourceSlice,
    decode_device_class,
    decode_resource_claim,
    decode_resource_slice,
)
from tests.unit.hostile import JSON

TYPE = "gpu.nvidia.com/type"


def has(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with some of these fields, each of which may be anything else."""
    return st.fixed_dictionaries({}, optional={name: found | JSON for name, found in fields.items()})


NAMES = st.sampled_from(["a", "b", "gpu.nvidia.com"])
COUNTS = st.integers(-1, 2)
TAINTS = st.lists(has(effect=st.sampled_from(["None", "NoSchedule"])), max_size=1)
ATTRIBUTES = st.dictionaries(st.sampled_from(["type", TYPE]), has(string=st.just("gpu")))
DEVICES = st.lists(has(name=NAMES, taints=TAINTS, attributes=ATTRIBUTES, consumesCounters=st.just([{}])), max_size=3)
POOLS = has(name=NAMES, generation=COUNTS, resourceSliceCount=COUNTS)
SLICES = has(metadata=has(name=NAMES), spec=has(driver=NAMES, pool=POOLS, nodeName=NAMES, devices=DEVICES))
CEL = has(cel=has(expression=st.sampled_from(["device.driver == 'a'", "device.attributes['a'].type == 'gpu'", "?"])))
CLASSES = has(
    metadata=has(name=NAMES, creationTimestamp=st.just("2026-01-01T00:00:00Z")),
    spec=has(extendedResourceName=st.sampled_from(["nvidia.com/gpu", "cpu"]), selectors=st.lists(CEL, max_size=2)),
)
RESULTS = st.lists(has(driver=NAMES, pool=NAMES, device=NAMES, adminAccess=st.booleans()), max_size=3)
CLAIMS = has(metadata=has(name=NAMES), status=has(allocation=has(devices=has(results=RESULTS))))


def slice_of(*devices: object, **spec: Any) -> dict[str, Any]:
    pool = {"name": "node-1", "generation": 3, "resourceSliceCount": 2}
    whole = {"driver": "gpu.nvidia.com", "nodeName": "node-1", "pool": pool, "devices": list(devices), **spec}
    return {"metadata": {"name": "s"}, "spec": whole}


def device(**changes: object) -> dict[str, Any]:
    return {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}, **changes}


def read(raw: dict[str, Any]) -> Device:
    (found,) = decode_resource_slice(slice_of(raw)).devices
    return found


def test_a_slice_is_read():
    assert decode_resource_slice(slice_of(device())) == ResourceSlice(
        name="s",
        driver="gpu.nvidia.com",
        pool="node-1",
        generation=3,
        slice_count=2,
        node="node-1",
        devices=(Device(name="gpu-0", attributes={TYPE: "gpu"}),),
    )


@pytest.mark.parametrize("spec", [{"allNodes": True}, {"nodeSelector": {}}, {"perDeviceNodeSelection": True}])
def test_a_slice_of_several_nodes_is_on_none_by_its_name(spec: dict[str, Any]):
    assert decode_resource_slice(slice_of(device(), nodeName=None, **spec)).node is None


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"type": {"string": "gpu"}, "other.example/type": {"string": "x"}}, {TYPE: "gpu", "other.example/type": "x"}),
        (
            {"driverVersion": {"version": "1.2.3"}, "index": {"int": 0}, "x": {"strings": ["a"]}, "y": {"bool": True}},
            {},
        ),
        ({"type": {"string": "gpu"}, TYPE: {"string": "mig"}}, {}),
        ({"uuid": {"string": "GPU-1"}, "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}, {}),
        ({"type": {"string": 3}, "a": "gpu", "b": None}, {}),
    ],
)
def test_text_attributes_are_kept_under_their_full_name(attributes: dict[str, Any], expected: dict[str, str]):
    assert read(device(attributes=attributes)).attributes == expected


def test_equal_attributes_are_one_object():
    one, other = decode_resource_slice(slice_of(device(), device(name="gpu-1"))).devices
    assert one.attributes is other.attributes


@pytest.mark.parametrize(
    ("effect", "tainted"), [("NoSchedule", True), ("NoExecute", True), ("None", False), ([], False)]
)
def test_a_taint_keeps_pods_away_by_its_effect(effect: object, tainted: bool):
    assert read(device(taints=[{"key": "unhealthy", "effect": effect}])).tainted is tainted


@pytest.mark.parametrize(
    "more",
    [
        {"consumesCounters": [{"counterSet": "gpu-0"}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["ready"]},
        {"bindingFailureConditions": ["broken"]},
        {"nodeAllocatableResourceMappings": {"memory": {}}},
    ],
)
def test_a_device_that_is_more_than_taken_or_free_is_special(more: dict[str, Any]):
    assert (read(device(**more)).uncountable, read(device()).uncountable) == (True, False)


def test_a_class_is_read():
    raw = {
        "metadata": {"name": "gpu.nvidia.com", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "extendedResourceName": "nvidia.com/gpu",
            "selectors": [{"cel": {"expression": "device.driver == 'd'"}}, {"cel": {"expression": "true"}}, {}],
        },
    }
    assert decode_device_class(raw) == DeviceClass(
        name="gpu.nvidia.com",
        created="2026-01-02T03:04:05Z",
        resource="nvidia.com/gpu",
        selectors=((AttributeTerm("", "d"),), None, None),
    )


@pytest.mark.parametrize("resource", [None, "", "cpu", "pods", 3, ["nvidia.com/gpu"]])
def test_a_class_without_an_extended_resource_stands_for_none(resource: object):
    assert decode_device_class({"spec": {"extendedResourceName": resource}}).resource == ""


def test_a_claim_holds_the_devices_that_it_got_for_itself():
    mine = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
    watched = {**mine, "device": "gpu-1", "adminAccess": True}
    raw = {
        "metadata": {"name": "c", "namespace": "n"},
        "status": {"allocation": {"devices": {"results": [mine, watched]}}},
    }
    assert decode_resource_claim(raw) == ResourceClaim(
        name="c", namespace="n", held_devices=frozenset({DeviceId("d", "p", "gpu-0")})
    )


def test_a_claim_that_got_nothing_yet_holds_nothing():
    assert (
        decode_resource_claim({"metadata": {"name": "c", "namespace": "n"}, "status": {}}).held_devices == frozenset()
    )


@given(st.lists(CLASSES | JSON), st.lists(SLICES | JSON), st.lists(CLAIMS | JSON))
def test_whatever_the_api_sends_can_be_read_and_counted(classes: list[Any], slices: list[Any], claims: list[Any]):
    found = DeviceCounter().count_devices(
        map(decode_device_class, classes), [decode_resource_slice(each) for each in slices]
    )
    for node in found.subtract_claims(map(decode_resource_claim, claims)).nodes.values():
        for resource, number in node.allocatable.items():
            assert 0 <= node.claimed.get(resource, 0) <= number <= node.capacity[resource]
