"""Findings about values files, with severity, position and message; functions that sort and format findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override

from gpuspawner.cli.common.output import Paint, sanitize
from gpuspawner.core.errors import Problem
from gpuspawner.core.json_access import KeyPath
from gpuspawner.core.text.wording import sanitize_name


class Severity(StrEnum):
    """Severities of findings about values files, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


@dataclass(frozen=True, slots=True, order=True)
class FilePosition:
    """A position in a file.

    :param file: name of the file.
    :param line: line number, from 1.
    :param column: column number, from 1.
    """

    file: str
    line: int
    column: int

    @override
    def __str__(self) -> str:
        return f"{sanitize(self.file)}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A mistake in a values file, or a hint about the file.

    :param severity: how bad the mistake is.
    :param code: stable identifier for programs, as in :class:`gpuspawner.core.errors.Problem`.
    :param path: keys joined by dots; empty if the finding concerns a whole file.
    :param message: the rest of a sentence that begins with the path, such as ``must be a number``.
    :param place: position of the path, or of the nearest section above it; None if the files contain neither.
    :param more: further lines, such as YAML to copy.
    """

    severity: Severity
    code: str
    path: str
    message: str
    place: FilePosition | None = None
    more: str = ""

    @property
    def problem(self) -> Problem:
        """The finding as a problem of a ``SettingsError``; the problem's ``field`` is the position and the path."""
        field = ": ".join(str(part) for part in (self.place, self.path) if part)
        return Problem(field=field, code=self.code, message=self.message)

    def serialize(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
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
    """Return a path as messages show it, with dots between the keys."""
    return ".".join(sanitize_name(part) if isinstance(part, str) else str(part) for part in path)


def describe_type(value: object) -> str:
    """Return the type of a value in words, for messages that must not repeat a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text" if value else "an empty text"
        case list():
            return "a list"
    return "a mapping"


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by file name and line, without duplicates; findings without a position come last."""
    unique = {(finding.place, finding.path, finding.message): finding for finding in findings}.values()
    nowhere = FilePosition("\U0010ffff", 0, 0)
    ranks = list(Severity)
    return sorted(unique, key=lambda each: (each.place or nowhere, ranks.index(each.severity), each.path))


def format_findings(findings: Iterable[Finding], paint: Paint) -> Iterator[str]:
    """Yield lines ``file:line:column: severity: path: message``, which editors and terminals turn into links."""
    colors = {Severity.ERROR: paint.style_error, Severity.WARNING: paint.style_warning, Severity.HINT: paint.style_dim}
    for finding in findings:
        where = f"{finding.place}: " if finding.place else ""
        path = f"{sanitize(finding.path)}: " if finding.path else ""
        yield f"{where}{colors[finding.severity](str(finding.severity))}: {path}{sanitize(finding.message)}"
        yield from (f"    {line}" for line in finding.more.splitlines())
