"""Files that hold settings, to be put over each other: which they are, whether they changed, what they say.

kubelet writes all files of a mounted ConfigMap or Secret into a new folder and then lets ``..data`` point to it. What
is read through that link belongs together
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
from gpuspawner.core.text.quoting import sanitize_name
from gpuspawner.settings.dotted_paths import DottedPaths
from gpuspawner.settings.merging import convert_to_plain, merge_values

SETTINGS_SECTION = ("hub", "config", "GPUSpawner")
"""Where the settings are in the values of zero-to-jupyterhub."""

_FIELD = "settings_files"
_CONFIGMAP_LINK = "..data"
# With libyaml, a tenth of the time: 50 KB of settings take 10 ms.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_UNREADABLE = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError)
"""What the parser raises, and what it lets through of a value that is not of the kind that its tag says."""
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_LARGEST_BYTES = 1 << 20
"""Of a file: as much as Kubernetes takes for a ConfigMap or a Secret. The hub has one thread, and reads in it."""
_MOST_BYTES = 8 << 20
"""Of all files."""
_DEEPEST = 100
"""Levels of nesting; libyaml knows no bound, and tens of thousands of them end the process."""

_LONGEST_NUMBER = 100
"""Characters."""
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

_MOST_VALUES = 20_000
"""Of all files, some times what large sites write. Those that are written, and those that they stand for: aliases of
aliases can be more than any machine holds. So many wrong ones take half a second, or a few with a hint for each."""

_MAX_PROBLEMS = 100
"""Mistakes that are told; a log of thousands hides the first."""

ParsedT = TypeVar("ParsedT")

Fingerprint = tuple[tuple[object, ...], ...]
"""What changes when files do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """One file.

    :param path: as an admin knows it; empty for settings that stand in none.
    :param content: keys as below ``hub.config.GPUSpawner``.
    """

    path: str
    content: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _SizeBudget:
    """How much files may still hold, all of them together.

    :param bytes: of text.
    :param values: those that are written and meant; each file counts as one, even an empty one.
    """

    bytes: int = _MOST_BYTES
    values: int = _MOST_VALUES

    def take_bytes(self, count: int) -> None:
        """Take some of the room.

        :raises SettingsError: there is no such room.
        """
        self.bytes -= count
        if self.bytes < 0:
            raise _make_error("", f"brings the files to more than {_MOST_BYTES >> 20} MiB")

    def take_values(self, count: int) -> None:
        """Take some of the room.

        :raises SettingsError: there is no such room.
        """
        self.values -= count
        if self.values < 0:
            raise _make_error("", f"brings the files to more than {_MOST_VALUES:,} values, with what aliases repeat")

    @property
    def is_used_up(self) -> bool:
        return self.bytes < 0 or self.values < 0


def compute_fingerprint(paths: Sequence[str]) -> tuple[Fingerprint, float]:
    """Return what files and folders are like, and when the youngest file was written, in seconds since the epoch."""
    found: list[tuple[object, ...]] = []
    youngest_ns = 0
    for path in paths:
        try:
            for shown, file in _list_files(path):
                is_like = file.stat()
                found.append((shown, is_like.st_ino, is_like.st_size, is_like.st_mtime_ns, is_like.st_ctime_ns))
                youngest_ns = max(youngest_ns, is_like.st_mtime_ns)
        except OSError as error:
            found.append((path, error.errno))
    return tuple(found), youngest_ns / 1e9


def read_settings_files(paths: Sequence[str], *, field: str = _FIELD) -> list[SettingsFile]:
    """Read files, and all of folders in the order of their names.

    :param field: which setting names them, if one does.
    :raises SettingsError: with one problem for each file that is not there, or is no YAML as settings are.
    """
    files: list[SettingsFile] = []
    problems: list[Problem] = []
    room = _SizeBudget()
    for path in paths:
        try:
            for shown, file in _list_files(path):
                try:
                    files.append(SettingsFile(path=shown, content=_parse_settings(_read_content(file, room), room)))
                except SettingsError as error:
                    problems += _add_file_to_problems(shown, error, field=field)
                if room.is_used_up:
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
    """Return settings with those of files over them, in their order, and what they are when they are parsed.

    :param base: settings that are there before the files.
    :param source: other files that ``base`` was put together of, the lowest first, to be named where they are wrong.
    :raises SettingsError: a file is not there or no YAML, or what comes of all of them is wrong.
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
    """Return what is wrong with merged settings, each with the file that says it, where one does.

    :param layers: what was merged, the lowest first; with a file among them, the first hundred mistakes are told.
    """
    if not any(layer.path for layer in layers):
        return error
    paths = DottedPaths(_list_entries)
    told = [_attribute_problem(problem, layers, paths=paths) for problem in error.problems[:_MAX_PROBLEMS]]
    if left := len(error.problems) - len(told):
        told.append(Problem(field="", code="bad_value", message=f"and {left:,} more mistakes"))
    return SettingsError(*told)


def _attribute_problem(problem: Problem, layers: Sequence[SettingsFile], *, paths: DottedPaths[object]) -> Problem:
    """Return a problem with the file that says most of its path, the last of such files."""
    found = [(-len(paths.follow(problem.field, layer.content)[1]), place) for place, layer in enumerate(layers)]
    missing, place = max(found, default=(-len(problem.field), 0))
    if missing == -len(problem.field) or not layers[place].path:
        return problem
    return replace(problem, message=f"{problem.message} ({layers[place].path})")


def _list_entries(says: object) -> Iterator[tuple[str, str | int, object]]:
    """Yield what a path calls an entry, where it is, and the entry."""
    if isinstance(says, Mapping):
        yield from ((sanitize_name(key), key, value) for key, value in says.items())


def _list_files(path: str) -> Iterator[tuple[str, Path]]:
    """Yield what a path stands for: names to be shown, and where the file is to be read.

    :raises OSError: it is neither a file nor a folder, or one that must not be looked into.
    """
    folder = Path(path)
    if not folder.is_dir():
        yield path, _resolve_file(folder)
        return
    swapped = folder / _CONFIGMAP_LINK
    inside = swapped.resolve() if swapped.is_dir() else folder
    for file in sorted(inside.iterdir()):
        if file.suffix in _SUFFIXES and not file.name.startswith(".") and not file.is_dir():
            yield str(folder / file.name), _resolve_file(file)


def _resolve_file(path: Path) -> Path:
    """Return a path that is one of a file; to read from anything else may take forever.

    :raises OSError: it is none.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return path


def _read_content(file: Path, room: _SizeBudget) -> bytes:
    """Return what is in a file.

    :param room: which is taken.
    :raises SettingsError: more than anybody writes.
    :raises OSError: it cannot be read.
    """
    with file.open("rb") as opened:
        content = opened.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise _make_error("", "is larger than 1 MiB, which is all that a ConfigMap may hold")
    room.take_bytes(len(content))
    return content


def _parse_settings(content: bytes, room: _SizeBudget) -> Mapping[str, Any]:
    """Return the settings of a document: by themselves, or as the only ones in Helm values.

    :raises SettingsError: it is no such document; a problem without a field is about all of it.
    """
    try:
        document = _parse_document(content, room)
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


def _parse_document(content: bytes, room: _SizeBudget) -> object:
    """Return what YAML says, as long as it says nothing twice."""
    text = content.decode("utf-8-sig")
    room.take_values(1)
    written = _count_values(text, room)
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_flaws(node, "", seen=set())
        room.take_values(_count_node_values(node, {}) - written)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count_values(text: str, room: _SizeBudget) -> int:
    """Return how many values a document writes, before anything is made of them.

    :param room: which is taken as they are counted.
    :raises SettingsError: there are too many, or they are nested too deep.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.NodeEvent):
            room.take_values(1)
            values += 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _make_error("", f"is nested more than {_DEEPEST} deep")
    return values


def _refuse_flaws(node: yaml.Node, place: str, *, seen: set[int]) -> None:
    """Look for what the parser takes without a word, or takes too long to put together.

    YAML forbids keys that are there twice, and the parser takes the last one. A number of YAML 1.1 can be written to
    the base of 60 (``1:30:00``), for which the parser's time grows with the square of its length.

    :raises SettingsError: there is such a key or number.
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
    """Return how many values a node stands for, each alias with all that it repeats.

    :param known: by identity of the nodes; what contains itself is found out when it is put together.
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
    """Yield what is wrong with a file."""
    for problem in error.problems:
        if problem.field:
            yield replace(problem, message=f"{problem.message} ({path})")
        else:
            yield replace(problem, field=field, message=f"{path} {problem.message}")
