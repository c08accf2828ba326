"""Each question that admins ask has its page: two clicks from the start page, and first in a search of the site."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from docsite.__main__ import build
from docsite.markdown import links
from tests.docs.support.pages import ROOT

DOCS = ROOT / "docs"
QUESTIONS = [
    pytest.param("limit students one GPU", "how-to/limit-gpus", id="limit"),
    pytest.param("MIG slices", "how-to/mig", id="MIG"),
    pytest.param("hide GPUs from a group", "how-to/hide-gpus", id="hide"),
    pytest.param("rights of the hub", "reference/rights", id="RBAC"),
    pytest.param("Karpenter", "install/eks-karpenter", id="Karpenter"),
    pytest.param("upgrade", "operations", id="upgrade"),
    pytest.param("faults hub restarts", "operations", id="hub down"),
    pytest.param("spot nodes", "how-to/spot-nodes", id="spot"),
    pytest.param("Kueue queue", "queue", id="Kueue"),
    pytest.param("security", "security", id="security"),
    pytest.param("several architectures", "how-to/several-architectures", id="architectures"),
    pytest.param("debug pending server", "how-to/debug-pending-server", id="pending"),
    pytest.param("cull idle servers", "how-to/cull-idle-servers", id="idle"),
    pytest.param("metrics", "reference/metrics", id="metrics"),
    pytest.param("uninstall", "how-to/uninstall", id="uninstall"),
    pytest.param("without internet", "how-to/offline", id="offline"),
    pytest.param("homes NFS", "how-to/nfs-homes", id="NFS"),
    pytest.param("compatibility versions", "install/compatibility", id="versions"),
    pytest.param("TPU Gaudi Neuron", "how-to/accelerators", id="TPU"),
    pytest.param("own field form", "how-to/own-field", id="own field"),
]
_LISTS = {"index", "how-to/index", "faq", "changelog", "contributing", "troubleshooting"}
_STOP_WORDS = {"a", "of", "the", "from"}
# As Material for MkDocs ranks sections: BM25, with titles far before texts.
_TITLE_BOOST = 1000
_K1, _B = 1.2, 0.75


class Search:
    """The sections of the site, ranked as its search ranks them."""

    def __init__(self, index: Path) -> None:
        sections = json.loads(index.read_text())["docs"]
        self._pages = [each["location"].partition("#")[0].removesuffix(".html") or "index" for each in sections]
        self._titles = [Counter(_words(each["title"])) for each in sections]
        self._texts = [Counter(_words(re.sub("<[^>]+>", " ", each["text"]))) for each in sections]

    def rank(self, query: str) -> list[str]:
        """Return the pages of all sections, the best first; without pages that only list others."""
        words = [word for word in _words(query) if word not in _STOP_WORDS]
        scores: dict[str, float] = {}
        titles, texts = _score(self._titles, words), _score(self._texts, words)
        for page, title, text in zip(self._pages, titles, texts, strict=True):
            scores[page] = max(scores.get(page, 0), _TITLE_BOOST * title + text)
        ranked = sorted(scores, key=lambda page: -scores[page])
        return [page for page in ranked if page not in _LISTS and not page.startswith(("decisions/", "repository/"))]


def _score(documents: Sequence[Counter[str]], words: Sequence[str]) -> list[float]:
    usual = sum(each.total() for each in documents) / len(documents)
    rarity = {word: math.log(1 + len(documents) / (1 + sum(word in each for each in documents))) for word in words}
    return [
        sum(
            rarity[word] * each[word] * (_K1 + 1) / (each[word] + _K1 * (1 - _B + _B * each.total() / usual))
            for word in words
        )
        for each in documents
    ]


def _words(text: str) -> list[str]:
    """Return the words of a text without their plural."""
    return [word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower())]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    folder = tmp_path_factory.mktemp("searched")
    assert build(str(folder)) == 0
    return Search(folder / "search" / "search_index.json")


@pytest.mark.parametrize(("query", "page"), QUESTIONS)
def test_a_search_finds_the_page_first(search: Search, query: str, page: str):
    assert search.rank(query)[:1] == [page]


@pytest.mark.parametrize(("query", "page"), QUESTIONS)
def test_the_page_is_two_clicks_from_the_start_page(query: str, page: str):
    clicked, reached = {DOCS / "index.md"}, set()
    for _ in range(2):
        clicked = {
            (each.parent / link.target.partition("#")[0]).resolve()
            for each in clicked
            for link in links(each.read_text())
            if link.target.partition("#")[0].endswith(".md")
        }
        reached |= clicked
    assert DOCS / f"{page}.md" in reached
