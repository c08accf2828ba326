"""A user's own text inside a message: short, on one line, and visibly a quotation."""

from __future__ import annotations

from collections.abc import Collection

from gpuspawner.core.text.language import gettext
from gpuspawner.core.text.lookalikes import find_closest_word
from gpuspawner.core.text.sentences import join_sentences

_MAX_QUOTED = 40
"""Characters of a user's text that a message repeats."""


def quote(value: object) -> str:
    """Return a value as a message may repeat it; what is no text or small number is only named by its type."""
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_QUOTED else value[: _MAX_QUOTED - 1] + "…")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # Python refuses to write very long numbers; nobody wants to read them either.
    if isinstance(value, int | float) and abs(value) < 10**_MAX_QUOTED:
        return repr(value)
    if isinstance(value, int | float):
        return gettext("a number")
    return gettext("a list") if isinstance(value, list | tuple) else gettext("an object")


def sanitize_name(key: object) -> str:
    """Return the name of a field nobody knows, cut to what a message may repeat and without control characters."""
    return quote(key)[1:-1] if isinstance(key, str) else quote(key)


def suggest_name(wrong: object, allowed: Collection[str]) -> str:
    """Return `` Did you mean 'gpu_count'?`` for the nearest allowed word, or an empty text."""
    meant = find_closest_word(wrong[:_MAX_QUOTED], allowed) if isinstance(wrong, str) else ""
    return " " + gettext("Did you mean {name}?", name=repr(meant)) if meant else ""


def describe_unknown_field(name: object, known: Collection[str]) -> str:
    """Return that there is no field of a name, and which there are."""
    unknown = gettext("There is no field {name}.", name=quote(name))
    return join_sentences(
        unknown, suggest_name(name, known).strip(), gettext("Fields are {names}.", names=", ".join(known))
    )


def format_list(slugs: Collection[str], *, max_items: int = 12) -> str:
    """Return slugs as a list for a sentence, cut after ``max_items``."""
    shown = ", ".join(list(slugs)[:max_items])
    if len(slugs) <= max_items:
        return shown
    return gettext("{names} and {number} more", names=shown, number=len(slugs) - max_items)
