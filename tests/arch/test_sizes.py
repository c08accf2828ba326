"""Modules, functions, parameter lists and templates have a largest size.

That of packages is one of the ``LIMITS`` in ``measures.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MODULE_LINES = 600
FUNCTION_LINES = 50
PARAMETERS = 6
POSITIONAL_PARAMETERS = 2
TEMPLATE_LINES = {".html": 120, ".js": 350, ".css": 250, ".json": 300}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def too_long(source: str) -> list[str]:
    """List the functions of ``source`` that are too long."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    lengths = [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    return [f"{name}: {lines} lines, at most {FUNCTION_LINES}" for name, lines in lengths if lines > FUNCTION_LINES]


def too_many_parameters(source: str) -> list[str]:
    """List functions of ``source`` with more parameters than six, or more than two that can be passed by position.

    A method that replaces another class's takes what that one takes, a function inside another one what its caller
    passes; Python decides about special methods.
    """
    found = []
    for function in _functions(ast.parse(source)):
        if _is_given_by_others(function):
            continue
        arguments = function.args
        positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        if positional[:1] in (["self"], ["cls"], ["mcs"]):
            del positional[0]
        if len(positional) > POSITIONAL_PARAMETERS:
            found.append(f"{function.name}: {len(positional)} positional parameters, at most {POSITIONAL_PARAMETERS}")
        if (total := len(positional) + len(arguments.kwonlyargs)) > PARAMETERS:
            found.append(f"{function.name}: {total} parameters, at most {PARAMETERS}")
    return found


def _functions(node: ast.AST) -> Iterator[Function]:
    """Yield functions and methods, but no function that is inside another one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from _functions(child)


def _is_given_by_others(function: Function) -> bool:
    special = function.name.startswith("__") and function.name not in {"__init__", "__new__", "__call__"}
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}
    return special or "override" in decorators


def _is_test(source: Path, root: Path) -> bool:
    return source.relative_to(root).parts[0] in {"tests", "bench"}


def test_no_module_is_too_long(sources: list[Path], root: Path):
    lengths = {str(source.relative_to(root)): len(source.read_text().splitlines()) for source in sources}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_function_is_too_long(sources: list[Path], root: Path):
    found = {str(source.relative_to(root)): too_long(source.read_text()) for source in sources}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_no_function_takes_too_many_parameters(sources: list[Path], root: Path):
    found = {
        str(source.relative_to(root)): too_many_parameters(source.read_text())
        for source in sources
        if not _is_test(source, root)
    }
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_no_template_is_too_long(root: Path):
    lengths = {file: len(file.read_text().splitlines()) for file in (root / "templates").rglob("*") if file.is_file()}
    found = {
        str(file.relative_to(root)): lines
        for file, lines in lengths.items()
        if lines > TEMPLATE_LINES.get(file.suffix, 0)
    }
    assert found == {}


@pytest.mark.parametrize(("statements", "problems"), [(49, 0), (50, 1)])
def test_length_is_counted_from_the_first_to_the_last_line(statements: int, problems: int):
    assert len(too_long("def f():\n" + "    x = 1\n" * statements)) == problems


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        pytest.param("def f(a, b, *, c, d, e, f): ...", 0, id="most that is allowed"),
        pytest.param("def f(a, b, c): ...", 1, id="three by position"),
        pytest.param("def f(a, b, *, c, d, e, f, g): ...", 1, id="seven"),
        pytest.param("class C:\n    def __init__(self, a, b, c): ...", 1, id="three by position for a class"),
        pytest.param("class C:\n    def __exit__(self, a, b, c): ...", 0, id="special method"),
        pytest.param("def f():\n    def callback(a, b, c): ...", 0, id="inner function"),
        pytest.param("class C:\n    @override\n    def get(self, a, b, c): ...", 0, id="override"),
    ],
)
def test_parameters_are_counted_without_the_instance(source: str, problems: int):
    assert len(too_many_parameters(source)) == problems
