"""Each question that admins ask has its answer two clicks from the start page.

``tests/browser/test_docs_search.py`` finds the same answers by the site's search.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docsite.markdown import links
from tests.docs.support.pages import ROOT
from tests.docs.support.questions import QUESTIONS

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def two_clicks() -> frozenset[str]:
    """Return the pages, and the sections that links name, within two clicks of the start page."""
    clicked, reached = {DOCS / "index.md"}, set()
    for _ in range(2):
        found = {(each.parent, link.target) for each in clicked for link in links(each.read_text(encoding="utf-8"))}
        targets = {_resolve(folder, target) for folder, target in found if target.partition("#")[0].endswith(".md")}
        clicked = {path for path, _ in targets}
        reached |= {
            f"{path.with_suffix('').relative_to(DOCS)}{anchor}" for path, anchor in targets if path.is_relative_to(DOCS)
        }
    return frozenset(reached)


def _resolve(folder: Path, target: str) -> tuple[Path, str]:
    path, mark, anchor = target.partition("#")
    return (folder / path).resolve(), f"{mark}{anchor}"


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_the_answer_is_two_clicks_from_the_start_page(two_clicks: frozenset[str], question: str, answer: str):
    assert answer in two_clicks, question
