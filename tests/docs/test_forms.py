"""Every example of settings makes a form that offers what it names, on nodes as its types want them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from devcluster.simulated import Pool, load
from docsite.markdown import Block
from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.form.build import build_view
from gpuspawner.hub.config.traits import SETTING_TRAITS
from gpuspawner.hub.form.rendering import render
from gpuspawner.settings import Settings
from tests.docs.support.pages import ROOT
from tests.docs.test_yaml import VALUES, merged, read

FLEET = load(ROOT / "devcluster" / "fleet.yaml")
ROOM = {"cpu": "128", "memory": "1000Gi"}
OF_SETTINGS = [
    example for example in VALUES if any("GPUSpawner" in repr(document) for document in read(example.values[0]))
]


def pools(configured: ConfiguredCatalog) -> Iterator[Pool]:
    """Yield the demo's nodes, and some for each type of the settings."""
    yield from FLEET
    for slug, gpu in configured.gpus.items():
        yield Pool(name=slug, count=1, allocatable={**ROOM, gpu.resource: str(gpu.max_count)}, labels=labels_of(gpu))


def labels_of(gpu: GPUType) -> dict[str, str]:
    return {key: values[0] for key, values in gpu.match.items() if values}


def offered(form: BeautifulSoup, name: str) -> set[str]:
    """Return what may be picked."""
    return {str(each["value"]) for each in form.select(f"input[name={name}], select[name={name}] option")}


@pytest.mark.parametrize("block", OF_SETTINGS)
def test_the_form_of_an_example_offers_what_it_names(block: Block, tmp_path: Path):
    values = HelmValues(merged=merged(block, tmp_path)).settings
    settings = Settings.parse(
        {key: value for key, value in values.items() if key in SETTING_TRAITS and value is not None}
    )
    configured = settings.configured
    nodes = tuple(decode.decode_node(node) for pool in pools(configured) for node in pool.nodes())

    catalog = assemble_catalog(
        configured, Inventory(nodes=nodes), table=settings.table, fallback_image="example.org/lab"
    )
    view = build_view(catalog, Inventory(nodes=nodes))
    form = BeautifulSoup(render(view), "html.parser")

    assert set(catalog.presets) == set(configured.presets)
    named = {*configured.gpus, *configured.unions}
    assert named - offered(form, "gpu") == set()
    gpus = [gpu for vendor in view.vendors for gpu in vendor.types]
    assert {gpu.slug for gpu in gpus if gpu.slug in named and not gpu.total} == set()
    assert set(configured.images) - offered(form, "image") == set()
