"""Ids for the rows of ``parametrize``: what a row holds, so that a failure's name says which row broke.

pytest names short texts, numbers and classes by itself. Everything else would be called ``row0``, ``row1`` and so on:
https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_make_parametrize_id
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import re
from collections.abc import Iterable, Mapping, Set
from pathlib import PurePath

MAX_CHARACTERS = 60
"""Of an id, as long as pytest shows it on one line beside the test's name."""
_NAMING = ("id", "name", "slug", "code", "key", "url", "text")
"""Attributes that name an object that has no other way to say what it is."""


def describe_row_value(value: object) -> str | None:
    """Return an id for one value of a row, None where pytest's own is good or nothing can be said.

    The same value has the same id in every process, as pytest-xdist needs it: sets are sorted, and no id holds an
    address.
    """
    if value is None or isinstance(value, bool | int | float | complex | type):
        return None
    text = _describe(value)
    if text is None:
        return None
    # As pytest writes its own: reports are XML, which not every character may stand in.
    text = text.encode("unicode_escape").decode("ascii") or "empty"
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 3]}..."


def _describe(value: object) -> str | None:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return str(value)
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Mapping):
        return _join(f"{_describe(key)}={_describe(each)}" for key, each in value.items()) or "{}"
    if isinstance(value, Set):
        return _join(sorted(str(_describe(each)) for each in value)) or "no element"
    if isinstance(value, list | tuple):
        return _join(str(_describe(each)) for each in value) or "()"
    if isinstance(value, range | slice | re.Pattern | datetime.datetime | datetime.timedelta | PurePath):
        return str(value.pattern if isinstance(value, re.Pattern) else value)
    return _describe_object(value)


def _describe_object(value: object) -> str | None:
    if isinstance(value, functools.partial):
        return _join(str(_describe(each)) for each in (value.func, *value.args, *value.keywords.values()))
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if dataclasses.is_dataclass(value):
        shown = (f"{field.name}={_describe(getattr(value, field.name))}" for field in _changed_fields(value))
        return f"{type(value).__name__}({_join(shown)})"
    for name in ("__name__", *_NAMING):
        if isinstance(named := getattr(value, name, None), str) and named not in ("", "<lambda>"):
            return named
    return type(value).__name__


def _changed_fields(value: object) -> Iterable[dataclasses.Field[object]]:
    """Yield the fields of a dataclass that differ from their defaults."""
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        if field.repr and getattr(value, field.name) not in (field.default, _default_of(field)):
            yield field


def _default_of(field: dataclasses.Field[object]) -> object:
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


def _join(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)
