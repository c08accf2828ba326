"""A language that shows what was not translated: words of messages stand in brackets there, everything else is bare."""

from __future__ import annotations

import re
from gettext import NullTranslations

from gpuspawner.core.text.i18n import Language

LEFT, RIGHT = "⟦", "⟧"
_PARTS = re.compile(r"\{\w+\}|[^{}]+")


class _Marked(NullTranslations):
    def gettext(self, message: str) -> str:
        # The values filled in stay outside: they may be words without a translation.
        return "".join(part if part[0] == "{" else f"{LEFT}{part}{RIGHT}" for part in _PARTS.findall(message))

    def ngettext(self, one: str, many: str, number: int) -> str:
        return self.gettext(one if number == 1 else many)


PSEUDO = Language(tag="qps", translations=_Marked())


def bare(text: str) -> str:
    """Return the text outside of all brackets, without quotes of text that an admin or user wrote."""
    depth, outside = 0, []
    for letter in text:
        depth += {LEFT: 1, RIGHT: -1}.get(letter, 0)
        if not depth:
            outside.append(" " if letter == RIGHT else letter)
    return re.sub(r"'[^']*'", "", "".join(outside)).strip()
