"""A new list replaces what is held in one step, as far as that does not take long."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.object_caches import ObjectKey, find_object_key
from gpuspawner.kube.watch.pending_events import MAX_CHANGES_AT_ONCE, ListReconciler


class Kept:
    """A target that keeps numbers by name, and all states it was in."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, tuple[ObjectKey, int]] = {}
        self.changes = 0

    def decode(self, raw: Any) -> tuple[ObjectKey, int] | None:
        key = find_object_key(raw)
        assert key is not None
        return (key, raw["number"]) if raw["number"] >= 0 else None

    def put(self, value: tuple[ObjectKey, int]) -> None:
        self.changes += 1
        self.objects[value[0]] = value

    def drop(self, key: ObjectKey) -> None:
        self.changes += 1
        del self.objects[key]

    def list_values(self) -> list[tuple[ObjectKey, int]]:
        return list(self.objects.values())

    def make_key(self, value: tuple[ObjectKey, int]) -> ObjectKey:
        return value[0]

    @property
    def numbers(self) -> dict[str, int]:
        return {name: number for (_, name), (_, number) in self.objects.items()}


class Turns(Pacer):
    """Counts how often others get a turn at most."""

    count = 0

    async def yield_if_due(self) -> None:
        self.count += 1


async def listed(target: Kept, numbers: dict[str, int], *, pacer: Pacer | None = None) -> ListReconciler[Any]:
    reconciliation = ListReconciler(target, pacer=pacer or Pacer())
    await reconciliation.begin()
    for name, number in numbers.items():
        reconciliation.record({"metadata": {"name": name}, "number": number})
    return reconciliation


STATES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))


@given(STATES, STATES)
async def test_afterwards_it_holds_what_the_list_had(before: dict[str, int], after: dict[str, int]):
    target = Kept()
    await (await listed(target, before)).finish()
    reconciliation = await listed(target, after)
    assert target.numbers == (before or after)
    await reconciliation.finish()
    assert target.numbers == after


async def test_equal_objects_are_left_alone():
    target = Kept()
    await (await listed(target, {"a": 1, "b": 2})).finish()
    target.changes = 0
    await (await listed(target, {"a": 1, "b": 3})).finish()
    assert target.changes == 1


async def test_objects_that_a_list_leaves_out_are_dropped():
    target = Kept()
    await (await listed(target, {"a": 1, "b": 2})).finish()
    await (await listed(target, {"a": 1, "b": -1})).finish()
    assert target.numbers == {"a": 1}


async def test_objects_without_a_name_are_left_out():
    target = Kept()
    reconciliation = ListReconciler(target, pacer=Pacer())
    reconciliation.record({"metadata": {}})
    await reconciliation.finish()
    assert target.numbers == {}


async def test_few_differences_are_made_without_giving_way():
    target, pacer = Kept(), Turns()
    await (await listed(target, {str(number): 1 for number in range(MAX_CHANGES_AT_ONCE + 10)})).finish()
    reconciliation = await listed(target, {str(number): 1 for number in range(10)}, pacer=pacer)
    pacer.count = 0
    await reconciliation.finish()
    assert (pacer.count, len(target.numbers)) == (0, 10)


async def test_many_differences_are_made_in_slices():
    target, pacer = Kept(), Turns()
    await (await listed(target, {str(number): 1 for number in range(MAX_CHANGES_AT_ONCE)})).finish()
    reconciliation = await listed(target, {str(number): 2 for number in range(MAX_CHANGES_AT_ONCE + 1)}, pacer=pacer)
    pacer.count = 0
    await reconciliation.finish()
    assert (pacer.count, len(target.numbers)) == (MAX_CHANGES_AT_ONCE + 1, MAX_CHANGES_AT_ONCE + 1)
