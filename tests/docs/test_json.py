"""Every example in JSON is a choice that the rules take, as form, link and REST API would send it."""

from __future__ import annotations

import json

import pytest

from docsite.markdown import Block
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.request.selection import validate
from gpuspawner.settings import Settings
from tests.docs.support.pages import examples

EXAMPLES = list(examples(lambda block: block.language == "json"))
# All examples of settings, put together.
SETTINGS = {
    "images": {"pytorch": {"image": "quay.io/jupyter/pytorch-notebook:cuda12-latest"}},
    "custom_images": {"allowed": True},
    "cpu": {"max": 16},
    "memory": {"max": "128G"},
    "run_time": {"max": "24h"},
    "shared_memory": {"max": "8G"},
    "priorities": {"low": {"class": "jupyter-low", "value": -10}},
    "gpus": {"a100-80gb": {"resource": "nvidia.com/gpu", "match": {"a": "b"}, "max_count": 8}},
    "presets": {
        "training": {"gpu": "a100-80gb", "gpu_count": 1},
    },
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    settings = Settings.parse(SETTINGS)
    return assemble_catalog(settings.configured, Inventory(), table=settings.table, fallback_image="python:3.12")


@pytest.mark.parametrize("block", EXAMPLES)
def test_the_rules_take_a_choice(block: Block, catalog: Catalog):
    for line in block.text.splitlines() if "\n{" in block.text.strip() else [block.text]:
        validate(json.loads(line), catalog)


def test_there_are_choices_in_the_pages():
    assert len(EXAMPLES) >= 4
