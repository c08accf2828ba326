"""One subject in a process of its own: answers each line of its standard input with a line of JSON.

    python -m bench.scale.subject store|nodes|reflector|lister|profiles

``KUBECONFIG`` names the cluster. A line is a command and a number (``window 20``); the process ends with its input.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

Commands = Mapping[str, Callable[[int], Awaitable[Mapping[str, float]]]]
"""The commands of a subject, by name; each takes a number."""

SUBJECTS = {
    "store": ("bench.scale.ours", "whole_store"),
    "nodes": ("bench.scale.ours", "store_of_nodes"),
    "reflector": ("bench.scale.peers", "reflector"),
    "lister": ("bench.scale.peers", "lister"),
    "profiles": ("bench.form.profiles", "profile_cards"),
}
MOST_BYTES = 12 * 1024**3
"""Address space of a subject: one that wants more must not take it from the API server on the same machine."""


async def main(name: str) -> None:
    """Be a subject until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    # The imports of one subject would be in the memory of the others.
    module, maker = SUBJECTS[name]
    opened: Callable[[], AbstractAsyncContextManager[Commands]] = getattr(importlib.import_module(module), maker)
    async with opened() as commands:
        async for command, number in _lines():
            print(json.dumps(await commands[command](number)), flush=True)


async def _lines() -> AsyncIterator[tuple[str, int]]:
    """Yield commands with their numbers."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, number = line.split()
        yield command, int(number)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
