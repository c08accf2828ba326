"""One list has the private names of other projects that gpuspawner needs, and the hub's start compares it."""

from __future__ import annotations

import ast
import inspect
import logging
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import kubespawner.clients
import pytest
from jupyterhub.spawner import Spawner
from kubespawner import KubeSpawner
from traitlets.log import get_logger

import gpuspawner
from gpuspawner.hub.kubespawner.private_api import (
    PRIVATE_NAMES,
    IncompatibleVersionError,
    PrivateName,
    check_private_names,
)
from gpuspawner.hub.spawner import GPUSpawner

PACKAGE = Path(gpuspawner.__file__).parent
NAMED_TUPLES = {"_replace", "_asdict", "_fields"}
"""Public in spite of the underscore, which keeps them apart from fields."""
LISTED = {each.name for each in PRIVATE_NAMES}


def modules() -> Iterator[ast.Module]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield ast.parse(file.read_text())


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLES


def list_defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that code defines; not those of a protocol, which says what others have."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.ClassDef(bases=[ast.Name(id="Protocol")]):
                continue
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name
        yield from list_defined(node)


def test_every_private_name_of_others_in_the_code_is_in_the_list():
    used = {
        node.attr
        for module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and is_private(node.attr)
    }
    defined = {name for module in modules() for name in list_defined(module)}
    assert used - defined - LISTED == set()


def test_every_private_name_that_the_spawner_shares_with_others_is_in_the_list():
    own = set(list_defined(ast.parse((PACKAGE / "hub/spawner.py").read_text())))
    functions = [
        getattr(each, "__func__", getattr(each, "func", each))
        for kind in KubeSpawner.__mro__
        for each in vars(kind).values()
    ]
    mentioned = {name for each in functions if inspect.isfunction(each) for name in each.__code__.co_names}
    others = mentioned | {name for kind in KubeSpawner.__mro__ for name in vars(kind)}
    assert {name for name in own & others if is_private(name)} - LISTED == set()


def test_nothing_is_in_the_list_that_no_code_uses():
    code = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py") if file.name != "private_api.py")
    inside = (PACKAGE / "hub/kubespawner/private_api.py").read_text()
    assert [name for name in sorted(LISTED) if f".{name}" not in code + inside] == []


@pytest.mark.parametrize("wanted", [each for each in PRIVATE_NAMES if each.is_overridden], ids=lambda each: each.name)
def test_what_overrides_a_method_takes_its_parameters(wanted: PrivateName):
    found = inspect.getattr_static(GPUSpawner, wanted.name)
    _, *parameters = inspect.signature(getattr(found, "func", found)).parameters
    assert tuple(parameters) == wanted.parameters


def test_the_installed_versions_have_them_all():
    check_private_names()


class Changed:
    """A spawner as a later version may change it."""

    __module__ = "jupyterhub.spawner"

    def _other(self) -> None: ...
    def _more(self, kind: str, wide: bool = False) -> None: ...
    def _demanding(self, kind: str, wide: bool) -> None: ...

    def _assigned(self) -> None:
        self._set_at_some_time = 1


VERSION = f"jupyterhub {metadata.version('jupyterhub')}: Changed."


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param(("_gone",), "_gone is gone; without it, all is lost.", id="a value is gone"),
        pytest.param(("_gone", ()), "_gone() is gone; without it, all is lost.", id="a method is gone"),
        pytest.param(("_other", ("kind",)), "_other takes (), not (kind); so all is lost.", id="fewer parameters"),
        pytest.param(("_more", ("name",)), "_more takes (kind, wide), not (name); so all is lost.", id="other names"),
        pytest.param(("_more", ("kind",)), "", id="an optional parameter more"),
        pytest.param(
            ("_more", ("kind",), True), "_more takes (kind, wide), not (kind); so all is lost.", id="of an override"
        ),
        pytest.param(
            ("_demanding", ("kind",)), "_demanding takes (kind, wide), not (kind); so all is lost.", id="a required one"
        ),
        pytest.param(("_other", ()), "", id="the same"),
        pytest.param(("_set_at_some_time",), "", id="an attribute of objects"),
    ],
)
def test_a_missing_private_name_is_reported_with_version_and_loss(
    wanted: tuple[Any, ...], told: str, caplog: pytest.LogCaptureFixture
):
    name, parameters, is_overridden = (*wanted, None, False)[: len(wanted)] + (None, False)[len(wanted) - 1 :]
    entry = PrivateName(Changed, name, "all is lost", parameters, is_overridden)
    if not told:
        check_private_names([entry])
        return
    get_logger().addHandler(caplog.handler)
    with caplog.at_level(logging.CRITICAL), pytest.raises(IncompatibleVersionError) as refused:
        check_private_names([entry])
    get_logger().removeHandler(caplog.handler)
    first = "gpuspawner cannot run with the versions that are installed here."
    assert str(refused.value) == f"{first}\n{VERSION}{told}"
    assert str(refused.value) in caplog.text


def test_all_that_is_missing_is_reported_at_once():
    entries = [PrivateName(Spawner, f"_{letter}", "x is lost") for letter in "ab"]
    with pytest.raises(ImportError) as refused:
        check_private_names(entries)
    assert len(str(refused.value).splitlines()) == 3


def test_a_module_may_be_the_owner():

    with pytest.raises(ImportError, match=r"jupyterhub-kubespawner \S+: kubespawner\.clients\._gone is gone"):
        check_private_names([PrivateName(kubespawner.clients, "_gone", "x is lost")])
