"""Nothing of a start is left in the next one, but who waits for it already."""

from __future__ import annotations

from gpuspawner.core.catalog.catalogue import GPUType, Unit
from gpuspawner.hub.metrics.spawn_meter import SpawnMeter
from gpuspawner.hub.start.one_start import OneStart

T4 = GPUType(
    slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", unit=Unit.CARD, match={}, max_count=1
)


def test_what_was_known_of_a_start_is_not_known_of_the_next():
    async def look(_pod: object) -> None: ...

    start = OneStart(
        meter=SpawnMeter("t4"), removed_environment=("A",), unrehearsed=look, is_refused=True, is_pardoned=True
    )
    start.following.begin()
    following = start.next()
    assert following.following is not start.following
    assert (following.meter, following.removed_environment, following.unrehearsed) == (None, (), None)
    assert (following.is_refused, following.is_pardoned) == (False, False)


def test_a_page_that_waits_for_a_start_is_told_of_it_but_not_of_an_earlier_choice():
    start = OneStart()
    start.following.gpu = T4
    assert start.next().following is start.following
    assert start.following.gpu is None


def test_a_start_that_sent_a_pod_or_is_over_is_not_waited_for():
    for spoil in (lambda start: start.following.send(None), lambda start: start.following.end()):
        start = OneStart()
        spoil(start)
        assert start.next().following is not start.following


def test_a_pod_that_is_being_deleted_still_is():
    following = OneStart(is_removing=True, warned_of="uid").next()
    assert (following.is_removing, following.warned_of) == (True, "uid")
