"""The issue forms are as GitHub reads them.

https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.support.pages import ROOT

FOLDER = ROOT / ".github/ISSUE_TEMPLATE"
FORMS = [path for path in sorted(FOLDER.glob("*.yml")) if path.name != "config.yml"]
TYPES = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_needs(path: Path):
    form = read(path)
    assert set(form) == {"name", "description", "labels", "body"}
    assert len(form["description"]) <= 200


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_fields_have_a_type_an_id_and_a_label(path: Path):
    fields = [field for field in read(path)["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert {field["type"] for field in read(path)["body"]} <= TYPES
    assert [each for each in ids if not re.fullmatch(r"[a-z][a-z0-9_-]*", each)] == []
    assert len(set(ids)) == len(ids)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_page_before_the_forms_leads_to_the_report_in_private():
    config = read(FOLDER / "config.yml")
    assert any(link["url"].endswith("/security/advisories/new") for link in config["contact_links"])
    assert all(set(link) == {"name", "url", "about"} for link in config["contact_links"])


def test_there_are_forms():
    assert len(FORMS) >= 2
