"""What is found in files: where, how bad, why; and how a list of it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override

from gpuspawner.cli.common.output import Paint, sanitize
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import sanitize_name

KeyPath = tuple[str | int, ...]
"""Keys, and numbers of entries in lists, from the top of a file on."""


class Severity(StrEnum):
    """How bad something is, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


@dataclass(frozen=True, slots=True, order=True)
class FilePosition:
    """A position in a file; lines and columns are counted from 1."""

    file: str
    line: int
    column: int

    @override
    def __str__(self) -> str:
        return f"{sanitize(self.file)}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is found.

    :param code: stable reason for programs, as of :class:`gpuspawner.core.errors.Problem`.
    :param path: dotted, empty where a whole file is meant.
    :param place: None where no file says it.
    :param more: lines that help, such as YAML to copy.
    """

    severity: Severity
    code: str
    path: str
    message: str
    place: FilePosition | None = None
    more: str = ""

    @property
    def problem(self) -> Problem:
        """The same without its severity, and with its place in the path."""
        field = ": ".join(str(part) for part in (self.place, self.path) if part)
        return Problem(field=field, code=self.code, message=self.message)

    def serialize(self) -> dict[str, Any]:
        """Return the finding as JSON has it."""
        return {
            "severity": str(self.severity),
            "code": self.code,
            "file": self.place.file if self.place else None,
            "line": self.place.line if self.place else None,
            "column": self.place.column if self.place else None,
            "path": self.path,
            "message": self.message,
            **({"more": self.more} if self.more else {}),
        }


def format_path(path: KeyPath) -> str:
    """Return a path as messages name it."""
    return ".".join(sanitize_name(part) if isinstance(part, str) else str(part) for part in path)


def describe_type(value: object) -> str:
    """Return what kind of value it is, for messages about values that may be secrets."""
    if value is None:
        return "null"
    kinds = ((bool, "a boolean"), (int | float, "a number"), (str, "a text" if value else "an empty text"))
    named = next((name for kind, name in kinds if isinstance(value, kind)), None)
    return named or ("a list" if isinstance(value, list) else "a mapping")


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings as a file is read, each once; what no file says comes last."""
    unique = {(each.place, each.path, each.message): each for each in findings}.values()
    nowhere = FilePosition("\U0010ffff", 0, 0)
    ranks = list(Severity)
    return sorted(unique, key=lambda each: (each.place or nowhere, ranks.index(each.severity), each.path))


def format_findings(findings: Iterable[Finding], paint: Paint) -> Iterator[str]:
    """Yield findings as compilers write theirs, which editors and terminals turn into links."""
    colours = {Severity.ERROR: paint.style_error, Severity.WARNING: paint.style_warning, Severity.HINT: paint.style_dim}
    for each in findings:
        where = f"{each.place}: " if each.place else ""
        path = f"{sanitize(each.path)}: " if each.path else ""
        yield f"{where}{colours[each.severity](str(each.severity))}: {path}{sanitize(each.message)}"
        yield from (f"    {line}" for line in each.more.splitlines())
