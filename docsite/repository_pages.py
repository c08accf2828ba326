"""A hook of MkDocs: links from docs/ into the repository lead to pages of the site.

On a code host ``../helm-values/gke.yaml`` is a link like any other. MkDocs knows nothing outside docs/, so whatever
pages link to there becomes a page of its own: Markdown as it is, other texts as a code block. A link to nothing stays
as it is, and a strict build says so.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from docsite.markdown import links, relinked

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "repository"
"""Where such pages are in the site."""

_BEHIND, _LESS = (f"{FOLDER}/", "decisions/"), 0.01
"""Pages that a search shows after all others, and how much they count: admins look for guides, not for files."""

_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python", ".toml": "toml", "": "text"}
_IN_NAV = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the repository that a page links to, and for those that are in the nav."""
    wanted = {ROOT / name for name in _IN_NAV}
    for source in [Path(config.docs_dir) / file.src_uri for file in files.documentation_pages()] + sorted(wanted):
        wanted |= set(_outside(source, docs=Path(config.docs_dir)).values())
    for path in sorted(wanted):
        files.append(File.generated(config, _uri(path), content=_content(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to the pages made by :func:`on_files`, and those of such a page into docs/."""
    docs = Path(config.docs_dir)
    source = _source(page.file, docs=docs)
    if page.file.src_uri.startswith(_BEHIND):
        page.meta["search"] = {"boost": _LESS}
    change = {}
    for link in links(markdown):
        target, mark, anchor = link.target.partition("#")
        path = _resolved(source, target)
        if path is None:
            continue
        uri = path.relative_to(docs).as_posix() if path.is_relative_to(docs) else _uri(path)
        if files.get_file_from_path(uri):
            new = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
            change[link.target] = f"{new}{mark}{anchor}"
    return relinked(markdown, change=change)


def _outside(source: Path, *, docs: Path) -> Mapping[str, Path]:
    """Return the targets in a page that are files of the repository outside of docs/."""
    found = {}
    for link in links(source.read_text(encoding="utf-8")):
        path = _resolved(source, link.target.partition("#")[0])
        if path is not None and path.is_file() and path.is_relative_to(ROOT) and not path.is_relative_to(docs):
            found[link.target] = path
    return found


def _resolved(source: Path, target: str) -> Path | None:
    """Return the path that a relative link in a file leads to; None for addresses and anchors."""
    return None if not target or ":" in target or target.startswith("/") else (source.parent / target).resolve()


def _source(file: File, *, docs: Path) -> Path:
    """Return the file of the repository that a page was made of."""
    for name, uri in _IN_NAV.items():
        if file.src_uri == uri:
            return ROOT / name
    if file.src_uri.startswith(f"{FOLDER}/"):
        return ROOT / file.src_uri.removeprefix(f"{FOLDER}/").removesuffix(".md")
    return docs / file.src_uri


def _uri(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return _IN_NAV.get(name, f"{FOLDER}/{name}.md")


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    language = _LANGUAGES.get(path.suffix, "text")
    return f"# {path.relative_to(ROOT).as_posix()}\n\n````{language}\n{text.rstrip()}\n````\n"
