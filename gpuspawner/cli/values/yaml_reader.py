"""Reads a YAML file as Helm does, with the position of every key and value, and describes its mistakes.

Helm converts keys to strings and knows the booleans of YAML 1.1 (``yes`` is true), but no dates. Helm 3 reads only the
first document of a file; Helm 4 merges all documents.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override
from yaml.scanner import ScannerError

from gpuspawner.cli.common.findings import FilePosition, Finding, Severity, format_path
from gpuspawner.core.json_access import KeyPath
from gpuspawner.core.text.wording import quote, sanitize_name

MAX_INPUT_SIZE = 4 * 1024**2
"""Maximum size of a file in bytes. Usable files are smaller, because Helm can store at most 1 MiB for a release."""
TOO_LONG_MESSAGE = f"has more than {MAX_INPUT_SIZE // 1024**2} MiB, so it was not read"
_STDIN = "-"


def read_text(file: str) -> str:
    """Return the text of a file.

    The function stops reading a little beyond :data:`MAX_INPUT_SIZE` bytes, because a pipe may never end. On standard
    input, it counts characters instead of bytes.

    :param file: name; ``-`` is the standard input.
    :raises OSError: the file cannot be read.
    :raises UnicodeDecodeError: the file is not UTF-8.
    """
    if file == _STDIN:
        return sys.stdin.read(MAX_INPUT_SIZE + 1)
    with Path(file).open("rb") as opened:
        # Read more than the maximum, so that is_too_long() still sees a longer file after decode() has dropped the byte
        # order mark (3 bytes).
        content = opened.read(MAX_INPUT_SIZE + 8)
    # The content of a longer file may end within a character: raise no error for it.
    return content.decode("utf-8-sig", errors="strict" if len(content) <= MAX_INPUT_SIZE else "replace")


def is_too_long(text: str) -> bool:
    """Return whether a text has more than :data:`MAX_INPUT_SIZE` bytes in UTF-8."""
    return len(text) > MAX_INPUT_SIZE or (
        len(text) * 4 > MAX_INPUT_SIZE and len(text.encode(errors="replace")) > MAX_INPUT_SIZE
    )


def describe_decode_error(error: UnicodeDecodeError) -> str:
    """Return the message for a file that is not UTF-8."""
    return f"is no text in UTF-8: byte {error.start + 1} fits nowhere"


_TAB = "a tab stands where YAML takes spaces only"
_QUOTES = "the closing mark of a quotation is missing"
_MEANINGS = {
    r"found character '\t' that cannot start": _TAB,
    "mapping values are not allowed": (
        "a colon stands where no key can be: the indentation is wrong, or a text with a colon in it needs quotes"
    ),
    "expected <block end>": (
        "this does not fit the lines above: the indentation is wrong, or a quotation mark is left over"
    ),
    "could not find expected ':'": "a key has no colon after it, or the indentation is wrong",
    "found undefined alias": "no anchor above has this name",
    "expected ',' or": "a comma or a closing bracket is missing",
    "expected the node content": "a value is missing",
    "found unexpected end of stream": _QUOTES,
    "found unexpected document separator": _QUOTES,
    "found unknown escape character": r"double quotes know no such escape: a backslash is written \\ in them",
    "found an escape that is no": "Unicode has no such character",
    "that cannot start any token": "a text that begins like this needs quotes",
    "special characters are not allowed": "there is a control character",
}
_LONG_QUOTATION = f"is no YAML: {_QUOTES}, most likely of this one, which goes over several lines"
_ENDED = re.compile(
    r"could not find expected ':'|unexpected end of stream|unexpected document separator|but got '<stream end>'"
)


def build_yaml_finding(error: yaml.YAMLError, text: str, *, file: str) -> Finding:
    """Return the finding for an error of the YAML parser, with line and column.

    :param text: the text of the file.
    :param file: name of the file in the finding's position.
    """
    place = _locate_error(error, text, file=file)
    if (quotation := _find_quotation_start(text, place)) is not None:
        return Finding(severity=Severity.ERROR, code="bad_yaml", path="", message=_LONG_QUOTATION, place=quotation)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    lines = text.splitlines()
    before = lines[place.line - 1][: place.column] if place.line <= len(lines) else ""
    meaning = next((meaning for words, meaning in _MEANINGS.items() if words in problem), "it cannot be read")
    if "\t" in before and not before.strip(" \t-"):
        meaning = _TAB
    reason = problem if problem.isprintable() else sanitize_name(problem)
    message = f"is no YAML: {meaning} ({reason})"
    return Finding(severity=Severity.ERROR, code="bad_yaml", path="", message=message, place=place)


def _find_quotation_start(text: str, place: FilePosition) -> FilePosition | None:
    """Return the start of a quoted text of several lines that ends on the line of an error; None without one.

    Such a text probably lacks its closing quote: the parser took the next opening quote for it, and then failed.
    """
    found = None
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                start, end = token.start_mark, token.end_mark
                if start.line < end.line and end.line + 1 == place.line:
                    found = FilePosition(place.file, start.line + 1, start.column + 1)
    except (yaml.YAMLError, ValueError, OverflowError):
        pass  # ignore the parser's error, which the caller already reports
    return found


def _locate_error(error: yaml.YAMLError, text: str, *, file: str) -> FilePosition:
    mark, opened = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None or (opened is not None and _ENDED.search(str(error))):
        # The parser noticed the error only behind the faulty text, or gave no position. Return the position where the
        # faulty text begins: an opening quote or bracket, or a key without a colon.
        mark = opened
    if mark is not None:
        return FilePosition(file, mark.line + 1, mark.column + 1)
    before = text[: max(getattr(error, "position", 0) or 0, 0)]
    return FilePosition(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


_MOST_VALUES = 100_000
"""Maximum number of values in a file. The values of an anchor count again for each alias."""

_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_TAG}{name}": name for name in ("str", "int", "float", "bool", "null", "merge")}
_TRUE = frozenset({"y", "yes", "true", "on"})
_NULL = r"^(?:~|null|Null|NULL|)$"
_BOOL = r"^(?:[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$"
_INT = r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)$"
_FLOAT = r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedValue:
    """A value with its position.

    :param value: a scalar, or a dict or list of located values.
    :param place: position of the value.
    :param key: position of the value's key; None in lists and at the top.
    """

    value: Any
    place: FilePosition
    key: FilePosition | None = None

    @property
    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {name: entry.plain for name, entry in self.value.items()}
        return [entry.plain for entry in self.value] if isinstance(self.value, list) else self.value

    @property
    def shown(self) -> FilePosition:
        """The position that findings show: the key's if the value is a mapping, list or null, else the value's."""
        return self.key if self.key is not None and isinstance(self.value, dict | list | None) else self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class YAMLDocument:
    """The content of a YAML file.

    :param tree: a mapping, or a list if the caller allows one; an empty mapping if the file cannot be read.
    :param flaws: mistakes in the file.
    :param is_read: false if the file cannot be read.
    """

    tree: LocatedValue
    flaws: tuple[Finding, ...] = ()
    is_read: bool = True


class _Loader(yaml.SafeLoader):
    """Loader that knows the types of unquoted scalars that Helm knows: YAML 1.1 without dates and base-60 numbers."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML's class declares it

    @override
    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next YAML node; forget an earlier anchor of its name first: PyYAML rejects repeated anchors."""
        if not self.check_event(yaml.AliasEvent):
            self.anchors.pop(getattr(self.peek_event(), "anchor", None), None)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)


_SCALAR_PATTERNS = (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("yYnNtTfFoO")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+0123456789.")),
    ("merge", r"^(?:<<)$", ["<"]),
)
"""Rules by which Helm recognizes the type of an unquoted scalar.

Each row is (name of the type, pattern of its scalars, characters with which its scalars may begin).
"""
for _name, _pattern, _first in _SCALAR_PATTERNS:
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(_pattern), _first)


class _TooLargeError(Exception):
    """A file stands for too many values, because aliases of aliases multiply."""


def read_yaml(text: str, *, file: str) -> YAMLDocument:
    """Return the values of a YAML file with their positions, and the file's mistakes.

    :param text: the text of the file.
    :param file: name of the file, which positions in the result contain.
    """
    top = FilePosition(file, 1, 1)
    if is_too_long(text):
        return _make_unread(_make_flaw(top, "too_large", message=TOO_LONG_MESSAGE))
    reader = _Reader(file)
    try:
        nodes = list(_compose_documents(text))
        return _read_nodes(nodes, reader, top=top)
    except yaml.YAMLError as error:
        return _make_unread(build_yaml_finding(error, text, file=file))
    except RecursionError:
        return _make_unread(_make_flaw(top, "too_large", message="is nested too deep"))
    except _TooLargeError:
        message = f"stands for more than {_MOST_VALUES:,} values: aliases of aliases multiply"
        return _make_unread(*reader.flaws, _make_flaw(top, "too_large", message=message))


def _read_nodes(nodes: list[Any], reader: _Reader, *, top: FilePosition) -> YAMLDocument:
    if not nodes or (isinstance(nodes[0], yaml.ScalarNode) and nodes[0].tag == f"{_TAG}null"):
        tree = LocatedValue(value={}, place=top)
    elif not isinstance(nodes[0], yaml.MappingNode):
        message = f"must hold a mapping, not {quote(_describe_node(nodes[0]))}"
        return _make_unread(_make_flaw(reader.place(nodes[0]), "wrong_type", message=message))
    else:
        tree = reader.read(nodes[0], ())
    for node in nodes[1:]:
        if not (isinstance(node, yaml.ScalarNode) and not node.value):
            message = "is a second document in the file: Helm 3 reads only the first one"
            reader.flaws.append(_make_flaw(reader.place(node), "second_document", message=message))
            break
    return YAMLDocument(tree=tree, flaws=tuple(reader.flaws))


def _compose_documents(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            yield loader.get_node()
    except (ValueError, OverflowError):  # PyYAML calls chr(), which raises an error for an escape such as \UFFFFFFFF
        raise ScannerError(None, None, "found an escape that is no character", loader.get_mark()) from None
    finally:
        loader.dispose()


def _make_unread(*flaws: Finding) -> YAMLDocument:
    return YAMLDocument(
        tree=LocatedValue(value={}, place=flaws[0].place or FilePosition("", 1, 1)), flaws=flaws, is_read=False
    )


def _make_flaw(place: FilePosition, code: str, *, message: str, path: KeyPath = ()) -> Finding:
    return Finding(severity=Severity.ERROR, code=code, path=format_path(path), message=message, place=place)


def _describe_node(node: Any) -> object:
    return node.value if isinstance(node, yaml.ScalarNode) else []


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._left = _MOST_VALUES
        self._open: set[int] = set()
        self.flaws: list[Finding] = []

    def place(self, node: Any) -> FilePosition:
        return FilePosition(self._file, node.start_mark.line + 1, node.start_mark.column + 1)

    def read(self, node: Any, path: KeyPath, *, key: FilePosition | None = None) -> LocatedValue:
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        value: Any = None
        if id(node) in self._open:
            self._add(node, path, code="bad_value", message="contains itself, by an alias of its own anchor")
        elif isinstance(node, yaml.ScalarNode):
            value = self._scalar(node, path)
        else:
            self._open.add(id(node))
            if isinstance(node, yaml.MappingNode):
                value = self._mapping(node, path)
            else:
                value = [self.read(entry, (*path, index)) for index, entry in enumerate(node.value)]
            self._open.discard(id(node))
        return LocatedValue(value=value, place=self.place(node), key=key)

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, LocatedValue]:
        merged: dict[str, LocatedValue] = {}
        own: dict[str, LocatedValue] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged |= self._merged(value_node, path)
                continue
            name = self._key(key_node, path)
            if name is None:
                continue
            if name in lines:
                message = f"is written twice, first on line {lines[name]}: Helm drops the first"
                self._add(key_node, (*path, name), code="duplicate_key", message=message)
            place = self.place(key_node)
            lines[name] = place.line
            own[name] = self.read(value_node, (*path, name), key=place)
        return {**merged, **own}

    def _merged(self, node: Any, path: KeyPath) -> dict[str, LocatedValue]:
        """Return the values that a merge key ``<<`` adds to the mapping that contains it.

        If ``<<`` has a list of mappings and several of them contain a key, the value in the first of them wins.
        """
        found: dict[str, LocatedValue] = {}
        for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(each, yaml.MappingNode):
                value = self.read(each, path).value
                found = {**(value or {}), **found}
            else:
                message = "must be an alias of a mapping, or a list of them: << takes its keys over"
                self._add(each, (*path, "<<"), code="wrong_type", message=message)
        return found

    def _key(self, node: Any, path: KeyPath) -> str | None:
        """Return the string to which Helm converts a key, or None if the key is invalid."""
        if not isinstance(node, yaml.ScalarNode):
            message = "is a mapping or list in the place of a key; a text with { or [ at its beginning needs quotes"
            self._add(node, path, code="wrong_type", message=message)
            return None
        value = self._scalar(node, path)
        if value is None:
            self._add(node, path, code="wrong_type", message="has a key that is empty or null; write it in quotes")
            return None
        name = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
        if not isinstance(value, str) and name != node.value:
            message = f"is read as {quote(name)}: write the key in quotes, {quote(str(node.value))}"
            self._add(node, (*path, str(node.value)), code="bad_value", message=message)
        return name

    def _scalar(self, node: Any, path: KeyPath) -> Any:
        kind, text = _SCALARS.get(node.tag), str(node.value)
        try:
            match kind:
                case "str" | "merge":
                    return text
                case "null":
                    return None
                case "bool":
                    return text.lower() in _TRUE
                case "int":
                    return _parse_int(text)
                case "float":
                    return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self._add(node, path, code="bad_value", message=f"is no number that can be read: {quote(text)}")
            return text
        self._add(node, path, code="bad_value", message=_describe_unknown_tag(node.tag))
        return text

    def _add(self, node: Any, path: KeyPath, *, code: str, message: str) -> None:
        self.flaws.append(_make_flaw(self.place(node), code, message=message, path=path))


def _describe_unknown_tag(tag: str) -> str:
    shown = tag.replace(_TAG, "!!")
    return f"has the tag {sanitize_name(shown)}, which means nothing in values; leave it out"


def _parse_int(text: str) -> int | float:
    """Return a whole number as go-yaml reads it, including ``0x1F``, ``0b1``, ``0o17`` and ``017``."""
    plain = text.replace("_", "")
    if re.fullmatch(r"[-+]?0[0-7]+", plain):
        return int(plain, 8)
    return int(plain, 0)


def strip_positions(tree: Mapping[str, LocatedValue]) -> dict[str, Any]:
    """Return the values of a mapping without their positions."""
    return {name: entry.plain for name, entry in tree.items()}
