"""A new list replaces what is held in one step, as far as that does not take long."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.kube.watch.object_caches import MAX_CHANGES_AT_ONCE, replace_objects
from tests.unit.kube.watch.kept import Kept, Value


async def replace(cache: Kept, numbers: dict[str, int]) -> None:
    await replace_objects(cache, {("", name): Value("", name, number) for name, number in numbers.items()})


STATES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))


@given(STATES, STATES)
async def test_afterwards_the_cache_holds_what_the_list_had(before: dict[str, int], after: dict[str, int]):
    cache = Kept()
    await replace(cache, before)
    await replace(cache, after)
    assert {value.name: value.value for value in cache.objects.values()} == after


async def test_equal_objects_are_left_alone():
    cache = Kept()
    await replace(cache, {"a": 1, "b": 2})
    cache.changes = 0
    await replace(cache, {"a": 1, "b": 3})
    assert cache.changes == 1


@pytest.mark.parametrize(
    ("number", "states"),
    [
        pytest.param(MAX_CHANGES_AT_ONCE - 1, {0, MAX_CHANGES_AT_ONCE - 1}, id="few changes in one step"),
        pytest.param(
            2 * MAX_CHANGES_AT_ONCE + 1,
            {0, MAX_CHANGES_AT_ONCE, 2 * MAX_CHANGES_AT_ONCE, 2 * MAX_CHANGES_AT_ONCE + 1},
            id="many in several",
        ),
    ],
)
async def test_others_see_few_changes_all_or_none(number: int, states: set[int]):
    cache = Kept()
    seen = set()
    task = asyncio.create_task(replace(cache, {str(name): 1 for name in range(number)}))
    while not task.done():
        seen.add(cache.changes)
        await asyncio.sleep(0)
    assert seen | {cache.changes} == states
