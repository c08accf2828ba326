"""Exit codes of all commands; argparse exits with 2 for a wrong call."""

from __future__ import annotations

OK = 0
"""Everything is as it should be."""
BAD = 1
"""The command found an error."""
FAILED = 3
"""The command could not read a file or the cluster."""
INTERRUPTED = 130
"""Ctrl-C, as shells report it (128 + SIGINT)."""
