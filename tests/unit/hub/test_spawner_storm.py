"""Limits hold, and no pod is left, whatever is asked of the same servers at the same moment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from tests.unit.hub.conftest import spawners
from tests.unit.hub.storm import LIMIT, StormyServer, raise_storm
from tests.unit.kube.watch_server import serve_watches

SEEDS = int(os.environ.get("SEEDS", "1"))
FIRST = int(os.environ.get("SEED", "1"))
SECONDS = float(os.environ.get("SECONDS", "5"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 240),
    # JupyterHub removes a server twice if it is asked twice, and rolls its database back.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    # JupyterHub never awaits it where a request is cancelled in the very turn of the event loop in which it starts.
    pytest.mark.filterwarnings("ignore:coroutine 'User.spawn' was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*User.spawn:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
async def test_no_limit_is_exceeded_and_no_pod_is_left_in_a_storm_of_starts_and_stops(
    use_api: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, seed: int
):
    server = StormyServer()
    async with serve_watches(server), spawners(monkeypatch):
        use_api(server.url)
        found = await raise_storm(server, seed=seed, seconds=SECONDS)
    is_good = (found.most <= LIMIT, found.left) == (True, [])
    sys.stdout.write("\n".join([f"seed {seed}: {found.format()}", *([] if is_good else found.journal), ""]))
    assert (found.most <= LIMIT, found.left) == (True, [])
