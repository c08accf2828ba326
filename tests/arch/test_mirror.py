"""Unit tests stand where their packages stand: gpuspawner/core/cluster ↔ tests/unit/core/cluster.

A test module may cover several modules of its package.
"""

from __future__ import annotations

import ast
from pathlib import Path

# JavaScript is tested by node, not package by package.
NOT_MIRRORED = "js"


def defines_functions(source: str) -> bool:
    """Return whether a module has functions, or classes with more than special methods and properties."""
    tree = ast.parse(source)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    functions = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(
        not node.name.startswith("__") and "property" not in {ast.unparse(each) for each in node.decorator_list}
        for node in functions
    )


def test_every_package_with_functions_has_tests(root: Path):
    files = [file for file in (root / "gpuspawner").rglob("*.py") if defines_functions(file.read_text())]
    folders = {file.parent.relative_to(root / "gpuspawner") for file in files}
    assert {str(folder) for folder in folders if not any((root / "tests/unit" / folder).glob("test_*.py"))} == set()


def test_every_folder_of_tests_has_its_package(root: Path):
    folders = {file.parent.relative_to(root / "tests/unit") for file in (root / "tests/unit").rglob("*.py")}
    parents = (root / "gpuspawner", root)  # devcluster and bench stand beside the package
    missing = {
        str(folder)
        for folder in folders
        if folder.parts[:1] != (NOT_MIRRORED,)
        and not any(
            (parent / folder / "__init__.py").is_file() for parent in parents if (parent, folder) != (root, Path())
        )
    }
    assert missing == set()
