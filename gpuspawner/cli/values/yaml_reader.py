"""Reads a YAML file as Helm does, with the position of every key and value.

Helm converts keys to strings and knows the booleans of YAML 1.1 (``yes`` is true), but no dates. Helm 3 reads only the
first document of a file; Helm 4 merges all documents.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
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
_MOST_VALUES = 100_000
"""Maximum number of values in a file. The values of an anchor count again for each alias."""


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

    :param tree: an empty mapping if the file cannot be read.
    :param flaws: mistakes in the file.
    :param is_read: false if the file cannot be read.
    """

    tree: LocatedValue
    flaws: tuple[Finding, ...] = ()
    is_read: bool = True


class _UnreadableError(Exception):
    """The file cannot be read; the argument is the finding that says why."""


class _Loader(yaml.SafeLoader):
    """Loader that knows the types of unquoted scalars that Helm knows: YAML 1.1 without dates and base-60 numbers."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML's class declares it
    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012 - as above

    @override
    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next YAML node; forget an earlier anchor of its name first: PyYAML rejects repeated anchors."""
        if not self.check_event(yaml.AliasEvent):
            self.anchors.pop(getattr(self.peek_event(), "anchor", None), None)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)


_TAG = "tag:yaml.org,2002:"
_SCALAR_PATTERNS = (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$",
     list("yYnNtTfFoO")),
    ("int", r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)$", list("-+0123456789")),
    ("float", r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
     r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", list("-+0123456789.")),
    ("merge", r"^(?:<<)$", ["<"]),
)  # fmt: skip
"""Rules by which Helm recognizes the type of an unquoted scalar.

Each row is (name of the type, pattern of its scalars, characters with which its scalars may begin).
"""
for _name, _pattern, _first in _SCALAR_PATTERNS:
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(_pattern), _first)


def read_file(file: str) -> YAMLDocument:
    """Return the values of a YAML file with their positions, and the file's mistakes.

    :param file: name; ``-`` is the standard input.
    :raises OSError: the file cannot be read.
    """
    # Read little more than the maximum, because a pipe may never end.
    if file == "-":
        return read_yaml(sys.stdin.buffer.read(MAX_INPUT_SIZE + 1), file="<stdin>")
    with Path(file).open("rb") as opened:
        return read_yaml(opened.read(MAX_INPUT_SIZE + 1), file=file)


def read_yaml(content: bytes, *, file: str) -> YAMLDocument:
    """Return the values of a YAML file with their positions, and the file's mistakes.

    :param file: name of the file, which positions in the result contain.
    """
    top = FilePosition(file, 1, 1)
    reader = _Reader(file)
    try:
        nodes = list(_compose_documents(_decode(content, top)))
        return YAMLDocument(tree=reader.read_documents(nodes, top), flaws=tuple(reader.flaws))
    except yaml.YAMLError as error:
        flaw = _explain_error(error, top)
    except RecursionError:
        flaw = _make_flaw(top, "too_large", message="is nested too deep")
    except _UnreadableError as error:
        (flaw,) = error.args
    return YAMLDocument(tree=LocatedValue(value={}, place=top), flaws=(*reader.flaws, flaw), is_read=False)


def _decode(content: bytes, top: FilePosition) -> str:
    if len(content) > MAX_INPUT_SIZE:
        message = f"has more than {MAX_INPUT_SIZE // 1024**2} MiB, so it was not read"
        raise _UnreadableError(_make_flaw(top, "too_large", message=message))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is no text in UTF-8: byte {error.start + 1} fits nowhere"
        raise _UnreadableError(_make_flaw(top, "bad_yaml", message=message)) from error


def _compose_documents(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            yield loader.get_node()
    except (ValueError, OverflowError):  # PyYAML calls chr(), which raises an error for an escape such as \UFFFFFFFF
        raise ScannerError(None, None, "found an escape that is no character", loader.get_mark()) from None
    finally:
        loader.dispose()


_ENDED = re.compile(
    r"could not find expected ':'|unexpected end of stream|unexpected document separator|but got '<stream end>'"
)
"""Errors that the parser notices only behind the faulty text: a quote or bracket, or a key without a colon."""


def _explain_error(error: yaml.YAMLError, top: FilePosition) -> Finding:
    mark, opened = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if opened is not None and _ENDED.search(str(error)):
        mark = opened
    place = top if mark is None else FilePosition(top.file, mark.line + 1, mark.column + 1)
    parts = (getattr(error, "context", None), getattr(error, "problem", None) or getattr(error, "reason", None))
    reason = ": ".join(filter(None, parts)) or str(error)
    shown = reason if reason.isprintable() else sanitize_name(reason)
    return _make_flaw(place, "bad_yaml", message=f"is no YAML: {shown}")


def _make_flaw(place: FilePosition, code: str, *, message: str, path: KeyPath = ()) -> Finding:
    return Finding(severity=Severity.ERROR, code=code, path=format_path(path), message=message, place=place)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._left = _MOST_VALUES
        self._scalars = _Loader("")
        self.flaws: list[Finding] = []

    def read_documents(self, nodes: list[Any], top: FilePosition) -> LocatedValue:
        for node in nodes[1:]:
            if not (isinstance(node, yaml.ScalarNode) and not node.value):
                message = "is a second document in the file: Helm 3 reads only the first one"
                self._add(node, (), code="second_document", message=message)
                break
        if not nodes or (isinstance(nodes[0], yaml.ScalarNode) and nodes[0].tag == f"{_TAG}null"):
            return LocatedValue(value={}, place=top)
        if not isinstance(nodes[0], yaml.MappingNode):
            shown = quote(nodes[0].value if isinstance(nodes[0], yaml.ScalarNode) else [])
            message = f"must hold a mapping, not {shown}"
            raise _UnreadableError(_make_flaw(self._place(nodes[0]), "wrong_type", message=message))
        return self._read(nodes[0], ())

    def _place(self, node: Any) -> FilePosition:
        return FilePosition(self._file, node.start_mark.line + 1, node.start_mark.column + 1)

    def _read(self, node: Any, path: KeyPath, *, key: FilePosition | None = None) -> LocatedValue:
        self._left -= 1
        if self._left < 0:
            message = f"stands for more than {_MOST_VALUES:,} values: aliases of aliases multiply"
            raise _UnreadableError(_make_flaw(FilePosition(self._file, 1, 1), "too_large", message=message))
        value: Any
        if isinstance(node, yaml.ScalarNode):
            value = self._read_scalar(node, path)
        elif isinstance(node, yaml.MappingNode):
            value = self._read_mapping(node, path)
        else:
            value = [self._read(entry, (*path, index)) for index, entry in enumerate(node.value)]
        return LocatedValue(value=value, place=self._place(node), key=key)

    def _read_mapping(self, node: Any, path: KeyPath) -> dict[str, LocatedValue]:
        merged: dict[str, LocatedValue] = {}
        own: dict[str, LocatedValue] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged |= self._read_merged(value_node, path)
                continue
            name = self._read_key(key_node, path)
            if name is None:
                continue
            if name in own:
                first = own[name].key
                message = f"is written twice, first on line {first.line if first else 0}: Helm drops the first"
                self._add(key_node, (*path, name), code="duplicate_key", message=message)
            own[name] = self._read(value_node, (*path, name), key=self._place(key_node))
        return {**merged, **own}

    def _read_merged(self, node: Any, path: KeyPath) -> dict[str, LocatedValue]:
        """Return the values that a merge key ``<<`` adds to the mapping that contains it.

        If ``<<`` has a list of mappings and several of them contain a key, the value in the first of them wins.
        """
        values: dict[str, LocatedValue] = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode):
                values = {**self._read(source, path).value, **values}
            else:
                message = "must be an alias of a mapping, or a list of them: << takes its keys over"
                self._add(source, (*path, "<<"), code="wrong_type", message=message)
        return values

    def _read_key(self, node: Any, path: KeyPath) -> str | None:
        """Return the string to which Helm converts a key, or None if the key is invalid."""
        value = self._read_scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        if value is None:
            message = "has a key that is null, a mapping or a list; write a text with { or [ in quotes"
            self._add(node, path, code="wrong_type", message=message)
            return None
        name = str(value).lower() if isinstance(value, bool) else str(value)
        if not isinstance(value, str) and name != node.value:
            message = f"is read as {quote(name)}: write the key in quotes, {quote(str(node.value))}"
            self._add(node, (*path, str(node.value)), code="bad_value", message=message)
        return name

    def _read_scalar(self, node: Any, path: KeyPath) -> Any:
        if node.tag == f"{_TAG}merge":  # as a value, << is a text
            return node.value
        message = (
            f"has the tag {sanitize_name(node.tag.replace(_TAG, '!!'))}, which means nothing in values; leave it out"
        )
        try:
            value = self._scalars.construct_object(node)
            if value is None or isinstance(value, str | int | float):
                return value
        except yaml.YAMLError:
            pass  # PyYAML does not know the tag
        except (ValueError, LookupError):
            message = f"is no number that can be read: {quote(str(node.value))}"
        self._add(node, path, code="bad_value", message=message)
        return node.value

    def _add(self, node: Any, path: KeyPath, *, code: str, message: str) -> None:
        self.flaws.append(_make_flaw(self._place(node), code, message=message, path=path))
