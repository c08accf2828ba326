"""Links lead somewhere: from pages to pages, headings, pictures and files, and from the code to pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docsite.markdown import anchors, code_spans, links
from tests.docs.support.pages import PAGES, ROOT

NOT_READ = {".json", ".png", ".webp", ".svg", ".jpg", ".ico", ".mo"}
# A path of docs/ in a sentence or a comment, and not a part of an address.
REFERENCE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.(?:md|png|webp|svg)")


def broken(page: Path, files: frozenset[Path]) -> list[str]:
    """List the links of a page that lead nowhere."""
    return [
        f"{page.relative_to(ROOT)}:{link.line}: {link.target} {problem}"
        for link in links(page.read_text(encoding="utf-8"))
        if (problem := _problem(page, link.target, files=files))
    ]


def _problem(page: Path, target: str, *, files: frozenset[Path]) -> str:
    if re.match(r"[a-z]+:", target):
        return "" if re.match(r"https?://[\w.-]+(:\d+)?(/|$)|mailto:", target) else "is no address"
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if file.is_dir() and file.is_relative_to(ROOT) and ROOT / "docs" not in page.parents:
        return ""  # a folder can be looked at where the code is, and is no page of the site
    if file not in files:
        return "is not there"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
        return "has no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path, tracked_files: frozenset[Path]):
    assert broken(page, tracked_files) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_that_a_page_names_are_there(page: Path, tracked_files: frozenset[Path]):
    tops = {file.relative_to(ROOT).parts[0] for file in tracked_files}
    known = {str(file.relative_to(ROOT)) for file in tracked_files}
    folders = {str(parent) for name in known for parent in Path(name).parents}
    spans = {
        span.rstrip("/") for span in code_spans(page.read_text(encoding="utf-8")) if re.fullmatch(r"[\w./-]+", span)
    }
    named = {span for span in spans if "/" in span and span.partition("/")[0] in tops}
    assert sorted(named - known - folders - IGNORED) == []


# Made by programs, and not in git.
IGNORED = {"docs/reference", ".run/reports", ".run/prepare"}


def test_pages_that_the_code_names_are_there(tracked_files: frozenset[Path]):
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in tracked_files
        if file.suffix not in NOT_READ
        for name in REFERENCE.findall(file.read_text(encoding="utf-8"))
        if ROOT / name not in tracked_files and ROOT / "tests/docs" not in file.parents
    }
    assert sorted(found) == []


def test_a_picture_is_shown_somewhere(tracked_files: frozenset[Path]):
    shown = {
        (page.parent / link.target).resolve() for page in PAGES for link in links(page.read_text(encoding="utf-8"))
    }
    pictures = {file for file in tracked_files if ROOT / "docs/images" in file.parents}
    assert sorted(str(picture.relative_to(ROOT)) for picture in pictures - shown) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](other.md)", ["p.md:1: other.md is not there"]),
        ("\n[a](#none)", ["p.md:2: #none has no such heading"]),
        ("# A `b` c\n[a](#a-b-c)", []),
        ("# A\n# A\n[a](#a_1)", []),
        ("[a](htp://x)", ["p.md:1: htp://x is no address"]),
        ('![a](missing.png "title")', ["p.md:1: missing.png is not there"]),
        ('<img src="missing.png">', ["p.md:1: missing.png is not there"]),
        ("`[a](other.md)`\n\n```\n[a](other.md)\n```\n", []),
    ],
)
def test_a_broken_link_is_found(text: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "p.md"
    page.write_text(text)
    assert broken(page, frozenset({page})) == expected
