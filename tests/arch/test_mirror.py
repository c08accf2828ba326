"""Unit tests stand where their packages stand: gpuspawner/core/cluster ↔ tests/unit/core/cluster.

A test module may cover several modules of its package.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

# Folders below tests/unit that mirror something other than a folder of gpuspawner.
OTHER_FOLDERS = {"bench": "bench", "devcluster": "devcluster"}
# JavaScript is tested by node, not package by package.
NOT_MIRRORED = {"js"}


def needs_tests(source: str) -> bool:
    """Return whether a module has functions, or classes with more than special methods and properties."""
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


def _is_plain(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
    return (method.name.startswith("__") and method.name.endswith("__")) or "property" in decorators


def untested_packages(root: Path) -> list[str]:
    """List the packages with modules that need tests and no test module in their folder of tests/unit."""
    packages = {file.parent for file in (root / "gpuspawner").rglob("*.py") if needs_tests(file.read_text())}
    names = [package.relative_to(root / "gpuspawner") for package in packages]
    return sorted(str(name) for name in names if not any((root / "tests/unit" / name).glob("test_*.py")))


def orphaned_folders(root: Path) -> list[str]:
    """List the folders of tests/unit with Python files for which there is no package."""
    folders = {file.parent.relative_to(root / "tests/unit") for file in (root / "tests/unit").rglob("*.py")}
    found = []
    for folder in folders:
        first, *others = folder.parts or ("",)
        package = (
            root / OTHER_FOLDERS[first] / Path(*others) if first in OTHER_FOLDERS else root / "gpuspawner" / folder
        )
        if first not in NOT_MIRRORED and not (root / package / "__init__.py").is_file():
            found.append(str(folder))
    return sorted(found)


def test_every_package_that_does_something_has_tests(root: Path):
    assert untested_packages(root) == []


def test_every_folder_of_tests_has_its_package(root: Path):
    assert orphaned_folders(root) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with one package below a layer, tested in its own folder."""
    for name, text in {
        "gpuspawner/__init__.py": "",
        "gpuspawner/core/__init__.py": "",
        "gpuspawner/core/cluster/__init__.py": "",
        "gpuspawner/core/cluster/state.py": "def read(): ...",
        "tests/unit/core/cluster/test_state.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_tests_in_the_folder_of_their_package_are_found(checkout: Path):
    assert (untested_packages(checkout), orphaned_folders(checkout)) == ([], [])


def test_tests_in_the_folder_above_do_not_count(checkout: Path):
    (checkout / "tests/unit/core/cluster/test_state.py").rename(checkout / "tests/unit/core/test_state.py")
    assert untested_packages(checkout) == ["core/cluster"]


def test_a_folder_of_tests_without_a_package_is_found(checkout: Path):
    (checkout / "gpuspawner/core/cluster").rename(checkout / "gpuspawner/core/nodes")
    assert orphaned_folders(checkout) == ["core/cluster"]


def test_a_module_of_values_needs_no_tests():
    values = "class A:\n    x: int\n    def __init__(self): ...\n    @property\n    def y(self): ...\n"
    assert not needs_tests(values)


def test_a_method_needs_tests():
    assert needs_tests("class A:\n    def add(self): ...\n")
