"""The changelog has a section for each version, in the form of https://keepachangelog.com."""

from __future__ import annotations

import re

from docsite.version import read_version
from tests.docs.support.pages import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
SECTION = re.compile(r"\[(?P<version>\d+\.\d+\.\d+)\] - (?P<date>unreleased|\d{4}-\d{2}-\d{2})")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits"]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_each_section_is_a_version_with_its_date():
    assert [heading for heading in HEADINGS if not SECTION.fullmatch(heading)] == []


def test_the_first_section_is_of_the_version_of_the_project():
    assert SECTION.match(HEADINGS[0])["version"] == read_version()


def test_the_newest_version_is_on_top_and_only_this_may_be_unreleased():
    found = [SECTION.match(heading) for heading in HEADINGS]
    assert found == sorted(found, key=lambda each: numbers(each["version"]), reverse=True)
    assert "unreleased" not in {each["date"] for each in found[1:]}


def test_each_section_has_each_kind_of_change_once_at_most_in_the_usual_order():
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]


def test_the_first_version_changes_and_mends_nothing():
    first = re.split(r"^## ", TEXT, flags=re.MULTILINE)[-1]
    assert re.findall(r"^### (.+)$", first, re.MULTILINE) == ["Added", "Known limits"]


def test_each_version_has_a_link():
    links = re.findall(r"^\[(.+)\]: https://github\.com/gpuspawner/gpuspawner/releases/tag/v(.+)$", TEXT, re.MULTILINE)
    assert links == [(SECTION.match(heading)["version"],) * 2 for heading in HEADINGS]
