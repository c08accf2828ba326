"""Unit tests stand where their modules stand: gpuspawner/core/units/quantity.py ↔
tests/unit/core/units/test_quantity.py."""

from __future__ import annotations

import ast
from pathlib import Path

# Folders below tests/unit that mirror something other than a folder of gpuspawner.
OTHER_FOLDERS = {"devcluster": "devcluster"}
# JavaScript is tested by node, not module by module.
NOT_MIRRORED = {"js"}


def needs_tests(source: str) -> bool:
    """Tell whether a module does something: functions, or classes with more than special methods and properties."""
    tree = ast.parse(source)
    methods = [
        method
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return bool(functions) or any(not _is_plain(method) for method in methods)


def module_of(test: Path, root: Path) -> list[Path]:
    """List the modules a test module may be about: test_formview_errors.py is about formview.py or formview_errors.py.

    A folder's own __init__.py is tested by test_init.py in its mirror, or under its name in the folder above.
    """
    folder = test.relative_to(root / "tests/unit").parent
    package = root / "gpuspawner" / folder
    if folder.parts[:1] and folder.parts[0] in OTHER_FOLDERS:
        package = root / OTHER_FOLDERS[folder.parts[0]] / Path(*folder.parts[1:])
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    candidates = [package / f"{prefix}{name}.py" for name in names for prefix in ("", "_")]
    inits = [package / name / "__init__.py" for name in names]
    own = [package / "__init__.py"] if {package.name, "init"} & set(names) else []
    return [path for path in (*candidates, *inits, *own) if path.is_file()]


def _is_plain(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
    return (method.name.startswith("__") and method.name.endswith("__")) or "property" in decorators


def _unit_tests(root: Path) -> list[Path]:
    tests = root / "tests/unit"
    return [test for test in tests.rglob("test_*.py") if test.relative_to(tests).parts[0] not in NOT_MIRRORED]


def test_every_module_that_does_something_has_its_test_module(root: Path):
    tested = {module for test in _unit_tests(root) for module in module_of(test, root)}
    untested = [
        str(module.relative_to(root))
        for module in (root / "gpuspawner").rglob("*.py")
        if module not in tested and needs_tests(module.read_text())
    ]
    assert sorted(untested) == []


def test_every_test_module_has_its_module(root: Path):
    orphans = [str(test.relative_to(root)) for test in _unit_tests(root) if not module_of(test, root)]
    assert sorted(orphans) == []


def test_a_module_of_values_needs_no_tests():
    values = "class A:\n    x: int\n    def __init__(self): ...\n    @property\n    def y(self): ...\n"
    assert not needs_tests(values)


def test_a_method_needs_tests():
    assert needs_tests("class A:\n    def add(self): ...\n")
