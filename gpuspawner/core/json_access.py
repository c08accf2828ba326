"""Reads JSON of unknown shape: what is not of the expected kind reads as nothing of that kind, and never raises."""

from __future__ import annotations


def as_dict(raw: object) -> dict[str, object]:
    """Return a JSON object, an empty one for anything else."""
    return raw if isinstance(raw, dict) else {}


def as_dicts(raw: object) -> list[dict[str, object]]:
    """Return a list of JSON objects; an entry that is none is an empty one, what is no list is an empty list."""
    return [as_dict(entry) for entry in raw] if isinstance(raw, list) else []


def as_text(raw: object) -> str:
    """Return a text, an empty one for anything else."""
    return raw if isinstance(raw, str) else ""


def as_texts(raw: object) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(entry for entry in raw if isinstance(entry, str)) if isinstance(raw, list) else ()


def as_text_map(raw: object) -> dict[str, str]:
    """Return the entries of a JSON object that are texts."""
    return {key: value for key, value in as_dict(raw).items() if isinstance(value, str)}


def as_int(raw: object) -> int | None:
    """Return a whole number, None for anything else (bool is an int in Python, and no number here)."""
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None
