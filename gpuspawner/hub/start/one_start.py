"""What a spawner knows of one start of its server, all of which goes when the next one begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gpuspawner.hub.metrics.spawn_meter import SpawnMeter
from gpuspawner.hub.start.following import Following


@dataclass(slots=True, eq=False)
class OneStart:
    """One start, from before it begins until its server has stopped.

    :param following: what is said of it.
    :param meter: what measures it, None before it has begun.
    :param removed_environment: names of variables that its pod must not have.
    :param unrehearsed: looks at its pod before anything is created, None once that is done.
    :param is_refused: it was refused before anything was created.
    :param is_pardoned: it failed by what was chosen, not by the hub.
    :param is_removing: its pod is being deleted.
    :param warned_of: uid of the pod whose end was announced.
    """

    following: Following = field(default_factory=Following)
    meter: SpawnMeter | None = None
    removed_environment: tuple[str, ...] = ()
    unrehearsed: Callable[[Any], Awaitable[None]] | None = None
    is_refused: bool = False
    is_pardoned: bool = False
    is_removing: bool = False
    warned_of: str = ""

    def next(self) -> OneStart:
        """Return the start after this one."""
        # A page may have been opened a moment before this, for the start that is about to begin.
        waited_for = self.following if self.following.is_ahead and not self.following.is_sent else Following()
        waited_for.gpu = None
        # A pod that is being deleted still is, and one whose end was announced needs no second word.
        return OneStart(following=waited_for, is_removing=self.is_removing, warned_of=self.warned_of)
