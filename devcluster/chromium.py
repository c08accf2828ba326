"""Debian's Chromium, as tests and measurements drive it."""

from __future__ import annotations

from pathlib import Path

# The headless shell has the same engine without windows, menus and extensions: a page takes a third of the processor
# time. Other systems than Debian have the browser only.
_PROGRAMS = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
PROGRAM = next((program for program in _PROGRAMS if Path(program).exists()), _PROGRAMS[0])

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
