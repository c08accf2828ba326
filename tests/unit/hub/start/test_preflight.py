"""A pod that could never run, or that Kubernetes would refuse, is refused before anything is made."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.cluster import decode
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.pod.preview import serialize_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.preflight import draft_pod, run_preflight
from tests.unit.hub import kueue_server as kueue
from tests.unit.hub.conftest import CLOSED, GPU_NODE, SETTINGS, MakeSpawner, node
from tests.unit.hub.followed import admit, pods_path
from tests.unit.kube.watch_server import HANG, NODE_POOLS, NODES, REVIEWS, WatchServer, eventually, node_pool, refusal

BARE = node("cpu-1")


async def rehearsed(spawner: Any, gpu: str | None = None) -> None:
    offer = await spawner.make_offer()
    spawner.user_options = {} if gpu is None else {"gpu": gpu, "gpu_count": 1, "image": "minimal"}
    spawner.start_state.feed.gpu = offer.catalog.gpus.get(gpu)
    await run_preflight(spawner, await draft_pod(spawner), offer=offer)


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


TRANSIENT = (429, 500, 502, 503, 504)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, *TRANSIENT], ids=str)
async def test_a_refusal_is_final_left_to_kubespawner_or_tried_again(
    make_spawner: MakeSpawner, server: WatchServer, status: int
):
    spawner = make_spawner()
    refusals = iter([refusal(status)] * 2)

    def answer(request: web.Request) -> web.Response:
        refused = next(refusals, None)
        return web.json_response({}, status=201) if refused is None else refused(request)

    server.answers["POST", pods_path(spawner)] = answer
    with pytest.raises(ApiException) if status in {400, 403, 422} else nullcontext():
        await rehearsed(spawner)
    assert created(spawner, server) == ["pods?"] * (3 if status in TRANSIENT else 1)


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


async def test_a_server_that_a_new_node_may_take_goes_on(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, BARE)
    spawner = make_spawner(kubespawner={"node_selector": {"pool": "nowhere"}})
    await rehearsed(spawner)
    assert created(spawner, server) == ["pods?"]


RESERVED = {**BARE, "spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}}


@pytest.mark.parametrize(
    ("there", "added", "expected"),
    [
        pytest.param(BARE, {}, "", id="nothing"),
        pytest.param(
            BARE,
            {"nodeSelector": {"pool": "nowhere"}},
            "no node is of the kind that servers like this one use",
            id="selector",
        ),
        pytest.param(BARE, {"overhead": {"cpu": "99"}}, "no node has 99", id="overhead"),
        pytest.param(RESERVED, {}, "every node is reserved for others", id="no toleration"),
        pytest.param(RESERVED, {"tolerations": [{"operator": "Exists"}]}, "", id="toleration"),
    ],
)
async def test_the_pod_that_is_judged_is_the_one_that_admission_makes(
    make_spawner: MakeSpawner, server: WatchServer, there: dict[str, Any], added: dict[str, Any], expected: str
):
    server.put(NODES, there, {**GPU_NODE, "spec": there.get("spec", {})})
    spawner = make_spawner(settings=CLOSED, kubespawner={"extra_pod_config": {"runtimeClassName": "kata"}})
    admit(server, spawner, **added)
    if not expected:
        await rehearsed(spawner)
        return
    with pytest.raises(RefusedStart, match=expected):
        await rehearsed(spawner)


async def test_without_an_answer_the_draft_is_judged(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, BARE)
    spawner = make_spawner(settings=CLOSED, kubespawner={"node_selector": {"pool": "nowhere"}})
    server.status[pods_path(spawner)] = 404
    with pytest.raises(RefusedStart, match="Can't start"):
        await rehearsed(spawner)


async def test_no_secret_of_the_pod_is_kept_for_the_start(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner(kubespawner={"init_containers": [SIDECAR]})
    admit(server, spawner)
    await rehearsed(spawner)
    kept = spawner.start_state.admitted_pod
    assert kept is not None
    containers = [*kept["spec"]["containers"], *kept["spec"]["initContainers"]]
    assert [sorted({"env", "envFrom"} & each.keys()) for each in containers] == [[], []]


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

    async def located(_: Any, manifest: Any, **__: Any) -> None:
        seen.append(decode.decode_pod(manifest))

    monkeypatch.setattr(type(offer), "add_volume_topology", located)
    await run_preflight(spawner, pod := await draft_pod(spawner), offer=offer)
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


async def send_pod(spawner: Any, server: WatchServer) -> None:
    """Start a server until its pod is sent."""
    start = spawner.start()
    await eventually(lambda: start.done() or "pods" in created(spawner, server))
    start.cancel()


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param({}, (["pods?", "pods"], 1), id="no claim"),
        pytest.param(HOME, (["pods?", "persistentvolumeclaims", "pods"], 1), id="a claim"),
    ],
)
async def test_it_comes_before_what_is_made_first_and_the_hook_runs_once(
    make_spawner: MakeSpawner, server: WatchServer, volume: dict[str, Any], expected: tuple[list[str], int]
):
    called: list[Any] = []

    def hook(_: Any, pod: Any) -> Any:
        called.append(pod)
        pod.metadata.labels["calls"] = str(len(called))
        return pod

    spawner = make_spawner(kubespawner={**volume, "modify_pod_hook": hook})
    await send_pod(spawner, server)
    assert (created(spawner, server), len(called)) == expected
    sent = [await each.json() for each in server.requests if (each.method, each.path) == ("POST", pods_path(spawner))]
    assert [pod["metadata"]["labels"]["calls"] for pod in sent] == ["1", "1"]


CALLABLES = ("uid", "gid", "fs_gid", "supplemental_gids", "container_security_context", "pod_security_context")


def counting(calls: list[str]) -> dict[str, Any]:
    """Return values of KubeSpawner's traits that are functions, each of which notes its calls."""

    def note(name: str, value: Any) -> Any:
        return lambda *_: calls.append(name) or value

    values = {"uid": 1000, "gid": 100, "fs_gid": 100, "supplemental_gids": [7]}
    functions = {name: note(name, values.get(name, {})) for name in CALLABLES}
    return {**functions, "environment": {"SITE": note("environment", "ours")}}


@pytest.mark.parametrize("volume", [pytest.param({}, id="no claim"), pytest.param(HOME, id="a claim")])
async def test_the_admins_functions_run_once_a_start(
    make_spawner: MakeSpawner, server: WatchServer, volume: dict[str, Any]
):
    calls: list[str] = []
    spawner = make_spawner(kubespawner={**volume, **counting(calls)})
    await send_pod(spawner, server)
    assert sorted(calls) == sorted((*CALLABLES, "environment"))


async def test_the_admins_functions_never_run_for_a_form(make_spawner: MakeSpawner):
    calls: list[str] = []

    def hook(_: Any, pod: Any) -> Any:
        calls.append("hook")
        return pod

    hooks = dict.fromkeys(("modify_pod_hook", "after_pod_created_hook", "pre_spawn_hook"), hook)

    class Sites(GPUSpawner):
        def get_args(self) -> list[str]:
            calls.append("get_args")
            return [self.user_options["token"]]

    spawner = make_spawner(kind=Sites, kubespawner={**HOME, **counting(calls), **hooks})
    await spawner.get_options_form()
    assert calls == []


async def test_a_form_that_opens_during_a_start_leaves_the_starts_pod_alone(
    make_spawner: MakeSpawner, server: WatchServer
):
    calls: list[str] = []
    spawner = make_spawner(kubespawner={**HOME, **counting(calls)})
    await begun(spawner)
    await spawner.get_options_form()
    assert (await spawner.get_pod_manifest()).spec.containers[0].env is not None
    assert sorted(calls) == sorted((*CALLABLES, "environment"))


async def test_a_subclass_that_changes_the_manifest_changes_it_once(make_spawner: MakeSpawner, server: WatchServer):
    class Sites(GPUSpawner):
        async def get_pod_manifest(self) -> Any:
            pod = await super().get_pod_manifest()
            pod.metadata.labels["times"] = pod.metadata.labels.get("times", "") + "x"
            return pod

    spawner = make_spawner(kind=Sites, kubespawner=HOME)
    await send_pod(spawner, server)
    *_, pod = [
        await each.json() for each in server.requests if (each.method, each.path) == ("POST", pods_path(spawner))
    ]
    assert pod["metadata"]["labels"]["times"] == "x"


async def test_a_draft_that_no_pod_was_made_of_is_forgotten(make_spawner: MakeSpawner):
    def hook(_: Any, pod: Any) -> Any:
        return pod

    spawner = make_spawner(kubespawner={**HOME, "modify_pod_hook": hook})
    await begun(spawner)
    assert (spawner.modify_pod_hook, "get_pod_manifest" in vars(spawner)) == (None, True)
    spawner.clear_state()
    assert (spawner.modify_pod_hook, "get_pod_manifest" in vars(spawner)) == (hook, False)


@pytest.mark.parametrize("volume", [pytest.param({}, id="no claim"), pytest.param(HOME, id="a claim")])
async def test_a_start_that_could_never_run_makes_nothing(
    make_spawner: MakeSpawner, server: WatchServer, volume: dict[str, Any]
):
    server.put(NODES, BARE)
    spawner = make_spawner(settings=CLOSED, kubespawner={**volume, "node_selector": {"pool": "nowhere"}})
    with pytest.raises(RefusedStart, match="Can't start") as refused:
        await spawner.start()
    assert (refused.value.status_code, refused.value.reason) == (409, "never_fits")
    assert (created(spawner, server), await spawner.poll()) == (["pods?"], 0)


async def test_a_start_that_could_never_run_makes_nothing_in_the_persons_namespace(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(NODES, BARE)
    user_namespaces = {"enable_user_namespaces": True, **HOME}
    spawner = make_spawner(settings=CLOSED, kubespawner={**user_namespaces, "node_selector": {"pool": "nowhere"}})
    with pytest.raises(RefusedStart, match="Can't start"):
        await spawner.start()
    posts = [each.path for each in server.requests if each.method == "POST" and each.path != REVIEWS]
    assert posts == ["/api/v1/namespaces", pods_path(spawner)]


async def test_a_hook_may_use_the_persons_namespace(make_spawner: MakeSpawner, server: WatchServer):
    seen: list[list[str]] = []

    def hook(_: Any, pod: Any) -> Any:
        seen.append([each.path for each in server.requests if each.method == "POST" and each.path != REVIEWS])
        return pod

    spawner = make_spawner(kubespawner={"enable_user_namespaces": True, **HOME, "modify_pod_hook": hook})
    await send_pod(spawner, server)
    assert seen == [["/api/v1/namespaces"]]


async def test_a_claim_that_a_subclass_asks_for_late_is_not_made_for_a_start_that_could_never_run(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(NODES, BARE)

    class Sites(GPUSpawner):
        async def load_user_options(self) -> None:
            await super().load_user_options()
            self.storage_pvc_ensure = True

    spawner = make_spawner(
        kind=Sites, settings=CLOSED, kubespawner={"storage_capacity": "1Gi", "node_selector": {"pool": "nowhere"}}
    )
    with pytest.raises(RefusedStart, match="Can't start"):
        await spawner.start()
    assert created(spawner, server) == ["pods?"]


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


async def test_a_volume_that_was_found_under_another_name_is_the_one_that_is_mounted(make_spawner: MakeSpawner):
    home = {"name": "home", "persistentVolumeClaim": {"claimName": "{pvc_name}"}}
    spawner = make_spawner(kubespawner={**HOME, "volumes": [home]})
    await spawner.load_user_options()
    spawner.pvc_name = "the-old-name"
    await spawner._make_create_pvc_request(spawner.get_pvc_manifest(), 1)
    pod = serialize_pod(spawner, await spawner.get_pod_manifest())
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "the-old-name"


async def test_what_a_subclass_adds_to_the_choice_is_in_the_pod(make_spawner: MakeSpawner):
    class Sites(GPUSpawner):
        async def load_user_options(self) -> None:
            await super().load_user_options()
            self.environment = {**self.environment, "SITE": "ours"}

    spawner = make_spawner(kind=Sites)
    await begun(spawner)
    (notebook,) = (await spawner.get_pod_manifest()).spec.containers
    assert [each.value for each in notebook.env if each.name == "SITE"] == ["ours"]


async def test_a_server_that_a_new_node_may_take_is_not_refused(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, BARE)
    server.put(NODE_POOLS, node_pool("p", requirements=[{"key": "pool", "operator": "In", "values": ["nowhere"]}]))
    await rehearsed(make_spawner(settings=CLOSED, kubespawner={"node_selector": {"pool": "nowhere"}}))


QUEUED = {"extra_labels": {"kueue.x-k8s.io/queue-name": "gpu-queue"}}


async def test_a_server_that_kueue_queues_is_never_called_impossible_for_its_nodes(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(NODES, BARE)
    server.status |= dict.fromkeys(kueue.PATHS, 403)
    queued = {**QUEUED, "node_selector": {"pool": "nowhere"}}
    spawner = make_spawner(kubespawner=queued)
    admit(server, spawner, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    await rehearsed(spawner)
    assert [each for each in server.requests if each.method == "POST" and each.query.get("dryRun")]


@pytest.mark.parametrize("is_dry", [False, True])
async def test_a_server_that_its_queue_can_never_admit_is_refused(
    make_spawner: MakeSpawner, server: WatchServer, is_dry: bool
):
    kueue.serve(server, gpus=0)
    server.bodies[kueue.LOCAL_QUEUES] = kueue.listed()
    spawner = make_spawner(kubespawner=QUEUED, dry_run=is_dry)
    admit(server, spawner, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    with pytest.raises(RefusedStart) as caught:
        await rehearsed(spawner)
    assert (caught.value.status_code, caught.value.reason) == (409, "never_fits")
    assert "Can't start: the queue gpu-queue does not exist." in str(caught.value)
