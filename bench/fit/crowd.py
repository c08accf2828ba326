"""The pods that are there before one is decided."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bench.fit.amounts import Amounts, minus, part
from bench.fit.draw import Draw
from bench.fit.peers import Port, leave_taken_ports
from bench.fit.pods import (
    draw_company,
    draw_nominated,
    draw_resize,
    draw_running,
    draw_waiting,
    has_one_container,
)
from bench.fit.scene import Manifest

_PODS_ON_NODE = {0: 4, 1: 4, 2: 4, 3: 2, 4: 2}


class Crowd:
    """The pods of one scene; :class:`bench.fit.scene.Scene` describes the attributes.

    :param room: what each node can give, by its name; what the pods hold is taken out of it.
    """

    def __init__(self, draw: Draw, *, seed: int, room: dict[str, Amounts]) -> None:
        self.company = draw_company(draw)
        self.pods: list[Manifest] = []
        self.statuses: dict[str, Manifest] = {}
        self.leaving: set[str] = set()
        self._names = (f"p{number}-{seed}" for number in itertools.count())
        self._draw = draw
        self._room = room
        for node in room:
            self.pods += self._running(node)
        self.pods += self._waiting()

    def _running(self, node: str) -> Iterator[Manifest]:
        draw, taken_ports = self._draw, set[Port]()
        for _ in range(draw.weighted(_PODS_ON_NODE)):
            total = {} if draw.chance(5) else part(draw, self._room[node])
            if draw.chance(3):
                # A node can lose resources that are taken: more is then requested than there is.
                total = {resource: 2 * amount for resource, amount in total.items()}
            name = next(self._names)
            pod = draw_running(draw, name, company=self.company, node=node, total=total)
            leave_taken_ports(pod["spec"], taken_ports)
            total = self._change(pod, total)
            self._room[node] = minus(self._room[node], total)
            yield pod

    def _change(self, pod: Manifest, total: Amounts) -> Amounts:
        """Let something happen to some of the pods, and return what the pod holds then."""
        draw = self._draw
        name = pod["metadata"]["name"]
        if has_one_container(pod) and draw.chance(10):
            self.statuses[name], total = draw_resize(draw, pod, total=total)
        if draw.chance(8):
            self.leaving.add(name)
        elif draw.chance(4):
            self.statuses[name] = {"phase": "Succeeded"}
            return {}
        return total

    def _waiting(self) -> Iterator[Manifest]:
        draw = self._draw
        if draw.chance(15):
            yield draw_waiting(draw, next(self._names), company=self.company)
        if draw.chance(12):
            node = draw.one(list(self._room))
            total = part(draw, self._room[node])
            pod = draw_nominated(draw, next(self._names), company=self.company, total=total)
            self.statuses[pod["metadata"]["name"]] = {"nominatedNodeName": node}
            yield pod
