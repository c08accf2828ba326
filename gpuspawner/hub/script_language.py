"""The form's script in the language of a request: translated as it is sent, so that a page holds one language.

``t("…")`` and ``tn("…", "…", number)`` in a script are what gettext's functions are elsewhere: templates/language.js.
"""

from __future__ import annotations

import json
import re

from gpuspawner.core.language import ENGLISH, spoken

_TEXT = r'"((?:[^"\\\n]|\\.)*)"'
_ONE = re.compile(rf"\bt\({_TEXT}")
_COUNTED = re.compile(rf"\btn\({_TEXT}, ?{_TEXT}")
_RULE = re.compile(r"n ?!= ?1")
"""English's rule for plurals, in C as in JavaScript; it stands nowhere else in our scripts."""
_HEADER = re.compile(r"plural=\s*([^;]+)")


def translated(source: str) -> str:
    """Return a script with its messages, and its rule for plurals, in the language spoken now."""
    language = spoken()
    if language is ENGLISH:
        return source
    catalogue = language.catalogue
    rule = _HEADER.search(catalogue.info().get("plural-forms", ""))
    plural = getattr(catalogue, "plural", lambda number: int(number != 1))
    # No language's rule tells numbers apart by more than what the first two hundred have.
    numbers = {plural(number): number for number in reversed(range(200))}

    def one(found: re.Match[str]) -> str:
        return f"t({_written(catalogue.gettext(_read(found[1])))}"

    def counted(found: re.Match[str]) -> str:
        singular, many = _read(found[1]), _read(found[2])
        forms = [catalogue.ngettext(singular, many, numbers[form]) for form in sorted(numbers)]
        return f"tn([{','.join(map(_written, forms))}],0"

    text = _COUNTED.sub(counted, _ONE.sub(one, source))
    # gettext has made a function of it already, and takes nothing but arithmetic.
    return _RULE.sub(lambda _: rule[1], text) if rule else text


def _read(literal: str) -> str:
    text: str = json.loads(f'"{literal}"')
    return text


def _written(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
