"""Debian's Chromium, as tests and measurements drive it."""

from __future__ import annotations

PROGRAM = "/usr/bin/chromium"

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
