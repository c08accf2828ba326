"""Finds errors at which the hub would refuse to start, with their positions in the values files.

Such errors are invalid settings, sections that are not mappings, and chart values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuspawner.cli.common.findings import Finding, KeyPath, Severity, describe_type, format_path
from gpuspawner.cli.values.chart_config import build_spawner_config
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SETTINGS_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.cli.values.trait_sources import make_finding
from gpuspawner.cli.values.yaml_reader import LocatedValue
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.wording import sanitize_name
from gpuspawner.hub.startup import check_config
from gpuspawner.settings.validation_errors import DottedPaths

_KEY_CODES = ("unknown_key", "bad_slug", "duplicate_key")
"""Codes of problems with the key itself; the finding shows the key's position instead of the value's."""


def find_setting_errors(values: HelmValues) -> Iterator[Finding]:
    """Yield one error for each invalid setting, by the check that the hub runs at its start."""
    sections = {name: values.get_chart_section((*HUB_CONFIG_PATH, name)) for name in SPAWNER_SECTIONS}
    try:
        check_config({name: section for name, section in sections.items() if section}, with_files=False)
    except SettingsError as error:
        yield from locate_problems(error.problems, values)


def locate_problems(
    problems: Iterable[Problem], values: HelmValues, *, severity: Severity = Severity.ERROR
) -> Iterator[Finding]:
    """Yield each problem as a finding, with its position and its path from the top of the files.

    :param problems: problems with paths below ``hub.config.GPUSpawner``.
    """
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
    """Yield a warning for each setting that is null although no earlier file sets it.

    The admin probably forgot the value, as in ``max_count:`` with nothing after the colon.
    """
    section = (*values.root, *SETTINGS_PATH)
    for path in values.redundant_nulls:
        below = path[len(section) :]
        if path[: len(section)] != section or (len(below) == 2 and below[0] == "accelerators"):  # noqa: PLR2004
            continue
        message = "is null and removes nothing: no file before says anything of it. Is its value missing?"
        yield make_finding(values, path, severity=Severity.WARNING, code="idle_null", message=message)


def _find_nearest(field: str, values: HelmValues, *, paths: DottedPaths[LocatedValue]) -> tuple[KeyPath, KeyPath, str]:
    """Return where most of a field's path exists: the section's path, the existing keys below it, the missing rest."""
    bases = [(*values.root, *HUB_CONFIG_PATH, name) for name in SPAWNER_SECTIONS]
    candidates = [(base, *paths.follow(field, found)) for base in bases if (found := values.find_value(base))]
    whole: tuple[KeyPath, KeyPath, str] = ((*values.root, *SETTINGS_PATH), (), field)
    return min(candidates, key=lambda each: len(each[2]), default=whole)


def _list_entries(parent: LocatedValue) -> Iterator[tuple[str, str | int, LocatedValue]]:
    """Yield the entries of a mapping or list: the name that paths use, the key or index, and the value."""
    if isinstance(parent.value, dict):
        yield from ((sanitize_name(key), key, entry) for key, entry in parent.value.items())
    elif isinstance(parent.value, list):
        for index, entry in enumerate(parent.value):
            yield str(index), index, entry
            if isinstance(entry.value, str):  # problems may name a slug instead of its index
                yield sanitize_name(entry.value), index, entry


def find_broken_sections(values: HelmValues) -> Iterator[Finding]:
    """Yield a finding if a section above the settings is null or no mapping, else errors for wrong chart values."""
    home = (*values.root, *HUB_CONFIG_PATH)
    for length in range(1, len(home) + 1):
        path = home[:length]
        section = values.find_value(path)
        if section is None:
            break
        if section.value is None:
            message = "is null: it takes away whatever files before say below it. Is there a line missing?"
            yield make_finding(values, path, severity=Severity.WARNING, code="idle_null", message=message)
            return
        if not isinstance(section.value, dict):
            message = f"must be a mapping, not {describe_type(section.plain)}"
            yield make_finding(values, path, severity=Severity.ERROR, code="wrong_type", message=message)
            return
    try:
        build_spawner_config(values.chart, namespace="default")
    except SettingsError as error:
        for problem in error.problems:
            path = (*values.root, *problem.field.split("."))
            yield make_finding(values, path, severity=Severity.ERROR, code="wrong_type", message=problem.message)
