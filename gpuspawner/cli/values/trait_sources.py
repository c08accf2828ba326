"""Finds the place in the values files of a trait of KubeSpawner, and of a problem of a setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.values.chart_config import (
    BASE_CHART_KEYS,
    CHART_KEYS,
    build_spawner_config,
    find_chart_path,
    get_configured_trait,
)
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SETTINGS_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.cli.values.yaml_reader import LocatedValue
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.errors import Problem
from gpuspawner.core.json_access import KeyPath
from gpuspawner.core.text.wording import sanitize_name
from gpuspawner.hub.pod.admin_values import parse_admin_tolerations
from gpuspawner.settings import DottedPaths


class TraitSource(NamedTuple):
    """The value of a trait, and the keys that lead to the value in the Helm values files."""

    path: KeyPath
    value: Any


def find_trait_source(values: HelmValues, name: str) -> TraitSource | None:
    """Return the value that the admin gave a trait, with the value's path, or None if the files don't set the trait.

    :param name: trait of KubeSpawner, such as ``mem_limit``.
    """
    *nearer, base = ((*HUB_CONFIG_PATH, section, name) for section in SPAWNER_SECTIONS)
    key = {**CHART_KEYS, **BASE_CHART_KEYS}.get(name)
    chart_paths = [] if key is None else [("singleuser", *key.split("."))]
    # Skip hub.config.Spawner if the chart sets the trait on KubeSpawner, because KubeSpawner's traits override those of
    # its base class Spawner.
    base_paths = [] if find_chart_path(values.chart, name) else [base]
    for path in (*nearer, *chart_paths, *base_paths):
        value = values.get_chart_section(path[:-1]).get(path[-1])
        if value is not None:
            return TraitSource((*values.root, *path), value)
    return None


def has_profiles(values: HelmValues) -> bool:
    """Return whether the hub has a ``profile_list``, whose servers keep all that the values say of every server."""
    source = find_trait_source(values, "profile_list")
    return source is not None and bool(source.value)


def list_pod_tolerations(values: HelmValues) -> tuple[Toleration, ...]:
    """Return the tolerations that every server gets from the values, whichever GPU type the user picks.

    :raises SettingsError: the chart's values have a wrong type.
    """
    return parse_admin_tolerations(
        get_configured_trait(build_spawner_config(values.chart, namespace=""), "tolerations")
    )


def make_finding(
    values: HelmValues, path: KeyPath, *, severity: Severity, code: str, message: str, of_key: bool = False
) -> Finding:
    """Return a finding about a path in the files, with the position from :meth:`.HelmValues.locate`.

    If the files lack the path, the position is that of its nearest parent. If the files also lack all parents, the
    finding has no position.

    :param path: keys and list indexes from the top of the files.
    :param of_key: whether the position of a scalar is that of its key, not of its value.
    """
    place = values.locate(path, of_key=of_key)
    return Finding(severity=severity, code=code, path=format_path(path), message=message, place=place)


_KEY_CODES = ("unknown_key", "bad_slug", "duplicate_key")
"""Codes of problems for which a finding shows the position of the key instead of the position of the value."""


def locate_problems(
    problems: Iterable[Problem], values: HelmValues, *, severity: Severity = Severity.ERROR
) -> Iterator[Finding]:
    """Yield a finding for each problem of a setting, with the setting's position and path in the values files.

    :param problems: problems whose ``field`` is a path below ``hub.config.GPUSpawner``.
    """
    paths = DottedPaths(_list_parts)
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


def _find_nearest(field: str, values: HelmValues, *, paths: DottedPaths[LocatedValue]) -> tuple[KeyPath, KeyPath, str]:
    """Return the path of a problem's section, the keys of ``field`` that exist in it, and the rest of ``field``.

    The section is the one of :data:`SPAWNER_SECTIONS` that contains the longest part of ``field``; without any
    section, it is ``hub.config.GPUSpawner``.
    """
    bases = [(*values.root, *HUB_CONFIG_PATH, name) for name in SPAWNER_SECTIONS]
    candidates = [(base, *paths.follow(field, found)) for base in bases if (found := values.find_value(base))]
    whole: tuple[KeyPath, KeyPath, str] = ((*values.root, *SETTINGS_PATH), (), field)
    return min(candidates, key=lambda each: len(each[2]), default=whole)


def _list_parts(parent: LocatedValue) -> Iterator[tuple[str, str | int, LocatedValue]]:
    """Yield three things for each entry of a mapping or list: its name in messages, its key or index, and its value."""
    if isinstance(parent.value, dict):
        yield from ((sanitize_name(key), key, entry) for key, entry in parent.value.items())
    elif isinstance(parent.value, list):
        for index, entry in enumerate(parent.value):
            yield str(index), index, entry
            if isinstance(entry.value, str):  # a problem's path may contain the entry's text instead of its index
                yield sanitize_name(entry.value), index, entry
