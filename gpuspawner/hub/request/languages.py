"""Loads the available languages and chooses the one for a request.

The build compiles each ``gpuspawner/locale/<language>.po`` for gettext. English needs no file and is the fallback.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations
from typing import Any

from gpuspawner._resources import data_dir
from gpuspawner.core.text.i18n import ENGLISH, Language, set_language

LANGUAGE_FIELD = "_language"
"""Name of the hidden form field that contains the form's language.

JupyterHub does not pass the request to the method that reads a sent form. A form in a language other than English
therefore sends its language in this field.
"""

_MAX_HEADER_CHARACTERS = 400
"""Maximum number of characters that gpuspawner reads from the header ``Accept-Language``; browsers send about 50."""
_ALIASES: Mapping[str, str] = {"zh-hans": "zh-cn", "zh-sg": "zh-cn"}
"""Alias of a language tag → tag of an available language, both in lower case."""


_is_named_by_request: ContextVar[bool] = ContextVar("gpuspawner_language_is_told", default=False)
"""Whether the current request sent a form in an available language. If so, the hub ignores the browser's languages."""

_log = logging.getLogger(__name__)


@cache
def load_languages() -> Mapping[str, Language]:
    """Return a mapping from language tag, in lower case, to available language."""
    found = {ENGLISH.tag: ENGLISH}
    for path in sorted(data_dir("locale").glob("*.mo")):
        tag = path.stem.replace("_", "-")
        try:
            with path.open("rb") as file:
                found[tag.lower()] = Language(tag=tag, translations=GNUTranslations(file))
        except (OSError, ValueError, struct.error) as error:
            _log.warning("The messages of %s cannot be read, so no user sees this language: %s", tag, error)
    return found


def note_request_language(handler: Any, *, choice: str = "") -> None:
    """Set the language for this request. Call this in the request's own task: the language is a context variable.

    :param handler: tornado's handler of the request; None outside a request, so that only ``choice`` has an effect.
    :param choice: language tag that the admin configured, which overrides the browser's languages; empty for none.
    """
    request = getattr(handler, "request", None)
    if chosen := load_languages().get(choice.lower()):
        set_language(chosen)
    elif request is not None and not _is_named_by_request.get():
        set_language(pick_locale(request.headers.get("Accept-Language", "")))


def recall_form_language(tag: object) -> None:
    """Set the language for this request to the language of the sent form; ignore an unavailable language.

    During this request, :func:`note_request_language` then ignores the browser's languages.

    :param tag: language tag from the form, or a list of tags. Only the last tag of a list counts. The value is
        untrusted.
    """
    texts = tag if isinstance(tag, list) else [tag]
    found = [load_languages().get(text.lower()) for text in texts if isinstance(text, str)]
    if found and found[-1] is not None:
        set_language(found[-1])
        _is_named_by_request.set(True)


def pick_locale(accepted: str) -> Language:
    """Return the available language that a browser prefers, or English if no language of the browser is available.

    :param accepted: value of the header ``Accept-Language`` (RFC 9110, 12.5.4), matched by "Lookup" (RFC 4647, 3.4).
    """
    for tag in _sort_by_quality(accepted[:_MAX_HEADER_CHARACTERS].lower().split(",")):
        found = _find_language(tag)
        if found is not None:
            return found
    return ENGLISH


def _sort_by_quality(ranges: Iterable[str]) -> list[str]:
    weighted = []
    for each in ranges:
        tag, _, quality = each.replace(" ", "").partition(";q=")
        try:
            weighted.append((float(quality or 1), tag))
        except ValueError:
            continue
    acceptable = [(weight, tag) for weight, tag in weighted if 0 < weight <= 1]
    return [tag for _, tag in sorted(acceptable, key=lambda pair: -pair[0])]


def _find_language(tag: str) -> Language | None:
    """Return the available language for a tag; None if there is none.

    If the tag is not available, try shorter tags (``de`` for ``de-at``), then longer tags (``zh-cn`` for ``zh``).
    """
    known = load_languages()
    shorter = tag
    while shorter:
        name = _ALIASES.get(shorter, shorter)
        if name in known:
            return known[name]
        shorter = shorter.rpartition("-")[0]
    return next((language for name, language in known.items() if name.startswith(f"{tag}-")), None)
