"""What is wrong with the settings, as the hub would say it when it starts, at the place in the file that says so."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.cli.findings import Finding, Path, Severity, dotted
from gpuspawner.cli.values import CONFIG, SECTION, SPAWNERS, Values
from gpuspawner.cli.yaml_tree import Written
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.quoting import name_of
from gpuspawner.hub.startup import check

_OF_KEYS = ("unknown_key", "bad_slug", "duplicate_key")
"""What is the matter with a key, whatever its value is."""


def setting_findings(values: Values) -> Iterator[Finding]:
    """Yield one error for each path of the settings that is wrong."""
    sections = {name: values.at((*CONFIG, name)) for name in SPAWNERS}
    try:
        check({name: section for name, section in sections.items() if section}, with_files=False)
    except SettingsError as error:
        for problem in error.problems:
            yield located(problem, values)


def located(problem: Problem, values: Values, *, severity: Severity = Severity.ERROR) -> Finding:
    """Return a problem with a path below the section as a finding with a path from the top of the files."""
    base, found, rest = _nearest(problem.field, values)
    path = (*base, *found)
    return Finding(
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


def _nearest(field: str, values: Values) -> tuple[Path, Path, str]:
    """Return the section, the path in it as far as files say it, and the rest of the path."""
    candidates: list[tuple[Path, Path, str]] = []
    for name in SPAWNERS:
        base = (*values.root, *CONFIG, name)
        written = values.written(base)
        if written is not None:
            candidates.append((base, *_resolved(field, written)))
    whole: tuple[Path, Path, str] = ((*values.root, *SECTION), (), field)
    return min(candidates, key=lambda each: len(each[2]), default=whole)


def _resolved(field: str, written: Written) -> tuple[Path, str]:
    """Return as much of a dotted path as there is, and what is left of it; names may have dots in them."""
    best: tuple[Path, str] = ((), field)
    if not field:
        return best
    for name, part, entry in _entries(written):
        if field != name and not field.startswith(f"{name}."):
            continue
        inside, rest = _resolved(field[len(name) + 1 :], entry)
        if len(rest) < len(best[1]):
            best = ((part, *inside), rest)
    return best


def _entries(written: Written) -> Iterator[tuple[str, str | int, Written]]:
    """Yield what a path calls an entry, where it is, and the entry."""
    if isinstance(written.value, dict):
        yield from ((name_of(key), key, entry) for key, entry in written.value.items())
    elif isinstance(written.value, list):
        for index, entry in enumerate(written.value):
            yield str(index), index, entry
            if isinstance(entry.value, str):  # a list of slugs may stand for a mapping of them
                yield name_of(entry.value), index, entry
