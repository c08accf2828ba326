"""Who may import whom: the contracts in pyproject.toml hold, and no module escapes them."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

# Names whose use is an effect, whatever is imported: core may not have any.
EFFECTS = frozenset({"breakpoint", "eval", "exec", "input", "open", "print", "__import__"})


def effects(source: str) -> list[str]:
    """List what in ``source`` does something besides computing: effects called, and anything asynchronous."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            found.append(f"line {node.lineno}: async")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EFFECTS:
            found.append(f"line {node.lineno}: {node.func.id}()")
    return found


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
    folders = {f"gpuspawner.{folder.parent.name}" for folder in (root / "gpuspawner").glob("*/__init__.py")}
    assert folders == named


def test_core_only_computes(root: Path):
    modules = (root / "gpuspawner/core").rglob("*.py")
    found = {str(module.relative_to(root)): effects(module.read_text()) for module in modules}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("open('x')", id="file"),
        pytest.param("print(1)", id="output"),
        pytest.param("async def f(): ...", id="async"),
        pytest.param("def f(): return eval('1')", id="eval"),
    ],
)
def test_an_effect_is_recognised(source: str):
    assert len(effects(source)) == 1
