"""`gpuspawner explain` of presets, and of images with a ``kubespawner_override``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gpuspawner.cli.explain import command
from gpuspawner.cli.main import main
from tests.unit.cli.conftest import Call, calls, settings

COMMAND = command
VALUES = settings(
    images={
        "lab": {
            "image": "registry.example/lab:1",
            "kubespawner_override": {
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "environment": {"MODE": "lab"},
                "start_timeout": 900,
            },
        },
        "thesis": {"image": "registry.example/thesis:1", "allowed_groups": ["Tutors"], "allowed_users": ["ada"]},
    },
    cpu={"min": 0.5, "max": 16, "step": 0.5, "default": 1},
    memory={"min": "1G", "max": "32G", "step": "1G", "default": "4G"},
    presets={
        "small": {"display_name": "Small", "image": "lab", "memory": "2G"},
        "staff": {"display_name": "Staff", "cpu": 4, "allowed_groups": ["staff"], "allowed_users": ["ada"]},
    },
)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--preset", "staff", "--user", "ada"], 0, "Policy: allowed."),
        (["--preset", "staff", "--user", "bob", "--group", "STAFF"], 0, "Policy: allowed."),
        (
            ["--preset", "staff", "--user", "bob"],
            1,
            "Refused (preset_not_allowed): You don't have access to the preset Staff",
        ),
    ],
    ids=["user", "group", "other"],
)
async def test_a_preset_is_explained_for_a_person(call: Call, arguments: list[str], code: int, words: str):
    found, output = await call(*arguments)
    assert (code, True) == (found, words in output), output


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["--preset", "small"],
            [
                "Container: limits cpu 1, memory 2 GiB",
                "Container: requests cpu 0.5, memory 2 GiB",
                "Pod: environment MODE=lab",
                "Pod: start timeout 900",
                'Pod: tolerations [{"key": "gpu", "operator": "Exists"}]',
            ],
        ),
        (
            ["--image", "thesis"],
            [
                "For: thesis: group tutors, user ada",
                "Container: limits cpu 1, memory 4 GiB",
                "Container: requests cpu 0.5, memory 4 GiB",
            ],
        ),
    ],
    ids=["override", "users"],
)
async def test_what_an_image_sets_and_who_may_have_it_is_printed(call: Call, arguments: list[str], lines: list[str]):
    _, output = await call(*arguments)
    assert lines == [line for line in output.splitlines() if line.startswith(("For:", "Container:", "Pod:"))]


async def test_an_image_with_a_trait_of_the_hubs_own_class_is_explained(
    kubeconfig: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    override = {"course": "a", "rooms": {"b": 1}}
    values = settings(images={"lab": {"image": "registry.example/lab:1", "kubespawner_override": override}})
    values["hub"]["config"]["JupyterHub"] = {"spawner_class": "mysite.CourseSpawner"}
    arguments = [*calls(kubeconfig, tmp_path, values), "--image", "lab", "--output", "json"]
    await asyncio.to_thread(main, ["explain", *arguments])
    document = json.loads(capsys.readouterr().out)
    assert ("now", override) == (document["outcome"], document["choice"]["kubespawner_override"])
