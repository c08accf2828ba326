"""Reads settings files, merges them, detects changes, and names the file that causes an error.

kubelet writes each version of a mounted ConfigMap or Secret into a new folder and then points the link ``..data`` to
that folder. This module resolves the link once, so that all files that it reads belong to the same version
(https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically).
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.core.text.wording import sanitize_name
from gpuspawner.settings.parsing import convert_to_plain, merge_values
from gpuspawner.settings.validation_errors import DottedPaths

SETTINGS_SECTION = ("hub", "config", "GPUSpawner")
"""Path of gpuspawner's settings in the Helm values of zero-to-jupyterhub."""

_FIELD = "settings_files"
_CONFIGMAP_LINK = "..data"
# Prefer libyaml: it parses 50 KB of settings in 10 ms, a tenth of the time of PyYAML's own parser.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_UNREADABLE = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError)
"""Errors that PyYAML raises for invalid YAML, or for a value that does not match its YAML tag."""
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_LARGEST_BYTES = 1 << 20
"""Maximum size of one settings file in bytes: the size limit of a ConfigMap or Secret."""
_MOST_BYTES = 8 << 20
"""Greatest number of bytes in all settings files together."""
_DEEPEST = 100
"""Greatest depth of nesting in a YAML file. libyaml has no limit, and tens of thousands of levels crash the process."""

_LONGEST_NUMBER = 100
"""Maximum number of characters in a YAML number; :func:`_refuse_flaws` gives the reason."""
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

_MOST_VALUES = 20_000
"""Maximum number of YAML values in all settings files together, with aliases expanded: a small file with nested aliases
could otherwise fill the memory."""

_MAX_PROBLEMS = 100
"""Greatest number of problems in one error message; thousands would hide the first."""

ParsedT = TypeVar("ParsedT")

Fingerprint = tuple[tuple[object, ...], ...]
"""Path, inode, size and times of each settings file, or path and ``errno`` of a path that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The settings of one file.

    :param path: path as shown to admins; empty for settings that come from no file.
    :param content: the settings in the file, with the keys that ``hub.config.GPUSpawner`` has.
    """

    path: str
    content: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _SizeBudget:
    """What the settings files that are still to be read may contain together.

    :param bytes: number of bytes.
    :param values: number of YAML values, with aliases expanded.
    """

    bytes: int = _MOST_BYTES
    values: int = _MOST_VALUES

    def take_bytes(self, count: int) -> None:
        self.bytes -= count
        if self.bytes < 0:
            raise _make_error("", f"brings the files to more than {_MOST_BYTES >> 20} MiB")

    def take_values(self, count: int) -> None:
        self.values -= count
        if self.values < 0:
            raise _make_error("", f"brings the files to more than {_MOST_VALUES:,} values, with what aliases repeat")

    @property
    def is_used_up(self) -> bool:
        return self.bytes < 0 or self.values < 0


def compute_fingerprint(paths: Sequence[str]) -> tuple[Fingerprint, float]:
    """Return a fingerprint of settings files, and the modification time of the newest file in seconds since the epoch.

    The time is 0 if no file can be read.

    :param paths: files and folders.
    """
    found: list[tuple[object, ...]] = []
    youngest_ns = 0
    for path in paths:
        try:
            for shown, file in _list_files(path):
                status = file.stat()
                found.append((shown, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
                youngest_ns = max(youngest_ns, status.st_mtime_ns)
        except OSError as error:
            found.append((path, error.errno))
    return tuple(found), youngest_ns / 1e9


def read_settings_files(paths: Sequence[str], *, field: str = _FIELD) -> list[SettingsFile]:
    """Return the settings of each file, and of the YAML and JSON files in each folder, sorted by name.

    :param paths: files and folders, lowest priority first.
    :param field: setting that contains the paths, for error messages.
    :raises SettingsError: files are missing, invalid or too large. The error has the problems of all files, or those
        found so far if all files together are too large.
    """
    files: list[SettingsFile] = []
    problems: list[Problem] = []
    budget = _SizeBudget()
    for path in paths:
        try:
            for shown, file in _list_files(path):
                try:
                    files.append(SettingsFile(path=shown, content=_parse_settings(_read_content(file, budget), budget)))
                except SettingsError as error:
                    problems += _add_file_to_problems(shown, error, field=field)
                if budget.is_used_up:
                    raise SettingsError(*problems)
        except OSError as error:
            message = f"{error.filename or path} cannot be read: {error.strerror or error}"
            problems.append(Problem(field=field, code="bad_value", message=message))
    if problems:
        raise SettingsError(*problems)
    return files


def merge_settings_files(
    base: Mapping[str, Any],
    paths: Sequence[str],
    *,
    parse: Callable[[Mapping[str, Any]], ParsedT],
    source: Sequence[SettingsFile] = (),
) -> tuple[dict[str, Any], ParsedT]:
    """Return ``base`` with the settings in files merged into it, and what ``parse`` returns for the merged settings.

    :param base: settings with lower priority than the files.
    :param paths: files and folders, lowest priority first.
    :param parse: validates the merged settings.
    :param source: the files from which ``base`` was merged, lowest priority first, for error messages.
    :raises SettingsError: a file is missing or invalid, or the merged settings are invalid.
    """
    files = read_settings_files(paths)
    merged = merge_values({}, base)
    for file in files:
        merged = merge_values(merged, file.content)
    try:
        return merged, parse(merged)
    except SettingsError as error:
        raise attribute_problems(error, [SettingsFile(path="", content=base), *source, *files]) from None


def attribute_problems(error: SettingsError, layers: Sequence[SettingsFile]) -> SettingsError:
    """Return a copy of an error in which each problem names the settings file that most likely causes the problem.

    The copy has at most a hundred problems, and one more that says how many are left out. If no settings come from a
    file, the result is the unchanged error.

    :param error: problems of the merged settings.
    :param layers: the settings before they were merged, lowest priority first.
    """
    if not any(layer.path for layer in layers):
        return error
    paths = DottedPaths(_list_entries)
    shown = [_attribute_problem(problem, layers, paths=paths) for problem in error.problems[:_MAX_PROBLEMS]]
    if left := len(error.problems) - len(shown):
        shown.append(Problem(field="", code="bad_value", message=f"and {left:,} more mistakes"))
    return SettingsError(*shown)


def _attribute_problem(problem: Problem, layers: Sequence[SettingsFile], *, paths: DottedPaths[object]) -> Problem:
    """Add to a problem's message the path of the file that contains most keys of the problem's field.

    Among layers with equally many keys, the last wins. The problem stays unchanged if that layer is not a file, or if
    no layer contains the first key.
    """
    found = [(-len(paths.follow(problem.field, layer.content)[1]), place) for place, layer in enumerate(layers)]
    missing, place = max(found, default=(-len(problem.field), 0))
    if missing == -len(problem.field) or not layers[place].path:
        return problem
    return replace(problem, message=f"{problem.message} ({layers[place].path})")


def _list_entries(value: object) -> Iterator[tuple[str, str | int, object]]:
    if isinstance(value, Mapping):
        yield from ((sanitize_name(key), key, entry) for key, entry in value.items())


def _list_files(path: str) -> Iterator[tuple[str, Path]]:
    """Yield (path to show to admins, path to read) of the file, or of each YAML or JSON file in the folder."""
    folder = Path(path)
    if not folder.is_dir():
        yield path, _resolve_file(folder)
        return
    current = folder / _CONFIGMAP_LINK
    inside = current.resolve() if current.is_dir() else folder
    for file in sorted(inside.iterdir()):
        if file.suffix in _SUFFIXES and not file.name.startswith(".") and not file.is_dir():
            yield str(folder / file.name), _resolve_file(file)


def _resolve_file(path: Path) -> Path:
    """Return the path of a regular file; raise OSError for a pipe or a device, which may block the reader forever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return path


def _read_content(file: Path, budget: _SizeBudget) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise _make_error("", "is larger than 1 MiB, which is all that a ConfigMap may hold")
    budget.take_bytes(len(content))
    return content


def _parse_settings(content: bytes, budget: _SizeBudget) -> Mapping[str, Any]:
    """Return the section ``hub.config.GPUSpawner`` of a YAML document, or the whole document if ``hub`` is missing.

    A document with the key ``hub`` must not have keys outside of that section.
    """
    try:
        document = _parse_document(content, budget)
    except _UNREADABLE as error:
        raise _make_error("", f"is no YAML: {error}") from error
    found: Any = {} if document is None else convert_to_plain(document)
    place = ""
    for key in SETTINGS_SECTION if isinstance(found, dict) and SETTINGS_SECTION[0] in found else ():
        for name in found:
            if name != key:
                raise _make_error(
                    f"{place}{sanitize_name(name)}", f"is not read from here; only {'.'.join(SETTINGS_SECTION)} is"
                )
        found, place = found.get(key), f"{place}{key}."
        if not isinstance(found, dict):
            raise _make_error(place.rstrip("."), "must hold a mapping")
    if not isinstance(found, dict):
        raise _make_error("", "must hold a mapping")
    return found


def _parse_document(content: bytes, budget: _SizeBudget) -> object:
    text = content.decode("utf-8-sig")
    budget.take_values(1)
    written = _count_values(text, budget)
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_flaws(node, "", seen=set())
        budget.take_values(_count_node_values(node, {}) - written)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count_values(text: str, budget: _SizeBudget) -> int:
    """Return the number of values in a YAML document, without expanding aliases, and subtract it from the budget.

    The function counts PyYAML's events, so that PyYAML never builds the values of a document that is too large.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.NodeEvent):
            budget.take_values(1)
            values += 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _make_error("", f"is nested more than {_DEEPEST} deep")
    return values


def _refuse_flaws(node: yaml.Node, place: str, *, seen: set[int]) -> None:
    """Reject duplicate keys and overlong numbers.

    PyYAML would silently take the last of several equal keys. The time that PyYAML needs for a base-60 number
    (``1:30:00``) grows with the square of the number's length.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
        message = f"is a number of {len(node.value):,} characters, more than {_LONGEST_NUMBER}; a text needs quotes"
        raise _make_error(place[:-1], message)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _refuse_flaws(item, f"{place}{index}.", seen=seen)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        inside = f"{place}{sanitize_name(key.value)}." if isinstance(key, yaml.ScalarNode) else place
        _refuse_flaws(key, inside, seen=seen)
        if isinstance(key, yaml.ScalarNode):
            line = key.start_mark.line + 1
            if key.value in lines:
                raise _make_error(inside[:-1], f"is there twice, in lines {lines[key.value]} and {line}")
            lines[key.value] = line
        _refuse_flaws(value, inside, seen=seen)


def _count_node_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values in a YAML node, with aliases expanded.

    ``known`` caches the results: ``id`` of a node → number of values. A node that contains itself counts once;
    :func:`.parsing.convert_to_plain` rejects such a node later.
    """
    if id(node) not in known:
        known[id(node)] = 1
        inside = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
        if isinstance(inside, list):
            known[id(node)] += sum(_count_node_values(each, known) for each in inside)
    return known[id(node)]


def _make_error(field: str, message: str) -> SettingsError:
    return SettingsError(Problem(field=field, code="bad_value", message=message))


def _add_file_to_problems(path: str, error: SettingsError, *, field: str) -> Iterator[Problem]:
    for problem in error.problems:
        if problem.field:
            yield replace(problem, message=f"{problem.message} ({path})")
        else:
            yield replace(problem, field=field, message=f"{path} {problem.message}")
