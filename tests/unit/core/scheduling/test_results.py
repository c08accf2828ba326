from __future__ import annotations

from gpuspawner.core.scheduling.results import Obstacle, Reason, sort_obstacles

PORT = Obstacle(reason=Reason.HOST_PORT)
CPU = Obstacle(reason=Reason.INSUFFICIENT, detail="cpu")
MEMORY = Obstacle(reason=Reason.INSUFFICIENT, detail="memory")


def test_obstacles_are_in_the_order_of_the_filters_each_once():
    assert sort_obstacles((CPU, MEMORY, PORT, CPU)) == (PORT, CPU, MEMORY)
