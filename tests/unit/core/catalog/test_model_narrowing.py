"""Bounds that become narrower stay on their steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Bounds, find_lowest_limit, narrow_bounds

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
def test_what_is_left_is_on_the_same_steps(least: int | None, most: int | None, expected: tuple[int, int, int]):
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
