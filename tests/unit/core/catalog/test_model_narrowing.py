"""Bounds that become narrower stay on their steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Bounds, OwnAmount, find_lowest_limit, narrow_bounds
from gpuspawner.core.catalog.policy_model import UNLIMITED

BOUNDS = Bounds(min=500, max=8200, step=500, default=2000, guarantee=0.5)


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (None, None, (500, 8200, 2000)),
        (100, 9000, (500, 8200, 2000)),
        (500, 8200, (500, 8200, 2000)),
        (None, 4000, (500, 4000, 2000)),
        (None, 4400, (500, 4000, 2000)),
        (None, 1200, (500, 1000, 1000)),
        (501, None, (1000, 8200, 2000)),
        (3100, None, (3500, 8200, 3500)),
        (3100, 3600, (3500, 3500, 3500)),
    ],
)
def test_narrowed_bounds_are_on_the_same_steps(least: int | None, most: int | None, expected: tuple[int, int, int]):
    low, high, default = expected
    assert narrow_bounds(BOUNDS, least=least, most=most) == replace(BOUNDS, min=low, max=high, default=default)


@pytest.mark.parametrize(("least", "most"), [(None, 499), (None, 0), (None, -5), (8201, None), (3100, 3400)])
def test_nothing_may_be_left(least: int | None, most: int | None):
    assert narrow_bounds(BOUNDS, least=least, most=most) is None


def test_what_cannot_be_chosen_cannot_be_narrowed():
    assert narrow_bounds(None, most=1) is None


@pytest.mark.parametrize(("limits", "least"), [((), None), ((None,), None), ((None, 3, 2), 2), ((0, None), 0)])
def test_the_least_of_limits_is_of_those_there_are(limits: tuple[int | None, ...], least: int | None):
    assert find_lowest_limit(*limits) == least


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        pytest.param(None, None, None, id="no rule"),
        pytest.param(1000, None, None, id="a minimum"),
        pytest.param(None, UNLIMITED, None, id="unlimited"),
        pytest.param(None, 9000, 2000, id="a maximum above the largest node"),
        pytest.param(None, 1000, 1000, id="a maximum"),
    ],
)
def test_a_maximum_limits_who_would_have_no_limit(least: int | None, most: int | None, expected: int | None):
    found = narrow_bounds(replace(BOUNDS, is_optional=True, own=OwnAmount()), least=least, most=most)
    assert found is not None
    assert found.usual == expected


def test_a_default_between_two_steps_stays_as_long_as_it_is_in_the_range():
    bounds = replace(BOUNDS, default=1200)
    found = [narrow_bounds(bounds, most=most) for most in (4000, 1200)]
    assert [each and each.default for each in found] == [1200, 1000]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param(BOUNDS, 2000, id="a part of the limit"),
        pytest.param(replace(BOUNDS, own=OwnAmount(guarantee=1000)), None, id="KubeSpawner's guarantee fits"),
        pytest.param(replace(BOUNDS, own=OwnAmount(guarantee=1001)), 1000, id="only a lower limit fits"),
    ],
)
def test_a_request_bounds_the_limit(bounds: Bounds, expected: int | None):
    assert bounds.find_most_requested(1000) == expected
