"""Files that admins name, read as text: no more of them than a release may hold, whatever they are."""

from __future__ import annotations

import sys
from pathlib import Path

MAX_INPUT_SIZE = 4 * 1024**2
"""Bytes of a file; what Helm stores of a release may have 1 MiB."""
TOO_LONG_MESSAGE = f"has more than {MAX_INPUT_SIZE // 1024**2} MiB, so it was not read"
_STDIN = "-"


def read_text(file: str) -> str:
    """Return what a file says, or the standard input where its name is ``-``; of one that is too long, too much.

    It may be a device or a pipe that never ends.

    :raises OSError: it cannot be read.
    :raises UnicodeDecodeError: it is no UTF-8.
    """
    if file == _STDIN:
        return sys.stdin.read(MAX_INPUT_SIZE + 1)
    with Path(file).open("rb") as opened:
        content = opened.read(MAX_INPUT_SIZE + 8)  # a byte order mark does not count
    # What is cut off may end within a character.
    return content.decode("utf-8-sig", errors="strict" if len(content) <= MAX_INPUT_SIZE else "replace")


def is_too_long(text: str) -> bool:
    """Tell whether a text has more than may be read."""
    return len(text) > MAX_INPUT_SIZE or (
        len(text) * 4 > MAX_INPUT_SIZE and len(text.encode(errors="replace")) > MAX_INPUT_SIZE
    )


def describe_decode_error(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a file that is no text."""
    return f"is no text in UTF-8: byte {error.start + 1} fits nowhere"
