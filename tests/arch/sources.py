"""The sources as the measures read them: modules and their imports, definitions and texts, found with ``ast``."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Result(NamedTuple):
    """A figure of the code and the places behind it, each as ``file:line name``."""

    figure: float
    offenders: list[str]


@dataclass(frozen=True)
class Module:
    """A Python file: its path from the root of the checkout, with slashes, and its text."""

    path: str
    text: str

    @property
    def is_init(self) -> bool:
        return self.path.endswith("/__init__.py")

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def room(self) -> str:
        return self.path.rpartition("/")[0].replace("/", ".")

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return sorted(ast.walk(self.tree), key=lambda node: getattr(node, "lineno", 0))

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def at(self, line: int, name: str) -> str:
        """Return a place in this module as it is listed."""
        return f"{self.path}:{line} {name}"


Modules = Mapping[str, Module]


def load_modules(sources: Mapping[str, str]) -> Modules:
    """Return the modules by their dotted names.

    :param sources: text by path.
    """
    return {module.name: module for module in (Module(path, text) for path, text in sorted(sources.items()))}


def read_sources(folder: str, root: Path = ROOT) -> dict[str, str]:
    """Return the text of every Python file below a folder, by path from ``root``."""
    return {file.relative_to(root).as_posix(): file.read_text() for file in (root / folder).rglob("*.py")}


class Import(NamedTuple):
    line: int
    target: str
    """The dotted name of a module of ours."""
    name: str
    """The imported name; empty where the module itself is imported."""
    bound: str
    """The name it gets."""


def find_imports(module: Module, modules: Modules) -> Iterator[Import]:
    """Yield the imports of our own modules, those inside functions and under TYPE_CHECKING included."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules:
                    yield Import(node.lineno, alias.name, "", alias.asname or alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = module.room.split(".")[: len(module.room.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                bound = alias.asname or alias.name
                if f"{target}.{alias.name}" in modules:
                    yield Import(node.lineno, f"{target}.{alias.name}", "", bound)
                elif target in modules:
                    yield Import(node.lineno, target, alias.name, bound)


def find_origin(target: str, name: str, modules: Modules) -> Module:
    """Return the module that defines a name, found through the ``__init__`` files that pass it on."""
    module = modules[target]
    visited = {target}
    while module.is_init and name:
        passed_on = next((found for found in find_imports(module, modules) if found.bound == name), None)
        if passed_on is None or passed_on.target in visited:
            break
        module, name = modules[passed_on.target], passed_on.name
        visited.add(module.name)
    return module


def defined_names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the functions, classes and variables that statements define, without those inside them."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node


def decorators(node: Function | ast.ClassDef) -> set[str]:
    """Return the last words of a definition's decorators: ``dataclass`` for ``@dataclasses.dataclass(slots=True)``."""
    return {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}


def public_methods(owner: ast.ClassDef) -> list[Function]:
    """Return a class's own methods that others call: no properties, no special methods, nothing that overrides."""
    left_out = {"property", "cached_property", "setter", "override"}
    return [
        node
        for node in owner.body
        if isinstance(node, Function) and not node.name.startswith("_") and not decorators(node) & left_out
    ]


def public_functions(module: Module) -> Iterator[Function]:
    """Yield the public functions of a module and the public methods of its public classes."""
    for name, node in defined_names(module.tree.body):
        if isinstance(node, Function) and not name.startswith("_"):
            yield node
        elif isinstance(node, ast.ClassDef) and not name.startswith("_"):
            yield from public_methods(node)


def docstrings(module: Module) -> list[tuple[int, str]]:
    """Return the strings that stand as statements of their own, those below variables included."""
    bodies = [node.body for node in module.nodes if isinstance(node, ast.Module | ast.ClassDef | Function)]
    constants = [node.value for body in bodies for node in body if isinstance(node, ast.Expr)]
    texts = [node for node in constants if isinstance(node, ast.Constant)]
    return [(node.lineno, inspect.cleandoc(node.value)) for node in texts if isinstance(node.value, str)]


def comments(module: Module) -> list[tuple[int, str]]:
    """Return the comments without those that switch a tool off; those on lines that follow each other are one."""
    blocks: list[tuple[int, list[str]]] = []
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (noqa|type:|pragma)", token.string):
            text = token.string.lstrip("#: ").rstrip("- ")
            if blocks and blocks[-1][0] + len(blocks[-1][1]) == token.start[0]:
                blocks[-1][1].append(text)
            else:
                blocks.append((token.start[0], [text]))
    return [(line, "\n".join(texts)) for line, texts in blocks]
