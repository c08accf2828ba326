"""The pod that comes of a choice, and what one start leaves to the next."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes_asyncio.client import V1ResourceRequirements
from tornado import web

from gpuspawner.core.policy.admission import admit
from gpuspawner.core.request.pod_requirements import GPU_HIDING_ENVIRONMENT
from gpuspawner.hub.admission import service
from tests.unit.hub.conftest import A100, CPU_NODE, GPU_NODE, SETTINGS, MakeSpawner
from tests.unit.hub.starts import GPU_OPTIONS, begin, environment, pod_of
from tests.unit.kube.watch_server import NODES as NODES_PATH
from tests.unit.kube.watch_server import WatchServer

# -- the pod ---------------------------------------------------------------------------------------------------------


async def test_a_pod_with_gpus_has_exactly_them_on_the_nodes_of_their_type(make_spawner: MakeSpawner):
    pod = await pod_of(make_spawner(), GPU_OPTIONS)
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": 4.0, "memory": 16 * 2**30, "nvidia.com/gpu": "2"},
        "requests": {"cpu": 2.0, "memory": 16 * 2**30},
    }
    assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": A100}
    assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert container["image"] == "registry.example/pytorch:1"


async def test_a_pod_without_a_gpu_sees_none_and_avoids_nodes_that_have_some(make_spawner: MakeSpawner):
    pod = await pod_of(make_spawner(), {})
    assert environment(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["limits"]
    ((kind, (term,)),) = pod["spec"]["affinity"]["nodeAffinity"].items()
    expression = {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": [A100]}
    assert kind == "preferredDuringSchedulingIgnoredDuringExecution"
    assert expression in term["preference"]["matchExpressions"]


@pytest.mark.parametrize("value", ["all", lambda _: "all"])
async def test_no_setting_shows_a_pod_with_gpus_more_of_them(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, value: Any
):
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    spawner = make_spawner(
        kubespawner={"environment": {"NVIDIA_VISIBLE_DEVICES": value}, "env_keep": ["NVIDIA_VISIBLE_DEVICES"]}
    )
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(await pod_of(spawner, GPU_OPTIONS))


NODES = {"key": "amd.com/gpu.product", "operator": "In", "values": ["MI210", "MI210-B"]}


DEVICES = {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/a100", "HABANA_VISIBLE_DEVICES": "habana.ai/gaudi"}
DOORS = [
    pytest.param(lambda limits: {"extra_resource_limits": limits}, id="extra_resource_limits"),
    pytest.param(
        lambda limits: {
            "extra_container_config": {"resources": {"limits": limits}},
            "extra_resource_limits": {"a/b": 1},
        },
        id="extra_container_config",
    ),
    pytest.param(
        lambda limits: {"extra_container_config": {"resources": V1ResourceRequirements(limits=limits)}}, id="model"
    ),
    pytest.param(
        lambda limits: {"extra_containers": [{"name": "side", "image": "b", "resources": {"limits": limits}}]},
        id="side container",
    ),
]


@pytest.mark.parametrize("door", DOORS)
async def test_a_container_sees_the_devices_that_it_asks_for_and_no_others(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, door: Any
):
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    asked = [(name, amount) for name in (*DEVICES.values(), "nvidia.com/hostdev") for amount in (1, "0")]
    found, expected = {}, {}
    for name, amount in asked:
        admins = {
            **door({name: amount}),
            "env_keep": ["NVIDIA_VISIBLE_DEVICES"],
            "environment": dict.fromkeys(DEVICES, "all"),
        }
        containers = (await pod_of(make_spawner(kubespawner=admins), {}))["spec"]["containers"]
        variables = {variable["name"]: variable.get("value") for variable in containers[-1]["env"]}
        found[name, amount] = {key: value for key, value in variables.items() if key in GPU_HIDING_ENVIRONMENT}
        shown = {key for key, device in DEVICES.items() if name == device and amount == 1}
        expected[name, amount] = {key: value for key, value in GPU_HIDING_ENVIRONMENT.items() if key not in shown}
    assert found == expected


async def test_a_type_of_such_a_resource_is_shown_too(make_spawner: MakeSpawner):
    gpus = {"share": {"resource": "volcano.sh/vgpu-number", "vendor": "other", "match": {"a": "b"}, "max_count": 2}}
    spawner = make_spawner(settings={"gpus": gpus})
    pod = await pod_of(spawner, {"gpu": "share", "gpu_count": 1})
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(pod)


# -- while nodes are unknown -------------------------------------------------------------------------------------------

CAPS = {"images": SETTINGS["images"], "policy": {"default": {"cpu": {"max": 1}, "memory": {"max": "2G"}}}}


def _leave_unread(server: WatchServer) -> None:
    server.held.add(NODES_PATH)


def _forbid(server: WatchServer) -> None:
    server.status[NODES_PATH] = 403


def _take_away(server: WatchServer) -> None:
    server.delete(NODES_PATH, GPU_NODE)
    server.delete(NODES_PATH, CPU_NODE)


@pytest.mark.parametrize("hide_nodes", [_leave_unread, _forbid, _take_away], ids=["slow", "no right", "no node yet"])
async def test_a_pod_is_inside_its_users_caps_while_no_node_is_known(
    make_spawner: MakeSpawner, server: WatchServer, hide_nodes: Callable[[WatchServer], None]
):
    hide_nodes(server)
    pod = await pod_of(make_spawner(settings=CAPS, capacity_timeout=0.1), {})
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": 1.0, "memory": 2 * 2**30},
        "requests": {"cpu": 0.5, "memory": 2 * 2**30},
    }


# -- one start after another -----------------------------------------------------------------------------------------


def _shape(pod: dict[str, Any]) -> dict[str, Any]:
    return {"spec": pod["spec"], "annotations": pod["metadata"]["annotations"]}


async def test_a_start_after_one_with_gpus_carries_no_trace_of_it(make_spawner: MakeSpawner):
    admins = {
        "volumes": [{"name": "home", "emptyDir": {}}],
        "tolerations": [{"key": "hub", "operator": "Exists"}],
        "environment": {"A": "b", "NVIDIA_VISIBLE_DEVICES": "none"},
        "extra_resource_limits": {"example.com/fpga": "1", "nvidia.com/gpu": "1"},
        "node_selector": {"pool": "users"},
        "extra_pod_config": {"restartPolicy": "OnFailure"},
    }
    used, new = make_spawner(kubespawner=admins), make_spawner(kubespawner=admins)
    await pod_of(used, GPU_OPTIONS)
    assert _shape(await pod_of(used, {"image": "minimal"})) == _shape(await pod_of(new, {"image": "minimal"}))


async def test_a_group_override_of_a_later_start_is_no_trace_either(make_spawner: MakeSpawner):
    overrides = {"all": {"groups": ["ml"], "spawner_override": {"extra_resource_limits": {"example.com/fpga": "1"}}}}
    spawner = make_spawner()
    spawner.user.groups = [SimpleNamespace(name="ml")]
    spawner.group_overrides = overrides
    await pod_of(spawner, GPU_OPTIONS)
    limits = (await pod_of(spawner, {}))["spec"]["containers"][0]["resources"]["limits"]
    assert sorted(limits) == ["cpu", "example.com/fpga", "memory"]


async def test_a_hook_that_replaces_what_was_set_does_not_lose_the_gpus_nodes(make_spawner: MakeSpawner):
    def hook(spawner: Any) -> None:
        spawner.node_selector = {"pool": "users"}
        spawner.tolerations = [{"key": "hub", "operator": "Exists"}]
        spawner.environment["FROM_HOOK"] = "1"

    pod = await pod_of(make_spawner(kubespawner={"pre_spawn_hook": hook}), GPU_OPTIONS)
    assert pod["spec"]["nodeSelector"] == {"pool": "users", "nvidia.com/gpu.product": A100}
    assert [toleration["key"] for toleration in pod["spec"]["tolerations"]] == ["hub", "nvidia.com/gpu"]
    assert environment(pod)["FROM_HOOK"] == "1"


async def test_a_hook_sees_the_admins_values_and_adds_to_them(make_spawner: MakeSpawner):
    seen: list[Any] = []

    def hook(spawner: Any) -> None:
        seen.append((spawner.node_affinity_required, spawner.tolerations, spawner.extra_resource_limits))
        spawner.node_affinity_required.append({"matchExpressions": [{"key": "pool", "operator": "Exists"}]})

    spawner = make_spawner(kubespawner={"pre_spawn_hook": hook, "image": "registry.example/base:1"})
    pod = await pod_of(spawner, {"image": "minimal", "gpu": "mi210"})
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    pool = {"key": "pool", "operator": "Exists"}
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": [pool, NODES]}]}
    assert [each[1:] for each in seen] == [([], {})]


async def test_a_choice_that_a_hook_changes_in_place_is_what_the_pod_has(make_spawner: MakeSpawner):
    def hook(spawner: Any) -> None:
        spawner.user_options["gpu_count"] = 1

    pod = await pod_of(make_spawner(kubespawner={"pre_spawn_hook": hook}), GPU_OPTIONS)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


async def test_a_choice_that_a_hook_makes_wrong_is_refused(make_spawner: MakeSpawner):
    def hook(spawner: Any) -> None:
        spawner.user_options = {**spawner.user_options, "gpu": "h900"}

    with pytest.raises(web.HTTPError, match="h900"):
        await begin(make_spawner(kubespawner={"pre_spawn_hook": hook}), GPU_OPTIONS)


async def test_a_start_checks_its_choice_once_if_nothing_changes_it(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch
):
    checked: list[object] = []

    def admit_counted(options: object, *args: Any, **kwargs: Any) -> Any:
        checked.append(options)
        return admit(options, *args, **kwargs)

    monkeypatch.setattr(service, "admit", admit_counted)
    await begin(make_spawner(), GPU_OPTIONS)
    assert len(checked) == 1


async def test_a_timeout_set_by_a_hook_counts_for_this_start(make_spawner: MakeSpawner):
    def hook(spawner: Any) -> None:
        spawner.start_timeout = 5

    spawner = make_spawner(kubespawner={"pre_spawn_hook": hook, "start_timeout": 77})
    await begin(spawner, GPU_OPTIONS)
    assert spawner.start_timeout == 5
    spawner.clear_state()
    assert spawner.start_timeout == 77
