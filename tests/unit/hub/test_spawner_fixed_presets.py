"""A server with a fixed preset: the pod has what the preset and the chosen entries say, and nothing stays after it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tornado import web

from tests.unit.hub.conftest import A100, SETTINGS, MakeSpawner
from tests.unit.hub.starts import begin, environment, pod_of

PRESETS: dict[str, Any] = {
    "course": {
        "display_name": "Course",
        "image": "minimal",
        "cpu": "unlimited",
        "cpu_guarantee": 0.124,
        "memory": "100G",
        "kubespawner_override": {
            "node_selector": {"pool": "course"},
            "tolerations": [{"key": "course", "operator": "Exists"}],
            "environment": {"COURSE": "1"},
            "default_url": "/lab/tree/course",
            "start_timeout": 321,
        },
        "choices": {
            "size": {
                "entries": {
                    "small": {"memory": "4G", "memory_guarantee": "1G", "default": True},
                    "large": {
                        "memory": "unlimited",
                        "allowed_groups": ["tutors"],
                        "kubespawner_override": {
                            "node_selector": {"pool": None, "size": "large"},
                            "start_timeout": 654,
                        },
                    },
                }
            },
            "image": {"entries": {"torch": {"image": "pytorch"}}, "custom_image": {"pattern": "^acme/"}},
        },
    },
    "gpu": {"image": "pytorch", "cpu": 4, "memory": "unlimited", "gpu": "a100", "gpu_count": 2},
    "plain": {"image": "minimal", "cpu": 2},
}
FIXED = {**SETTINGS, "presets": PRESETS}
AMOUNTS = {"cpu_limit": 3, "cpu_guarantee": 1, "mem_limit": "3G", "mem_guarantee": "1G"}


def resources(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]["resources"]
    return found


async def test_the_pod_has_what_the_preset_says(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=FIXED, kubespawner={**AMOUNTS, "node_selector": {"zone": "a"}})
    pod = await pod_of(spawner, {"preset": "course"})
    assert resources(pod) == {"limits": {"memory": 4 << 30}, "requests": {"cpu": 0.124, "memory": 1 << 30}}
    assert pod["spec"]["nodeSelector"] == {"zone": "a", "pool": "course"}
    assert [each["key"] for each in pod["spec"]["tolerations"]] == ["course"]
    assert environment(pod)["COURSE"] == "1"
    assert (spawner.default_url, spawner.start_timeout) == ("/lab/tree/course", 321)
    assert pod["spec"]["containers"][0]["image"] == "registry.example/pytorch:1"


async def test_the_pod_has_what_the_chosen_entries_say(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=FIXED, kubespawner=AMOUNTS)
    spawner.user.groups = [SimpleNamespace(name="tutors")]
    chosen = {"size": "large"}
    pod = await pod_of(spawner, {"preset": "course", "preset_choices": chosen, "custom_image": "acme/own:1"})
    # Without a limit and a guarantee of its own, the server has the guarantee of KubeSpawner's traits.
    assert resources(pod) == {"limits": {}, "requests": {"cpu": 0.124, "memory": 1 << 30}}
    assert pod["spec"]["nodeSelector"] == {"size": "large"}
    assert spawner.start_timeout == 654
    assert pod["spec"]["containers"][0]["image"] == "acme/own:1"
    assert spawner.user_options == {
        "v": 1,
        "preset": "course",
        "preset_choices": chosen,
        "custom_image": "acme/own:1",
        "profile": "Course · acme/own:1",
    }


async def test_no_limit_holds_where_the_admin_writes_over_the_container(make_spawner: MakeSpawner):
    amounts = {"limits": {"cpu": "3", "memory": "3G", "rdma/hca": "1"}, "requests": {"cpu": "1", "memory": "1G"}}
    kubespawner = {**AMOUNTS, "extra_container_config": {"resources": amounts}}
    presets = {"p": {"cpu": "unlimited", "cpu_guarantee": 0.5, "memory": "unlimited", "memory_guarantee": 0}}
    pod = await pod_of(
        make_spawner(settings={**SETTINGS, "presets": presets}, kubespawner=kubespawner), {"preset": "p"}
    )
    assert resources(pod) == {"limits": {"rdma/hca": "1"}, "requests": {"cpu": 0.5}}


async def test_the_stored_choice_starts_the_same_pod(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=FIXED)
    first = await pod_of(spawner, {"preset": "course", "custom_image": "acme/own:1"})
    again = await pod_of(make_spawner(settings=FIXED), dict(spawner.user_options))
    assert again["spec"] == first["spec"]


async def test_a_preset_with_gpus_has_them_and_no_shared_memory_of_no_limit(make_spawner: MakeSpawner):
    pod = await pod_of(make_spawner(settings=FIXED), {"preset": "gpu"})
    assert resources(pod)["limits"] == {"cpu": 4.0, "nvidia.com/gpu": "2"}
    assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": A100}
    assert not [each for each in pod["spec"].get("volumes") or [] if each.get("emptyDir", {}).get("medium")]


@pytest.mark.parametrize(
    "admins",
    [
        {},
        {"environment": {"COURSE": "0"}, "tolerations": [{"key": "hub", "operator": "Exists"}], "default_url": "/tree"},
    ],
    ids=["nothing", "the same traits"],
)
async def test_the_next_start_has_no_trace_of_it(make_spawner: MakeSpawner, admins: dict[str, Any]):
    used, new = (make_spawner(settings=FIXED, kubespawner={**admins, "start_timeout": 77}) for _ in range(2))
    await begin(used, {"preset": "course"})
    pods = [await pod_of(spawner, {"preset": "plain"}) for spawner in (used, new)]
    assert pods[0]["spec"] == pods[1]["spec"]
    assert (used.start_timeout, used.default_url) == (77, new.default_url)
    used.clear_state()
    assert used.environment == admins.get("environment", {})


async def test_one_server_does_not_change_the_settings_of_the_next(make_spawner: MakeSpawner):
    pods = [await pod_of(make_spawner(settings=FIXED), {"preset": "course"}) for _ in range(2)]
    assert pods[0]["spec"] == pods[1]["spec"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"preset": "course", "preset_choices": {"size": "large"}}, "You don't have access to the choice large."),
        ({"preset": "course", "cpu": 4}, "The preset 'Course' sets cpu itself."),
        ({"preset": "course", "custom_image": "quay.io/a:1"}, "The image must match"),
        ({"preset": "gone"}, "There is no preset 'gone'"),
    ],
)
async def test_what_the_preset_does_not_allow_is_refused(make_spawner: MakeSpawner, options: Any, text: str):
    with pytest.raises(web.HTTPError, match=text):
        await begin(make_spawner(settings=FIXED), options)


async def test_a_server_without_a_choice_gets_the_default_preset(make_spawner: MakeSpawner):
    settings = {**FIXED, "only_presets": True, "presets": {**PRESETS, "plain": {**PRESETS["plain"], "default": True}}}
    spawner = make_spawner(settings=settings)
    await begin(spawner, {})
    assert spawner.user_options["preset"] == "plain"
    with pytest.raises(web.HTTPError, match="sets gpu itself"):
        await begin(make_spawner(settings=settings), {"gpu": "a100"})


async def test_braces_in_an_override_are_expanded_as_in_a_profile(make_spawner: MakeSpawner):
    presets = {"p": {"kubespawner_override": {"environment": {"HOME": "/home/{username}"}, "uid": 7}}}
    pod = await pod_of(make_spawner(settings={**SETTINGS, "presets": presets}), {"preset": "p"})
    assert environment(pod)["HOME"] == "/home/ada"
