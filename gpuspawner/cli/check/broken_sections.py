"""Sections around gpuspawner's that are no mappings, and values of the chart that no configuration can be made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuspawner.cli.check.setting_findings import locate_problems
from gpuspawner.cli.common.findings import Finding, Severity, describe_type, format_path
from gpuspawner.cli.values.chart import build_spawner_config
from gpuspawner.cli.values.values import HUB_CONFIG_PATH, HelmValues
from gpuspawner.core.errors import SettingsError

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
