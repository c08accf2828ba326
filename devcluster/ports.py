"""Free TCP ports for programs that are started a moment later.

None of the kernel's choice (port 0): those also serve outgoing connections, of which one may take the port before the
program listens on it, and a program that is started again wants its port back.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from devcluster.errors import DevclusterError

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
"""Below are the ports that programs have by custom."""
_TRIED = 100


def free_ports(addresses: Sequence[str]) -> list[int]:
    """Return a port for each address, no two the same.

    They are drawn, so that two processes that ask at once do not get the same ones, and not by the `random` module's
    state, which a test may have set.

    Raises DevclusterError where a hundred ports in a row are taken or the machine does not have the address.
    """
    lowest_outgoing = int(_OUTGOING.read_text().split()[0])
    choices = max(1, lowest_outgoing - _TRIED - _LOWEST)
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(_bound(each, _LOWEST + secrets.randbelow(choices))) for each in addresses]
        return [int(probe.getsockname()[1]) for probe in probes]


def first_free_port(address: str, first: int) -> int:
    """Return the first port from `first` on that can be bound: another program may hold one on all addresses.

    Raises DevclusterError where a hundred ports in a row are taken or the machine does not have the address.
    """
    with _bound(address, first) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _bound(address: str, first: int) -> Iterator[socket.socket]:
    for port in range(first, first + _TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
                probe.listen()  # two sockets that only bind may both have a port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise DevclusterError(f"cannot listen on {address}: {error.strerror}") from error
                continue
            yield probe
            return
    raise DevclusterError(f"no port from {first} to {first + _TRIED - 1} is free on {address}")
