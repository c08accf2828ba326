"""Dead reflectors are forgotten, and refused starts are not counted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from gpuspawner.hub.errors import COUNTS_REFUSALS
from gpuspawner.hub.upkeep import drop_dead_reflectors, forgive_refusal


def reflector(
    *, loaded: bool = True, cancelled: bool = False, error: Exception | None = None, watch: Any = None
) -> Any:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if error is not None:
        future.set_exception(error)
    elif loaded:
        future.set_result(None)
    elif cancelled:
        future.cancel()
    return SimpleNamespace(first_load_future=future, watch_task=watch)


async def test_only_reflectors_that_load_or_watch_stay():
    watching = asyncio.create_task(asyncio.Event().wait())
    ended = asyncio.create_task(asyncio.sleep(0))
    await ended
    reflectors = {
        "loading": reflector(loaded=False),
        "watching": reflector(watch=watching),
        "failed": reflector(error=ValueError("x")),
        "gave up": reflector(watch=ended),
        "cancelled": reflector(loaded=False, cancelled=True),
    }
    drop_dead_reflectors(reflectors)
    assert sorted(reflectors) == ["loading", "watching"]
    watching.cancel()


def test_a_refused_start_counts_for_nothing():
    user = SimpleNamespace(settings={"failure_count": 2})
    forgive_refusal(user)
    # JupyterHub 5 adds one afterwards.
    assert user.settings["failure_count"] + (1 if COUNTS_REFUSALS else 0) == 2
