"""Installed where no checkout is, the package works: names, entry point, data, form."""

from __future__ import annotations

import json
import re
from typing import Protocol

import pytest

pytestmark = pytest.mark.smoke


class Installation(Protocol):
    """An environment that holds the wheel."""

    def python(self, script: str) -> str: ...


RENDER = """
    from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image
    from gpuspawner.core.cluster.state import Inventory
    from gpuspawner.core.form.build import build_view
    from gpuspawner.hub.form.rendering import render

    image = Image(slug="pytorch", display_name="PyTorch", image="registry.example/pytorch:1")
    gpu = GPUType(slug="a100", display_name="A100 80 GB", resource="nvidia.com/gpu", vendor="nvidia", max_count=4)
    catalog = Catalog(
        images={"pytorch": image},
        cpu=Bounds(min=500, max=8000, step=500, default=2000),
        memory=Bounds(min=2**30, max=64 * 2**30, step=2**30, default=8 * 2**30),
        gpus={"a100": gpu},
    )
    print(render(build_view(catalog, Inventory())))
"""

CHECKOUT_FREE = """
    import json, sys, gpuspawner
    print(json.dumps({"file": gpuspawner.__file__, "prefix": sys.prefix}))
"""


EVERY_MODULE = """
    import importlib, pkgutil, gpuspawner
    names = [module.name for module in pkgutil.walk_packages(gpuspawner.__path__, "gpuspawner.")]
    for name in names:
        importlib.import_module(name)
    print(len(names))
"""


def test_the_package_comes_from_its_own_environment(installation: Installation):
    found = json.loads(installation.python(CHECKOUT_FREE))
    assert found["file"].startswith(found["prefix"])


def test_every_module_can_be_imported_with_the_declared_dependencies(installation: Installation):
    assert int(installation.python(EVERY_MODULE)) > 5


def test_the_form_renders(installation: Installation):
    page = installation.python(RENDER)
    assert [word for word in ("PyTorch", "A100 80 GB", "gpu_count", "<style", "<script") if word not in page] == []


def test_the_form_holds_no_comment_of_a_script_or_style_sheet(installation: Installation):
    assert re.findall(r"/\*.*|(?<!:)//.*", installation.python(RENDER)) == []
