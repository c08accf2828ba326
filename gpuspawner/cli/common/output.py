"""Exit codes of all commands, and functions that write results as a colored table, JSON or YAML.

Texts from clusters and files may contain control characters, and marks that reverse the direction of a text. A terminal
must get none of them. :class:`SafeOutput` replaces them in everything that a command writes; :func:`dump_json` and
:func:`dump_yaml` escape them, so that programs read the texts unchanged.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, cast

import yaml
from typing_extensions import override

OK = 0
"""Exit code: the command found no error."""
BAD = 1
"""Exit code: the command found an error."""
WRONG_CALL = 2
"""Exit code: the call is wrong; argparse exits with the same code."""
FAILED = 3
"""Exit code: the command could not do its work, for example because it could not read a file or the cluster."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it (128 + SIGINT)."""


Document = dict[str, Any]
"""A JSON object, as ``--output json`` writes it."""
OUTPUT_FORMATS = ("table", "json", "yaml")

_GAP = "  "
CLEAR_SCREEN = "\x1b[H\x1b[2J"
"""Control sequence that empties a terminal, for a table that a command writes again and again."""
_OWN_SEQUENCES = re.compile("(" + re.escape(CLEAR_SCREEN) + r"|\x1b\[(?:0|1|2|31|32|33)m)")
"""What commands themselves send to a terminal: :data:`CLEAR_SCREEN` and the colors of :class:`Paint`."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Colors and width of a terminal (ANSI escape codes).

    :param is_on: whether to color texts; if false, the methods return each text unchanged.
    :param columns: how many columns a line may take; None if the stream is no terminal.
    """

    is_on: bool
    columns: int | None = None

    @classmethod
    def for_stream(cls, stream: TextIO) -> Paint:
        """Return a ``Paint`` that colors texts only if the stream is a terminal and the user does not forbid colors.

        The environment variables ``NO_COLOR`` (https://no-color.org) and ``TERM=dumb`` forbid colors.
        """
        is_terminal = stream.isatty()
        is_on = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(is_on, shutil.get_terminal_size().columns if is_terminal else None)

    def style_success(self, text: str) -> str:
        """Return the text in green."""
        return self._in(text, "32")

    def style_error(self, text: str) -> str:
        """Return the text in red."""
        return self._in(text, "31")

    def style_warning(self, text: str) -> str:
        """Return the text in yellow."""
        return self._in(text, "33")

    def style_title(self, text: str) -> str:
        """Return the text in bold."""
        return self._in(text, "1")

    def style_dim(self, text: str) -> str:
        """Return the text dimmed."""
        return self._in(text, "2")

    def _in(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_on and text else text


class SafeOutput(io.TextIOBase):
    """A stream that writes ``?`` in place of control characters, except for newlines and gpuspawner's own colors.

    :param stream: the stream to write to. If it is a terminal, it also gets the control sequences of this module.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def wrap(cls, stream: TextIO) -> TextIO:
        """Return a ``SafeOutput`` that writes to a stream, for a command."""
        return cast("TextIO", cls(stream))

    @override
    def write(self, text: str, /) -> int:
        parts = _OWN_SEQUENCES.split(text) if self.isatty() else [text]
        # The parts at odd places are the sequences.
        cleaned = (
            part if place % 2 else "\n".join(map(sanitize, part.split("\n"))) for place, part in enumerate(parts)
        )
        self._stream.write("".join(cleaned))
        return len(text)

    @override
    def isatty(self) -> bool:
        return self._stream.isatty()

    @override
    def flush(self) -> None:
        self._stream.flush()


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--output`` to a command."""
    parser.add_argument("--output", choices=OUTPUT_FORMATS, default="table", help="format of the result (%(default)s)")


def write_result(value: object, *, output: str, out: TextIO, table: Callable[[Paint], Iterable[str]]) -> None:
    """Write a result in the chosen format.

    :param table: function that gets the colors of the output and returns the lines of the table.
    """
    if output == "json":
        out.write(f"{dump_json(value, indent=2)}\n")
    elif output == "yaml":
        out.write(dump_yaml(value))
    else:
        out.writelines(f"{line}\n" for line in table(Paint.for_stream(out)))


def dump_json(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON, in which each control character is an escape sequence.

    :param indent: number of spaces for each level; None for one line.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(
        character if character == "\n" or _is_safe(character) else json.dumps(character)[1:-1] for character in text
    )


def dump_yaml(value: object) -> str:
    """Return a value as YAML, in which each control character is an escape sequence."""
    options: dict[str, Any] = {"Dumper": yaml.SafeDumper, "sort_keys": False, "width": 100}
    text: str = yaml.dump(value, allow_unicode=True, **options)
    if all(character == "\n" or _is_safe(character) for character in text):
        return text
    # PyYAML writes marks of direction as they are, unless it writes ASCII.
    escaped: str = yaml.dump(value, allow_unicode=False, **options)
    return escaped


def format_columns(rows: Iterable[Sequence[str]], *, titles: Sequence[str], paint: Paint) -> Iterator[str]:
    """Yield the lines of a table with aligned columns.

    If a line would be wider than the terminal, each row becomes a block of lines instead: its first cell, and below it
    the other cells that have a text, each with its title.

    :param rows: cells as plain text; control characters become ``?``.
    """
    lines = [tuple(map(sanitize, row)) for row in rows]
    widths = [max(count_columns(cell) for cell in column) for column in zip(titles, *lines, strict=True)]
    if paint.columns is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > paint.columns:
        for line in lines:
            yield from _format_block(line, titles, paint=paint, columns=paint.columns)
        return
    yield paint.style_title(_format_line(titles, widths))
    for line in lines:
        yield _format_line(line, widths)


def _format_block(cells: Sequence[str], titles: Sequence[str], *, paint: Paint, columns: int) -> Iterator[str]:
    yield paint.style_title(cells[0])
    words = (
        f"{'' if place else title.lower() + ' '}{word}"
        for title, cell in zip(titles[1:], cells[1:], strict=True)
        for place, word in enumerate(cell.split())
    )
    line = ""
    for word in words:
        if line and count_columns(f"{_GAP}{line} {word}") > columns:
            yield _GAP + line
            line = f"{_GAP}{word}"
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield _GAP + line


def sanitize(text: str) -> str:
    """Return a text with ``?`` in place of control characters, line breaks and marks of direction."""
    return text if text.isprintable() else "".join(character if _is_safe(character) else "?" for character in text)


def _is_safe(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"  # such as the space that does not break


def count_columns(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(bool(unicodedata.combining(character)) for character in text)


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (most - count_columns(cell)) for cell, most in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()
