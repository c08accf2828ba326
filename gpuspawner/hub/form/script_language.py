"""Translates the form's script on the server, so that the page carries one language only.

Scripts mark messages with ``t("…")`` and ``tn("…", "…", number)``, see templates/language.js.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from gettext import NullTranslations

from gpuspawner.core.text.i18n import ENGLISH, get_language

_TEXT = r'"((?:[^"\\\n]|\\.)*)"'
_ONE = re.compile(rf"\bt\({_TEXT}")
_COUNTED = re.compile(rf"\btn\({_TEXT}, ?{_TEXT}")
_RULE = re.compile(r"Number\(n ?!= ?1\)")
"""English's plural rule in templates/language.js."""
_HEADER = re.compile(r"[^;]*;\s*plural\s*=\s*([n0-9\s()!=<>&|?:%*/+-]+?)\s*;?\s*")
"""A plural rule of gettext: the subset of C that is also valid JavaScript."""
_PLURAL_SAMPLES = (*range(200), 1_000_000)
"""These numbers cover every plural form of every rule."""


def translate_script(source: str) -> str:
    """Return a script with messages and plural rule in the current language.

    Unknown messages stay, because a site's script may have functions with the same names.

    :param source: JavaScript.
    """
    language = get_language()
    if language is ENGLISH:
        return source
    catalogue = language.translations

    def one(found: re.Match[str]) -> str:
        message = _parse_literal(found[1])
        return found[0] if message is None else f"t({_format_literal(catalogue.gettext(message))}"

    text = _ONE.sub(one, source)
    rule = _HEADER.fullmatch(catalogue.info().get("plural-forms", ""))
    if rule is None:
        return text
    return _RULE.sub(lambda _: f"Number({rule[1]})", _COUNTED.sub(_make_plural_replacer(catalogue), text))


def _make_plural_replacer(catalogue: NullTranslations) -> Callable[[re.Match[str]], str]:
    """Return a replacement function that writes all plural forms of a message instead of the two English ones."""
    plural = getattr(catalogue, "plural", lambda number: int(number != 1))
    numbers = {plural(number): number for number in reversed(_PLURAL_SAMPLES)}
    last = numbers[max(numbers)]

    def counted(found: re.Match[str]) -> str:
        singular, many = _parse_literal(found[1]), _parse_literal(found[2])
        if singular is None or many is None:
            return found[0]
        forms = [catalogue.ngettext(singular, many, numbers.get(form, last)) for form in range(max(numbers) + 1)]
        return f"tn([{','.join(map(_format_literal, forms))}],0"

    return counted


def _parse_literal(literal: str) -> str | None:
    """Return the text of a string literal, or None if it is not valid JSON as our own literals are."""
    try:
        text: str = json.loads(f'"{literal}"')
    except ValueError:
        return None
    return text


def _format_literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
