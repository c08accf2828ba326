from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.explain import command
from gpuspawner.cli.main import main
from gpuspawner.core.errors import SettingsError
from tests.unit.cli.conftest import Call, settings
from tests.unit.kube.watch_server import WatchServer

COMMAND = command
VALUES = settings(
    images={"lab": {"image": "registry.example/lab:1"}, "torch": {"image": "registry.example/torch:1"}},
    custom_images={"allowed": True},
    cpu={"min": 1, "max": 64, "step": 1, "default": 2},
    memory={"min": "1G", "max": "64G", "step": "1G", "default": "4G"},
    presets={"big": {"display_name": "Big", "gpu": "a100-80gb", "gpu_count": 2}},
    policy={"default": {"max_gpus": 1}},
)


async def asked(call: Call, *arguments: str) -> dict[str, Any]:
    _, told = await call(*arguments, "--output", "json")
    options: dict[str, Any] = json.loads(told)["options"]
    return {name: value for name, value in options.items() if name not in ("v", "profile")}


async def test_left_out_values_below_a_parent_charts_key_are_reported_too(call: Call):
    values = {"jupyterhub": {"hub": {**VALUES["hub"], "extraConfig": {"mine": "c.a = 1"}}}}
    _, told = await call("--output", "json", values=values)
    sentence = "Python is not run (hub.extraConfig): what it sets, and its hooks, are left out."
    assert sentence in json.loads(told)["left_out"]


async def test_a_choice_is_made_of_its_parts_and_of_defaults(call: Call):
    assert await asked(call, "--gpu", "a100-80gb") == {
        "image": "lab",
        "cpu": 2,
        "memory": "4G",
        "gpu": "a100-80gb",
        "gpu_count": 1,
    }
    parts = ("--image", "torch", "--gpu", "a100-80gb", "--count", "3", "--cpu", "8", "--memory", "16G")
    assert await asked(call, *parts) == {
        "image": "torch",
        "cpu": 8,
        "memory": "16G",
        "gpu": "a100-80gb",
        "gpu_count": 3,
    }


async def test_a_preset_and_an_image_by_its_reference_can_be_asked_about(call: Call):
    found = await asked(call, "--preset", "big", "--image", "quay.io/jupyter/base:1")
    assert (found["gpu_count"], found["custom_image"]) == (2, "quay.io/jupyter/base:1")


async def test_user_options_are_taken_as_they_are_or_from_a_file(call: Call, tmp_path: Path):
    options = {"gpu": "a100-80gb", "gpu_count": 2}
    file = tmp_path / "options.json"
    file.write_text(json.dumps(options))
    for given in (json.dumps(options), f"@{file}"):
        assert (await asked(call, "--user-options", given))["gpu_count"] == 2
    code, told = await call("--user-options", "null")
    assert (code, "Starts now" in told) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--gpu", "a100-80gb"], 0, "Starts now: room for 3 like this."),
        (["--gpu", "a100-80gb", "--count", "4"], 0, "Will wait: "),
        (["--gpu", "a100-80gb", "--cpu", "60"], 3, "One may be added; your server waits up to 5 min."),
        (["--gpu", "h100"], 1, "Not valid: gpu: There is no GPU type 'h100'."),
        (["--gpu", "a100-80gb", "--count", "x"], 1, "Not valid: gpu_count: "),
        (["--gpu", "a100-80gb", "--count", "2", "--user", "ada"], 1, "Refused (gpu_quota): "),
        (["--gpu", "a100-80gb", "--user", "ada"], 0, "Policy: allowed."),
    ],
)
async def test_the_exit_code_says_what_the_words_say(call: Call, arguments: list[str], code: int, told: str):
    found, text = await call(*arguments)
    assert (found, told in text) == (code, True), text


async def test_what_no_node_takes_never_starts_where_nothing_adds_nodes(call: Call):
    closed = settings(**VALUES["hub"]["config"]["GPUSpawner"], new_nodes="none")
    code, text = await call("--gpu", "a100-80gb", "--cpu", "60", values=closed)
    assert (code, "Can't start: " in text) == (1, True), text


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        pytest.param(["--count", "1", "--user", "ada"], 3, "No such node is running: there is no L4", id="within"),
        pytest.param(["--count", "2", "--user", "ada"], 1, "Refused (gpu_quota): ", id="above the user's limit"),
        pytest.param(["--count", "5"], 1, "Not valid: gpu_count: ", id="above the type's maximum"),
        pytest.param(["--cpu", "65"], 1, "Not valid: cpu: ", id="above the bounds"),
    ],
)
async def test_a_node_that_may_be_added_lifts_no_limit(call: Call, arguments: list[str], code: int, told: str):
    absent = {"l4": {"display_name": "L4", "resource": "nvidia.com/gpu", "match": {"pool": "l4"}, "max_count": 4}}
    values = settings(**VALUES["hub"]["config"]["GPUSpawner"], gpus=absent)
    found, text = await call("--gpu", "l4", *arguments, values=values)
    assert (found, told in text) == (code, True), text


async def test_unknown_counts_can_be_written_in_any_format(call: Call, server: WatchServer):
    server.denied = {("list", "nodes")}
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        code, told = await call("--gpu", "a100-80gb", "--output", output)
        found = read(told)
        assert (code, found["outcome"], found["verdict"]["sentence"]) == (
            *(3, "unknown"),
            "Availability unknown: the hub may not list the cluster's nodes.",
        )


@pytest.mark.parametrize("arguments", [[], ["--gpu", "a100-80gb"]], ids=["nothing", "fields"])
@pytest.mark.parametrize("own", [{}, {"policy": {"default": {"max_gpus": 1}}}], ids=["alone", "policy"])
async def test_another_form_than_ours_is_reported(call: Call, arguments: list[str], own: dict[str, Any]):
    values = {"hub": {"config": {"KubeSpawner": {"options_form": "<p>"}, "GPUSpawner": own}}}
    _, told = await call(*arguments, values=values)
    assert "Note: No setting of gpuspawner describes a field beside a form of yours" in told


async def test_nodes_advice_and_what_is_left_out_are_reported(call: Call):
    _, told = await call("--gpu", "a100-80gb", "--count", "4")
    assert "1      no           insufficient nvidia.com/gpu  gpu-1" in told.splitlines()
    assert "What starts now instead\n  lab · 2 CPUs · 4 GiB · 3 × A100 80 GB" in told
    assert "Note: The home volume is left out" in told


async def test_with_the_manifest_all_of_it_is_the_yaml_of_a_pod(call: Call):
    _, told = await call("--gpu", "a100-80gb", "--manifest")
    assert told.startswith("# Starts now")
    assert yaml.safe_load(told)["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    _, told = await call("--gpu", "a100-80gb", "--manifest", "--output", "json")
    assert json.loads(told)["manifest"]["kind"] == "Pod"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--user-options", "{"],
        ["--user-options", "@/no/such/file"],
        ["--user-options", "{}", "--gpu", "t4"],
        ["--option", "size=large"],
        ["--profile", "one", "--option", "large"],
        ["--user-options", "{}", "--profile", "one"],
        ["--group", "physics"],
        ["--user", ""],
        ["--as-hub", "--service-account", "a:b"],
    ],
)
def test_a_wrong_call_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["explain", *arguments])
    assert left.value.code == 2
    assert "gpuspawner explain: error: " in capsys.readouterr().err


async def test_what_group_overrides_give_the_persons_groups_counts(call: Call):
    changes = {"policy": {"default": {"max_gpus": 2}}, "node_selector": {"team": "ml"}}
    overrides = {"ml": {"groups": ["ml"], "spawner_override": changes}}
    values = {"hub": {"config": {**VALUES["hub"]["config"], "KubeSpawner": {"group_overrides": overrides}}}}
    told = {}
    for group in ("ml", "others"):
        who = ("--user", "ada", "--group", group, "--manifest", "--output", "json")
        _, answer = await call("--gpu", "a100-80gb", "--count", "2", *who, values=values)
        found = json.loads(answer)
        told[group] = (found["policy"]["allowed"], (found["manifest"]["spec"].get("nodeSelector") or {}).get("team"))
    assert told == {"ml": (True, "ml"), "others": (False, None)}


async def test_group_overrides_that_cannot_be_applied_are_named(call: Call):
    values = {"hub": {"config": {**VALUES["hub"]["config"], "KubeSpawner": {"group_overrides": {"ml": {}}}}}}
    with pytest.raises(SettingsError, match="group_overrides"):
        await call("--user", "ada", "--group", "ml", values=values)
