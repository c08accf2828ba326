"""Converts each of pydantic's errors to a problem: the YAML path, the reason and, for an unknown key, a similar key.

:class:`DottedPaths` finds the value that a path such as ``gpus.l4.match`` names, although keys may contain dots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpuspawner.core.errors import Problem
from gpuspawner.core.text.wording import format_list, quote, sanitize_name, suggest_name
from gpuspawner.core.value_types import FromSettings, list_keys

NodeT = TypeVar("NodeT")

PathPart = str | int
"""One part of a YAML path: a key of a mapping, or an index in a list."""


class DottedPaths(Generic[NodeT]):
    """Resolves paths such as ``gpus.l4.match`` in nested values, although keys may contain dots.

    :param entries: called with a mapping, list or other value, once for each; yields (name in a path, key or index,
        nested value).
    """

    def __init__(self, entries: Callable[[NodeT], Iterable[tuple[str, PathPart, NodeT]]]) -> None:
        self._entries = entries
        # The keys are ids of values. The reference to each value prevents that Python reuses its id.
        self._known: dict[int, tuple[NodeT, dict[str, list[tuple[PathPart, NodeT]]]]] = {}

    def follow(self, path: str, top: NodeT) -> tuple[tuple[PathPart, ...], str]:
        """Follow a path into ``top`` as far as the path exists there; return the part that exists, and the rest.

        The part that exists is returned as keys and indexes, the rest as text. If the whole path exists, the rest is
        empty.

        :param path: path with dots between its parts; empty for ``top`` itself.
        :param top: value in which the path starts.
        """
        best: tuple[tuple[PathPart, ...], str] = ((), path)
        named = self._named(top) if path else {}
        ends = [place for place, character in enumerate(path) if character == "."]
        for end in (*ends, len(path)):
            for part, entry in named.get(path[:end], ()):
                inside, rest = self.follow(path[end + 1 :], entry)
                if len(rest) < len(best[1]):
                    best = ((part, *inside), rest)
        return best

    def _named(self, value: NodeT) -> dict[str, list[tuple[PathPart, NodeT]]]:
        if id(value) not in self._known:
            named: dict[str, list[tuple[PathPart, NodeT]]] = {}
            for name, part, entry in self._entries(value):
                named.setdefault(name, []).append((part, entry))
            self._known[id(value)] = value, named
        return self._known[id(value)][1]


_WRONG_TYPE = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
}
_LIMITS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entry",
}


def explain_validation_errors(errors: Iterable[ErrorDetails], model: type[FromSettings]) -> list[Problem]:
    """Return a problem for each of pydantic's errors."""
    return [_make_problem(error, model) for error in errors]


def _make_problem(error: ErrorDetails, model: type[FromSettings]) -> Problem:
    place = tuple(part for part in error["loc"] if part != "[key]")
    path = ".".join(sanitize_name(str(part)) for part in place)
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "unexpected_keyword_argument":
        return Problem(field=path, code="unknown_key", message=_describe_unknown_key(place, model))
    if kind == "missing":
        return Problem(field=path, code="missing", message="is required")
    if kind in _WRONG_TYPE:
        subject = "the key must be" if "[key]" in error["loc"] else "must be"
        message = f"{subject} {_WRONG_TYPE[kind]}, not {quote(value)}"
        return Problem(field=path, code="wrong_type", message=message)
    if kind in _LIMITS:
        return Problem(
            field=path, code="out_of_range", message=f"{_LIMITS[kind].format(**context)}, not {quote(value)}"
        )
    if kind == "literal_error":
        return Problem(field=path, code="unknown_choice", message=_describe_unknown_choice(context, value))
    if kind == "pattern":
        subject = "the key " if "[key]" in error["loc"] else ""
        message = f"{subject}{error['msg']}, not {quote(value)}"
        return Problem(field=path, code="bad_value", message=message)
    return Problem(field=path, code="bad_value", message=_describe_error(error))


def _describe_error(error: ErrorDetails) -> str:
    kind, message, value, context = error["type"], error["msg"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return f"{context['error']}, not {quote(value)}"
    return f"{message[:1].lower()}{message[1:]}"


def _describe_unknown_choice(context: Mapping[str, Any], value: object) -> str:
    expected = str(context["expected"])
    choices = [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]
    return f"must be {expected}, not {quote(value)}.{suggest_name(value, choices)}".removesuffix(".")


def _describe_unknown_key(place: tuple[int | str, ...], model: type[FromSettings]) -> str:
    keys = _list_keys(place[:-1], model)
    return f"there is no such key.{suggest_name(place[-1], keys) or f' Keys here: {format_list(keys, max_items=20)}.'}"


def _list_keys(place: tuple[int | str, ...], model: type[FromSettings]) -> list[str]:
    keys, inside = _describe_keys(model), False
    for part in place:
        if inside:
            inside = False
            continue
        annotation = keys[str(part)].annotation
        inside = _holds_many(annotation)
        inner = _find_model(annotation)
        keys = keys if inner is None else _describe_keys(inner)
    return list(keys)


def _describe_keys(model: type) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in list_keys(model).items()}


def _holds_many(annotation: object) -> bool:
    """Return whether a field's type contains a dict or list.

    In a YAML path, the field's name is then followed by a key or an index.
    """
    return get_origin(annotation) in (dict, list, tuple, Mapping) or any(
        _holds_many(part) for part in get_args(annotation)
    )


def _find_model(annotation: object) -> type | None:
    if isinstance(annotation, type) and issubclass(annotation, FromSettings):
        return annotation
    return next((model for part in get_args(annotation) if (model := _find_model(part))), None)
