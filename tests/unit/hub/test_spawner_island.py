"""The data for the page's script in a hub's form agrees with templates/island.schema.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future
from tornado import web

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.islands import faults

PRESETS = {"small": {"cpu": 1}, "train": {"gpu": "a100", "gpu_count": 4}}


async def island(spawner: GPUSpawner) -> Any:
    (data,) = BeautifulSoup(await spawner.get_options_form(), "html.parser").select("#gpuspawner-data")
    return json.loads(data.text)


@pytest.mark.parametrize(
    ("settings", "types"),
    [
        pytest.param(SETTINGS, ["a100", "mi210"], id="settings"),
        pytest.param({**SETTINGS, "presets": PRESETS}, ["a100", "mi210"], id="presets"),
        pytest.param({}, ["a100-80gb"], id="nothing but the cluster"),
    ],
)
async def test_the_script_gets_what_the_schema_says(make_spawner: MakeSpawner, settings: Any, types: list[str]):
    found = await island(make_spawner(settings=settings, kubespawner={"image": "registry.example/base:1"}))
    assert (faults(found), [gpu["slug"] for gpu in found["gpus"]]) == ([], types)


async def test_it_does_while_the_cluster_is_unknown(make_spawner: MakeSpawner, use_api: Callable[[str], None]):
    use_api("http://127.0.0.1:1")
    found = await island(make_spawner())
    assert (faults(found), [gpu["total"] for gpu in found["gpus"]]) == ([], [None, None])


async def test_it_does_when_the_form_comes_back(make_spawner: MakeSpawner):
    spawner = make_spawner()
    with pytest.raises(web.HTTPError):
        await maybe_future(spawner.run_options_from_form({"cpu": ["3cores"]}))
    found = await island(spawner)
    assert (faults(found), found["values"]["cpu"]) == ([], "3cores")
