"""Which GPU types may get nodes that nothing describes, by the settings of the hub and of each type."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.settings import Settings

GPU = "nvidia.com/gpu"
T4_NODE = Node(
    name="t4",
    labels={"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"},
    capacity={GPU: 1},
    allocatable={GPU: 1},
)


def described(pool: str, **keys: Any) -> dict[str, Any]:
    return {"resource": GPU, "match": {"pool": pool}, **keys}


TYPES = {
    "plain": described("plain"),
    "open": described("open", new_nodes="possible"),
    "closed": described("closed", new_nodes="none"),
    "closed-either": {"any_of": ["closed"]},
    "open-either": {"any_of": ["open", "closed"]},
}


@pytest.mark.parametrize(
    ("hub", "expected"),
    [
        pytest.param({}, {"plain", "open", "open-either", "t4", ""}, id="the hub says nothing"),
        pytest.param({"new_nodes": "possible"}, {"plain", "open", "open-either", "t4", ""}, id="possible"),
        pytest.param({"new_nodes": "none"}, {"open", "open-either"}, id="none"),
    ],
)
def test_a_type_has_its_own_word_or_that_of_the_hub(hub: dict[str, Any], expected: set[str]):
    settings = Settings.parse({"gpus": TYPES, **hub})
    catalog = assemble_catalog(
        settings.configured, Inventory(nodes=(T4_NODE,)), table=settings.table, fallback_image="i"
    )
    may_get_nodes = {slug for slug, gpu in catalog.gpus.items() if gpu.new_nodes} | (
        {""} if catalog.new_nodes else set()
    )
    assert (may_get_nodes, set(catalog.gpus)) == (expected, {*TYPES, "t4"})
