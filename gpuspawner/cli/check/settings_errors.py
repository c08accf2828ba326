"""Finds values that keep the hub from starting, with their positions in the files.

The hub does not start with invalid settings. The module also finds sections that are not mappings, and chart values of
a wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuspawner.cli.common.findings import Finding, Severity, describe_type
from gpuspawner.cli.values.chart_config import build_spawner_config, has_unknown_class
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SETTINGS_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.cli.values.trait_sources import locate_problems, make_finding
from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.pod.override_checks import is_unknown_trait
from gpuspawner.hub.startup import check_config


def find_setting_errors(values: HelmValues) -> Iterator[Finding]:
    """Yield an error for each invalid setting. The check is the one that the hub runs at its start."""
    sections = {name: values.get_chart_section((*HUB_CONFIG_PATH, name)) for name in SPAWNER_SECTIONS}
    try:
        check_config({name: section for name, section in sections.items() if section}, with_files=False)
    except SettingsError as error:
        if not has_unknown_class(values.chart):
            yield from locate_problems(error.problems, values)
            return
        yield from locate_problems((problem for problem in error.problems if not is_unknown_trait(problem)), values)
        reason = "KubeSpawner has no such trait. If the hub's own spawner class has none either, the hub does not start"
        unknown = (replace(problem, message=reason) for problem in error.problems if is_unknown_trait(problem))
        yield from locate_problems(unknown, values, severity=Severity.WARNING)


def find_redundant_nulls(values: HelmValues) -> Iterator[Finding]:
    """Yield a warning for each null setting that removes nothing.

    A null removes the value that an earlier values file sets. If no earlier file sets a value, the admin probably
    forgot to write one, as in ``max_count:`` with nothing after the colon. The function skips two kinds of nulls:

    - an entry of ``accelerators``: the null removes a built-in GPU model
    - in a ``kubespawner_override``: the null is the value of a trait, or removes a key of a trait's mapping
    """
    section = (*values.root, *SETTINGS_PATH)
    for path in values.redundant_nulls:
        below = path[len(section) :]
        if path[: len(section)] != section or (len(below) == 2 and below[0] == "accelerators"):  # noqa: PLR2004
            continue
        if "kubespawner_override" in below[:-1]:
            continue
        message = "is null and removes nothing: no file before says anything of it. Is its value missing?"
        yield make_finding(values, path, severity=Severity.WARNING, code="idle_null", message=message)


def find_broken_sections(values: HelmValues) -> Iterator[Finding]:
    """Yield an error if ``hub`` or ``hub.config`` is not a mapping; otherwise, one per chart value of a wrong type."""
    home = (*values.root, *HUB_CONFIG_PATH)
    for length in range(1, len(home) + 1):
        path = home[:length]
        section = values.find_value(path)
        if section is None:
            break
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
