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

from gpuspawner.cli.common.findings import Finding, Path, Place, Severity
from gpuspawner.cli.values.texts import no_text, read_text
from gpuspawner.cli.values.yaml_tree import Document, Written, plain_mapping, read_yaml
from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.hub.config.traits import SETTINGS

SECTION = ("hub", "config", "GPUSpawner")
"""Where the settings are in the values of zero-to-jupyterhub."""
CONFIG = SECTION[:2]
SPAWNERS = ("GPUSpawner", "KubeSpawner", "Spawner")
"""Sections of JupyterHub's configuration that gpuspawner's traits can be set in, the nearest one first."""

_MARKS = (SECTION, SECTION[:2], SECTION[:1], ("singleuser",))
"""Sections by which the chart's values are told from those of a chart around it, the surest first."""
NAME = "jupyterhub"
"""What the chart is called, and so most often the key in the values of a chart around it."""
_MOST_PARENTS = 3
"""Charts around the chart's."""
_NO_PARENTS = frozenset({"custom", "hub", "singleuser"})
"""Keys of the chart itself, below which admins write what they like."""
_NOWHERE = Place("", 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What all files together say.

    :param merged: the values as the chart gets them.
    :param tree: the same with places.
    :param flaws: what is wrong with the files as YAML; nothing where they were loaded by :func:`load`.
    :param is_read: false where a file could not be read as YAML, so that the rest is not what it says.
    :param idle_nulls: paths that are set to null, and that no file before says anything of.
    :param lost: what files before say below a key at the top that a later one sets to something else.
    :ivar root: the keys of parent charts that the values of zero-to-jupyterhub are below; nothing where they are at the
        top.
    """

    merged: Mapping[str, Any] = field(default_factory=dict)
    tree: Written = field(default_factory=lambda: Written(value={}, place=_NOWHERE))
    flaws: tuple[Finding, ...] = ()
    is_read: bool = True
    idle_nulls: tuple[Path, ...] = ()
    lost: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    root: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", _root(self.merged))

    @property
    def chart(self) -> Mapping[str, Any]:
        """The values of zero-to-jupyterhub."""
        return self.at(())

    @property
    def settings(self) -> Mapping[str, Any]:
        """The section of gpuspawner, empty where there is none."""
        return self.at(SECTION)

    def at(self, path: Sequence[str]) -> Mapping[str, Any]:
        """Return a mapping of the chart's values, empty where there is none."""
        return self.above((*self.root, *path))

    def above(self, path: Sequence[str]) -> Mapping[str, Any]:
        """Return a mapping from the top of the files, empty where there is none."""
        found = _at(self.merged, path)
        return found if isinstance(found, Mapping) else {}

    def written(self, path: Path) -> Written | None:
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

    def where(self, path: Path, *, of_key: bool = False) -> Place | None:
        """Return where a path from the top of the files is said, else the nearest above it; None where nothing is.

        :param of_key: where its key is, if it is said.
        """
        for length in range(len(path), 0, -1):
            if written := self.written(path[:length]):
                return written.key if of_key and written.key is not None else written.shown
        return None


def add_values(parser: argparse.ArgumentParser) -> None:
    """Add ``--values`` to a command."""
    parser.add_argument(
        "-f",
        "--values",
        metavar="FILE",
        action="append",
        default=[],
        help="Helm values, as for helm upgrade; several are merged in this order; - is standard input",
    )


def load(files: Sequence[str]) -> Values:
    """Read values files and merge them in their order.

    :raises SettingsError: one is no YAML, or no mapping, or says something twice.
    :raises OSError: one cannot be read.
    """
    values = read(files)
    errors = [flaw.problem for flaw in values.flaws if flaw.severity is Severity.ERROR]
    if errors:
        raise SettingsError(*errors)
    return values


def read(files: Sequence[str]) -> Values:
    """Read values files as :func:`load` does, and keep what is wrong with them.

    :raises OSError: one cannot be read.
    """
    merged: dict[str, Written] = {}
    nulls: list[Path] = []
    flaws: list[Finding] = []
    lost: dict[str, Mapping[str, Any]] = {}
    is_read = True
    for file in files:
        document = _read(file)
        for key, before in merged.items():
            if isinstance(before.value, dict) and not isinstance(document.tree.value.get(key, before).value, dict):
                lost[key] = before.plain
        flaws += document.flaws
        is_read = is_read and document.is_read
        merged = _over(merged, document.tree.value, path=(), nulls=nulls)
    return Values(
        merged=plain_mapping(merged),
        tree=Written(value=merged, place=_NOWHERE),
        flaws=tuple(flaws),
        is_read=is_read,
        idle_nulls=tuple(nulls),
        lost=lost,
    )


def merged_settings(values: Values) -> dict[str, Any]:
    """Return the settings, whichever section of JupyterHub's configuration they stand in; the nearest one wins."""
    sections = [values.at((*CONFIG, name)) for name in reversed(SPAWNERS)]
    return {key: value for section in sections for key, value in section.items() if key in SETTINGS}


def require_sections(values: Values) -> None:
    """Refuse a section that is no mapping, which would be read as an empty one.

    :raises SettingsError: with one problem for each path.
    """
    paths = (*((*CONFIG[:length],) for length in (1, 2)), *((*CONFIG, name) for name in SPAWNERS))
    found = {(*values.root, *path): _at(values.chart, path) for path in paths}
    wrong = [path for path, value in found.items() if not isinstance(value, Mapping | None)]
    if wrong:
        raise SettingsError(
            *(Problem(field=".".join(path), code="wrong_type", message="must be a mapping") for path in wrong)
        )


def _root(merged: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that the chart's values are below; of several such places, the first with the settings."""
    below = list(_below(merged, ()))
    for mark in _MARKS:
        if _at(merged, mark) is not None:
            return ()
        for path, value in below:
            # Far below, keys like hub are too common to tell anything, but for what is called as the chart is.
            is_sure = mark[: len(CONFIG)] == CONFIG or len(path) == 1 or path[-1] == NAME
            if is_sure and isinstance(_at(value, mark), Mapping):
                return path
    return (NAME,) if NAME in merged else ()


def _below(found: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the mappings that may hold the chart's values, those of the top first."""
    inside = [((*path, key), value) for key, value in found.items() if isinstance(value, Mapping)]
    yield from inside
    for below, value in inside if len(path) + 1 < _MOST_PARENTS else ():
        if below[-1] not in _NO_PARENTS:
            yield from _below(value, below)


def _at(found: Any, path: Sequence[str]) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _over(
    lower: Mapping[str, Written], upper: Mapping[str, Written], *, path: Path, nulls: list[Path]
) -> dict[str, Written]:
    merged = dict(lower)
    for key, entry in upper.items():
        before = lower.get(key)
        if isinstance(entry.value, dict):
            inside = before.value if before is not None and isinstance(before.value, dict) else {}
            merged[key] = replace(entry, value=_over(inside, entry.value, path=(*path, key), nulls=nulls))
        else:
            if entry.value is None and (before is None or before.value is None):
                nulls.append((*path, key))
            merged[key] = entry
    return merged


def _read(file: str) -> Document:
    name = "<stdin>" if file == "-" else file
    try:
        text = read_text(file)
    except UnicodeDecodeError as error:
        place = Place(name, 1, 1)
        flaw = Finding(severity=Severity.ERROR, code="bad_yaml", path="", message=no_text(error), place=place)
        return Document(tree=Written(value={}, place=_NOWHERE), flaws=(flaw,), is_read=False)
    return read_yaml(text, file=name)
