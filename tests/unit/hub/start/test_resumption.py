"""Servers that are starting outlast the hub: JupyterHub itself is killed and started again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.orm import Session

from gpuspawner.hub.errors import ClusterFailure, RefusedStart
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.request.languages import load_languages
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.endings import read_pods
from gpuspawner.hub.start.resumption import StateWriter
from gpuspawner.hub.start.state import ServerEnd
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.followed import UNSCHEDULABLE, pod_that_waits
from tests.unit.hub.real_hub import RealHub, notebook, real_hub, unused_port
from tests.unit.kube.watch_server import HANG, PODS, WatchServer, break_off, eventually, refusal
from tests.unit.kube.watch_server import pod as other_pod

# Each test starts two hubs, beside other tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

OPTIONS = {"image": "pytorch", "cpu": 1, "memory": "1G", "gpu": "a100", "gpu_count": 1}
OWN_PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
IMPATIENT = {"k8s_api_request_timeout": 1, "k8s_api_request_retry_timeout": 1}
EVENTS = "/api/v1/namespaces/default/events"
KEPT = ["dns_name", "gpuspawner", "kubespawner_version", "namespace", "pod_name"]
"""Keys of the state of a server without a volume claim."""
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
START = "2026-11-22T10:00:00Z"


def config(port: int) -> dict[str, Any]:
    return {"GPUSpawner": SETTINGS, "KubeSpawner": {"port": port, "namespace": "default"}}


async def pod_of(server: WatchServer, user: str) -> dict[str, Any]:
    """Wait until the hub has sent a pod of a user, and return it as the API server would have it."""
    async with asyncio.timeout(30):
        while not (sent := [each async for each in sent_pods(server) if owner(each) == user]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    metadata = {**sent[-1]["metadata"], "namespace": "default", "uid": f"uid-{user}", "creationTimestamp": START}
    return {**sent[-1], "metadata": metadata, "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}


async def sent_pods(server: WatchServer) -> AsyncIterator[dict[str, Any]]:
    for each in server.requests:
        if each.method == "POST" and each.path == OWN_PODS and "dryRun" not in each.query:
            yield await each.json()


def owner(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["annotations"]["hub.jupyter.org/username"])


def running(pod: dict[str, Any]) -> dict[str, Any]:
    notebook = {"name": "notebook", "ready": True, "restartCount": 0, "state": {"running": {}}}
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [notebook], "conditions": conditions}
    return {**pod, "spec": {**pod["spec"], "nodeName": "gpu-1"}, "status": status}


def preempted(pod: dict[str, Any]) -> dict[str, Any]:
    """Return kube-scheduler's event about a pod."""
    metadata = pod["metadata"]
    involved = {"kind": "Pod", "name": metadata["name"], "namespace": "default", "uid": metadata["uid"]}
    return {
        "metadata": {"name": "preempted", "namespace": "default", "uid": "event"},
        "involvedObject": involved,
        "source": {"component": "default-scheduler"},
        "type": "Normal",
        "reason": "Preempted",
        "message": "Preempted by pod 1 on node gpu-1",
        "lastTimestamp": "2999-01-01T00:00:00Z",
        "eventTime": None,
    }


def deleted(server: WatchServer) -> set[str]:
    """Return the names of the pods that the hub has deleted."""
    return {each.path.rpartition("/")[2] for each in server.requests if each.method == "DELETE"}


async def begin(hub: RealHub, server: WatchServer, user: str, **more: object) -> dict[str, Any]:
    """Begin a start, let its pod wait for a node, and wait until the hub has stored the start."""
    await hub.begin(user, {**OPTIONS, **more})
    pod = await pod_of(server, user)
    server.put(OWN_PODS, pod)
    await eventually(lambda: hub.has_stored_start(user))
    return pod


async def test_what_waits_goes_on_waiting_and_starts_when_there_is_room(server: WatchServer, tmp_path: Path):
    port = unused_port()
    server.put(PODS, other_pod("other", on="gpu-1", gpus=4))
    async with notebook(port), real_hub(tmp_path, api=server.url, config=config(port)) as hub:
        pods = {user: await begin(hub, server, user) for user in ("waits", "gated", "cancelled", "started")}
        gated = {**pods["gated"], "spec": {**pods["gated"]["spec"], "schedulingGates": [{"name": "kueue.x-k8s.io/a"}]}}
        gated["status"] = {"phase": "Pending", "conditions": [GATED]}
        server.put(OWN_PODS, gated)
        await hub.follow("waits", "1 × A100")
        await hub.kill(signal.SIGTERM)  # as Kubernetes ends it; the other tests do it the hard way
        hub.age("waits", 300)
        server.put(OWN_PODS, running(pods["started"]))
        await hub.start()

        told = {user: (await hub.follow(user, "Gives up in"))["message"] for user in ("waits", "gated")}
        await hub.wait_until("started", "ready")
        states = {user: await hub.read_state(user) for user in pods}
        await hub.ask("DELETE", "users/cancelled/server")
        await eventually(lambda: deleted(server))
        server.delete(OWN_PODS, pods["cancelled"])
        await hub.wait_until("cancelled", "stopped")
        for user in ("waits", "gated"):
            server.put(OWN_PODS, running(pods[user]))
        for user in ("waits", "gated"):
            await hub.wait_until(user, "ready")

        assert states == {"waits": "spawn", "gated": "spawn", "cancelled": "spawn", "started": "ready"}
        assert ["1 × A100" in told["waits"], "queue" in told["gated"]] == [True, True]
        # The limit of the GPU type, 15 minutes, goes on from where it was.
        left_min = {user: int(each.partition("Gives up in ")[2].partition(" min")[0]) for user, each in told.items()}
        assert left_min["waits"] <= 10 < left_min["gated"] <= 15
        assert deleted(server) == {pods["cancelled"]["metadata"]["name"]}
        target = f"http://127.0.0.1:{port}"
        assert hub.read_routes() == {f"/user/{user}/": target for user in ("waits", "gated", "started")}


async def test_a_start_that_ended_while_the_hub_was_down_is_shown_with_its_reason(server: WatchServer, tmp_path: Path):
    server.put(PODS, other_pod("other", on="gpu-1", gpus=4))
    (tmp_path / "held-interrupted").touch()
    async with real_hub(tmp_path, api=server.url, config=config(unused_port())) as hub:
        pods = {user: await begin(hub, server, user) for user in ("late", "preempted", "gone")}
        await hub.begin("interrupted", OPTIONS)
        await hub.follow("late", "1 × A100")
        await hub.kill()
        hub.age("late", 3600)
        server.delete(OWN_PODS, pods["preempted"])
        server.put(EVENTS, preempted(pods["preempted"]))
        server.delete(OWN_PODS, pods["gone"])
        (tmp_path / "held-interrupted").unlink()
        await hub.start()

        await eventually(lambda: deleted(server))
        server.delete(OWN_PODS, pods["late"])
        ends = {}
        for user in ("late", "preempted", "gone", "interrupted"):
            await hub.wait_until(user, "stopped")
            event = await hub.follow(user, "Spawn failed: ")
            ends[user] = event["message"].removeprefix("Spawn failed: ")
        pages = await hub.read_pages("preempted", "/hub/home", "/hub/spawn", "/hub/no-such-page")

        assert ends["late"].startswith("No room for your server with A100 opened up within 15 minutes")
        assert ends["preempted"].startswith("Your server had to give way to something of higher priority while")
        assert ends["gone"].startswith("Your server was ended from outside while it was starting.")
        assert ends["interrupted"] == "The hub was restarted before it had created your server. Please start it again."
        assert deleted(server) == {pods["late"]["metadata"]["name"]}
        assert [ends["preempted"].split(" Try")[0] in page for page in pages] == [True, True, False]


def failed(pod: dict[str, Any]) -> dict[str, Any]:
    return {**running(pod), "status": {**running(pod)["status"], "phase": "Failed"}}


async def test_the_reason_of_a_failure_is_shown_although_the_hub_was_killed_before_it_had_deleted_the_pod(
    server: WatchServer, tmp_path: Path
):
    given = config(unused_port())
    given["KubeSpawner"] |= IMPATIENT

    async def create(request: web.Request) -> web.StreamResponse:
        if "dryRun" in request.query or owner(await request.json()) != "unanswered":
            return web.json_response(await request.json(), status=201)
        await asyncio.Event().wait()
        raise AssertionError

    async with real_hub(tmp_path, api=server.url, config=given) as hub:
        server.answers = {("POST", OWN_PODS): create}
        pods = {"crashed": await begin(hub, server, "crashed")}
        await hub.begin("unanswered", OPTIONS)
        pods["unanswered"] = await pod_of(server, "unanswered")
        for pod in pods.values():
            server.answers["DELETE", f"{OWN_PODS}/{pod['metadata']['name']}"] = break_off
        server.put(OWN_PODS, failed(pods["crashed"]))
        await eventually(lambda: len(deleted(server)) == len(pods))
        await hub.kill()
        server.answers.clear()
        server.delete(OWN_PODS, pods["crashed"])
        await hub.start()
        ends = {}
        for user in pods:
            await hub.wait_until(user, "stopped")
            ends[user] = (await hub.follow(user, "Spawn failed: "))["message"].removeprefix("Spawn failed: ")

        assert {user: end.partition(",")[0].partition(".")[0] for user, end in ends.items()} == {
            "crashed": "The program of your server ended while it was starting",
            "unanswered": "The Kubernetes API server cannot be reached",
        }


async def test_the_reason_of_a_refusal_is_shown_although_the_hub_was_killed_while_jupyterhub_stopped_the_server(
    server: WatchServer, tmp_path: Path
):
    server.answers["POST", OWN_PODS] = refusal(403, 'admission webhook "site" denied the request: no GPUs on Fridays')
    (tmp_path / "stopping-ada").touch()
    async with real_hub(tmp_path, api=server.url, config=config(unused_port())) as hub:
        await hub.begin("ada", OPTIONS)
        await hub.wait_until("ada", "stop")
        await hub.kill()
        await hub.start()

        await hub.wait_until("ada", "stopped")
        (page,) = await hub.read_pages("ada", "/hub/home")
        assert "no GPUs on Fridays" in page


async def test_a_choice_that_is_refused_does_not_bring_back_why_an_earlier_server_ended(
    make_spawner: MakeSpawner,
):
    spawner = make_spawner()
    spawner.start_state.end = ServerEnd(code="preempted", message="Your server had to give way.")
    private_api.mark_spawning(spawner, asyncio.get_running_loop().create_future())

    def refuse() -> None:
        raise RefusedStart("You don't have access to A100.", reason="denied", status_code=403)

    try:
        refuse()
    except RefusedStart:
        await spawner.poll()  # as JupyterHub does before it stops the server
    assert spawner.start_state.end is not None
    assert spawner.start_state.end.message == "You don't have access to A100."


async def test_the_user_of_a_server_that_had_to_give_way_reads_so_until_it_starts_again(
    server: WatchServer, tmp_path: Path
):
    port = unused_port()
    async with notebook(port), real_hub(tmp_path, api=server.url, config=config(port)) as hub:
        pods = {user: await begin(hub, server, user) for user in ("ada", "bob", "steady")}
        for user, pod in pods.items():
            server.put(OWN_PODS, running(pod))
            await hub.wait_until(user, "ready")
        server.put(EVENTS, preempted(pods["ada"]))
        server.delete(OWN_PODS, pods["ada"])
        await hub.wait_until("ada", "stopped")
        await hub.kill()
        # The next one gives way while the hub is down, and the API server answers late.
        server.put(EVENTS, {**preempted(pods["bob"]), "metadata": {"name": "b", "namespace": "default", "uid": "b"}})
        server.delete(OWN_PODS, pods["bob"])
        server.status[OWN_PODS], before = 500, len(server.asked(OWN_PODS, watch=False))
        await hub.start()
        await eventually(lambda: len(server.asked(OWN_PODS, watch=False)) >= before + 2)
        del server.status[OWN_PODS]
        await hub.wait_until("bob", "stopped")
        await hub.wait_until("steady", "ready")

        sentence = "Your server had to give way to something of higher priority."
        pages = [await hub.read_pages(user, "/hub/home", "/hub/spawn") for user in ("ada", "bob", "steady")]
        await begin(hub, server, "ada")
        again = await hub.read_pages("ada", "/hub/home")

        assert [[sentence in page for page in each] for each in pages] == [[True, True], [True, True], [False, False]]
        assert [sentence in page for page in again] == [False]
        assert f"The server of ada has ended (preempted): {sentence}" in hub.read_log()
        assert deleted(server) == set()


async def test_the_hub_keeps_a_server_until_the_api_server_has_accepted_the_deletion_of_its_pod(
    server: WatchServer, tmp_path: Path
):
    port = unused_port()
    async with notebook(port), real_hub(tmp_path, api=server.url, config=config(port)) as hub:
        pods = {user: await begin(hub, server, user) for user in ("killed", "patient", "cancelled")}
        paths = {user: f"{OWN_PODS}/{pod['metadata']['name']}" for user, pod in pods.items()}
        for user in ("killed", "patient"):
            server.put(OWN_PODS, running(pods[user]))
            await hub.wait_until(user, "ready")
        server.answers = {("DELETE", path): break_off for path in paths.values()}
        stops = [asyncio.ensure_future(hub.ask("DELETE", f"users/{user}/server")) for user in pods]
        await eventually(lambda: len(deleted(server)) == len(pods))
        pending = {user: await hub.read_state(user) for user in pods}
        await hub.kill()
        await asyncio.gather(*stops)
        await hub.start()
        await hub.wait_until("killed", "ready")
        await hub.wait_until("patient", "ready")
        known = {user: await hub.read_state(user) for user in pods}
        server.requests.clear()
        stop = asyncio.ensure_future(hub.ask("DELETE", "users/patient/server"))
        await eventually(lambda: deleted(server))
        server.answers.clear()
        await eventually(lambda: len([each for each in server.requests if each.method == "DELETE"]) > 1)
        server.delete(OWN_PODS, pods["patient"])
        await hub.wait_until("patient", "stopped")

        assert pending == dict.fromkeys(pods, "stop")
        assert known == {"killed": "ready", "patient": "ready", "cancelled": "spawn"}
        assert (await stop)[0] in {202, 204}


async def test_a_start_that_ends_slowly_can_be_cancelled(server: WatchServer, tmp_path: Path):
    (deaf := tmp_path / "deaf-ada").touch()
    async with real_hub(tmp_path, api=server.url, config=config(unused_port())) as hub:
        await hub.begin("ada", OPTIONS)
        await hub.wait(lambda: asyncio.sleep(0, "Pod is being modified" in hub.read_log()), expected=True)
        stop = asyncio.ensure_future(hub.ask("DELETE", "users/ada/server"))
        await eventually(lambda: "Interrupting spawner ada" in hub.read_log())
        await asyncio.sleep(1.5)  # JupyterHub waits for one second
        state = await hub.read_state("ada")
        again, _ = await hub.ask("DELETE", "users/ada/server")
        deaf.unlink()
        await hub.wait_until("ada", "stopped")
        status, _ = await stop
        assert (state, again, status) == ("stop", 202, 204)
        assert [each async for each in sent_pods(server)] == []
        await begin(hub, server, "ada")


# -- the objects that KubeSpawner creates after the pod ----------------------------------------------------------------


async def test_the_service_that_the_hub_had_not_created_yet_is_created_for_the_pod_as_it_is(
    server: WatchServer, tmp_path: Path
):
    """The chart's labels change with the upgrade that restarts the hub, and those of the pod do not."""
    port = unused_port()
    server.put(PODS, other_pod("other", on="gpu-1", gpus=4))
    given = config(port)
    given["KubeSpawner"] |= {"services_enabled": True, "dns_name_template": "localhost"}
    given["KubeSpawner"]["common_labels"] = {"app": "jupyterhub", "chart": "jupyterhub-4.4.0"}
    async with notebook(port), real_hub(tmp_path, api=server.url, config=given) as hub:
        pod = await begin(hub, server, "ada")
        path = f"{SERVICES}/{pod['metadata']['name']}"
        server.answers = {("GET", path): refusal(404), ("DELETE", path): HANG}
        await eventually(lambda: asked(server, "DELETE", path))
        await hub.kill()
        server.answers["DELETE", path] = refusal(404)
        hub.change_config("jupyterhub-4.4.0", "jupyterhub-4.5.0")
        await hub.start()
        await eventually(lambda: asked(server, "POST", SERVICES))
        server.put(OWN_PODS, running(pod))
        await hub.wait_until("ada", "ready")

        (service,) = [await each.json() for each in asked(server, "POST", SERVICES)]
        selector = service["spec"]["selector"]
        assert {**pod["metadata"]["labels"], **selector} == pod["metadata"]["labels"]
        assert selector["hub.jupyter.org/username"] == "ada"
        assert [each["uid"] for each in service["metadata"]["ownerReferences"]] == ["uid-ada"]
        assert [each["port"] for each in service["spec"]["ports"]] == [port]
        assert hub.read_routes() == {"/user/ada/": f"http://localhost:{port}"}


def asked(server: WatchServer, method: str, path: str) -> list[Any]:
    return [each for each in server.requests if (each.method, each.path) == (method, path)]


async def resume(spawner: GPUSpawner, server: WatchServer) -> str:
    """Go on with a start whose pod runs, and return the server's address."""
    server.put(OWN_PODS, running(await pod_that_waits(spawner, OPTIONS)))
    await read_pods(spawner)
    spawner.start_state.feed.resume(None, elapsed_s=0)
    async with asyncio.timeout(10):
        return str(await spawner.resume())


def owned_by(uid: str) -> Any:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "jupyter-ada", "uid": uid}
    return lambda _: web.json_response({"metadata": {"name": "jupyter-ada", "ownerReferences": [owner]}})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([owned_by("1")], [], id="of this pod"),
        pytest.param([refusal(404)], ["DELETE", "POST", "hook"], id="none"),
        pytest.param([owned_by("0"), refusal(404)], ["DELETE", "POST", "hook"], id="of an earlier pod"),
        pytest.param([break_off, refusal(503), owned_by("1")], [], id="after an outage"),
        pytest.param([break_off, refusal(404)], ["DELETE", "POST", "hook"], id="none, after an outage"),
    ],
)
async def test_a_resumed_start_creates_only_what_its_pod_lacks(
    make_spawner: MakeSpawner, server: WatchServer, found: list[Any], expected: list[str]
):
    port, done = unused_port(), []
    spawner = make_spawner(
        kubespawner={
            "port": port, "namespace": "default", "services_enabled": True, "dns_name_template": "localhost",
            "after_pod_created_hook": lambda *_: done.append("hook"),
        }
    )  # fmt: skip
    path = f"{SERVICES}/{spawner.pod_name}"
    left = list(found)

    def answer(request: Any) -> Any:
        return (left.pop(0) if len(left) > 1 else left[0])(request)

    server.answers = {("GET", path): answer, ("DELETE", path): refusal(404)}
    async with notebook(port):
        address = await resume(spawner, server)
    changes = [each.method for each in server.requests if each.path in {path, SERVICES} and each.method != "GET"]
    assert (address, changes + done) == (f"http://localhost:{port}", expected)


async def test_a_resumed_start_creates_the_certificate_that_its_pod_lacks(
    make_spawner: MakeSpawner, server: WatchServer, tmp_path: Path
):
    for name in ("key", "cert", "ca"):
        (tmp_path / name).write_text(name)
    port = unused_port()
    spawner = make_spawner(
        kubespawner={"port": port, "namespace": "default", "dns_name_template": "localhost"},
        internal_ssl=True,
        internal_trust_bundles={"hub-ca": str(tmp_path / "ca")},
    )

    async def create_certs() -> dict[str, str]:
        return {"keyfile": str(tmp_path / "key"), "certfile": str(tmp_path / "cert"), "cafile": str(tmp_path / "ca")}

    spawner.create_certs = create_certs
    secret, service = f"{SECRETS}/{spawner.secret_name}", f"{SERVICES}/{spawner.pod_name}"
    server.answers = {(method, path): refusal(404) for method in ("GET", "DELETE") for path in (secret, service)}
    async with notebook(port):
        address = await resume(spawner, server)
    (sent,) = [await each.json() for each in asked(server, "POST", SECRETS)]
    assert sorted(sent["data"]) == ["notebooks-ca_trust.crt", "ssl.crt", "ssl.key"]
    assert [each["uid"] for each in sent["metadata"]["ownerReferences"]] == ["1"]
    assert (address, len(asked(server, "POST", SERVICES))) == (f"https://localhost:{port}", 1)


async def test_a_resumed_start_ends_where_the_hub_may_not_create_what_its_pod_lacks(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner(kubespawner={"namespace": "default", "services_enabled": True, **IMPATIENT})
    server.answers = {("GET", f"{SERVICES}/{spawner.pod_name}"): refusal(403, "services is forbidden")}
    with pytest.raises(ClusterFailure, match="403"):
        await resume(spawner, server)


# -- what the database keeps -------------------------------------------------------------------------------------------


async def test_the_database_keeps_the_limit_of_a_start_and_the_language_of_its_user(make_spawner: MakeSpawner):
    spawner, following = make_spawner(), make_spawner()
    assert "gpuspawner" not in spawner.get_state()
    spawner.start_state.feed.language = load_languages()["de"]
    spawner.start_state.feed.note_pod_sent(None)
    spawner._start_future, spawner.start_timeout = asyncio.get_running_loop().create_future(), 900
    kept = spawner.get_state()
    assert kept["gpuspawner"] == {"language": "de", "start": {"timeout_s": 900.0}}
    following.load_state(kept)
    assert following.start_state.feed.language.tag == "de"
    spawner._start_future.set_result("http://x")
    assert spawner.get_state()["gpuspawner"] == {"language": "de"}


def add_row(spawner: GPUSpawner, session: Session) -> orm.Spawner:
    """Give a spawner whose start has sent its pod a row in a database."""
    row = orm.Spawner(name="", user=orm.User(name=f"user-{id(spawner)}"), state={})
    session.add(row)
    session.commit()
    spawner.orm_spawner = row
    spawner.start_state.feed.note_pod_sent(None)
    spawner._start_future = asyncio.get_running_loop().create_future()
    return row


async def test_starts_that_send_their_pods_together_share_one_commit(make_spawner: MakeSpawner):
    session, writer, commits = orm.new_session_factory("sqlite://")(), StateWriter(), []
    spawners = [make_spawner() for _ in range(3)]
    rows = [add_row(each, session) for each in spawners]
    event.listen(session, "after_commit", commits.append)
    for each in spawners:
        writer.schedule(each)
    spawners[2]._start_future.set_result("http://x")
    await eventually(lambda: commits)
    session.expire_all()
    assert ([sorted(each.state) for each in rows], len(commits)) == ([KEPT, KEPT, []], 1)


async def test_a_later_start_is_stored_in_a_later_commit(make_spawner: MakeSpawner):
    session, writer, commits = orm.new_session_factory("sqlite://")(), StateWriter(), []
    spawners = [make_spawner() for _ in range(2)]
    rows = [add_row(each, session) for each in spawners]
    event.listen(session, "after_commit", commits.append)
    for number, each in enumerate(spawners, 1):
        writer.schedule(each)
        await eventually(lambda expected=number: len(commits) == expected)
    session.expire_all()
    assert [sorted(each.state) for each in rows] == [KEPT, KEPT]
