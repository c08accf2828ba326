"""What the documentation shows as settings are settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gpuspawner.hub.startup import check

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def sections(page: str) -> list[dict[str, object]]:
    """Return the sections of JupyterHub's configuration in each example of Helm values that sets gpuspawner up."""
    documents = [yaml.safe_load(block) for block in BLOCK.findall(page)]
    found = [document["hub"]["config"] for document in documents if "hub" in document]
    return [config for config in found if "GPUSpawner" in config]


EXAMPLES = [
    pytest.param(example, id=f"{page.name}-{number}")
    for page in PAGES
    for number, example in enumerate(sections(page.read_text()), 1)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_taken_as_it_stands(example: dict[str, object]):
    check(example)


@pytest.mark.parametrize(
    "setting",
    [
        *(
            "images",
            "custom_images",
            "run_time",
            "shared_memory",
            "any_of",
            "min_memory",
            "scale_up",
            "spot",
            "interconnect",
        ),
        *("capacity_timeout", "priorities", "policy", "pools", "hide", "max_runtime"),
    ],
)
def test_there_is_an_example_of_each_setting_that_needs_one(setting: str):
    assert any(f"'{setting}'" in repr(example.values[0]) for example in EXAMPLES)
