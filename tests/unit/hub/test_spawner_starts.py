"""A start that fails or is cut off leaves no pod behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.hub.errors import SlowStartError
from gpuspawner.hub.kubespawner.reflectors import give_up_dead_reflectors
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.followed import begin_with, cut_off, pod_that_waits, pods_path, sent
from tests.unit.hub.starts import GPU_OPTIONS, begin
from tests.unit.kube.watch_server import HANG, WatchServer, break_off, eventually, refusal
from tests.unit.kube.watch_server import pod as other_pod


async def waiting(spawner: GPUSpawner, server: WatchServer) -> tuple[dict[str, Any], asyncio.Future[Any]]:
    """Start a server, and let its pod be there and wait."""
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    start = await begin_with(server, spawner, pod)
    await eventually(lambda: spawner.pod_reflector.pods)
    return pod, start


async def test_the_pod_of_a_start_that_is_cut_off_is_removed_without_delay(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner(kubespawner={"delete_grace_period": 30})
    pod, start = await waiting(spawner, server)
    await cut_off(start)
    assert await spawner.poll() is None
    stop = asyncio.ensure_future(spawner.stop())
    await eventually(lambda: [each for each in server.requests if each.method == "DELETE"])
    (asked,) = [each for each in server.requests if each.method == "DELETE"]
    assert asked.query["gracePeriodSeconds"] == "0"
    server.delete(pods_path(spawner), pod)
    await stop
    spawner.clear_state()
    assert await spawner.poll() == 1


def deletions(server: WatchServer) -> list[Any]:
    return [each for each in server.requests if each.method == "DELETE"]


def lose_first_answer(
    server: WatchServer, spawner: GPUSpawner, reads: list[Any], *, second_status: int
) -> list[dict[str, Any]]:
    """Never answer the first request to create the pod, and return the list of pods that requests ask for.

    :param reads: answers to lists of this pod alone, the last one again and again: metadata over that of the pod, or a
        function that answers.
    :param second_status: status of the answers to later requests to create the pod.
    """
    created: list[dict[str, Any]] = []
    looks = list(reads)

    async def create(request: web.Request) -> web.Response:
        pod: dict[str, Any] = await request.json()
        if "dryRun" in request.query:
            return web.json_response(pod, status=201)
        created.append(pod)
        if len(created) == 1:
            await asyncio.Event().wait()
        return web.json_response(pod, status=second_status)

    def look(request: web.Request) -> Any:
        if not asks_for_pod(request, spawner):
            return None
        answer = looks.pop(0) if len(looks) > 1 else looks[0]
        if callable(answer):
            return answer(request)
        pod = created[0]
        return web.json_response({"items": [{**pod, "metadata": {**pod["metadata"], "uid": "1", **answer}}]})

    server.answers = {("POST", pods_path(spawner)): create, ("GET", pods_path(spawner)): look}
    return created


def asks_for_pod(request: web.Request, spawner: GPUSpawner) -> bool:
    """Return whether a list is one of the server's pod alone: the hub may list pods, but not get one."""
    return request.query.get("fieldSelector") == f"metadata.name={spawner.pod_name}"


def nothing(_: web.Request) -> web.Response:
    return web.json_response({"items": []})


def is_created(spawner: GPUSpawner) -> bool:
    """Return whether the hub takes the pod for created; other tests' spawners may wait in the same writer."""
    return spawner in spawner._state_writer._waiting


@pytest.mark.parametrize(
    ("reads", "creations"),
    [
        pytest.param([{}], 1, id="it exists"),
        pytest.param([break_off, refusal(503), {}], 1, id="it exists and was not readable"),
        pytest.param([{"annotations": {}}], 2, id="it is another start's"),
        pytest.param([{"deletionTimestamp": "2026-11-22T10:00:00Z"}], 2, id="it is being deleted"),
        pytest.param([nothing], 2, id="it does not exist"),
        pytest.param([refusal(404)], 2, id="its namespace does not exist"),
        pytest.param([refusal(403)], 2, id="the hub may not list pods"),
    ],
)
async def test_a_pod_is_created_again_only_if_the_unanswered_request_has_not_created_it(
    make_spawner: MakeSpawner, server: WatchServer, reads: list[Any], creations: int
):
    spawner = make_spawner(kubespawner={"k8s_api_request_timeout": 1})
    created = lose_first_answer(server, spawner, reads, second_status=201)
    spawner.user_options = GPU_OPTIONS
    start = spawner.start()
    await eventually(lambda: is_created(spawner))
    assert (len(created), deletions(server)) == (creations, [])
    await cut_off(start)


@pytest.mark.parametrize(
    ("reads", "is_kept"),
    [
        pytest.param([{}], True, id="it is this start's"),
        pytest.param([refusal(503), {}], True, id="it is this start's and was not readable"),
        pytest.param([{"annotations": {}}], False, id="it is another start's"),
    ],
)
async def test_a_pod_that_exists_when_it_is_created_again_is_deleted_only_if_another_start_has_created_it(
    make_spawner: MakeSpawner, server: WatchServer, reads: list[Any], is_kept: bool
):
    """The API server may process the unanswered request after the hub has looked for the pod."""
    spawner = make_spawner(kubespawner={"k8s_api_request_timeout": 1})
    lose_first_answer(server, spawner, [nothing, *reads], second_status=409)
    spawner.user_options = GPU_OPTIONS
    start = spawner.start()
    await eventually(lambda: is_created(spawner) or bool(deletions(server)))
    assert (is_created(spawner), bool(deletions(server))) == (is_kept, not is_kept)
    await cut_off(start)


async def test_no_pod_is_deleted_because_a_quota_is_updated_at_the_same_moment(
    make_spawner: MakeSpawner, server: WatchServer
):
    """An unanswered request may create the pod just after the hub has looked for it, and the deletion would hit it."""
    spawner = make_spawner()
    statuses = [201, 409, 201]  # of the dry run, of the request that conflicts, and of the next one
    conflict = {"kind": "Status", "reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas"}

    def create(_: web.Request) -> web.Response:
        status = statuses.pop(0)
        return web.json_response(conflict if status == 409 else {}, status=status)

    server.answers = {
        ("POST", pods_path(spawner)): create,
        ("GET", pods_path(spawner)): lambda request: nothing(request) if asks_for_pod(request, spawner) else None,
    }
    spawner.user_options = GPU_OPTIONS
    start = spawner.start()
    await eventually(lambda: is_created(spawner) or bool(deletions(server)))
    assert (statuses, deletions(server)) == ([], [])
    await cut_off(start)


@pytest.mark.parametrize(
    ("answer", "retry_s"),
    [
        pytest.param(break_off, 3, id="out of reach"),
        pytest.param(HANG, 1, id="mute"),
        pytest.param(refusal(503), 3, id="restarting"),
        pytest.param(refusal(403), 3, id="restarted and its rules not read yet"),
    ],
)
async def test_a_stop_goes_on_until_the_api_server_has_accepted_the_deletion(
    make_spawner: MakeSpawner, server: WatchServer, answer: Any, retry_s: float
):
    spawner = make_spawner(kubespawner={"k8s_api_request_timeout": 1, "k8s_api_request_retry_timeout": retry_s})
    pod, start = await waiting(spawner, server)
    await cut_off(start)
    server.answers["DELETE", f"{pods_path(spawner)}/{spawner.pod_name}"] = answer
    stop = asyncio.ensure_future(spawner.stop())
    await eventually(lambda: stop.done() or len(deletions(server)) > 1)
    assert not stop.done()
    server.answers.clear()
    before = len(deletions(server))
    await eventually(lambda: len(deletions(server)) > before)
    server.delete(pods_path(spawner), pod)
    await stop


async def test_a_deletion_that_is_refused_for_good_fails(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner(kubespawner={"k8s_api_request_retry_timeout": 1})
    server.answers["DELETE", f"{pods_path(spawner)}/{spawner.pod_name}"] = refusal(403)
    with pytest.raises(ApiException, match="403"):
        await spawner.stop()
    assert len(deletions(server)) == 2


@pytest.mark.parametrize("sees_all_namespaces", [False, True])
async def test_a_server_is_stopped_after_an_outage_in_which_the_hub_lost_its_watch(
    make_spawner: MakeSpawner, server: WatchServer, sees_all_namespaces: bool
):
    spawner = make_spawner(kubespawner={"enable_user_namespaces": sees_all_namespaces})
    pod = other_pod(spawner.pod_name, phase="Pending", namespace=spawner.namespace, uid="1")
    path = "/api/v1/pods" if sees_all_namespaces else pods_path(spawner)
    server.put(path, pod)
    assert await spawner.poll() is None
    (watch,) = (each for (kind, _), each in type(spawner).reflectors.items() if kind == "pods")
    await cut_off(watch.watch_task)
    server.status[path] = 500
    give_up_dead_reflectors(type(spawner).reflectors)  # as a form does
    assert await spawner.poll() is None
    stop = asyncio.ensure_future(spawner.stop())
    asked = len(server.asked(path, watch=False))
    await eventually(lambda: stop.done() or len(server.asked(path, watch=False)) > asked)
    assert not stop.done()
    server.status.clear()
    await eventually(lambda: deletions(server))
    server.delete(path, pod)
    await stop


async def test_a_page_gets_all_messages_from_the_beginning_and_is_let_go_in_the_end(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    spawner.user_options = GPU_OPTIONS
    page = spawner.progress()
    first = asyncio.ensure_future(anext(page))
    start = spawner.start()
    async with asyncio.timeout(5):
        assert (await first)["message"] == "Your server is being set up."
    await sent(server, spawner)
    start.cancel()
    async with asyncio.timeout(5):
        assert [event async for event in page if "message" in event] == []


async def test_a_page_opened_right_before_the_start_begins_gets_its_messages(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    spawner.user_options = GPU_OPTIONS
    page = spawner.progress()
    first = asyncio.ensure_future(anext(page))
    await asyncio.sleep(0)
    spawner.clear_state()  # as JupyterHub does a moment after it has said that the start is pending
    start = spawner.start()
    async with asyncio.timeout(5):
        assert (await first)["message"] == "Your server is being set up."
    await cut_off(start)
    await page.aclose()


async def test_a_start_with_a_profile_list_alone_is_followed_and_ends_with_our_words(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner(settings={}, kubespawner={"profile_list": [{"display_name": "A"}], "start_timeout": 1})
    first = asyncio.ensure_future(anext(spawner.progress()))
    with pytest.raises(SlowStartError, match="not ready after 1 second"):
        await spawner.start()
    assert (await first)["message"] == "Your server is being set up."


async def test_a_start_that_is_cut_off_at_once_makes_nothing(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    spawner.user_options = GPU_OPTIONS
    await spawner.make_offer()
    start = spawner.start()
    await cut_off(start)
    left = [task for task in asyncio.all_tasks() if "KubeSpawner._start" in repr(task.get_coro())]
    assert left == []
    assert not [each for each in server.requests if each.path == pods_path(spawner)]


async def test_a_watch_that_gave_up_is_there_for_starts_that_wait_until_another_one_takes_its_place(
    make_spawner: MakeSpawner, server: WatchServer
):
    first, second = make_spawner(), make_spawner(name="bob")
    _, start = await waiting(first, server)
    (watch,) = (each for (kind, _), each in type(first).reflectors.items() if kind == "pods")
    await cut_off(watch.watch_task)
    own = f"{first.namespace}/{first.pod_name}"
    server.held = {pods_path(first)}
    second.user_options = GPU_OPTIONS
    other = second.start()
    await eventually(lambda: first.pod_reflector is not watch)
    assert (list(first.pod_reflector.pods), first.pod_reflector.first_load_future.done()) == ([own], False)
    assert not start.done()
    for each in (start, other):
        each.cancel()
    await asyncio.gather(start, other, return_exceptions=True)


@pytest.mark.parametrize("sees_all_namespaces", [False, True])
async def test_a_stop_ends_while_the_hub_may_not_list_pods_and_deletes_the_pod(
    make_spawner: MakeSpawner, server: WatchServer, caplog: pytest.LogCaptureFixture, sees_all_namespaces: bool
):
    spawner = make_spawner(
        kubespawner={"k8s_api_request_retry_timeout": 1, "enable_user_namespaces": sees_all_namespaces}
    )
    server.denied.add(("list", "pods"))
    async with asyncio.timeout(10):
        assert await spawner.poll() is None
        await spawner.stop()
    assert [each.path for each in deletions(server)] == [f"{pods_path(spawner)}/{spawner.pod_name}"]
    assert f"may not list pods (403 Forbidden), so it cannot tell whether {spawner._log_name} runs" in caplog.text


async def test_a_stop_waits_for_an_api_server_that_has_just_started_and_lets_nothing_be_listed_yet(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner(kubespawner={"k8s_api_request_retry_timeout": 10})
    pod = other_pod(spawner.pod_name, phase="Running", namespace=spawner.namespace, uid="1")
    server.put(pods_path(spawner), pod)
    server.denied.add(("list", "pods"))
    stop = asyncio.ensure_future(spawner.stop())
    await eventually(lambda: len(server.asked(pods_path(spawner), watch=False)) > 1)
    server.denied.clear()
    await eventually(lambda: deletions(server))
    assert not stop.done()
    server.delete(pods_path(spawner), pod)
    await stop


async def test_a_stop_that_fails_says_why_in_the_log(
    make_spawner: MakeSpawner, server: WatchServer, caplog: pytest.LogCaptureFixture
):
    """JupyterHub drops the error of a stop."""
    spawner = make_spawner(kubespawner={"k8s_api_request_retry_timeout": 1})
    server.denied.add(("list", "pods"))
    server.answers["DELETE", f"{pods_path(spawner)}/{spawner.pod_name}"] = refusal(403, "pods is forbidden")
    with pytest.raises(ApiException, match="403"):
        await spawner.stop()
    assert f"Cannot stop {spawner._log_name}" in caplog.text


async def test_a_cancelled_start_sends_no_pod_although_a_hook_ignores_the_cancellation(
    make_spawner: MakeSpawner, server: WatchServer
):
    """As ``asyncio.wait_for`` of Python 3.11 does where the answer comes at that moment."""
    entered = asyncio.Event()

    async def ignore_cancellation(_: object, pod: Any) -> Any:
        entered.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return pod

    spawner = make_spawner(kubespawner={"modify_pod_hook": ignore_cancellation})
    await begin(spawner, dict(GPU_OPTIONS))
    start = spawner.start()
    await entered.wait()
    await cut_off(start)
    assert [each.path for each in server.requests if each.method == "POST" and each.path.endswith("/pods")] == []
