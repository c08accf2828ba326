"""What is wrong with the settings, as the hub would say it when it starts, at the place in the file that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuspawner.cli.common.findings import Finding, Path, Severity, dotted
from gpuspawner.cli.values.values import CONFIG, SECTION, SPAWNERS, Values
from gpuspawner.cli.values.yaml_tree import Written
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.quoting import name_of
from gpuspawner.hub.startup import check
from gpuspawner.settings.dotted_paths import DottedPaths

_OF_KEYS = ("unknown_key", "bad_slug", "duplicate_key")
"""What is the matter with a key, whatever its value is."""


def setting_findings(values: Values) -> Iterator[Finding]:
    """Yield one error for each path of the settings that is wrong."""
    sections = {name: values.at((*CONFIG, name)) for name in SPAWNERS}
    try:
        check({name: section for name, section in sections.items() if section}, with_files=False)
    except SettingsError as error:
        yield from located(error.problems, values)


def located(problems: Iterable[Problem], values: Values, *, severity: Severity = Severity.ERROR) -> Iterator[Finding]:
    """Yield problems with paths below the section as findings with paths from the top of the files."""
    paths = DottedPaths(_entries)
    for problem in problems:
        base, found, rest = _nearest(problem.field, values, paths=paths)
        path = (*base, *found)
        yield Finding(
            severity=severity,
            code=problem.code,
            path=".".join(filter(None, (dotted(path), rest))),
            message=problem.message,
            place=values.where(path, of_key=problem.code in _OF_KEYS),
        )


def idle_null_findings(values: Values) -> Iterator[Finding]:
    """Yield a warning for each key of the settings that is null without anything that this removes.

    A line like ``max_count:`` with nothing after it is most often one that somebody forgot to finish.
    """
    section = (*values.root, *SECTION)
    for path in values.idle_nulls:
        below = path[len(section) :]
        if path[: len(section)] != section or (len(below) == 2 and below[0] == "accelerators"):  # noqa: PLR2004
            continue
        message = "is null and removes nothing: no file before says anything of it. Is its value missing?"
        yield Finding(
            severity=Severity.WARNING,
            code="idle_null",
            path=dotted(path),
            message=message,
            place=values.where(path),
        )


def _nearest(field: str, values: Values, *, paths: DottedPaths[Written]) -> tuple[Path, Path, str]:
    """Return the section, the path in it as far as files say it, and the rest of the path."""
    candidates: list[tuple[Path, Path, str]] = []
    for name in SPAWNERS:
        base = (*values.root, *CONFIG, name)
        written = values.written(base)
        if written is not None:
            candidates.append((base, *paths.followed(field, written)))
    whole: tuple[Path, Path, str] = ((*values.root, *SECTION), (), field)
    return min(candidates, key=lambda each: len(each[2]), default=whole)


def _entries(written: Written) -> Iterator[tuple[str, str | int, Written]]:
    """Yield what a path calls an entry, where it is, and the entry."""
    if isinstance(written.value, dict):
        yield from ((name_of(key), key, entry) for key, entry in written.value.items())
    elif isinstance(written.value, list):
        for index, entry in enumerate(written.value):
            yield str(index), index, entry
            if isinstance(entry.value, str):  # a list of slugs may stand for a mapping of them
                yield name_of(entry.value), index, entry
