"""``gpuspawner explain`` of a profile_list without settings of gpuspawner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.explain.test_command import Call
from tests.unit.kube.watch_server import WatchServer

A100 = "NVIDIA-A100-SXM4-80GB"
VALUES: dict[str, Any] = {
    "singleuser": {
        "profileList": [
            {"display_name": "Plain", "slug": "plain", "default": True},
            {
                "display_name": "One GPU",
                "slug": "one",
                "kubespawner_override": {
                    "extra_resource_limits": {"nvidia.com/gpu": "1"},
                    "node_selector": {"nvidia.com/gpu.product": A100},
                },
                "profile_options": {
                    "size": {
                        "display_name": "Size",
                        "choices": {
                            "small": {
                                "display_name": "Small",
                                "default": True,
                                "kubespawner_override": {"mem_guarantee": "1G"},
                            },
                            "large": {"display_name": "Large", "kubespawner_override": {"mem_guarantee": "900G"}},
                        },
                        "unlisted_choice": {
                            "enabled": True,
                            "validation_regex": "^[0-9]+G$",
                            "kubespawner_override": {"mem_guarantee": "{value}"},
                        },
                    }
                },
            },
        ]
    },
    "hub": {"config": {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}}},
}


@pytest.fixture
def call(kubeconfig: str, tmp_path: Path) -> Call:
    return Call(kubeconfig, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 0, "Choice: Plain\n"),
        (["--profile", "one"], 0, "Choice: One GPU · 1 × A100 80 GB\n"),
        (["--profile", "one", "--option", "size=large"], 3, "has 900 GiB of memory"),
        (["--profile", "one", "--option", "size--unlisted-choice=800G"], 3, "has 800 GiB of memory"),
        (["--profile", "one", "--option", "size--unlisted-choice=x"], 1, "failed validation regex"),
        (["--profile", "one", "--option", "size=huge"], 1, "Not valid: profile: size: there is no entry 'huge'."),
        (["--profile", "two"], 1, "Not valid: profile: There is no profile 'two'. Offered: plain, one."),
        (["--user-options", '{"profile": "one", "size": "small"}'], 0, "Choice: One GPU · 1 × A100 80 GB\n"),
        (["--user-options", '{"profile": ["one"]}'], 1, "There is no profile a list."),
        (["--user-options", "null"], 0, "Choice: Plain\n"),
        (["--profile", "one", "--user", "ada"], 0, "Policy: allowed.\n"),
    ],
)
async def test_a_profile_is_explained_as_a_choice_of_fields_is(call: Call, arguments: list[str], code: int, words: str):
    found, output = await call(*arguments, values=VALUES)
    assert (found, words in output) == (code, True), output


async def test_a_profile_that_a_quota_of_the_namespace_keeps_from_starting_is_not_promised(
    call: Call, server: WatchServer
):
    amounts = {"requests.nvidia.com/gpu": "0"}
    server.put("/api/v1/namespaces/jhub/resourcequotas", {"metadata": {"name": "gpus"}, "status": {"hard": amounts}})
    found, output = await call("--profile", "one", values=VALUES)
    assert (found, "Starts now" in output) == (3, False), output


async def test_the_pod_is_kubespawners_with_what_it_asks_for_in_annotations(call: Call):
    _, output = await call("--profile", "one", "--manifest", "--output", "json", values=VALUES)
    pod = json.loads(output)["manifest"]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": A100}
    own = {key: value for key, value in pod["metadata"]["annotations"].items() if "gpuspawner" in key}
    assert {key.rpartition("/")[2]: value for key, value in own.items()} == {
        "summary": "One GPU · 1 × A100 80 GB",
        "gpu": "a100-80gb",
        "gpu-name": "A100 80 GB",
        "gpu-count": "1",
    }


@pytest.mark.parametrize(
    ("arguments", "values", "words"),
    [
        (["--gpu", "t4"], VALUES, "describe the choice by --profile and --option"),
        (["--profile", "one"], {}, "describe the choice by --preset, --gpu and the like"),
    ],
    ids=["fields of a profile_list", "a profile of fields"],
)
async def test_a_choice_in_the_other_language_is_a_wrong_call(
    call: Call, arguments: list[str], values: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        await call(*arguments, values=values)
    assert (ended.value.code, words in capsys.readouterr().err) == (2, True)
