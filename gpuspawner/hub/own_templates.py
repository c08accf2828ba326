"""The package's own templates, without what only readers of the source need: pages ask for the form again and again."""

from __future__ import annotations

import re
from collections.abc import Callable

from jinja2 import Environment, FileSystemLoader
from typing_extensions import override

_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{2,}")
_COMMENTS = {
    ".css": re.compile(r"^[ \t]*/\*.*?\*/[ \t]*$", re.MULTILINE | re.DOTALL),
    ".js": re.compile(r"^[ \t]*(?://[^\n]*|/\*\*.*?\*/[ \t]*)$", re.MULTILINE | re.DOTALL),
}
"""Comments on lines of their own; none of our scripts has text over several lines, where one may seem to be."""
_AROUND = re.compile(r"\s*([{};])\s*|([:,])\s+")
"""Space that a style sheet does not need. Before a colon it may stand for "inside": ``a :hover`` is no ``a:hover``."""


class OwnTemplates(FileSystemLoader):
    """A loader of the package's templates; a site's are left as the site wrote them."""

    @override
    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return a template in short, its file, and whether that is still the same."""
        source, file, is_current = super().get_source(environment, template)
        return shortened(source, template), file, is_current


def shortened(source: str, name: str) -> str:
    """Return the text of a file without indentation, and without comments where it is a script or a style sheet.

    Lines of HTML stay, so that errors name the right one.
    """
    comments = _COMMENTS.get(name[name.rfind(".") :])
    if comments is None:
        return _INDENTATION.sub("", source)
    code = _EMPTY_LINES.sub("\n", _INDENTATION.sub("", comments.sub("", source)))
    return _AROUND.sub(r"\1\2", code) if name.endswith(".css") else code
