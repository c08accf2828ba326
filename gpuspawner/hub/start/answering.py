"""Waits for the program of a server that runs: until it listens, JupyterHub asks it for an answer and looks at nothing.

A program that ends meanwhile, for want of memory for example, would be asked until JupyterHub's time for that is up.
"""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

LISTEN_POLL_S = 0.1
_CONNECT_S = 1.0


async def wait_until_listening(address: object, *, timeout_s: float) -> None:
    """Return once a program listens at a server's address, or where nobody can tell.

    :param address: what KubeSpawner's start returned.
    :param timeout_s: seconds to wait at most.
    """
    host, port = _parse_address(address)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            while host and port and await _is_refused(host, port):  # noqa: ASYNC110  # a program elsewhere
                await asyncio.sleep(LISTEN_POLL_S)


async def _is_refused(host: str, port: int) -> bool:
    """Tell whether the pod can be reached, and no program listens there.

    What swallows the question, as network policies do, will not answer the next one either.
    """
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    return False


def _parse_address(address: object) -> tuple[str, int]:
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        return "", 0
    return host, port
