"""Which languages people can be spoken to in, and which one a request is answered in.

Each language is one file, ``gpuspawner/locale/<language>.po``, which the build compiles to what gettext reads. English
needs none, and is what a person gets whose languages are not there.
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
"""Name of the form's field that says which language the form was in: JupyterHub shows no request to who reads it."""

_MAX_HEADER_CHARACTERS = 400
"""Characters of an ``Accept-Language`` header that are read; browsers send about 50."""
_ALIASES: Mapping[str, str] = {"zh-hans": "zh-cn", "zh-sg": "zh-cn"}
"""Other names of languages that are there, in small letters: Chinese in simplified characters has three."""


_is_named_by_request: ContextVar[bool] = ContextVar("gpuspawner_language_is_told", default=False)
"""The request itself said which language it is in."""

_log = logging.getLogger(__name__)


@cache
def load_languages() -> Mapping[str, Language]:
    """Return the languages there are, by tag in small letters."""
    found = {ENGLISH.tag: ENGLISH}
    for path in sorted(data_dir("locale").glob("*.mo")):
        tag = path.stem.replace("_", "-")
        try:
            with path.open("rb") as file:
                found[tag.lower()] = Language(tag=tag, translations=GNUTranslations(file))
        except (OSError, ValueError, struct.error) as error:
            _log.warning("The messages of %s cannot be read, so nobody is spoken to in it: %s", tag, error)
    return found


def note_request_language(handler: Any, *, choice: str = "") -> None:
    """Answer this request in the language that its browser asks for; to be called in the request's own task.

    :param handler: tornado's, of the request; nothing changes without one.
    :param choice: the admin's, a tag; it comes before anybody's browser.
    """
    request = getattr(handler, "request", None)
    if chosen := load_languages().get(choice.lower()):
        set_language(chosen)
    elif request is not None and not _is_named_by_request.get():
        set_language(pick_locale(request.headers.get("Accept-Language", "")))


def recall_form_language(tag: object) -> None:
    """Answer this request in the language of a form; nothing changes where it is none that is there.

    What its browser asks for counts no more, also not when JupyterHub names the request later.

    :param tag: as a form has sent it, or a list of what it has sent: input from a stranger.
    """
    texts = tag if isinstance(tag, list) else [tag]
    found = [load_languages().get(text.lower()) for text in texts if isinstance(text, str)]
    if found and found[-1] is not None:
        set_language(found[-1])
        _is_named_by_request.set(True)


def pick_locale(accepted: str) -> Language:
    """Return the language of those that are there which somebody likes best, English where there is none.

    :param accepted: header ``Accept-Language`` (RFC 9110, 12.5.4; its ranges are looked up as RFC 4647, 3.4, says).
    """
    for tag in _sort_by_quality(accepted[:_MAX_HEADER_CHARACTERS].lower().split(",")):
        found = _find_language(tag)
        if found is not None:
            return found
    return ENGLISH


def _sort_by_quality(ranges: Iterable[str]) -> list[str]:
    """Return the tags of language ranges, the best liked first, without those that are not wanted."""
    liked = []
    for each in ranges:
        tag, _, quality = each.replace(" ", "").partition(";q=")
        try:
            liked.append((float(quality or 1), tag))
        except ValueError:
            continue
    wanted = [(weight, tag) for weight, tag in liked if 0 < weight <= 1]
    return [tag for _, tag in sorted(wanted, key=lambda pair: -pair[0])]


def _find_language(tag: str) -> Language | None:
    """Return the language of a tag, of the tag without its last parts, or the only one that is more exact than it."""
    known = load_languages()
    shorter = tag
    while shorter:
        name = _ALIASES.get(shorter, shorter)
        if name in known:
            return known[name]
        shorter = shorter.rpartition("-")[0]
    return next((language for name, language in known.items() if name.startswith(f"{tag}-")), None)
