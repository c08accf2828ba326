"""What single nodes can give a server: GPUs, CPU and memory together, without what another gives all of and more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ShapeAmounts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class FreeShape:
    """What one node gives, or could give, to one server.

    :param count: units of the GPU type's resource.
    :param cpu_millis: millicores.
    :param memory_bytes: bytes.
    """

    count: int
    cpu_millis: int
    memory_bytes: int

    def covers(self, other: FreeShape) -> bool:
        """Tell whether this is as much as another one, in everything."""
        return (
            self.count >= other.count
            and self.cpu_millis >= other.cpu_millis
            and self.memory_bytes >= other.memory_bytes
        )


def find_pareto_front(amounts: Iterable[ShapeAmounts]) -> tuple[FreeShape, ...]:
    """Return the shapes that no other one holds (the Pareto front), the largest counts first.

    A server fits into one of all the shapes exactly when it fits into one of these.

    :param amounts: count, millicores and bytes of each shape; plain tuples, because there are as many as nodes.
    """
    kept: list[ShapeAmounts] = []
    # What holds a shape is never sorted below it, so its count is not smaller.
    for each in sorted(set(amounts), reverse=True):
        _, cpu, memory = each
        for _, other_cpu, other_memory in kept:
            if other_cpu >= cpu and other_memory >= memory:
                break
        else:
            kept.append(each)
    return tuple(FreeShape(*each) for each in kept)
