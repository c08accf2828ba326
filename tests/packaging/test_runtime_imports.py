"""At run time the package needs only what zero-to-jupyterhub's hub image already holds."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.smoke

# Distribution in the hub image → names imported from it. JupyterHub or KubeSpawner needs each of them, so every image
# that can run KubeSpawner has them.
IN_THE_HUB_IMAGE = {
    "aiohttp": {"aiohttp"},
    "jinja2": {"jinja2"},
    "jupyterhub": {"jupyterhub"},
    "jupyterhub-kubespawner": {"kubespawner"},
    "kubernetes-asyncio": {"kubernetes_asyncio"},
    "markupsafe": {"markupsafe"},
    "prometheus-client": {"prometheus_client"},
    "pydantic": {"pydantic", "pydantic_core"},
    "python-slugify": {"slugify"},
    "pyyaml": {"yaml"},
    "sqlalchemy": {"sqlalchemy"},
    "tornado": {"tornado"},
    "traitlets": {"traitlets"},
    "typing-extensions": {"typing_extensions"},
}
# Come with a declared dependency that cannot do without them: kubernetes_asyncio, jinja2,
# jupyterhub, KubeSpawner, pydantic.
BROUGHT_ALONG = {"aiohttp", "markupsafe", "python-slugify", "sqlalchemy", "typing-extensions"}
# The command line may say that its extra is not installed.
WITH_AN_EXTRA = {"gpuspawner/cli": {"kubernetes"}}


def imported_names(source: str) -> set[str]:
    """Name the top-level packages a module imports, wherever in it that happens."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_every_import_is_satisfied_by_the_hub_image():
    allowed = set(sys.stdlib_module_names) | {"gpuspawner"} | set().union(*IN_THE_HUB_IMAGE.values())
    found = {}
    for module in (ROOT / "gpuspawner").rglob("*.py"):
        layer = "/".join(module.relative_to(ROOT).parts[:2])
        if unknown := imported_names(module.read_text()) - allowed - WITH_AN_EXTRA.get(layer, set()):
            found[str(module.relative_to(ROOT))] = sorted(unknown)
    assert found == {}


def test_every_declared_dependency_is_in_the_hub_image():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w.-]+", each)[0].replace("_", "-") for each in project["dependencies"]}
    assert names | BROUGHT_ALONG == set(IN_THE_HUB_IMAGE)
