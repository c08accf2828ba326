from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.dra import (
    ClusterDevices,
    Device,
    DeviceClass,
    DeviceCounter,
    DeviceId,
    NodeDevices,
    ResourceClaim,
    ResourceSlice,
    parse_cel_selector,
)

GPU = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
WHOLE, PART = {f"{DRIVER}/type": "gpu"}, {f"{DRIVER}/type": "mig"}
CARDS = DeviceClass(
    name=DRIVER,
    created="2026-01-01T00:00:00Z",
    resource=GPU,
    selectors=(parse_cel_selector(f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"),),
)
ODD = replace(CARDS, selectors=(parse_cel_selector("device.capacity['d'].memory.isGreaterThan(quantity('40Gi'))"),))
NOTHING = NodeDevices()


def device(number: int = 0, **changes: Any) -> Device:
    return Device(name=f"gpu-{number}", **{"attributes": WHOLE, **changes})


def part(*devices: Device, node: str | None = "n", **changes: Any) -> ResourceSlice:
    found = ResourceSlice(
        name="s", driver=DRIVER, pool=node or "p", generation=1, slice_count=1, node=node, devices=tuple(devices)
    )
    return replace(found, **changes)


def claim(*numbers: int, pool: str = "n", driver: str = DRIVER) -> ResourceClaim:
    return ResourceClaim(
        name="c", namespace="m", held_devices=frozenset(DeviceId(driver, pool, f"gpu-{number}") for number in numbers)
    )


def found(*slices: ResourceSlice, classes: tuple[DeviceClass, ...] = (CARDS,), claims: Any = ()) -> ClusterDevices:
    return DeviceCounter().count_devices(classes, slices).subtract_claims(claims)


def numbers(*slices: ResourceSlice, **options: Any) -> tuple[int | None, int | None]:
    """Return how many devices of node n there are, and how many can be given away."""
    on_node = found(*slices, **options).get_node_devices("n")
    return on_node.capacity.get(GPU), on_node.allocatable.get(GPU)


def test_only_devices_that_the_class_means_are_counted():
    other = part(device(), driver="nic.example")
    assert found(part(device(0), device(1, attributes=PART)), other).get_node_devices("n").capacity == {GPU: 1}


def test_without_an_extended_resource_nothing_is_counted():
    assert found(part(device()), classes=(replace(CARDS, resource=""),)) == ClusterDevices()


def test_the_newest_class_with_a_resource_is_in_charge():
    newer = DeviceClass(
        name="z", created="2026-02-01T00:00:00Z", resource=GPU, selectors=(parse_cel_selector("device.driver=='d'"),)
    )
    for classes in ((CARDS, newer), (newer, CARDS)):
        assert found(part(device()), classes=classes) == ClusterDevices()


def test_of_equally_new_classes_the_first_by_name_is_in_charge():
    later = replace(CARDS, name="z", selectors=(parse_cel_selector("device.driver == 'd'"),))
    for classes in ((CARDS, later), (later, CARDS)):
        assert numbers(part(device()), classes=classes) == (1, 1)


def test_one_device_may_stand_for_two_resources():
    other = replace(CARDS, name="other", resource="example.com/any", selectors=())
    devices = found(
        part(device(0), device(1, attributes=PART)), classes=(CARDS, other), claims=[claim(0)]
    ).get_node_devices("n")
    assert (devices.allocatable, devices.claimed) == ({GPU: 1, "example.com/any": 2}, {GPU: 1, "example.com/any": 1})


def test_slices_of_an_older_generation_are_out_of_date():
    old, new = part(device(0), device(1)), part(device(0), generation=2)
    assert numbers(old, new) == numbers(new, old) == (1, 1)


def test_a_pool_may_have_several_slices():
    assert numbers(part(device(0), slice_count=2), part(device(1), slice_count=2)) == (2, 2)


@pytest.mark.parametrize(
    "slices",
    [
        (part(device(0), slice_count=2),),
        (part(device(0), slice_count=0),),
        (part(device(0), slice_count=2), part(slice_count=3)),
        (part(device(0), generation=2, slice_count=2), part(device(1), generation=1, slice_count=2)),
    ],
)
def test_nothing_is_given_away_of_a_pool_that_is_not_complete(slices: tuple[ResourceSlice, ...]):
    assert numbers(*slices, claims=[claim(0)]) == (1, None)
    assert found(*slices, claims=[claim(0)]).get_node_devices("n").claimed == {}


def test_nothing_is_given_away_of_a_pool_with_a_name_twice():
    assert numbers(part(device(0), device(0))) == (2, None)


def test_a_tainted_device_is_there_and_is_not_given_away():
    devices = found(part(device(0, tainted=True), device(1)), claims=[claim(0)]).get_node_devices("n")
    assert (devices.capacity, devices.allocatable, devices.claimed) == ({GPU: 2}, {GPU: 1}, {})


def test_what_claims_hold_is_taken_once():
    devices = found(part(device(0), device(1), device(2)), claims=[claim(0, 1), claim(1)])
    assert devices.get_node_devices("n").claimed == {GPU: 2}


def test_what_claims_hold_elsewhere_does_not_matter():
    claims = [claim(0, pool="elsewhere"), claim(0, driver="nic.example"), claim(7)]
    assert found(part(device(0)), claims=claims).get_node_devices("n").claimed == {}


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        (device(uncountable=True), (CARDS,)),
        (device(attributes={}), (CARDS,)),
        (device(), (ODD,)),
    ],
)
def test_devices_of_an_undecided_class_make_the_number_on_their_node_unknown(
    given: Device, classes: tuple[DeviceClass, ...]
):
    devices = found(part(given), part(node="m"), classes=classes)
    assert (devices.get_node_devices("n"), devices.get_node_devices("m"), devices.on_unknown_nodes) == (
        NodeDevices(uncounted=frozenset({GPU})),
        NOTHING,
        frozenset(),
    )


def test_a_special_device_that_is_not_meant_does_not_matter():
    assert numbers(part(device(0), device(1, uncountable=True, attributes=PART))) == (1, 1)


def test_devices_of_several_nodes_may_be_anywhere():
    devices = found(part(device(), node=None), part(device()))
    assert (devices.on_unknown_nodes, devices.get_node_devices("n").capacity) == ({GPU}, {GPU: 1})
    assert found(part(device(attributes=PART), node=None)).on_unknown_nodes == frozenset()


def test_without_the_claims_the_free_devices_are_unknown():
    devices = found(part(device(), device(1, tainted=True)), claims=None)
    assert devices == ClusterDevices(nodes={"n": NodeDevices(uncounted=frozenset({GPU}))})


def test_a_node_may_have_devices_of_several_pools():
    again = part(device(0), device(1, uncountable=True), pool="other")
    devices = found(
        part(device(0), device(1)), again, part(device(), node="m"), claims=[claim(0), claim(0, pool="other")]
    )
    assert devices.nodes == {
        "n": NodeDevices(capacity={GPU: 3}, allocatable={GPU: 3}, claimed={GPU: 2}, uncounted=frozenset({GPU})),
        "m": NodeDevices(capacity={GPU: 1}, allocatable={GPU: 1}),
    }


def test_a_change_counts_only_the_pools_it_is_in():
    counts, slices = DeviceCounter(), [part(device(0)), part(device(0), node="m")]
    before = counts.count_devices([CARDS], slices)
    after = counts.count_devices([CARDS], [slices[0], part(device(0), device(1), node="m")])
    is_same = {
        pool: before.allocatable_devices[pool] is after.allocatable_devices[pool] for pool in after.allocatable_devices
    }
    assert is_same == {(DRIVER, "n"): True, (DRIVER, "m"): False}
    assert [after.nodes[name].capacity for name in ("n", "m")] == [{GPU: 1}, {GPU: 2}]


def test_earlier_counts_are_not_kept():
    counts, slices = DeviceCounter(), [part(device(0)), part(device(0), node="m")]
    counts.count_devices([CARDS], slices)
    every = replace(CARDS, resource="example.com/any", selectors=())
    assert counts.count_devices([CARDS], slices[:1]) == DeviceCounter().count_devices([CARDS], slices[:1])
    assert counts.count_devices([every], slices) == DeviceCounter().count_devices([every], slices)
    assert counts.count_devices([], slices) == DeviceCounter().count_devices([], slices)
    assert counts.count_devices([CARDS], slices) == DeviceCounter().count_devices([CARDS], slices)
