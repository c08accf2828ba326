"""Debian's Chromium, as tests and measurements drive it."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "/usr/bin/chromium"

# The same engine without the browser around it: a page takes a third of the processor time. It keeps no page to which a
# person may come back. Other systems than Debian have no such program.
_SHELL = "/usr/bin/chromium-headless-shell"
SHELL = _SHELL if Path(_SHELL).exists() else PROGRAM

# No sandbox: it is driven as root, and the pages are our own. The rest keeps Chromium from calling home.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
