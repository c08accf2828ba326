"""Texts for a reading test: docstrings and comments of the package, and paragraphs of its documentation."""

from __future__ import annotations

import ast
import random
import re
import textwrap
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from tests.arch.sources import Module, Modules, comments, docstrings, load_modules, read_sources

DOCUMENTS = ("docs/architecture.md", "CONTRIBUTING.md")
FEWEST_WORDS = 5
"""Shorter texts are not drawn."""


def draw_texts(count: int, seed: int, root: Path) -> str:
    """Return texts drawn from a checkout; the same ones for the same seed and the same checkout.

    Each docstring and comment comes with the definition or the line of code that a reader sees beside it.
    """
    modules = load_modules(read_sources("gpuspawner", root))
    documents = {path: (root / path).read_text() for path in DOCUMENTS}
    texts = find_texts(modules, documents)
    drawn = random.Random(seed).sample(texts, min(count, len(texts)))
    by_path = {module.path: module for module in modules.values()}
    return "\n\n".join(
        f"{number}. {place}\n{find_code(place, by_path)}{textwrap.indent(text, '    ')}"
        for number, (place, text) in enumerate(drawn, 1)
    )


def find_code(place: str, modules: Mapping[str, Module]) -> str:
    """Return the code beside a text, each line after ``>``; empty for a module's docstring and for a paragraph.

    :param place: of the text, as :func:`find_texts` returns it.
    :param modules: by path.
    """
    path, _, rest = place.partition(":")
    number, _, kind = rest.partition(" ")
    if path not in modules:
        return ""
    lines, line = modules[path].text.splitlines(), int(number)
    if kind == "docstring":
        begins = [node.lineno for node in modules[path].nodes if isinstance(node, ast.stmt) and node.lineno < line]
        code = lines[max(begins) - 1 : line - 1] if begins else []
    else:
        code = list(islice((each for each in lines[line - 1 :] if not each.lstrip().startswith("#")), 1))
    return "".join(f"    > {each.strip()}\n" for each in code if each.strip())


def find_texts(modules: Modules, documents: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return docstrings and comments of modules and paragraphs of documents, each with its place.

    :param documents: Markdown by path.
    """
    found = []
    for module in modules.values():
        found += [(module.at(line, "docstring"), text) for line, text in docstrings(module)]
        found += [(module.at(line, "comment"), text) for line, text in comments(module)]
    for path, document in sorted(documents.items()):
        found += [(f"{path}:{line} paragraph", text) for line, text in paragraphs(document)]
    return [(place, text) for place, text in found if len(text.split()) >= FEWEST_WORDS]


def paragraphs(document: str) -> list[tuple[int, str]]:
    """Return the paragraphs and list items of a Markdown document, without headings, tables and code."""
    found: list[tuple[int, str]] = []
    line = 1
    outside_code = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), document, flags=re.M | re.S)
    for block in re.split(r"(\n\s*\n|\n(?=\s*[-*] ))", outside_code):
        text = block.strip()
        start = line + block[: len(block) - len(block.lstrip())].count("\n")
        if text and not text.startswith(("#", "|", "<", "!")) and not block.startswith("    "):
            found.append((start, text))
        line += block.count("\n")
    return found
