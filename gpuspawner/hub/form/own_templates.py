"""The package's own templates, without what only readers of the source need: pages ask for the form again and again."""

from __future__ import annotations

import re
from collections.abc import Callable

from jinja2 import Environment, FileSystemLoader
from typing_extensions import override

from gpuspawner.hub.form import own_scripts

_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)
_EXPRESSION = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\})", re.DOTALL)
_QUOTES = re.compile(r'(\s[\w-]+=)"([\w-]+)"(?=[\s>])')
"""Of an attribute whose value is one word, which needs none."""
_BLOCKS = "circle|details|div|fieldset|h2|label|legend|li|p|path|section|svg|ul"
_NEW_LINE = re.compile(rf"\n(?=<(?:/?(?:{_BLOCKS})|/button)\b)")
"""Before what begins or ends a line of the page in any case."""
_STYLE_TEXT = re.compile(r'("[^"]*")|/\*.*?\*/', re.DOTALL)
"""A text, or a comment, which is none inside a text."""
_STYLE_SPACE = re.compile(r"\s*([{};])\s*|([:,])\s+|\s+([>~])\s+")
"""Space that a style sheet does not need. Before a colon it may stand for "inside": ``a :hover`` is no ``a:hover``."""
_ZEROS = re.compile(r"(?<=[ :(,-])0(?=\.\d)")


class OwnTemplates(FileSystemLoader):
    """A loader of the package's templates; a site's are left as the site wrote them."""

    @override
    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return a template in short, its file, and whether that is still the same."""
        source, file, is_current = super().get_source(environment, template)
        return shortened(source, template), file, is_current


def shortened(source: str, name: str) -> str:
    """Return the text of a file without what a browser does not need of it.

    Lines of HTML stay, so that errors name the right one.
    """
    if name.endswith(".js"):
        return own_scripts.shortened(source)
    if name.endswith(".css"):
        return _shortened_style(source)
    return _shortened_page(_INDENTATION.sub("", source))


def _shortened_style(source: str) -> str:
    parts = _STYLE_TEXT.split(_STYLE_TEXT.sub(r"\1", source))
    parts[::2] = [_ZEROS.sub("", _STYLE_SPACE.sub(r"\1\2\3", style)).replace(";}", "}") for style in parts[::2]]
    return "".join(parts).strip() + "\n"


def _shortened_page(source: str) -> str:
    parts = _EXPRESSION.split(source)
    # What stays of a line that is left out is counted: a comment of the template.
    parts[::2] = [_NEW_LINE.sub("{#\n#}", _QUOTES.sub(r"\1\2", text)) for text in parts[::2]]
    return "".join(parts)
