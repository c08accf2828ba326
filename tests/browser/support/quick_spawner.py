"""A spawner without pods: a server runs as soon as it is asked for, or never; its memory says which.

Copied into a hub's folder, from where the hub's process imports it. The address at which all of its servers answer
stands in a file beside it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gpuspawner.hub.spawner import GPUSpawner

SERVER = Path(__file__).with_name("server")
WAITS, FAILS = "3G", "5G"
# Longer than the hub waits with its answer to a start.
FAILS_AFTER_S = 1.5


class DiskFullError(Exception):
    """A failure with a sentence that JupyterHub's pages show."""

    jupyterhub_message = "The disk is full."


class QuickSpawner(GPUSpawner):
    """Makes no pod; forms, choices and failures are gpuspawner's."""

    is_up = False

    async def _start(self) -> tuple[str, int]:
        await self.load_user_options()
        memory = self.user_options.get("memory")
        if memory == WAITS:
            await asyncio.Event().wait()
        if memory == FAILS:
            await asyncio.sleep(FAILS_AFTER_S)
            raise DiskFullError
        self.is_up = True
        host, port = SERVER.read_text().split(":")
        return host, int(port)

    async def stop(self, now: bool = False) -> None:
        self.is_up = False

    async def poll(self) -> int | None:
        return None if self.is_up else 0

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "is_up": self.is_up}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.is_up = state.get("is_up", False)
