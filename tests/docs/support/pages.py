"""Which pages there are, and the examples in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from docsite.markdown import Block, blocks

ROOT = Path(__file__).resolve().parents[3]
PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)


def examples(wanted: Callable[[Block], bool]) -> Iterable[object]:
    """List the code blocks of all pages that are wanted, as parameters named by page and line."""
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if wanted(block)
    ]
