"""Read JSON of unknown structure: for a value of an unexpected type, functions return an empty value or None."""

from __future__ import annotations

from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
"""Path to a value inside nested JSON: keys of objects and indexes of lists, from the outermost to the innermost."""


def as_dict(raw: object) -> dict[str, object]:
    """Return the value if it is a JSON object, else an empty object."""
    return raw if isinstance(raw, dict) else {}


def as_dicts(raw: object) -> list[dict[str, object]]:
    """Return a copy of a list in which {} replaces each element that is not an object; [] for any other value."""
    return [as_dict(entry) for entry in raw] if isinstance(raw, list) else []


def as_text(raw: object) -> str:
    """Return the value if it is text, else an empty text."""
    return raw if isinstance(raw, str) else ""


MAX_MESSAGE_LENGTH = 4096
"""Largest number of characters that :func:`as_message` returns."""


def as_message(raw: object) -> str:
    """Return a text that a component of Kubernetes wrote for people, cut to :data:`MAX_MESSAGE_LENGTH` characters.

    Such texts can contain what others wrote, for example a registry's error of tens of thousands of characters. Read
    each ``message`` and ``note`` of an object of the API through this function, so that all code after it is fast.
    """
    return as_text(raw)[:MAX_MESSAGE_LENGTH]


def as_texts(raw: object) -> tuple[str, ...]:
    """Return those elements of a list that are text, or () if the value is not a list."""
    return tuple(entry for entry in raw if isinstance(entry, str)) if isinstance(raw, list) else ()


def as_text_map(raw: object) -> dict[str, str]:
    """Return a JSON object with only the keys whose value is text, or an empty one if ``raw`` is of another type."""
    return {key: value for key, value in as_dict(raw).items() if isinstance(value, str)}


def as_int(raw: object) -> int | None:
    """Return the value if it is a whole number, else None; a bool does not count as a number."""
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None


def find_condition(raw: Mapping[str, object], kind: str) -> dict[str, object]:
    """Return the entry of a Kubernetes object's ``status.conditions`` with the given type, or {} if there is none."""
    conditions = as_dicts(as_dict(raw.get("status")).get("conditions"))
    return next((each for each in conditions if each.get("type") == kind), {})
