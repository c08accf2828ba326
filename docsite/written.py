"""How the value of a setting is written, in words, from the annotation of its model."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BeforeValidator, StringConstraints
from pydantic.fields import FieldInfo

from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_memory
from gpuspawner.core.value_types import FromSettings, OneOf


@dataclass(frozen=True, slots=True)
class Notation:
    """How values of one kind are written.

    :param words: told in the reference.
    :param show: writes a default.
    """

    words: str
    show: Callable[[Any], str] = str


def _listed(values: Any) -> str:
    return ", ".join(str(value) for value in values) or "empty"


_UNLIMITED = ", or `unlimited`"
_CPU = Notation("number of CPUs (`0.5`, `500m`)", lambda millis: f"{millis / 1000:g}")
_MEMORY = Notation("amount (`16G`, powers of 1024)", format_memory)
_LENGTH = Notation("duration (`30m`, `8h`, `2h30m`)", format_duration)
_TEXT = Notation("text")

# By the name of the validator, with its module where two are called the same.
_NOTATIONS = {
    "gpuspawner.core.units.quantity.parse_cpu": _CPU,
    "gpuspawner.core.units.quantity.parse_memory": _MEMORY,
    "gpuspawner.core.value_types._parse_run_time": _LENGTH,
    "gpuspawner.core.value_types._require_quoted_version": Notation('version in quotes (`"12.8"`)'),
    "gpuspawner.core.value_types.require_quoted_text": _TEXT,
    "gpuspawner.core.catalog.image_reference._parse_image_origin": Notation(
        "registry, or the beginning of names in one (`quay.io/jupyter`)"
    ),
    "gpuspawner.core.value_types._parse_one_or_many": Notation("text or list of texts"),
    "gpuspawner.core.catalog.policy_model._parse_count_limit": Notation(f"whole number from 0 on{_UNLIMITED}"),
    "gpuspawner.core.catalog.policy_model._parse_run_time_limit": Notation(_LENGTH.words + _UNLIMITED),
    "gpuspawner.core.catalog.policy_model._parse_cpu_limit": Notation(_CPU.words + _UNLIMITED),
    "gpuspawner.core.catalog.policy_model._parse_memory_limit": Notation(_MEMORY.words + _UNLIMITED),
    "gpuspawner.core.catalog.policy_model._parse_slugs": Notation("list of slugs, or `*` for all", _listed),
    "gpuspawner.core.catalog.policy_model._parse_types": Notation("`*`, list of slugs, or mapping of slugs to limits"),
}


def notation(annotation: Any) -> Notation:
    """Return how values of an annotation are written.

    :raises KeyError: a validator of which nothing is said here: add it.
    """
    base, extras = _apart(annotation)
    for extra in extras:
        if isinstance(extra, BeforeValidator | AfterValidator) and extra.func.__qualname__ != "_drop_nulls":
            known = _NOTATIONS[f"{extra.func.__module__}.{extra.func.__qualname__}"]
            return _with_limits(known, extras) if known is _TEXT else known
        if isinstance(extra, OneOf):
            return Notation(" or ".join(f"`{choice}`" for choice in extra.values))
    origin = get_origin(base)
    if origin in (list, tuple):
        return Notation(f"list of {_plural(notation(get_args(base)[0]).words)}", _listed)
    if origin in (dict, Mapping) or (isinstance(base, type) and issubclass(base, FromSettings)):
        return Notation("mapping", lambda value: "empty" if not value else "")
    if base is bool:
        return Notation("`true` or `false`", lambda value: str(value).lower())
    if base is str:
        return _with_limits(_TEXT, extras)
    return Notation(f"{'whole number' if base is int else 'number'}{_range(extras)}")


def model_in(annotation: Any) -> tuple[type | None, str]:
    """Return the model that an annotation holds, and what stands between its key and those of the model.

    That is nothing, ``.NAME`` in a mapping whose keys are free, ``[]`` in a list.
    """
    base, _ = _apart(annotation)
    if isinstance(base, type) and issubclass(base, FromSettings):
        return base, ""
    if get_origin(base) in {list, tuple}:
        return model_in(get_args(base)[0])[0], "[]"
    if get_origin(base) in {dict, Mapping}:
        return model_in(get_args(base)[1])[0], ".NAME"
    return None, ""


def _apart(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return an annotation without ``None``, and what is said about it besides."""
    if get_origin(annotation) in {Union, types.UnionType}:
        (kept,) = [part for part in get_args(annotation) if part is not type(None)]
        return _apart(kept)
    if get_origin(annotation) is Annotated:
        base, *extras = get_args(annotation)
        inner, more = _apart(base)
        return inner, (*_unpacked(extras), *more)
    return annotation, ()


def _unpacked(extras: Iterable[Any]) -> Iterable[Any]:
    for extra in extras:
        yield extra
        if isinstance(extra, FieldInfo):
            yield from extra.metadata


def _with_limits(known: Notation, extras: tuple[Any, ...]) -> Notation:
    for extra in extras:
        if isinstance(extra, StringConstraints) and extra.max_length and not extra.pattern:
            return Notation(f"{known.words} of at most {extra.max_length:,} characters", known.show)
    return known


def _range(extras: Iterable[Any]) -> str:
    words = {Ge: "from {}", Gt: "above {}", Le: "to {}", Lt: "below {}"}
    names = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt"}
    found = [
        text.format(getattr(extra, names[kind]))
        for extra in extras
        for kind, text in words.items()
        if isinstance(extra, kind)
    ]
    return f" {' '.join(found)}" if found else ""


def _plural(words: str) -> str:
    head, _, tail = words.partition(" ")
    if head.startswith("`"):
        return words
    plural = {"registry,": "registries,"}.get(head, f"{head}s")
    return f"{plural} {tail}".strip()
