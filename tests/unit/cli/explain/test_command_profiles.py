"""``gpuspawner explain`` of the profiles of a profile_list, alone and beside fields of the form."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.explain import command
from tests.unit.cli.conftest import Call
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

COMMAND = command


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 0, "Choice: Plain\n"),
        (["--profile", "one"], 0, "Choice: One GPU · 1 × A100 80 GB\n"),
        (["--profile", "one", "--option", "size=large"], 3, "has 900 GiB of memory"),
        (["--profile", "one", "--option", "size--unlisted-choice=800G"], 3, "has 800 GiB of memory"),
        (["--profile", "one", "--option", "size--unlisted-choice=x"], 1, "this text cannot be used"),
        (["--profile", "one", "--option", "size=huge"], 1, "Not valid: profile: size: there is no entry 'huge'."),
        (["--profile", "two"], 1, "Not valid: profile: There is no profile 'two'. Offered: plain, one."),
        (["--user-options", '{"profile": "one", "size": "small"}'], 0, "Choice: One GPU · 1 × A100 80 GB\n"),
        (["--user-options", '{"profile": ["one"]}'], 1, "There is no profile a list."),
        (["--user-options", "null"], 0, "Choice: Plain\n"),
        (["--profile", "one", "--user", "ada"], 0, "Policy: allowed.\n"),
    ],
)
async def test_a_profile_is_explained_as_a_choice_of_fields_is(call: Call, arguments: list[str], code: int, words: str):
    found, output = await call(*arguments)
    assert (code, True) == (found, words in output), output


async def test_a_quota_of_the_namespace_refuses_a_profile_without_a_named_user_as_well(call: Call, server: WatchServer):
    amounts = {"requests.nvidia.com/gpu": "0"}
    server.put("/api/v1/namespaces/jhub/resourcequotas", {"metadata": {"name": "gpus"}, "status": {"hard": amounts}})
    found, output = await call("--profile", "one")
    assert (found, "Refused (namespace_quota): " in output) == (1, True), output


def limited(**settings: Any) -> dict[str, Any]:
    """Return the values with settings of gpuspawner and more profiles."""
    more = [
        {"display_name": "Two GPUs", "slug": "two-gpus", "kubespawner_override": _ask_for_gpus(2)},
        {"display_name": "Any GPU", "slug": "any", "kubespawner_override": _ask_for_gpus(1, selector={})},
        {"display_name": "Unlimited", "slug": "unlimited", "kubespawner_override": {"mem_limit": None}},
        {
            "display_name": "Image",
            "slug": "image",
            "profile_options": {
                "image": {
                    "choices": {"base": {"display_name": "Base", "default": True, "kubespawner_override": {}}},
                    "unlisted_choice": {"enabled": True, "kubespawner_override": {"image": "{value}"}},
                }
            },
        },
    ]
    profiles = [*VALUES["singleuser"]["profileList"], *more]
    config = {**VALUES["hub"]["config"], "GPUSpawner": settings}
    return {"singleuser": {"profileList": profiles, "memory": {"limit": "4G"}}, "hub": {"config": config}}


def _ask_for_gpus(count: int, *, selector: dict[str, str] | None = None) -> dict[str, Any]:
    chosen = {"nvidia.com/gpu.product": A100} if selector is None else selector
    return {"extra_resource_limits": {"nvidia.com/gpu": str(count)}, "node_selector": chosen}


ONE_GPU = {"default": {"max_gpus_per_server": 1}}
BY_GROUP = {"default": {"gpus": []}, "groups": {"physics": {"gpus": ["a100-80gb"]}}}
MEMORY = {"default": {"memory": {"max": "16G"}}}
NO_IMAGE = {"default": {"custom_images": False}}
TYPED = ["--profile", "image", "--option", "image--unlisted-choice=quay.io/jupyter/base:1"]


@pytest.mark.parametrize(
    ("policy", "arguments", "words"),
    [
        (ONE_GPU, ["--profile", "one"], ""),
        (ONE_GPU, ["--profile", "two-gpus"], "gpu_quota"),
        ({"default": {"max_gpus": 0}}, ["--profile", "one"], "gpu_not_allowed"),
        ({"default": {"max_gpus": 0}}, ["--profile", "plain"], ""),
        (BY_GROUP, ["--profile", "one"], "gpu_not_allowed"),
        (BY_GROUP, ["--profile", "one", "--group", "physics"], ""),
        (BY_GROUP, ["--profile", "any", "--group", "physics"], ""),
        (MEMORY, ["--profile", "plain"], ""),
        (MEMORY, ["--profile", "unlimited"], "memory_not_allowed"),
        (NO_IMAGE, ["--profile", "image"], ""),
        (NO_IMAGE, TYPED, "custom_image_not_allowed"),
        ({"default": {}}, TYPED, ""),
    ],
    ids=[
        *("per_server", "too_many", "no_gpu", "without_gpu", "type", "group", "one_type", "memory", "no_limit"),
        *("listed", "typed", "typed_allowed"),
    ],
)
async def test_the_policy_holds_for_profiles(call: Call, policy: dict[str, Any], arguments: list[str], words: str):
    values = limited(policy=policy)
    code, output = await call(*arguments, "--user", "ada", values=values)
    sentence = f"Refused ({words}): " if words else "Policy: allowed.\n"
    assert (1 if words else 0, True) == (code, sentence in output), output
    code, output = await call(*(part for part in arguments if part not in ("--group", "physics")), values=values)
    assert (code, "Policy: not checked" in output) == (0, True), output


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ([], "Plain"),
        (["--profile", "one"], "One GPU · 1 × A100 80 GB"),
        (["--gpu", "a100-80gb"], "lab · 2 CPUs · 4 GiB · 1 × A100 80 GB"),
        (["--user-options", '{"profile": "one"}'], "One GPU · 1 × A100 80 GB"),
        (["--user-options", '{"v": 1, "gpu": "a100-80gb", "gpu_count": 1}'], "lab · 2 CPUs · 4 GiB · 1 × A100 80 GB"),
        (["--user-options", "null"], "Plain"),
    ],
    ids=["nothing", "profile", "field", "profile_options", "field_options", "null"],
)
async def test_a_hub_with_profiles_and_fields_takes_both(call: Call, arguments: list[str], summary: str):
    values = limited(images={"lab": {"image": "registry.example/lab:1"}}, cpu={"min": 1, "max": 8, "default": 2})
    code, output = await call(*arguments, values=values)
    assert (code, f"Choice: {summary}\n" in output) == (0, True), output


async def test_a_choice_has_either_a_profile_or_fields(call: Call, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        await call("--profile", "one", "--gpu", "a100-80gb", values=limited(cpu={"max": 8}))
    assert (ended.value.code, "exclude each other" in capsys.readouterr().err) == (2, True)


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
