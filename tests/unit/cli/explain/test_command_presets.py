"""`gpuspawner explain` for presets that set KubeSpawner's traits and have choices."""

from __future__ import annotations

import asyncio
import io
import json
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gpuspawner.cli.explain.command import configure, run
from gpuspawner.cli.main import main
from tests.unit.cli.conftest import calls, settings

VALUES = settings(
    only_presets=True,
    images={"lab": {"image": "registry.example/lab:1", "kubespawner_override": {"environment": {"FROM": "image"}}}},
    presets={
        "small": {
            "display_name": "Small",
            "image": "lab",
            "cpu": "unlimited",
            "cpu_guarantee": 0.5,
            "memory": "4G",
            "kubespawner_override": {
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "environment": {"MODE": "small"},
                "start_timeout": 900,
            },
            "choices": {
                "size": {
                    "display_name": "Size",
                    "entries": {
                        "plain": {"display_name": "Plain", "default": True},
                        "large": {
                            "display_name": "Large",
                            "memory": "16G",
                            "allowed_groups": ["Tutors"],
                            "kubespawner_override": {"environment": {"MODE": "large"}},
                        },
                    },
                }
            },
        },
        "staff": {"display_name": "Staff", "cpu": 1, "allowed_groups": ["staff"], "allowed_users": ["ada"]},
    },
)
Call = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def call(kubeconfig: str, tmp_path: Path) -> Call:
    async def explain(*arguments: str) -> tuple[int, str]:
        parser = ArgumentParser()
        configure(parser)
        parsed = parser.parse_args([*calls(kubeconfig, tmp_path, VALUES), *arguments])
        out = io.StringIO()
        code = await asyncio.to_thread(run, parsed, out=out, notes=io.StringIO())
        return code, out.getvalue()

    return explain


async def test_the_pod_has_what_the_preset_and_its_entry_override(call: Call):
    code, told = await call("--preset", "small", "--choice", "size=large", "--manifest", "--output", "json")
    document = json.loads(told)
    spec = document["manifest"]["spec"]
    (container,) = spec["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert code == 0
    assert {name: value for name, value in document["options"].items() if name != "profile"} == {
        "v": 1,
        "preset": "small",
        "preset_choices": {"size": "large"},
    }
    assert (environment["FROM"], environment["MODE"]) == ("image", "large")
    assert {"key": "gpu", "operator": "Exists"} in spec["tolerations"]
    assert (container["resources"]["limits"], container["resources"]["requests"]["cpu"]) == (
        {"memory": 16 * 1024**3},
        0.5,
    )


async def test_the_values_of_a_preset_are_printed(call: Call):
    _, told = await call("--preset", "small", "--choice", "size=large")
    lines = [line for line in told.splitlines() if line.startswith(("Preset:", "For:", "Container:", "Pod:"))]
    assert lines == [
        "Preset: Small, Size: Large",
        "For: Large: group tutors",
        "Container: limits memory 16 GiB",
        "Container: requests cpu 0.5, memory 1 GiB",
        "Pod: environment FROM=image, MODE=large",
        "Pod: start timeout 900",
        'Pod: tolerations [{"key": "gpu", "operator": "Exists"}]',
    ]


async def test_the_users_of_a_preset_are_printed(call: Call):
    _, told = await call("--preset", "staff")
    assert "For: Staff: group staff, user ada" in told.splitlines()
    _, told = await call("--preset", "small")
    assert "For: every user, as far as the policy allows it" in told.splitlines()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--preset", "staff", "--user", "ada"], 0, "Policy: allowed."),
        (["--preset", "staff", "--user", "bob", "--group", "STAFF"], 0, "Policy: allowed."),
        (
            ["--preset", "staff", "--user", "bob"],
            1,
            "Refused (preset_not_allowed): You don't have access to the preset Staff",
        ),
        (
            ["--preset", "small", "--choice", "size=large", "--user", "bob"],
            1,
            "Refused (preset_not_allowed): You don't have access to the choice Large",
        ),
        (
            ["--preset", "small", "--choice", "size=large", "--user", "bob", "--group", "tutors"],
            0,
            "Policy: allowed.",
        ),
        (["--preset", "small", "--choice", "size=lrge"], 1, "Did you mean 'large'?"),
        (["--preset", "small", "--choice", "sze=large"], 1, "Not valid: preset_choices: "),
        (["--preset", "small", "--memory", "8G"], 1, "Not valid: memory: "),
        (["--preset", "smal"], 1, "Not valid: preset: "),
        ([], 0, "Preset: Small, Size: Plain"),
    ],
    ids=["user", "group", "other", "entry", "entry_group", "no_entry", "no_choice", "field", "no_preset", "default"],
)
async def test_a_preset_is_explained_for_a_person(call: Call, arguments: list[str], code: int, told: str):
    found, text = await call(*arguments)
    assert (found, told in text) == (code, True), text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--choice", "size=large"],
        ["--preset", "small", "--choice", "large"],
        ["--user-options", "{}", "--choice", "size=large"],
    ],
    ids=["alone", "no_name", "options"],
)
def test_a_wrong_choice_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["explain", *arguments])
    assert left.value.code == 2
    assert "gpuspawner explain: error: " in capsys.readouterr().err


async def test_a_preset_with_a_trait_of_the_hubs_own_class_is_explained(
    kubeconfig: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    preset = {"image": "lab", "cpu": 1, "memory": "1G", "kubespawner_override": {"course": "a", "rooms": {"b": 1}}}
    values = settings(images={"lab": {"image": "registry.example/lab:1"}}, presets={"a": preset}, only_presets=True)
    values["hub"]["config"]["JupyterHub"] = {"spawner_class": "mysite.CourseSpawner"}
    arguments = [*calls(kubeconfig, tmp_path, values), "--preset", "a", "--output", "json"]
    await asyncio.to_thread(main, ["explain", *arguments])
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["choice"]["kubespawner_override"]) == ("now", {"course": "a", "rooms": {"b": 1}})
