"""Couplings of modules besides their imports: private attributes, untyped spawners, shared state, base classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from tests.arch.sources import Function, Module, Modules, Result, defined_names

CORE = "gpuspawner.core"
PRIVATE_API = "gpuspawner.hub.kubespawner.private_api"
"""The one module that may use private names of other projects."""
CONTAINERS = frozenset({"WeakKeyDictionary", "WeakSet", "WeakValueDictionary"})
"""They hold what others made, so they are caches wherever they stand."""
MUTATORS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem", "popleft"}
    | {"remove", "setdefault", "update"}
)
NAMEDTUPLE_METHODS = frozenset({"_asdict", "_fields", "_make", "_replace"})


def spawners_of_any_type(modules: Modules) -> Result:
    found = []
    for module in modules.values():
        for node in module.nodes:
            target = node.target if isinstance(node, ast.AnnAssign) else node
            if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
                name = ast.unparse(target).partition(":")[0].rpartition(".")[2]
                if name.endswith("spawner") and ast.unparse(node.annotation) == "Any":
                    found.append(module.at(node.lineno, name))
    return Result(len(found), found)


def reach_ins(modules: Modules) -> Result:
    """Count the uses of our own private attributes outside the modules that define them."""
    ours = {name for module in modules.values() for name in _defined_private_names(module)}
    return _private_uses(modules, lambda name: name in ours)


def foreign_reach_ins(modules: Modules) -> Result:
    """Count the uses of private attributes that only JupyterHub, KubeSpawner or another library defines."""
    ours = {name for module in modules.values() for name in _defined_private_names(module)}
    return _private_uses(modules, lambda name: name not in ours)


def _private_uses(modules: Modules, counts: Callable[[str], bool]) -> Result:
    """Count the private attributes that are used on other objects than the instance, in a module that lacks them."""
    found = []
    for module in (module for module in modules.values() if module.name != PRIVATE_API):
        own = _defined_private_names(module) | NAMEDTUPLE_METHODS
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr) and node.attr not in own:
                owner = ast.unparse(node.value)
                if owner not in {"self", "cls", "super()"} and counts(node.attr):
                    found.append(module.at(node.lineno, f"{owner}.{node.attr}"))
    return Result(len(found), found)


def _defined_private_names(module: Module) -> set[str]:
    bodies = [node.body for node in module.nodes if isinstance(node, ast.Module | ast.ClassDef)]
    names = {name for body in bodies for name, _ in defined_names(body)}
    stored = [node for node in module.nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    names |= {node.attr for node in stored if ast.unparse(node.value) in {"self", "cls"}}
    return {name for name in names if name.startswith("_")}


def mutable_caches(modules: Modules) -> Result:
    """Count the variables of core's modules whose contents change while the hub runs.

    These are containers that a function of the module changes, variables that a function rebinds with ``global``, and
    instances of classes that change themselves. A memo of a pure function (``lru_cache``) does not count.
    """
    core = [module for module in modules.values() if module.room.startswith(CORE)]
    stateful = {
        node.name
        for module in core
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and _changes_itself(node)
    }
    found = []
    for module in core:
        changed = {name for node in module.nodes if isinstance(node, Function) for name in _changed(node)}
        for name, node in defined_names(module.tree.body):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
            if name in changed or called in stateful or called in CONTAINERS:
                found.append(module.at(node.lineno, name))
    return Result(len(found), found)


def _changes_itself(owner: ast.ClassDef) -> bool:
    methods = [node for node in owner.body if isinstance(node, Function)]
    others = [method for method in methods if method.name not in {"__init__", "__post_init__"}]
    return any(name.startswith("self.") for method in others for name in _changed(method))


def _changed(function: Function) -> set[str]:
    """Return what a function changes of what it has not made: variables of the module, and ``self.attribute``."""
    changed, rebound, local = set(), set(), {"cls"}
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            rebound |= set(node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            local.add(node.id)
        elif isinstance(node, ast.arg):
            local.add(node.arg)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed.add(ast.unparse(node.value))
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed.add(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            changed.add(ast.unparse(node.func.value))
    return (changed - local) | rebound


def trait_bases(modules: Modules) -> Result:
    """Count our own classes among all the bases of ``GPUSpawner``."""
    classes = {
        name: (module, node)
        for module in modules.values()
        for name, node in defined_names(module.tree.body)
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, str] = {}
    waiting = ["GPUSpawner"]
    while waiting:
        _, node = classes.get(waiting.pop(), (None, None))
        for name in (ast.unparse(base) for base in node.bases) if node else ():
            if name in classes and name not in found:
                module, base = classes[name]
                found[name] = module.at(base.lineno, name)
                waiting.append(name)
    return Result(len(found), list(found.values()))
