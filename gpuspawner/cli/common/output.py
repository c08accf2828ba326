"""Exit codes of all commands, and functions that write results as a colored table, JSON or YAML.

Exit code 2 is not defined here: argparse exits with 2 if the arguments are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

import yaml

OK = 0
"""Exit code: the command found no error."""
BAD = 1
"""Exit code: the command found an error."""
FAILED = 3
"""Exit code: the command could not do its work, for example because it could not read a file or the cluster."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it (128 + SIGINT)."""


OUTPUT_FORMATS = ("table", "json", "yaml")

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Paint:
    """Colors of a terminal (ANSI escape codes).

    :param is_on: whether to color texts; if false, the methods return each text unchanged.
    """

    is_on: bool

    @classmethod
    def for_stream(cls, stream: TextIO) -> Paint:
        """Return a ``Paint`` that colors texts only if the stream is a terminal and the user does not forbid colors.

        The environment variables ``NO_COLOR`` (https://no-color.org) and ``TERM=dumb`` forbid colors.

        :param stream: the stream that the text goes to.
        """
        return cls(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def style_success(self, text: str) -> str:
        """Return the text in green.

        :param text: one line.
        """
        return self._in(text, "32")

    def style_error(self, text: str) -> str:
        """Return the text in red.

        :param text: one line.
        """
        return self._in(text, "31")

    def style_warning(self, text: str) -> str:
        """Return the text in yellow.

        :param text: one line.
        """
        return self._in(text, "33")

    def style_title(self, text: str) -> str:
        """Return the text in bold.

        :param text: one line.
        """
        return self._in(text, "1")

    def style_dim(self, text: str) -> str:
        """Return the text dimmed.

        :param text: one line.
        """
        return self._in(text, "2")

    def _in(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_on and text else text


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--output`` to a command.

    :param parser: the parser of the sub-command.
    """
    parser.add_argument("--output", choices=OUTPUT_FORMATS, default="table", help="format of the result (%(default)s)")


def write_result(value: object, *, output: str, out: TextIO, table: Callable[[Paint], Iterable[str]]) -> None:
    """Write a result in the chosen format.

    :param value: the result as a JSON value.
    :param output: one of :data:`OUTPUT_FORMATS`.
    :param out: the stream to write to.
    :param table: function that gets the colors of the output and returns the lines of the table.
    """
    if output == "json":
        json.dump(value, out, indent=2, ensure_ascii=False)
        out.write("\n")
    elif output == "yaml":
        yaml.safe_dump(value, out, sort_keys=False, allow_unicode=True, width=100)
    else:
        out.writelines(f"{line}\n" for line in table(Paint.for_stream(out)))


def format_columns(rows: Iterable[Sequence[str]], *, titles: Sequence[str], paint: Paint) -> Iterator[str]:
    """Yield the lines of a table with aligned columns.

    :param rows: cells as plain text; control characters become ``?``.
    :param titles: one for each column.
    :param paint: the colors for the output.
    """
    lines = [tuple(map(sanitize, row)) for row in rows]
    widths = [max(count_columns(cell) for cell in column) for column in zip(titles, *lines, strict=True)]
    yield paint.style_title(_format_line(titles, widths))
    for line in lines:
        yield _format_line(line, widths)


def sanitize(text: str) -> str:
    """Return a text with ``?`` in place of control characters.

    :param text: a text from a file or a cluster.
    """
    return "".join(character if character.isprintable() else "?" for character in text)


def count_columns(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(bool(unicodedata.combining(character)) for character in text)


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (most - count_columns(cell)) for cell, most in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()
