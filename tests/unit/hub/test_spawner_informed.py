"""Programs read their server's GPU and run time from the environment; an admin's variable of the same name wins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import GPU_OPTIONS, environment, pod_of

RUN_TIME = {"min": "1m", "max": "8h", "step": "1m", "default": "1h"}
GPUS: dict[str, Any] = {**SETTINGS["gpus"]}
NAMES = ("GPUSPAWNER_GPU", "GPUSPAWNER_GPU_NAME", "GPUSPAWNER_GPU_COUNT", "GPUSPAWNER_RUN_TIME")
OURS = ("a100", GPUS["a100"]["display_name"], "2", "3600")
OWN = {"GPUSPAWNER_GPU_NAME": "our big card", "GPUSPAWNER_RUN_TIME": "never"}
ADMINS = (OURS[0], "our big card", OURS[2], "never")


def told(pod: dict[str, Any]) -> tuple[str | None, ...]:
    return tuple(environment(pod).get(name) for name in NAMES)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(GPU_OPTIONS, OURS, id="with GPUs"),
        pytest.param({"gpu": None}, (None, None, None, "3600"), id="without a GPU"),
    ],
)
async def test_the_environment_tells_the_gpu_and_the_run_time(
    make_spawner: MakeSpawner, options: dict[str, Any], expected: tuple[str | None, ...]
):
    assert told(await pod_of(make_spawner(settings={**SETTINGS, "run_time": RUN_TIME}), options)) == expected


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"environment": OWN}, id="environment of the GPU type"),
        pytest.param({"kubespawner_override": {"environment": OWN}}, id="kubespawner_override of the GPU type"),
    ],
)
async def test_an_admins_variable_of_the_same_name_wins(make_spawner: MakeSpawner, entry: dict[str, Any]):
    gpus = {**GPUS, "a100": {**GPUS["a100"], **entry}}
    spawner = make_spawner(settings={**SETTINGS, "run_time": RUN_TIME, "gpus": gpus})
    assert told(await pod_of(spawner, GPU_OPTIONS)) == ADMINS
