from __future__ import annotations

import pytest

from gpuspawner.core.scheduling.results import Answer, Obstacle, Reason, derive_answer, sort_obstacles

PORT = Obstacle(reason=Reason.HOST_PORT)
CPU = Obstacle(reason=Reason.INSUFFICIENT, detail="cpu")
MEMORY = Obstacle(reason=Reason.INSUFFICIENT, detail="memory")
OPEN = Obstacle(reason=Reason.UNDECIDED, detail="a claim")


def test_obstacles_are_in_the_order_of_the_filters_each_once():
    assert sort_obstacles((CPU, MEMORY, PORT, CPU)) == (PORT, CPU, MEMORY)


def test_undecided_obstacles_do_not_matter_beside_decided_ones():
    assert sort_obstacles((OPEN, CPU)) == (CPU,)
    assert sort_obstacles((OPEN,)) == (OPEN,)


@pytest.mark.parametrize(("obstacles", "expected"), [((), Answer.YES), ((CPU,), Answer.NO), ((OPEN,), Answer.UNKNOWN)])
def test_obstacles_make_an_answer(obstacles: tuple[Obstacle, ...], expected: Answer):
    assert derive_answer(obstacles) is expected
