"""The maps of the house are true: docstrings of packages and architecture.md name modules that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGES = sorted(path.parent for path in Path("gpuspawner").rglob("__init__.py") if path.parent.name != "gpuspawner")
_LIST = re.compile(r"^- (.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"(?:^|[;.] )((?:`+[a-z_]+`+(?:, | and )?)+):")
_PATH = re.compile(r"`((?:core|hub|kube|settings|cli)/[a-z_/]+\.py)`")


def named_modules(docstring: str) -> list[str]:
    """Return the names before the colons of a docstring's list: ``- `scan`: one node; `results`: what it finds``."""
    found = []
    for item in _LIST.findall(docstring):
        for head in _HEAD.findall(" ".join(item.split())):
            found += re.findall(r"`([a-z_]+)`", head)
    return found


def test_there_are_packages():
    assert len(PACKAGES) > 30


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_says_what_it_holds(package: Path, root: Path):
    docstring = ast.get_docstring(ast.parse((root / package / "__init__.py").read_text())) or ""
    missing = [
        name
        for name in named_modules(docstring)
        if not ((root / package / f"{name}.py").is_file() or (root / package / name / "__init__.py").is_file())
    ]
    assert (missing, len(docstring.splitlines()) > 1) == ([], True)


def test_architecture_names_modules_that_exist(root: Path):
    named = _PATH.findall((root / "docs/architecture.md").read_text())
    assert [path for path in named if not (root / "gpuspawner" / path).is_file()] == []
    assert named


def test_names_before_a_colon_are_modules():
    text = "Room.\n\n- ``scan``: one; ``results``, ``more``: two\n  lines with `code`\n- `model`: three: four\n"
    assert named_modules(text) == ["scan", "results", "more", "model"]
