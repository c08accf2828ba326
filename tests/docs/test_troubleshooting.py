"""The messages in docs/troubleshooting.md are those of the code, so that a search for a message finds its row."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from functools import cache

import pytest
from babel.messages.pofile import read_po

from tests.docs.support.pages import ROOT

PAGE = ROOT / "docs/troubleshooting.md"
ROW = re.compile(r"^\| (?P<seen>.+?) \| .+ \| .+ \|$", re.MULTILINE)
MESSAGE = re.compile(r"`([^`]*[ …][^`]*)`")
PLACEHOLDER = re.compile(r"\{[^{}]*\}|%s")
COMMAND = re.compile(r"(inventory|explain|doctor|gpuspawner [a-z]+|torch\.|--)")


def messages() -> list[str]:
    """List the texts in backticks in the first column, except commands."""
    found = [text for row in ROW.finditer(PAGE.read_text()) for text in MESSAGE.findall(row["seen"])]
    return [text for text in found if not COMMAND.match(text)]


@cache
def texts() -> frozenset[str]:
    """Return the texts of the code and of the catalogs, with … for each value that is filled in."""
    catalog = read_po(io.BytesIO((ROOT / "gpuspawner/locale/de.po").read_bytes()))
    ids = [part for message in catalog for part in ((message.id,) if isinstance(message.id, str) else message.id)]
    code = [text for file in (ROOT / "gpuspawner").rglob("*.py") for text in _literals(ast.parse(file.read_text()))]
    return frozenset(PLACEHOLDER.sub("…", text) for text in (*ids, *code))


def _literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_known(message: str) -> bool:
    return any(message in text for text in texts())


@pytest.mark.parametrize("message", messages())
def test_a_message_is_one_of_the_code(message: str):
    assert is_known(message)


def test_there_are_messages_on_the_page():
    assert len(messages()) > 70


def test_a_message_that_the_code_does_not_have_is_found():
    assert not is_known("No room for your server opened up in …")
