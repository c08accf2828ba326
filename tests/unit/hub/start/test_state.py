"""Nothing of a start is left in the next one, but who waits for it already."""

from __future__ import annotations

from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.hub.metrics.starts import SpawnMeter
from gpuspawner.hub.start.state import StartState

T4 = GPUType(
    slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", unit=UnitKind.CARD, match={}, max_count=1
)


def test_facts_of_a_start_are_not_kept_for_the_next():
    async def look(_pod: object) -> None: ...

    start = StartState(meter=SpawnMeter("t4"), pending_preflight=look, is_refused=True, is_admitted=True)
    start.feed.begin()
    following = start.make_next()
    assert following.feed is not start.feed
    assert (following.meter, following.pending_preflight) == (None, None)
    assert (following.is_refused, following.is_admitted) == (False, False)
    assert following.token != start.token


def test_a_page_that_waits_for_a_start_hears_of_it_but_not_of_an_earlier_choice():
    start = StartState()
    start.feed.gpu = T4
    assert start.make_next().feed is start.feed
    assert start.feed.gpu is None


def test_a_start_that_sent_a_pod_or_is_over_is_not_waited_for():
    for spoil in (lambda start: start.feed.note_pod_sent(None), lambda start: start.feed.close()):
        start = StartState()
        spoil(start)
        assert start.make_next().feed is not start.feed


def test_a_pod_that_is_being_deleted_still_is():
    following = StartState(is_removing=True, warned_pod_uid="uid").make_next()
    assert (following.is_removing, following.warned_pod_uid) == (True, "uid")
