from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.cluster.cluster_view import open_cluster_viewer
from gpuspawner.cli.cluster.offline_spawner import open_offline_spawner
from gpuspawner.cli.explain.explanation import Explanation, explain_choice
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.verdict.verdict import Outcome
from tests.unit.cli.conftest import Parsed, gpu_node, gpu_pod, settings
from tests.unit.kube.watch_server import NODES, WatchServer

SERVER_PODS = "/api/v1/namespaces/jhub/pods"
AMOUNTS = {
    "cpu": {"min": 1, "max": 64, "step": 1, "default": 2, "guarantee": 1},
    "memory": {"min": "1G", "max": "64G", "step": "1G", "default": "4G"},
}
ONE = {"gpu": "a100-80gb", "gpu_count": 1}


async def explained(
    parsed: Parsed, options: object, *, person: Person | None = None, values: Any = None
) -> Explanation:
    async with open_cluster_viewer(parsed(values=values or settings(**AMOUNTS))) as onlooker:
        seen = await onlooker.read_view()
        async with open_offline_spawner(onlooker, person or Person(name="user")) as spawner:
            return await explain_choice(spawner, options, offer=seen.offer, asks_policy=person is not None)


def told(found: Explanation) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(group["number"], group["answer"], tuple(group["why"])) for group in found.nodes]


async def test_what_starts_now_is_said_with_where(parsed: Parsed, server: WatchServer):
    server.put(NODES, gpu_node("gpu-2", unschedulable=True))
    found = await explained(parsed, ONE)
    assert (found.outcome, found.refused, found.nearest) == ("now", None, ())
    assert found.verdict is not None
    assert found.verdict.places == 3
    assert told(found) == [(1, "yes", ()), (1, "no", ("cordoned",))]


async def test_what_waits_is_said_with_what_would_not(parsed: Parsed):
    found = await explained(parsed, {**ONE, "gpu_count": 4})
    assert (found.outcome, told(found)) == ("waits", [(1, "no", ("insufficient nvidia.com/gpu",))])
    assert [each["gpu_count"] for each in found.nearest] == [3]


async def test_what_no_node_has_is_never(parsed: Parsed):
    found = await explained(parsed, {**ONE, "cpu": 64}, values=settings(**AMOUNTS, new_nodes="none"))
    assert (found.outcome, told(found)) == ("never", [(1, "no", ("insufficient cpu",))])
    assert [each["cpu"] for each in found.nearest] == [16]


async def test_invalid_options_are_named_by_their_fields(parsed: Parsed):
    found = await explained(parsed, {"gpu": "a100", "cpu": 999})
    assert (found.outcome, [problem.field for problem in found.invalid]) == ("refused", ["cpu", "gpu"])
    assert [each["field"] for each in found.serialize()["invalid"]] == ["cpu", "gpu"]


@pytest.mark.parametrize("options", [None, [], "x", 3, {"gpu": {"$gt": 1}}, {"v": 99}])
async def test_any_json_is_answered(parsed: Parsed, options: object):
    assert (await explained(parsed, options)).outcome in ("now", "refused")


async def test_without_the_pods_it_is_unknown(parsed: Parsed, server: WatchServer):
    server.denied = {("list", "pods")}
    found = await explained(parsed, ONE)
    assert (found.outcome, told(found)) == (
        "unknown",
        [(1, "unknown", ("not known: pods that are there cannot be read",))],
    )


def server_pod(owner: str, gpus: int) -> dict[str, Any]:
    pod = gpu_pod(f"jupyter-{owner}", gpus=gpus)
    notes = {
        "hub.jupyter.org/username": owner,
        "gpuspawner.jupyter.org/gpu": "a100-80gb",
        "gpuspawner.jupyter.org/gpu-count": str(gpus),
    }
    labels = {"component": "singleuser-server", "app.kubernetes.io/component": "singleuser-server"}
    return {**pod, "metadata": {**pod["metadata"], "namespace": "jhub", "annotations": notes, "labels": labels}}


POLICY = settings(
    **AMOUNTS, policy={"default": {"max_gpus": 2}, "groups": {"guests": {"max_gpus": 0}, "physics": {"max_gpus": 4}}}
)


@pytest.mark.parametrize(
    ("person", "in_use", "codes"),
    [
        (Person(name="ada"), 0, []),
        (Person(name="ada"), 1, []),
        (Person(name="ada"), 2, ["gpu_quota"]),
        (Person(name="ada", groups=frozenset({"Physics"})), 2, []),
        (Person(name="ada", groups=frozenset({"guests"})), 0, ["gpu_not_allowed"]),
        (Person(name="bob"), 2, []),
    ],
)
async def test_the_rules_are_asked_with_what_the_persons_pods_hold(
    parsed: Parsed, server: WatchServer, person: Person, in_use: int, codes: list[str]
):
    if in_use:
        server.put(SERVER_PODS, server_pod("ada", in_use))
    found = await explained(parsed, ONE, person=person, values=POLICY)
    assert found.refused is not None
    assert [problem.code for problem in found.refused] == codes
    assert found.outcome == ("refused" if codes else "now")
    assert found.verdict is not None
    assert found.verdict.outcome is Outcome.NOW


async def test_nothing_is_advised_that_the_person_may_not_have(parsed: Parsed):
    found = await explained(parsed, {**ONE, "gpu_count": 3}, person=Person(name="ada"), values=POLICY)
    assert [each["gpu_count"] for each in found.nearest] == [2]


async def test_the_pod_is_the_one_that_would_be_created(parsed: Parsed):
    values = settings(
        **AMOUNTS,
        gpus={
            "a100": {"resource": "nvidia.com/gpu", "tolerations": [{"key": "team", "operator": "Exists"}], "shm": 0.5}
        },
    )
    values["singleuser"] = {"nodeSelector": {"pool": "gpu"}}
    found = await explained(parsed, {"gpu": "a100", "gpu_count": 2, "memory": "8G"}, values=values)
    assert found.manifest is not None
    spec = found.manifest["spec"]
    assert (found.manifest["kind"], found.manifest["metadata"]["namespace"]) == ("Pod", "jhub")
    assert spec["nodeSelector"] == {"pool": "gpu"}
    assert "team" in [each["key"] for each in spec["tolerations"]]
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": 2.0, "memory": 8 * 2**30, "nvidia.com/gpu": "2"}
    assert [volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"]] == [str(4 * 2**30)]
    assert told(found) == [(1, "no", ("the pod's node selector or affinity does not match",))]


async def test_a_quota_of_the_namespace_holds_without_a_named_user_as_well(parsed: Parsed, server: WatchServer):
    amounts = {"requests.nvidia.com/gpu": "1"}
    server.put(
        "/api/v1/namespaces/jhub/resourcequotas",
        {"metadata": {"name": "gpus", "namespace": "jhub"}, "spec": {"hard": amounts}, "status": {"hard": amounts}},
    )
    found = await explained(parsed, {**ONE, "gpu_count": 2})
    assert [problem.code for problem in found.refused or ()] == ["namespace_quota"]
    assert [each["gpu_count"] for each in found.nearest] == [1]
    assert (await explained(parsed, ONE)).refused is None


@pytest.mark.parametrize("strange", [["x"], [{"operator": 3}], {"a": 3}])
async def test_what_no_pod_can_be_made_of_is_an_error_of_the_settings(parsed: Parsed, strange: object):
    values = {**settings(**AMOUNTS), "singleuser": {"extraContainers": strange}}
    with pytest.raises(SettingsError, match="KubeSpawner"):
        await explained(parsed, ONE, values=values)


async def test_the_pod_lacks_what_the_hub_would_take_from_it(parsed: Parsed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    values = settings(**AMOUNTS)
    values["hub"]["config"]["KubeSpawner"] = {"env_keep": ["NVIDIA_VISIBLE_DEVICES"]}
    found = await explained(parsed, ONE, values=values)
    assert found.manifest is not None
    (container,) = found.manifest["spec"]["containers"]
    assert "NVIDIA_VISIBLE_DEVICES" not in {variable["name"] for variable in container["env"]}
