"""Values files merged as Helm merges them, with the position of every value.

Helm merges mappings key by key. Any other value in a later file, such as a list, replaces the value in an earlier file.
A null in a later file stays null: it removes the chart's default, and in gpuspawner's settings it means "not set".
https://helm.sh/docs/chart_template_guide/values_files/
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.cli.common.findings import FilePosition, Finding, Severity
from gpuspawner.cli.values.yaml_reader import LocatedValue, read_file
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.json_access import KeyPath
from gpuspawner.hub.config.traits import SETTING_TRAITS

SETTINGS_PATH = ("hub", "config", "GPUSpawner")
"""Path of gpuspawner's settings in the values of zero-to-jupyterhub."""
HUB_CONFIG_PATH = SETTINGS_PATH[:2]
SPAWNER_SECTIONS = ("GPUSpawner", "KubeSpawner", "Spawner")
"""Sections of ``hub.config`` that set traits of GPUSpawner. If several set a trait, the first in this tuple wins."""

_PROFILE_LIST = ("singleuser", "profileList")
_CHART_MARKERS = (SETTINGS_PATH, SETTINGS_PATH[:2], SETTINGS_PATH[:1], ("singleuser",), _PROFILE_LIST)
"""Paths by which :func:`_find_root` recognizes zero-to-jupyterhub's values in a mapping, the most reliable first."""
CHART_NAME = "jupyterhub"
"""Name of zero-to-jupyterhub's chart. A parent chart usually has this chart's values under a key of the same name."""
_MAX_PARENTS = 3
"""Maximum number of keys above zero-to-jupyterhub's values, for example 2 in ``platform.jupyterhub.hub``."""
_NO_PARENTS = frozenset({"custom", "hub", "singleuser"})
"""Keys inside which :func:`_find_root` does not search: they are probably keys of zero-to-jupyterhub's own values."""
_NOWHERE = FilePosition("", 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmValues:
    """The merged values of all files.

    :param merged: plain values, as Helm passes them to the chart.
    :param tree: the same values with positions.
    :param flaws: mistakes in the YAML.
    :param is_read: false if values are missing because a file is no valid YAML, is too large or is not a mapping.
    :param redundant_nulls: paths that a file sets to null although no earlier file gives them a value.
    :ivar root: path of the values of zero-to-jupyterhub: keys of parent charts, or () if the values are at the top.
    """

    merged: Mapping[str, Any] = field(default_factory=dict)
    tree: LocatedValue = field(default_factory=lambda: LocatedValue(value={}, place=_NOWHERE))
    flaws: tuple[Finding, ...] = ()
    is_read: bool = True
    redundant_nulls: tuple[KeyPath, ...] = ()
    root: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", _find_root(self.merged))

    @property
    def chart(self) -> Mapping[str, Any]:
        """The values of zero-to-jupyterhub."""
        return self.get_chart_section(())

    @property
    def settings(self) -> Mapping[str, Any]:
        """The section ``hub.config.GPUSpawner``, or an empty mapping."""
        return self.get_chart_section(SETTINGS_PATH)

    def get_chart_section(self, path: Sequence[str]) -> Mapping[str, Any]:
        """Return the mapping at a path of zero-to-jupyterhub's values, or an empty mapping if there is none.

        :param path: keys from the top of zero-to-jupyterhub's values.
        """
        return self.get_section((*self.root, *path))

    def get_section(self, path: Sequence[str]) -> Mapping[str, Any]:
        """Return the mapping at a path of the files, or an empty mapping if there is none.

        :param path: keys from the top of the files.
        """
        found = _get_at(self.merged, path)
        return found if isinstance(found, Mapping) else {}

    def find_value(self, path: KeyPath) -> LocatedValue | None:
        """Return the value at a path with its position, or None if the files don't contain it.

        :param path: keys and list indexes from the top of the files.
        """
        found = self.tree
        for part in path:
            inside = found.value
            if isinstance(inside, dict) and part in inside:
                found = inside[str(part)]
            elif isinstance(inside, list) and isinstance(part, int) and part < len(inside):
                found = inside[part]
            else:
                return None
        return found

    def locate(self, path: KeyPath, *, of_key: bool = False) -> FilePosition | None:
        """Return the position of the value at a path or of its nearest parent; None if the files have neither.

        For a mapping, list or null, the result is the position of the key.

        :param path: keys and list indexes from the top of the files.
        :param of_key: True = return the position of the key, even if the value is a scalar.
        """
        for length in range(len(path), 0, -1):
            if found := self.find_value(path[:length]):
                return found.key if of_key and found.key is not None else found.shown
        return None


def add_values_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--values`` to a command."""
    parser.add_argument(
        "-f",
        "--values",
        metavar="FILE",
        action="append",
        default=[],
        help="Helm values, as for helm upgrade; several are merged in this order; - is standard input",
    )


def load_values(files: Sequence[str]) -> HelmValues:
    """Return the merged values of files, or raise an error if a file has YAML mistakes.

    :param files: names in the order of merging; ``-`` is the standard input.
    :raises SettingsError: a file has a mistake: for example, it is not YAML, is not a mapping, or contains a key twice.
    :raises OSError: a file cannot be read.
    """
    values = read_values(files)
    errors = [flaw.problem for flaw in values.flaws if flaw.severity is Severity.ERROR]
    if errors:
        raise SettingsError(*errors)
    return values


def read_values(files: Sequence[str]) -> HelmValues:
    """Return the merged values of files, with their YAML mistakes in :attr:`HelmValues.flaws`.

    :param files: names in the order of merging; ``-`` is the standard input.
    :raises OSError: a file cannot be read.
    """
    documents = [read_file(file) for file in files]
    merged: dict[str, LocatedValue] = {}
    nulls: list[KeyPath] = []
    for document in documents:
        merged = _merge_trees(merged, document.tree.value, path=(), nulls=nulls)
    tree = LocatedValue(value=merged, place=_NOWHERE)
    return HelmValues(
        merged=tree.plain,
        tree=tree,
        flaws=tuple(flaw for document in documents for flaw in document.flaws),
        is_read=all(document.is_read for document in documents),
        redundant_nulls=tuple(nulls),
    )


def merge_settings(values: HelmValues) -> dict[str, Any]:
    """Return gpuspawner's settings from the sections :data:`SPAWNER_SECTIONS` of ``hub.config``.

    If several sections contain the same setting, the first section in :data:`SPAWNER_SECTIONS` wins.
    """
    sections = [values.get_chart_section((*HUB_CONFIG_PATH, name)) for name in reversed(SPAWNER_SECTIONS)]
    return {key: value for section in sections for key, value in section.items() if key in SETTING_TRAITS}


def require_sections(values: HelmValues) -> None:
    """Raise an error if ``hub``, ``hub.config`` or one of the :data:`SPAWNER_SECTIONS` is not a mapping.

    A missing section is no error.

    :raises SettingsError: with one problem for each wrong section.
    """
    paths = (HUB_CONFIG_PATH[:1], HUB_CONFIG_PATH, *((*HUB_CONFIG_PATH, name) for name in SPAWNER_SECTIONS))
    problems = [
        Problem(field=".".join((*values.root, *path)), code="wrong_type", message="must be a mapping")
        for path in paths
        if not isinstance(_get_at(values.chart, path), Mapping | None)
    ]
    if problems:
        raise SettingsError(*problems)


def _find_root(merged: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of zero-to-jupyterhub's values; () means the top of the files.

    If several mappings may be these values, the function prefers one with gpuspawner's settings.
    """
    nested = list(_iterate_nested(merged, ()))
    for marker in _CHART_MARKERS:
        if _get_at(merged, marker) is not None:
            return ()
        for path, value in nested:
            # Below two or more keys, a section "singleuser", or "hub" without "config", may belong to another chart.
            # Accept it only below the key "jupyterhub".
            is_sure = marker[: len(HUB_CONFIG_PATH)] == HUB_CONFIG_PATH or len(path) == 1 or path[-1] == CHART_NAME
            is_sure = is_sure or marker == _PROFILE_LIST
            if is_sure and isinstance(_get_at(value, marker), Mapping | (list if marker == _PROFILE_LIST else Mapping)):
                return path
    return (CHART_NAME,) if CHART_NAME in merged else ()


def _iterate_nested(
    found: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    inside = [((*path, key), value) for key, value in found.items() if isinstance(value, Mapping)]
    yield from inside
    for below, value in inside if len(path) + 1 < _MAX_PARENTS else ():
        if below[-1] not in _NO_PARENTS:
            yield from _iterate_nested(value, below)


def _get_at(found: Any, path: Sequence[str]) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _merge_trees(
    lower: Mapping[str, LocatedValue], upper: Mapping[str, LocatedValue], *, path: KeyPath, nulls: list[KeyPath]
) -> dict[str, LocatedValue]:
    merged = dict(lower)
    for key, entry in upper.items():
        before = lower.get(key)
        if isinstance(entry.value, dict):
            inside = before.value if before is not None and isinstance(before.value, dict) else {}
            merged[key] = replace(entry, value=_merge_trees(inside, entry.value, path=(*path, key), nulls=nulls))
        else:
            if entry.value is None and (before is None or before.value is None):
                nulls.append((*path, key))
            merged[key] = entry
    return merged
