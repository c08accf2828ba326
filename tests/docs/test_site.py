"""The site is built without a complaint, every link in it leads somewhere, and it asks nothing of other addresses."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup, Tag

from docsite.__main__ import build

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "srcset"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(str(folder)) == 0
    return folder


@pytest.fixture(scope="session")
def html(site: Path) -> dict[Path, BeautifulSoup]:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    return {page: BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser") for page in pages}


def test_every_link_leads_somewhere(site: Path, html: dict[Path, BeautifulSoup]):
    names = {page: {str(tag["id"]) for tag in soup.find_all(id=True)} for page, soup in html.items()}
    found = []
    for page, soup in html.items():
        for tag in soup.find_all(["a", "img"]):
            target = _target(tag)
            if not target or ":" in target.partition("/")[0]:
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / unquote(path)).resolve() if path else page
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file() or (anchor and unquote(anchor) not in names.get(file, {unquote(anchor)})):
                found.append(f"{page.relative_to(site)}: {target}")
    assert sorted(set(found)) == []


def test_a_page_loads_nothing_from_elsewhere(site: Path, html: dict[Path, BeautifulSoup]):
    found = {
        f"{page.relative_to(site)}: {tag[attribute]}"
        for page, soup in html.items()
        for name, attribute in LOADED.items()
        for tag in soup.find_all(name)
        if tag.has_attr(attribute)
        and str(tag[attribute]).startswith(("http", "//"))
        and "canonical" not in tag.get("rel", [])
    }
    assert sorted(found) == []


def test_a_page_can_be_searched_and_read_in_the_dark(site: Path, html: dict[Path, BeautifulSoup]):
    home = html[site / "index.html"]
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
    assert {tag["data-md-color-scheme"] for tag in home.find_all("input", attrs={"data-md-color-scheme": True})} >= {
        "slate"
    }


def test_a_search_shows_decisions_and_files_after_other_pages(site: Path):
    sections = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    behind = {each["location"].partition("/")[0] for each in sections if each.get("boost", 1) < 1}
    assert behind == {"decisions", "repository"}


def test_what_the_repository_shows_is_a_page(html: dict[Path, BeautifulSoup]):
    names = {page.name for page in html}
    assert {"rbac.yaml.html", "contributing.html", "changelog.html"} <= names


def _target(tag: Tag) -> str:
    return str(tag.get("href") or tag.get("src") or "")
