"""What is wrong with the settings, as the hub would say it when it starts, at the place in the file that says so.

Sections around gpuspawner's that are no mappings, and values of the chart that no configuration can be made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuspawner.cli.common.findings import Finding, KeyPath, Severity, describe_type, format_path
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SETTINGS_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.cli.values.yaml_reader import LocatedValue
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.quoting import sanitize_name
from gpuspawner.hub.startup import check_config
from gpuspawner.settings.dotted_paths import DottedPaths

_KEY_CODES = ("unknown_key", "bad_slug", "duplicate_key")
"""What is the matter with a key, whatever its value is."""


def find_setting_errors(values: HelmValues) -> Iterator[Finding]:
    """Yield one error for each path of the settings that is wrong."""
    sections = {name: values.get_chart_section((*HUB_CONFIG_PATH, name)) for name in SPAWNER_SECTIONS}
    try:
        check_config({name: section for name, section in sections.items() if section}, with_files=False)
    except SettingsError as error:
        yield from locate_problems(error.problems, values)


def locate_problems(
    problems: Iterable[Problem], values: HelmValues, *, severity: Severity = Severity.ERROR
) -> Iterator[Finding]:
    """Yield problems with paths below the section as findings with paths from the top of the files."""
    paths = DottedPaths(_list_entries)
    for problem in problems:
        base, found, rest = _find_nearest(problem.field, values, paths=paths)
        path = (*base, *found)
        yield Finding(
            severity=severity,
            code=problem.code,
            path=".".join(filter(None, (format_path(path), rest))),
            message=problem.message,
            place=values.locate(path, of_key=problem.code in _KEY_CODES),
        )


def find_redundant_nulls(values: HelmValues) -> Iterator[Finding]:
    """Yield a warning for each key of the settings that is null without anything that this removes.

    A line like ``max_count:`` with nothing after it is most often one that somebody forgot to finish.
    """
    section = (*values.root, *SETTINGS_PATH)
    for path in values.redundant_nulls:
        below = path[len(section) :]
        if path[: len(section)] != section or (len(below) == 2 and below[0] == "accelerators"):  # noqa: PLR2004
            continue
        message = "is null and removes nothing: no file before says anything of it. Is its value missing?"
        yield Finding(
            severity=Severity.WARNING,
            code="idle_null",
            path=format_path(path),
            message=message,
            place=values.locate(path),
        )


def _find_nearest(field: str, values: HelmValues, *, paths: DottedPaths[LocatedValue]) -> tuple[KeyPath, KeyPath, str]:
    """Return the section, the path in it as far as files say it, and the rest of the path."""
    candidates: list[tuple[KeyPath, KeyPath, str]] = []
    for name in SPAWNER_SECTIONS:
        base = (*values.root, *HUB_CONFIG_PATH, name)
        written = values.find_value(base)
        if written is not None:
            candidates.append((base, *paths.follow(field, written)))
    whole: tuple[KeyPath, KeyPath, str] = ((*values.root, *SETTINGS_PATH), (), field)
    return min(candidates, key=lambda each: len(each[2]), default=whole)


def _list_entries(written: LocatedValue) -> Iterator[tuple[str, str | int, LocatedValue]]:
    """Yield what a path calls an entry, where it is, and the entry."""
    if isinstance(written.value, dict):
        yield from ((sanitize_name(key), key, entry) for key, entry in written.value.items())
    elif isinstance(written.value, list):
        for index, entry in enumerate(written.value):
            yield str(index), index, entry
            if isinstance(entry.value, str):  # a list of slugs may stand for a mapping of them
                yield sanitize_name(entry.value), index, entry


_TRAIT_PREFIX = "hub.config: "


def find_broken_sections(values: HelmValues) -> Iterator[Finding]:
    """Yield what takes the section away from above, else one error for each value that the chart stumbles over."""
    home = (*values.root, *HUB_CONFIG_PATH)
    for length in range(1, len(home) + 1):
        path = home[:length]
        written = values.find_value(path)
        if written is None:
            break
        if written.value is None:
            message = "is null: it takes away whatever files before say below it. Is there a line missing?"
            yield _make_finding(values, path, severity=Severity.WARNING, message=message)
            return
        if not isinstance(written.value, dict):
            message = f"must be a mapping, not {describe_type(written.plain)}"
            yield _make_finding(values, path, severity=Severity.ERROR, message=message)
            return
    yield from _find_rejected_values(values)


def _find_rejected_values(values: HelmValues) -> Iterator[Finding]:
    try:
        build_spawner_config(values.chart, namespace="default")
    except SettingsError as error:
        for problem in error.problems:
            if problem.field.startswith(_TRAIT_PREFIX):
                field = problem.field.removeprefix(_TRAIT_PREFIX)
                yield from locate_problems([replace(problem, field=field)], values)
            else:
                path = (*values.root, *problem.field.split("."))
                yield _make_finding(values, path, severity=Severity.ERROR, message=problem.message)


def _make_finding(values: HelmValues, path: tuple[str, ...], *, severity: Severity, message: str) -> Finding:
    code = "idle_null" if severity is Severity.WARNING else "wrong_type"
    return Finding(severity=severity, code=code, path=format_path(path), message=message, place=values.locate(path))
