"""What the program's exit codes mean, so that scripts can tell a bad answer from no answer."""

from __future__ import annotations

OK = 0
"""It is as it should be."""
BAD = 1
"""It was looked at, and something is wrong."""
FAILED = 3
"""It could not be looked at. 2 is argparse's, for a wrong call."""
INTERRUPTED = 130
"""Ctrl-C, as shells have it."""
