"""Sections around gpuspawner's that are no mappings, and values of the chart that no configuration can be made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuspawner.cli.check.setting_findings import located
from gpuspawner.cli.common.findings import Finding, Severity, dotted, type_name
from gpuspawner.cli.values.chart import spawner_config
from gpuspawner.cli.values.values import CONFIG, Values
from gpuspawner.core.errors import SettingsError

_OF_A_TRAIT = "hub.config: "


def broken_sections(values: Values) -> Iterator[Finding]:
    """Yield what takes the section away from above, else one error for each value that the chart stumbles over."""
    home = (*values.root, *CONFIG)
    for length in range(1, len(home) + 1):
        path = home[:length]
        written = values.written(path)
        if written is None:
            break
        if written.value is None:
            message = "is null: it takes away whatever files before say below it. Is there a line missing?"
            yield _finding(values, path, severity=Severity.WARNING, message=message)
            return
        if not isinstance(written.value, dict):
            message = f"must be a mapping, not {type_name(written.plain)}"
            yield _finding(values, path, severity=Severity.ERROR, message=message)
            return
    yield from _refused(values)


def _refused(values: Values) -> Iterator[Finding]:
    try:
        spawner_config(values.chart, namespace="default")
    except SettingsError as error:
        for problem in error.problems:
            if problem.field.startswith(_OF_A_TRAIT):
                field = problem.field.removeprefix(_OF_A_TRAIT)
                yield from located([replace(problem, field=field)], values)
            else:
                path = (*values.root, *problem.field.split("."))
                yield _finding(values, path, severity=Severity.ERROR, message=problem.message)


def _finding(values: Values, path: tuple[str, ...], *, severity: Severity, message: str) -> Finding:
    code = "idle_null" if severity is Severity.WARNING else "wrong_type"
    return Finding(severity=severity, code=code, path=dotted(path), message=message, place=values.where(path))
