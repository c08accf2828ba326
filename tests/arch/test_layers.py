"""Who may import whom: the contracts in pyproject.toml hold, and no folder escapes them."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

# Names whose use is an effect, whatever is imported. ruff finds `print`, `eval` and `exec`.
EFFECTS = frozenset({"input", "open", "__import__"})


@pytest.mark.timeout(120)
def test_all_import_contracts_are_kept(root: Path):
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))"
    answer = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.fail(answer.stdout + answer.stderr, pytrace=False)


def test_every_folder_of_the_package_is_a_layer(root: Path):
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    named = {name.strip() for layer in layers for name in layer.split("|")}
    assert {f"gpuspawner.{file.parent.name}" for file in (root / "gpuspawner").glob("*/__init__.py")} == named


def test_core_opens_no_file_and_awaits_nothing(root: Path):
    found = [
        f"{module.relative_to(root)}:{node.lineno}"
        for module in (root / "gpuspawner/core").rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.AsyncFunctionDef)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EFFECTS)
    ]
    assert found == []
