#!/usr/bin/env python3
"""Debian's Chromium, as tests and measurements drive it: without news of the machine's network interfaces.

Chromium breaks off its requests with ERR_NETWORK_CHANGED when an interface gets an address, also requests to 127.0.0.1,
and no option of its own keeps it from that. Each pod of a cluster brings an interface. Chromium hears of them through a
netlink socket, and takes the network for unchanged where it gets none. So this file, run as a program, is a Chromium
without netlink sockets; the environment's CHROMIUM names the program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

PROGRAM = "/usr/bin/chromium"

# The same engine without the browser around it: a page takes a third of the processor time. It keeps no page to which a
# person may come back. Other systems than Debian have no such program.
_SHELL = "/usr/bin/chromium-headless-shell"
SHELL = _SHELL if Path(_SHELL).exists() else PROGRAM

# No sandbox: it is driven as root, and the pages are our own. The rest keeps Chromium from calling home.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# <seccomp.h>
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_EQUAL = 4


async def launch(playwright: Playwright, program: str = SHELL, **options: Any) -> Browser:
    """Start a browser; ``options`` are more of Playwright's own."""
    environment: dict[str, str | float | bool] = {**os.environ, "CHROMIUM": program}
    return await playwright.chromium.launch(executable_path=__file__, args=list(_FLAGS), env=environment, **options)


class _Comparison(ctypes.Structure):
    """What a rule asks of an argument of a system call: libseccomp's struct scmp_arg_cmp."""

    _fields_: ClassVar = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),
    ]


def _refuse_netlink() -> None:
    """Have the kernel refuse netlink sockets to this process and to all that it starts."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(_ALLOW)))
    call = seccomp.seccomp_syscall_resolve_name(b"socket")
    is_netlink = _Comparison(argument=0, operator=_EQUAL, value=socket.AF_NETLINK)
    action = ctypes.c_uint32(_ERRNO | errno.EAFNOSUPPORT)
    failure = seccomp.seccomp_rule_add_array(rules, action, call, 1, ctypes.byref(is_netlink))
    failure = failure or seccomp.seccomp_load(rules)
    if failure:
        raise OSError(-failure, f"cannot refuse netlink sockets: {os.strerror(-failure)}")


if __name__ == "__main__":
    _refuse_netlink()
    os.execv(os.environ["CHROMIUM"], [os.environ["CHROMIUM"], *sys.argv[1:]])  # noqa: S606 -- without a shell
