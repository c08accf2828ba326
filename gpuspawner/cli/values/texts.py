"""Files that admins name, read as text: no more of them than a release may hold, whatever they are."""

from __future__ import annotations

import sys
from pathlib import Path

LONGEST = 4 * 1024**2
"""Bytes of a file; what Helm stores of a release may have 1 MiB."""
TOO_LONG = f"has more than {LONGEST // 1024**2} MiB, so it was not read"
_STDIN = "-"


def read_text(file: str) -> str:
    """Return what a file says, or the standard input where its name is ``-``; of one that is too long, too much.

    It may be a device or a pipe that never ends.

    :raises OSError: it cannot be read.
    :raises UnicodeDecodeError: it is no UTF-8.
    """
    if file == _STDIN:
        return sys.stdin.read(LONGEST + 1)
    with Path(file).open("rb") as opened:
        content = opened.read(LONGEST + 8)  # a byte order mark does not count
    # What is cut off may end within a character.
    return content.decode("utf-8-sig", errors="strict" if len(content) <= LONGEST else "replace")


def is_too_long(text: str) -> bool:
    """Tell whether a text has more than may be read."""
    return len(text) > LONGEST or (len(text) * 4 > LONGEST and len(text.encode(errors="replace")) > LONGEST)


def no_text(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a file that is no text."""
    return f"is no text in UTF-8: byte {error.start + 1} fits nowhere"
