"""Packages say what they hold and offer, and nothing that is not there; architecture.md does the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGES = sorted(path.parent for path in Path("gpuspawner").rglob("__init__.py") if path.parent.name != "gpuspawner")
MOST_OFFERED = 12
_LIST = re.compile(r"^- (.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
# The names before the colons of a docstring's list: "- `scan`: one node; `results`: what it finds".
_HEAD = re.compile(r"(?:^|[;.] )((?:`+[a-z_]+`+(?:, | and )?)+):")
_PATH = re.compile(r"`((?:core|hub|kube|settings|cli)/[a-z_/]+\.py)`")


def parse_package(package: Path, root: Path) -> ast.Module:
    return ast.parse((root / package / "__init__.py").read_text())


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_describes_modules_that_exist(package: Path, root: Path):
    docstring = ast.get_docstring(parse_package(package, root)) or ""
    heads = [head for item in _LIST.findall(docstring) for head in _HEAD.findall(" ".join(item.split()))]
    named = [name for head in heads for name in re.findall(r"`([a-z_]+)`", head)]
    files = [(root / package / f"{name}.py", root / package / name / "__init__.py") for name in named]
    assert [name for name, pair in zip(named, files, strict=True) if not any(file.is_file() for file in pair)] == []
    assert len(docstring.splitlines()) > 1


def test_a_package_offers_few_names_and_each_to_another_package(root: Path):
    texts = [(file.parent, file.read_text()) for file in (root / "gpuspawner").rglob("*.py")]
    for package in PACKAGES:
        assigned = [node for node in parse_package(package, root).body if isinstance(node, ast.Assign)]
        offered = [ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
        names = [name for names in offered for name in names]
        users = [text for folder, text in texts if folder != root / package and ".".join(package.parts) in text]
        assert [name for name in names if not any(re.search(rf"\b{name}\b", text) for text in users)] == []
        assert len(names) <= MOST_OFFERED


def test_architecture_names_modules_that_exist(root: Path):
    named = _PATH.findall((root / "docs/architecture.md").read_text())
    assert [path for path in named if not (root / "gpuspawner" / path).is_file()] == []
    assert named
