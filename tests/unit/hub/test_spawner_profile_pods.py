"""With a profile_list and no settings of gpuspawner, pods are KubeSpawner's own, but for gpuspawner's annotations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kubespawner import KubeSpawner
from traitlets import Dict

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import A100, MakeSpawner
from tests.unit.hub.followed import cut_off, pods_path, sent
from tests.unit.hub.starts import begin, plain_pod, plain_spawner, pod_of, without_our_annotations
from tests.unit.kube.watch_server import WatchServer

PROFILES: list[dict[str, Any]] = [
    {"display_name": "Plain", "slug": "plain"},
    {
        "display_name": "A100",
        "slug": "a100",
        "kubespawner_override": {
            "environment": {"WHO": "{username}"},
            "extra_annotations": {"team": "physics", "gpuspawner.example/a": "1"},
            "extra_labels": {"size": "big"},
            "extra_resource_limits": {"nvidia.com/gpu": "1"},
            "node_selector": {"nvidia.com/gpu.product": A100},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "profile_options": {
            "size": {
                "display_name": "Size",
                "choices": {
                    "small": {"display_name": "Small", "kubespawner_override": {"mem_limit": "4G"}},
                    "big": {
                        "display_name": "Big",
                        "default": True,
                        "kubespawner_override": {"mem_limit": lambda spawner: f"{len(spawner.user.name)}G"},
                    },
                },
            },
            "image": {
                "display_name": "Image",
                "unlisted_choice": {
                    "enabled": True,
                    "validation_regex": "^acme/.+:.+$",
                    "kubespawner_override": {"image": "{value}", "environment": {"IMAGE": "{value}"}},
                },
                "choices": {"lab": {"display_name": "Lab", "kubespawner_override": {"image": "acme/lab:1"}}},
            },
        },
    },
    {
        "display_name": "Everything",
        "slug": "all",
        "kubespawner_override": {
            "cpu_limit": 2,
            "cpu_guarantee": 0.5,
            "runtime_class_name": "nvidia",
            "priority_class_name": "high",
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "volume_mounts": [{"name": "shm", "mountPath": "/dev/shm"}],
            "init_containers": [{"name": "first", "image": "a/b", "env": [{"name": "A", "value": "1"}]}],
            "extra_containers": [{"name": "beside", "image": "a/b", "resources": {"limits": {"amd.com/gpu": "1"}}}],
            "extra_container_config": {"envFrom": [{"secretRef": {"name": "keys"}}]},
            "extra_pod_config": {"hostNetwork": True, "schedulerName": "other"},
            "node_affinity_required": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}],
            "node_affinity_preferred": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}
            ],
        },
    },
    {
        "display_name": "An hour",
        "slug": "hour",
        "kubespawner_override": {"extra_pod_config": {"activeDeadlineSeconds": 3600}},
    },
]
TRAITS: dict[str, Any] = {
    "cpu_limit": 1,
    "mem_limit": "2G",
    "environment": {"HERS": "1", "NVIDIA_VISIBLE_DEVICES": "all"},
    "extra_resource_limits": {"example.com/odd": "1"},
    "namespace": "default",
}
CHOICES = [
    pytest.param({}, id="nothing"),
    pytest.param({"profile": "plain"}, id="no override"),
    pytest.param({"profile": "a100"}, id="default choices"),
    pytest.param({"profile": "a100", "size": "small", "image": "lab"}, id="choices"),
    pytest.param({"profile": "a100", "image--unlisted-choice": "acme/own:2"}, id="unlisted choice"),
    pytest.param({"profile": "a100", "other": [1]}, id="options of a site beside it"),
    pytest.param({"profile": "all"}, id="everything"),
    pytest.param({"profile": "hour"}, id="run time"),
]


async def offer(_: KubeSpawner) -> list[dict[str, Any]]:
    return PROFILES


LISTS = [
    pytest.param(PROFILES, id="list"),
    pytest.param(offer, id="function"),
    pytest.param(
        {f"{number}": profile for number, profile in enumerate(PROFILES)},
        id="mapping",
        marks=pytest.mark.skipif(
            not any(isinstance(each, Dict) for each in KubeSpawner.profile_list.trait_types),
            reason="KubeSpawner 7.0 takes no mapping",
        ),
    ),
]


@pytest.mark.parametrize("options", CHOICES)
@pytest.mark.parametrize("profile_list", LISTS)
async def test_the_pod_is_kubespawners_field_by_field(
    make_spawner: MakeSpawner, profile_list: Any, options: dict[str, Any]
):
    traits = {**copy.deepcopy(TRAITS), "profile_list": profile_list}
    ours = make_spawner(settings={}, kubespawner=copy.deepcopy(traits))
    expected = await plain_pod(ours, traits, options=options)
    assert without_our_annotations(await pod_of(ours, dict(options))) == expected


@pytest.mark.parametrize("options", CHOICES)
@pytest.mark.parametrize("has_claim", [False, True], ids=["no claim", "claim"])
async def test_the_pod_that_is_sent_is_kubespawners(
    make_spawner: MakeSpawner, server: WatchServer, options: dict[str, Any], has_claim: bool
):
    """With a claim, the pod is built before the claim is made."""
    traits = {**TRAITS, "profile_list": PROFILES, "storage_pvc_ensure": has_claim, "storage_capacity": "1Gi"}
    ours = make_spawner(settings={}, kubespawner=copy.deepcopy(traits))
    expected = await plain_pod(ours, copy.deepcopy(traits), options=options)
    assert without_our_annotations(await send(ours, server, options)) == expected


@pytest.mark.parametrize("has_claim", [False, True], ids=["no claim", "claim"])
async def test_a_modify_pod_hook_gets_this_pod_once_and_has_the_last_word(
    make_spawner: MakeSpawner, server: WatchServer, has_claim: bool
):
    given: list[Any] = []

    def modify(spawner: GPUSpawner, pod: Any) -> Any:
        given.append(copy.deepcopy(spawner.api.api_client.sanitize_for_serialization(pod)))
        pod.metadata.labels["from-the-hook"] = "yes"
        return pod

    options = {"profile": "a100", "size": "small"}
    traits = {**TRAITS, "profile_list": PROFILES, "storage_pvc_ensure": has_claim, "storage_capacity": "1Gi"}
    ours = make_spawner(settings={}, kubespawner={**copy.deepcopy(traits), "modify_pod_hook": modify})
    expected = await plain_pod(ours, copy.deepcopy(traits), options=options)
    pod = await send(ours, server, options)
    assert [without_our_annotations(each) for each in given] == [expected]
    assert pod["metadata"]["labels"] == {**expected["metadata"]["labels"], "from-the-hook": "yes"}


async def test_a_profile_leaves_nothing_for_the_next_start_of_the_same_server(make_spawner: MakeSpawner):
    """KubeSpawner itself leaves what a profile has set in the spawner, which JupyterHub may use again."""
    traits = {**TRAITS, "profile_list": PROFILES}
    ours = make_spawner(settings={}, kubespawner=copy.deepcopy(traits))
    for slug in ("a100", "plain", "all", "a100"):
        expected = await plain_pod(ours, plain_spawner(copy.deepcopy(traits)), options={"profile": slug})
        assert without_our_annotations(await pod_of(ours, {"profile": slug})) == expected
        ours.clear_state()


async def test_the_admins_profiles_stay_as_they_are(make_spawner: MakeSpawner):
    ours = make_spawner(settings={}, kubespawner={**TRAITS, "profile_list": (profiles := copy.deepcopy(PROFILES[:1]))})
    await begin(ours, {"profile": "plain"})
    await ours.get_pod_manifest()
    assert profiles == PROFILES[:1]


async def send(spawner: GPUSpawner, server: WatchServer, options: dict[str, Any]) -> dict[str, Any]:
    """Start a server, and return the pod that it sends to be created."""
    spawner.user_options = dict(options)
    spawner.clear_state()
    start = spawner.start()
    await sent(server, spawner)
    await cut_off(start)
    posts = [each for each in server.requests if each.method == "POST" and each.path == pods_path(spawner)]
    (pod,) = [await each.json() for each in posts if "dryRun" not in each.query]
    return dict(pod)
