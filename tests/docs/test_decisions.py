"""The records of docs/decisions have one shape, and the index lists each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.support.pages import ROOT

FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_context_decision_and_consequence(record: Path):
    headings = re.findall(r"^#+ .+", record.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[1:] == ["## Context", "## Decision", "## Consequence"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_fits_on_half_a_page(record: Path):
    assert 8 <= len(record.read_text(encoding="utf-8").splitlines()) <= 20


def test_numbers_have_no_gap():
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_the_index_lists_each_record_once():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index)) == [record.name for record in RECORDS]
