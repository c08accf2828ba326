"""Full collections wait while a large cluster is read, and have less to look at afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gpuspawner.kube.watch.watch import GCTuning


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_full_collections_wait_until_the_last_reader_is_done():
    gc.set_threshold(600, 9, 8)
    collector = GCTuning()
    with collector.pause_full_collections():
        with collector.pause_full_collections():
            assert gc.get_threshold() == (600, 9, 2**31 - 1)
        assert gc.get_threshold() == (600, 9, 2**31 - 1)
    assert gc.get_threshold() == (600, 9, 8)


def test_a_reading_that_fails_leaves_everything_as_it_was():
    before = gc.get_threshold()
    collector = GCTuning()
    with pytest.raises(ValueError, match="broken"), collector.pause_full_collections():
        raise ValueError("broken")
    assert gc.get_threshold() == before


def test_what_came_to_stay_is_left_out_of_later_collections_and_more_of_it_only_when_it_has_doubled():
    collector = GCTuning()
    frozen = []
    for number in (0, 10, 5, 20, 21, 42, 43):
        collector.freeze(number)
        frozen.append(gc.get_freeze_count() > 0)
        gc.unfreeze()
    assert frozen == [False, True, False, False, True, False, True]


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        pytest.param((600, 9, 8), (600, 9, 100), id="usual"),
        pytest.param((600, 9, 200), (600, 9, 200), id="rarer still"),
        pytest.param((0, 9, 8), (0, 9, 100), id="disabled"),
    ],
)
def test_full_collections_are_rarer_once_objects_are_left_out(
    thresholds: tuple[int, int, int], expected: tuple[int, int, int]
):
    gc.set_threshold(*thresholds)
    GCTuning().freeze(10)
    assert gc.get_threshold() == expected


def test_full_collections_are_rarer_once_the_last_reader_is_done():
    gc.set_threshold(600, 9, 8)
    collector = GCTuning()
    with collector.pause_full_collections():
        collector.freeze(10)
        assert gc.get_threshold() == (600, 9, 2**31 - 1)
    assert gc.get_threshold() == (600, 9, 100)
