"""Helm values as an admin wrote them, in one file or several, merged as Helm merges them.

Helm merges mappings key by key and takes everything else whole from the later file. What a later file sets to null
stays null: that takes a default of the chart away, and gpuspawner's own settings take null for "not there".
https://helm.sh/docs/chart_template_guide/values_files/
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuspawner.cli.common.findings import FilePosition, Finding, KeyPath, Severity
from gpuspawner.cli.values.yaml_reader import (
    LocatedValue,
    YAMLDocument,
    describe_decode_error,
    read_text,
    read_yaml,
    strip_positions,
)
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.hub.config.traits import SETTING_TRAITS

SETTINGS_PATH = ("hub", "config", "GPUSpawner")
"""Where the settings are in the values of zero-to-jupyterhub."""
HUB_CONFIG_PATH = SETTINGS_PATH[:2]
SPAWNER_SECTIONS = ("GPUSpawner", "KubeSpawner", "Spawner")
"""Sections of JupyterHub's configuration that gpuspawner's traits can be set in, the nearest one first."""

_CHART_MARKERS = (SETTINGS_PATH, SETTINGS_PATH[:2], SETTINGS_PATH[:1], ("singleuser",))
"""Sections by which the chart's values are told from those of a chart around it, the surest first."""
CHART_NAME = "jupyterhub"
"""What the chart is called, and so most often the key in the values of a chart around it."""
_MAX_PARENTS = 3
"""Charts around the chart's."""
_NO_PARENTS = frozenset({"custom", "hub", "singleuser"})
"""Keys of the chart itself, below which admins write what they like."""
_NOWHERE = FilePosition("", 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmValues:
    """What all files together say.

    :param merged: the values as the chart gets them.
    :param tree: the same with places.
    :param flaws: what is wrong with the files as YAML; nothing where they were loaded by :func:`load_values`.
    :param is_read: false where a file could not be read as YAML, so that the rest is not what it says.
    :param redundant_nulls: paths that are set to null, and that no file before says anything of.
    :param lost: what files before say below a key at the top that a later one sets to something else.
    :ivar root: the keys of parent charts that the values of zero-to-jupyterhub are below; nothing where they are at the
        top.
    """

    merged: Mapping[str, Any] = field(default_factory=dict)
    tree: LocatedValue = field(default_factory=lambda: LocatedValue(value={}, place=_NOWHERE))
    flaws: tuple[Finding, ...] = ()
    is_read: bool = True
    redundant_nulls: tuple[KeyPath, ...] = ()
    lost: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    root: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", _find_root(self.merged))

    @property
    def chart(self) -> Mapping[str, Any]:
        """The values of zero-to-jupyterhub."""
        return self.get_chart_section(())

    @property
    def settings(self) -> Mapping[str, Any]:
        """The section of gpuspawner, empty where there is none."""
        return self.get_chart_section(SETTINGS_PATH)

    def get_chart_section(self, path: Sequence[str]) -> Mapping[str, Any]:
        """Return a mapping of the chart's values, empty where there is none."""
        return self.get_section((*self.root, *path))

    def get_section(self, path: Sequence[str]) -> Mapping[str, Any]:
        """Return a mapping from the top of the files, empty where there is none."""
        found = _get_at(self.merged, path)
        return found if isinstance(found, Mapping) else {}

    def find_value(self, path: KeyPath) -> LocatedValue | None:
        """Return what is at a path from the top of the files, as the file says it that said it last."""
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
        """Return where a path from the top of the files is said, else the nearest above it; None where nothing is.

        :param of_key: where its key is, if it is said.
        """
        for length in range(len(path), 0, -1):
            if written := self.find_value(path[:length]):
                return written.key if of_key and written.key is not None else written.shown
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
    """Read values files and merge them in their order.

    :raises SettingsError: one is no YAML, or no mapping, or says something twice.
    :raises OSError: one cannot be read.
    """
    values = read_values(files)
    errors = [flaw.problem for flaw in values.flaws if flaw.severity is Severity.ERROR]
    if errors:
        raise SettingsError(*errors)
    return values


def read_values(files: Sequence[str]) -> HelmValues:
    """Read values files as :func:`load_values` does, and keep what is wrong with them.

    :raises OSError: one cannot be read.
    """
    merged: dict[str, LocatedValue] = {}
    nulls: list[KeyPath] = []
    flaws: list[Finding] = []
    lost: dict[str, Mapping[str, Any]] = {}
    is_read = True
    for file in files:
        document = _read_file(file)
        for key, before in merged.items():
            if isinstance(before.value, dict) and not isinstance(document.tree.value.get(key, before).value, dict):
                lost[key] = before.plain
        flaws += document.flaws
        is_read = is_read and document.is_read
        merged = _merge_trees(merged, document.tree.value, path=(), nulls=nulls)
    return HelmValues(
        merged=strip_positions(merged),
        tree=LocatedValue(value=merged, place=_NOWHERE),
        flaws=tuple(flaws),
        is_read=is_read,
        redundant_nulls=tuple(nulls),
        lost=lost,
    )


def merge_settings(values: HelmValues) -> dict[str, Any]:
    """Return the settings, whichever section of JupyterHub's configuration they stand in; the nearest one wins."""
    sections = [values.get_chart_section((*HUB_CONFIG_PATH, name)) for name in reversed(SPAWNER_SECTIONS)]
    return {key: value for section in sections for key, value in section.items() if key in SETTING_TRAITS}


def require_sections(values: HelmValues) -> None:
    """Refuse a section that is no mapping, which would be read as an empty one.

    :raises SettingsError: with one problem for each path.
    """
    paths = (
        *((*HUB_CONFIG_PATH[:length],) for length in (1, 2)),
        *((*HUB_CONFIG_PATH, name) for name in SPAWNER_SECTIONS),
    )
    found = {(*values.root, *path): _get_at(values.chart, path) for path in paths}
    wrong = [path for path, value in found.items() if not isinstance(value, Mapping | None)]
    if wrong:
        raise SettingsError(
            *(Problem(field=".".join(path), code="wrong_type", message="must be a mapping") for path in wrong)
        )


def _find_root(merged: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that the chart's values are below; of several such places, the first with the settings."""
    below = list(_iterate_nested(merged, ()))
    for mark in _CHART_MARKERS:
        if _get_at(merged, mark) is not None:
            return ()
        for path, value in below:
            # Far below, keys like hub are too common to tell anything, but for what is called as the chart is.
            is_sure = mark[: len(HUB_CONFIG_PATH)] == HUB_CONFIG_PATH or len(path) == 1 or path[-1] == CHART_NAME
            if is_sure and isinstance(_get_at(value, mark), Mapping):
                return path
    return (CHART_NAME,) if CHART_NAME in merged else ()


def _iterate_nested(
    found: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the mappings that may hold the chart's values, those of the top first."""
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


def _read_file(file: str) -> YAMLDocument:
    name = "<stdin>" if file == "-" else file
    try:
        text = read_text(file)
    except UnicodeDecodeError as error:
        place = FilePosition(name, 1, 1)
        flaw = Finding(
            severity=Severity.ERROR, code="bad_yaml", path="", message=describe_decode_error(error), place=place
        )
        return YAMLDocument(tree=LocatedValue(value={}, place=_NOWHERE), flaws=(flaw,), is_read=False)
    return read_yaml(text, file=name)
