from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from devcluster import chromium

OPENS = "import socket; socket.socket(getattr(socket, {family!r})).close()"


def open_socket(family: str) -> subprocess.CompletedProcess[str]:
    """Open a socket in the place of the browser."""
    return subprocess.run(
        [chromium.__file__, "-c", OPENS.format(family=family)],
        env={**os.environ, "CHROMIUM": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_browser_hears_of_no_interface_that_comes_or_goes() -> None:
    opened = open_socket("AF_NETLINK")
    assert opened.stderr.splitlines()[-1] == f"OSError: [Errno {errno.EAFNOSUPPORT}] {os.strerror(errno.EAFNOSUPPORT)}"


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX"])
def test_the_browser_opens_all_other_sockets(family: str) -> None:
    assert (open_socket(family).returncode, open_socket(family).stderr) == (0, "")
