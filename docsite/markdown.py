"""The parts of a Markdown page: code blocks, links, headings. Pure: texts in, values out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown.extensions.toc import slugify  # type: ignore[import-untyped]

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
_COMMENT = re.compile(r"^ *<!-- *(.*?) *-->$")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)(?: +\{#(?P<id>[\w-]+)\})? *#*$")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
# A link or a picture, also [![picture](a)](b); a title in quotes may follow the target.
_LINK = re.compile(r"\]\((?P<target>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?: +\"[^\"]*\")?\)")
_HTML_LINK = re.compile(r"<[a-z]+\b[^>]*?\b(?:href|src|srcset)=\"(?P<target>[^\"]+)\"")
_MARKUP = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced code block.

    :param language: the first word behind the fence, empty where there is none.
    :param mark: the comment on the line before, without its signs; empty where there is none.
    :param line: number of the line with the fence.
    """

    language: str
    text: str
    mark: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The target of a link or a picture, as it is written, and the line it is in."""

    target: str
    line: int


def blocks(page: str) -> list[Block]:
    """List the fenced code blocks of a page, without the indentation that a list gives them."""
    found: list[Block] = []
    lines = iter(enumerate(page.splitlines(), 1))
    before = ""
    for number, line in lines:
        if opening := _FENCE.match(line):
            indent, ticks = len(opening["indent"]), opening["ticks"]
            inside = []
            for _, content in lines:
                if content.strip().startswith(ticks) and not content.strip().strip("`"):
                    break
                inside.append(content[min(indent, len(content) - len(content.lstrip())) :])
            comment = _COMMENT.match(before)
            found.append(
                Block(
                    language=(opening["info"].split() or [""])[0],
                    text="".join(f"{content}\n" for content in inside),
                    mark=comment[1] if comment else "",
                    line=number,
                )
            )
        elif line.strip():
            before = line
            continue
        before = before if not line.strip() else ""
    return found


def prose(page: str) -> str:
    """Return a page with its fenced code blocks emptied; lines keep their numbers."""
    kept: list[str] = []
    closing = ""
    for line in page.splitlines():
        opening = _FENCE.match(line)
        if closing:
            if line.strip().startswith(closing) and not line.strip().strip("`"):
                closing = ""
            kept.append("")
        elif opening:
            closing = opening["ticks"]
            kept.append("")
        else:
            kept.append(line)
    return "\n".join(kept) + "\n"


def code_spans(page: str) -> list[str]:
    """List what stands between backticks in the text of a page."""
    return [" ".join(match[2].split()) for match in _CODE_SPAN.finditer(prose(page))]


def links(page: str) -> list[Link]:
    """List links and pictures of a page, in the order of their lines."""
    text = _CODE_SPAN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), prose(page))
    found = [
        Link(target=match["target"], line=text.count("\n", 0, match.start()) + 1)
        for pattern in (_LINK, _HTML_LINK)
        for match in pattern.finditer(text)
    ]
    return sorted(found, key=lambda link: link.line)


def relinked(page: str, *, change: dict[str, str]) -> str:
    """Return a page whose links lead elsewhere.

    :param change: target as it is written → the new one; others stay.
    """

    def _new(match: re.Match[str]) -> str:
        target = match["target"]
        return match[0].replace(target, change.get(target, target)) if target else match[0]

    return _HTML_LINK.sub(_new, _LINK.sub(_new, page))


def anchors(page: str) -> set[str]:
    """Return the names by which a link can lead to a heading of a page."""
    return set(_anchors(page))


def _anchors(page: str) -> Iterator[str]:
    seen: set[str] = set()
    for line in prose(page).splitlines():
        if heading := _HEADING.match(line):
            name = heading["id"] or slugify(_MARKUP.sub(r"\1", heading["text"]), "-")
            number, unique = 1, name
            while unique in seen:
                unique = f"{name}_{number}"
                number += 1
            seen.add(unique)
            yield unique
