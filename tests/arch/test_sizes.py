"""The package, its packages, modules, functions, parameter lists and templates have a largest size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arch.measures import LIMITS, measure_all

MODULE_LINES = 600
FUNCTION_LINES = 50
POSITIONAL_PARAMETERS = 2
"""How many parameters there may be in all, ruff checks."""
TEMPLATE_LINES = {".html": 120, ".js": 350, ".css": 250, ".json": 300}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def trees(tracked_files: frozenset[Path], root: Path) -> dict[str, ast.Module]:
    """Every Python file of the checkout, parsed."""
    sources = sorted(file for file in tracked_files if file.suffix == ".py")
    return {str(source.relative_to(root)): ast.parse(source.read_text()) for source in sources}


def list_functions(node: ast.AST) -> Iterator[Function]:
    """Yield functions and methods, but no function that is inside another one: its caller decides what it takes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from list_functions(child)


def may_choose_parameters(function: Function) -> bool:
    """Return whether neither Python nor another class's method decides what a function takes."""
    special = function.name.startswith("__") and function.name not in {"__init__", "__new__", "__call__"}
    return not special and "override" not in {ast.unparse(each).rpartition(".")[2] for each in function.decorator_list}


@pytest.mark.parametrize("name", LIMITS)
def test_the_package_keeps_the_limit(name: str):
    low, high = LIMITS[name]
    assert low <= measure_all()[name] <= high


def test_no_module_is_too_long(tracked_files: frozenset[Path], root: Path):
    sources = [file for file in tracked_files if file.suffix == ".py"]
    lengths = {str(source.relative_to(root)): len(source.read_text().splitlines()) for source in sources}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_function_is_too_long(trees: dict[str, ast.Module]):
    lengths = {
        f"{path}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_no_function_takes_too_many_parameters_by_position(trees: dict[str, ast.Module]):
    counts = {
        f"{path}:{function.lineno} {function.name}": len(
            [
                each
                for each in (*function.args.posonlyargs, *function.args.args)
                if each.arg not in {"self", "cls", "mcs"}
            ]
        )
        for path, tree in trees.items()
        if not path.startswith(("tests/", "bench/"))
        for function in list_functions(tree)
        if may_choose_parameters(function)
    }
    assert {name: count for name, count in counts.items() if count > POSITIONAL_PARAMETERS} == {}


def test_no_template_is_too_long(root: Path):
    lengths = {file: len(file.read_text().splitlines()) for file in (root / "templates").rglob("*") if file.is_file()}
    found = {
        str(file.relative_to(root)): lines
        for file, lines in lengths.items()
        if lines > TEMPLATE_LINES.get(file.suffix, 0)
    }
    assert found == {}
