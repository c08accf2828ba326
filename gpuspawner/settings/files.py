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


def compute_fingerprint(paths: Sequence[str]) -> tuple[Fingerprint, float]:
    """Return a fingerprint of settings files, and the modification time of the newest file in seconds since the epoch.

    The time is 0 if no file can be read.
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
    :raises SettingsError: files are missing or invalid. The error has the problems of all files.
    """
    files: list[SettingsFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            for shown, file in _list_files(path):
                try:
                    files.append(SettingsFile(path=shown, content=_parse_settings(file.read_bytes())))
                except SettingsError as error:
                    problems += _add_file_to_problems(shown, error, field=field)
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


def _parse_settings(content: bytes) -> Mapping[str, Any]:
    """Return the section ``hub.config.GPUSpawner`` of a YAML document, or the whole document if ``hub`` is missing.

    A document with the key ``hub`` must not have keys outside of that section.
    """
    try:
        document = _parse_document(content)
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


def _parse_document(content: bytes) -> object:
    loader = _LOADER(content.decode("utf-8-sig"))
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_duplicate_keys(node, "", seen=set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_duplicate_keys(node: yaml.Node, place: str, *, seen: set[int]) -> None:
    """Reject a mapping with equal keys, of which PyYAML would silently take the last."""
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _refuse_duplicate_keys(item, f"{place}{index}.", seen=seen)
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        inside = place
        if isinstance(key, yaml.ScalarNode):
            inside, line = f"{place}{sanitize_name(key.value)}.", key.start_mark.line + 1
            if key.value in lines:
                raise _make_error(inside[:-1], f"is there twice, in lines {lines[key.value]} and {line}")
            lines[key.value] = line
        _refuse_duplicate_keys(value, inside, seen=seen)


def _make_error(field: str, message: str) -> SettingsError:
    return SettingsError(Problem(field=field, code="bad_value", message=message))


def _add_file_to_problems(path: str, error: SettingsError, *, field: str) -> Iterator[Problem]:
    for problem in error.problems:
        if problem.field:
            yield replace(problem, message=f"{problem.message} ({path})")
        else:
            yield replace(problem, field=field, message=f"{path} {problem.message}")
