"""What could never run, or what Kubernetes would not take, is refused before anything is made."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.cluster import decode
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.pod.preview import serialize_pod
from gpuspawner.hub.start.preflight import draft_pod, run_preflight
from tests.unit.hub.conftest import SETTINGS, MakeSpawner, node
from tests.unit.kube.watch_server import HANG, NODE_POOLS, NODES, REVIEWS, WatchServer, eventually, node_pool, refusal

BARE = node("cpu-1")


def pods_path(spawner: Any) -> str:
    return f"/api/v1/namespaces/{spawner.namespace}/pods"


async def rehearsed(spawner: Any, gpu: str | None = None) -> None:
    offer = await spawner.make_offer()
    spawner.user_options = {} if gpu is None else {"gpu": gpu, "gpu_count": 1, "image": "minimal"}
    await run_preflight(spawner, await draft_pod(spawner), offer=offer, gpu=offer.catalog.gpus.get(gpu))


async def test_the_api_server_sees_the_very_pod_and_creates_nothing(make_spawner: MakeSpawner, server: WatchServer):
    def hook(_: Any, pod: Any) -> Any:
        pod.metadata.labels["from-the-hook"] = "yes"
        return pod

    volumes = {"volumes": [{"name": "data", "emptyDir": {}}], "volume_mounts": [{"name": "data", "mountPath": "/d"}]}
    spawner = make_spawner(kubespawner={"modify_pod_hook": hook, **volumes})
    await rehearsed(spawner)
    (asked,) = [each for each in server.requests if each.path == pods_path(spawner)]
    assert (asked.method, asked.query["dryRun"]) == ("POST", "All")
    sent = await asked.json()
    assert sent["metadata"]["labels"]["from-the-hook"] == "yes"
    (notebook,) = sent["spec"]["containers"]
    assert {"name": "JUPYTERHUB_API_TOKEN", "value": "secret"} in notebook["env"]
    assert [mount["name"] for mount in notebook["volumeMounts"]] == ["data"]


@pytest.mark.parametrize("status", [400, 401, 403, 422], ids=str)
async def test_what_kubernetes_refuses_is_refused_at_once(make_spawner: MakeSpawner, server: WatchServer, status: int):
    spawner = make_spawner()
    server.status[pods_path(spawner)] = status
    with pytest.raises(ApiException):
        await rehearsed(spawner)
    assert created(spawner, server) == ["pods?"]


@pytest.mark.parametrize("status", [404, 409])
async def test_what_kubespawner_itself_puts_right_is_not(make_spawner: MakeSpawner, server: WatchServer, status: int):
    spawner = make_spawner()
    server.status[pods_path(spawner)] = status
    await rehearsed(spawner)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504], ids=str)
async def test_what_may_be_different_a_moment_later_is_tried_again(
    make_spawner: MakeSpawner, server: WatchServer, status: int
):
    spawner = make_spawner()
    answers = [refusal(status), refusal(status), None]
    path = pods_path(spawner)

    def answer(request: web.Request) -> web.Response:
        refused = answers.pop(0)
        return web.json_response({}, status=201) if refused is None else refused(request)

    server.answers["POST", path] = answer
    await rehearsed(spawner)
    assert created(spawner, server) == ["pods?"] * 3


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(refusal(500), ApiException, id="failing"),
        pytest.param(HANG, TimeoutError, id="silent"),
    ],
)
async def test_what_stays_so_for_as_long_as_kubespawner_repeats_a_request_is_refused(
    make_spawner: MakeSpawner, server: WatchServer, answer: Any, expected: type[Exception]
):
    spawner = make_spawner(kubespawner={"k8s_api_request_timeout": 1, "k8s_api_request_retry_timeout": 1})
    server.answers["POST", pods_path(spawner)] = answer
    with pytest.raises(expected):
        await rehearsed(spawner)
    assert set(created(spawner, server)) == {"pods?"}


async def test_an_admin_can_do_without(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner(settings={"dry_run": False})
    await rehearsed(spawner)
    assert not [each for each in server.requests if each.path == pods_path(spawner)]


async def test_a_server_that_no_node_would_ever_take_is_refused_in_words(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(NODES, BARE)
    spawner = make_spawner(kubespawner={"node_selector": {"pool": "nowhere"}})
    with pytest.raises(RefusedStart, match="Can't start") as refused:
        await rehearsed(spawner)
    assert (refused.value.status_code, refused.value.reason) == (409, "never_fits")
    assert not [each for each in server.requests if each.path == pods_path(spawner)]


SIDECAR = {"name": "s", "image": "s", "env": [{"name": "A", "value": "1"}], "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    "admins",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"extra_containers": [SIDECAR], "init_containers": [SIDECAR]}, id="containers"),
        pytest.param({"extra_container_config": {"ports": [{"containerPort": 1, "hostPort": 1}]}}, id="host port"),
        pytest.param({"extra_pod_config": {"hostNetwork": True, "overhead": {"cpu": "1"}}}, id="pod"),
        pytest.param({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, id="claim"),
        pytest.param({"modify_pod_hook": serialize_pod}, id="a hook that returns a dict"),
    ],
)
async def test_what_a_pod_needs_is_read_whole(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, admins: dict[str, Any]
):
    spawner, seen = make_spawner(settings={**SETTINGS, "dry_run": False}, kubespawner=admins), []
    offer = await spawner.make_offer()
    spawner.user_options = {"gpu": "a100", "gpu_count": 1}
    await spawner.load_user_options()

    async def located(_: Any, manifest: Any) -> None:
        seen.append(decode.decode_pod(manifest))

    monkeypatch.setattr(type(offer), "add_volume_topology", located)
    await run_preflight(spawner, pod := await draft_pod(spawner), offer=offer, gpu=None)
    assert seen == [decode.decode_pod(serialize_pod(spawner, pod))]


HOME = {"storage_pvc_ensure": True, "storage_capacity": "1Gi"}


async def begun(spawner: Any) -> None:
    """Begin a start, up to the volume claim."""
    await spawner.load_user_options()
    await spawner._make_create_pvc_request(spawner.get_pvc_manifest(), 1)


def created(spawner: Any, server: WatchServer) -> list[str]:
    """Return what was sent to be created in the spawner's namespace, a dry run marked, in order."""
    folder = pods_path(spawner).removesuffix("pods")
    posts = [each for each in server.requests if each.method == "POST" and each.path.startswith(folder)]
    return [each.path.removeprefix(folder) + ("?" if "dryRun" in each.query else "") for each in posts]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param({}, (["pods?", "pods"], 1), id="no claim"),
        pytest.param(HOME, (["pods?", "persistentvolumeclaims", "pods"], 2), id="a claim"),
    ],
)
async def test_it_comes_before_what_is_made_first(
    make_spawner: MakeSpawner, server: WatchServer, volume: dict[str, Any], expected: tuple[list[str], int]
):
    called: list[Any] = []

    def hook(_: Any, pod: Any) -> Any:
        called.append(pod)
        return pod

    spawner = make_spawner(kubespawner={**volume, "modify_pod_hook": hook})
    start = spawner.start()
    await eventually(lambda: start.done() or "pods" in created(spawner, server))
    start.cancel()
    assert (created(spawner, server), len(called)) == expected


@pytest.mark.parametrize("volume", [pytest.param({}, id="no claim"), pytest.param(HOME, id="a claim")])
async def test_a_start_that_could_never_run_makes_nothing(
    make_spawner: MakeSpawner, server: WatchServer, volume: dict[str, Any]
):
    server.put(NODES, BARE)
    spawner = make_spawner(kubespawner={**volume, "node_selector": {"pool": "nowhere"}})
    with pytest.raises(RefusedStart, match="Can't start"):
        await spawner.start()
    assert (created(spawner, server), await spawner.poll()) == ([], 0)


async def test_a_start_that_could_never_run_makes_no_namespace(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, BARE)
    spawner = make_spawner(kubespawner={"enable_user_namespaces": True, "node_selector": {"pool": "nowhere"}})
    with pytest.raises(RefusedStart, match="Can't start"):
        await spawner.start()
    assert [each.path for each in server.requests if each.method == "POST" and each.path != REVIEWS] == []


async def test_a_claim_that_a_subclass_asks_for_late_is_not_made_for_a_start_that_could_never_run(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(NODES, BARE)
    spawner = make_spawner(kubespawner={"storage_capacity": "1Gi", "node_selector": {"pool": "nowhere"}})

    class Sites(type(spawner)):  # type: ignore[misc]
        async def load_user_options(self) -> None:
            await super().load_user_options()
            self.storage_pvc_ensure = True

    spawner.__class__ = Sites
    with pytest.raises(RefusedStart, match="Can't start"):
        await spawner.start()
    assert created(spawner, server) == []


async def test_a_pod_that_is_sent_twice_is_looked_at_once(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    server.answers["POST", pods_path(spawner)] = lambda request: (
        web.json_response({}, status=201) if "dryRun" in request.query else refusal(500)(request)
    )
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    for _ in range(2):
        with pytest.raises(ApiException):
            await spawner._make_create_pod_request(pod, 1)
    assert created(spawner, server) == ["pods?", "pods", "pods"]


async def test_a_hook_gets_a_manifest_that_no_hook_has_changed(make_spawner: MakeSpawner):
    def hook(_: Any, pod: Any) -> Any:
        assert "seen" not in pod.metadata.labels
        pod.metadata.labels["seen"] = "yes"
        return pod

    spawner = make_spawner(kubespawner={**HOME, "modify_pod_hook": hook})
    await begun(spawner)
    hook(spawner, await spawner.get_pod_manifest())


async def test_a_volume_that_was_found_under_another_name_is_the_one_that_is_mounted(make_spawner: MakeSpawner):
    home = {"name": "home", "persistentVolumeClaim": {"claimName": "{pvc_name}"}}
    spawner = make_spawner(kubespawner={**HOME, "volumes": [home]})
    await begun(spawner)
    spawner.pvc_name = "the-old-name"
    pod = serialize_pod(spawner, await spawner.get_pod_manifest())
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "the-old-name"


async def test_what_a_subclass_adds_to_the_choice_is_in_the_pod(make_spawner: MakeSpawner):
    spawner = make_spawner()

    class Sites(type(spawner)):  # type: ignore[misc]
        async def load_user_options(self) -> None:
            await super().load_user_options()
            self.environment = {**self.environment, "SITE": "ours"}

    spawner.__class__ = Sites
    await begun(spawner)
    (notebook,) = (await spawner.get_pod_manifest()).spec.containers
    assert [each.value for each in notebook.env if each.name == "SITE"] == ["ours"]


async def test_a_server_that_a_new_node_may_take_is_not_refused(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, BARE)
    server.put(NODE_POOLS, node_pool("p", requirements=[{"key": "pool", "operator": "In", "values": ["nowhere"]}]))
    await rehearsed(make_spawner(kubespawner={"node_selector": {"pool": "nowhere"}}))


async def test_a_server_that_kueue_queues_is_never_called_impossible(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, BARE)
    queued = {"extra_labels": {"kueue.x-k8s.io/queue-name": "gpu-queue"}, "node_selector": {"pool": "nowhere"}}
    await rehearsed(make_spawner(kubespawner=queued))
    assert [each for each in server.requests if each.method == "POST" and each.query.get("dryRun")]
