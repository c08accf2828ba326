"""A start of which nothing will come ends with the reason, and one that waits for room ends uncounted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from jupyterhub.utils import format_exception

from gpuspawner.hub.errors import ClusterFailure, RefusedStart, SlowStartError, is_hub_failure
from gpuspawner.hub.metrics import starts
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start import observer, supervisor
from gpuspawner.hub.start.stream import ProgressFeed, stream_progress
from gpuspawner.hub.start.supervisor import supervise_start
from tests.unit.clocks import Clock
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.followed import (
    NO_IMAGE,
    UNSCHEDULABLE,
    Reflector,
    begin_with,
    cut_off,
    pod_that_waits,
    pods_path,
    sent,
)
from tests.unit.hub.real_hub import unused_port
from tests.unit.hub.starts import GPU_OPTIONS
from tests.unit.kube.watch_server import PODS, WatchServer, eventually, refusal
from tests.unit.kube.watch_server import pod as other_pod

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(supervisor, "_PAUSE_S", 0.02)
    monkeypatch.setattr(supervisor, "_UNREAD_PAUSE_S", 0.02)
    monkeypatch.setattr(observer, "RECHECK_S", 0.05)


LOOPBACK = "127.0.0.1"


def make_listening(spawner: GPUSpawner, server: WatchServer) -> GPUSpawner:
    """Have a pod at :data:`LOOPBACK` accept connections: its port is the API server's."""
    spawner.port = urlsplit(server.url).port
    return spawner


def hurry(spawner: GPUSpawner) -> None:
    """Have a second last a tenth of one, except for KubeSpawner."""
    spawner.start_state.feed.clock = lambda: 10 * time.monotonic()


async def started(
    make_spawner: MakeSpawner,
    server: WatchServer,
    change: Change,
    *,
    options: dict[str, Any] = GPU_OPTIONS,
    timeout_s: int = 600,
    is_read: bool = False,
) -> Any:
    """Start a server whose pod comes to be as it is changed to; return the spawner and how that ended.

    :param is_read: whether a progress page is open.
    """
    spawner = make_listening(make_spawner(), server)
    pod = await pod_that_waits(spawner, options)
    change(pod)
    spawner.start_timeout = timeout_s
    hurry(spawner)
    with spawner.start_state.feed.read() if is_read else nullcontext():
        start = await begin_with(server, spawner, pod)
        async with asyncio.timeout(10):
            (ending,) = await asyncio.gather(start, return_exceptions=True)
    return spawner, ending


def nothing(_: dict[str, Any]) -> None: ...


def without_image(pod: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = "gpu-1"
    pod["status"] = {"phase": "Pending", "containerStatuses": [NO_IMAGE]}


def running(pod: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = "gpu-1"
    ready = {"name": "notebook", "ready": True, "restartCount": 0, "state": {"running": {}}}
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
    pod["status"] = {
        "phase": "Running",
        "podIP": LOOPBACK,
        "containerStatuses": [ready],
        "conditions": conditions,
    }


async def test_an_image_that_is_not_there_ends_the_start_with_other_images(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner, ending = await started(make_spawner, server, without_image)
    assert isinstance(ending, RefusedStart)
    assert (ending.reason, ending.status_code) == ("image_not_found", HTTPStatus.CONFLICT)
    text, html = format_exception(ending)
    assert text.endswith("Try Minimal instead.")
    assert '<a href="/spawn/ada?fill-image=minimal&amp;' in html
    assert spawner.start_state.feed.reports[-1].failure is not None


async def test_a_program_that_ends_before_it_listens_ends_the_start(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    running(pod)
    # No program listens on the port: the pod's network is there, and its program is not, or not yet.
    spawner.port, pod["status"]["podIP"] = unused_port(), "127.0.0.1"
    start = await begin_with(server, spawner, pod)
    await eventually(lambda: spawner.start_state.feed.last and spawner.start_state.feed.last.stage == "ready")
    assert not start.done()
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod["status"]["containerStatuses"][0] |= {"ready": False, "restartCount": 1, "state": {}, "lastState": killed}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    server.put(pods_path(spawner), pod)
    with pytest.raises(RefusedStart, match="needed more memory to start") as refused:
        await asyncio.wait_for(start, 10)
    assert refused.value.reason == "out_of_memory"


async def test_what_waits_for_room_until_its_time_is_up_is_refused_and_not_counted(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(PODS, other_pod("other", on="gpu-1", gpus=3))
    _, ending = await started(make_spawner, server, nothing, timeout_s=10)
    assert isinstance(ending, RefusedStart)
    assert (ending.reason, ending.status_code) == ("gpu_unavailable", HTTPStatus.SERVICE_UNAVAILABLE)
    text, html = format_exception(ending)
    assert text == (
        "No room for your server with A100 opened up within 10 seconds, so the start was canceled. "
        "Try 1 × A100 (80 GiB) instead."
    )
    assert "fill-gpu_count=1" in html
    assert not is_hub_failure(ending)


async def test_what_waits_for_a_disk_and_not_for_room_is_a_timeout(make_spawner: MakeSpawner, server: WatchServer):
    def without_disk(pod: dict[str, Any]) -> None:
        message = '0/2 nodes are available: persistentvolumeclaim "claim-ada" not found.'
        pod["status"]["conditions"] = [{**UNSCHEDULABLE, "message": message}]

    server.put(PODS, other_pod("other", on="gpu-1", gpus=3))
    _, ending = await started(make_spawner, server, without_disk, options={}, timeout_s=35)
    assert isinstance(ending, SlowStartError)
    assert format_exception(ending)[0] == (
        "Your server was not ready after 35 seconds, so it was stopped. "
        "Last status: A disk of your server is not there yet."
    )


async def test_a_server_without_a_gpu_has_a_reason_of_its_own(make_spawner: MakeSpawner, server: WatchServer):
    _, ending = await started(make_spawner, server, nothing, options={}, timeout_s=10)
    assert isinstance(ending, RefusedStart)
    assert ending.reason == "no_capacity"
    assert format_exception(ending)[0].startswith("No room for your server opened up within 10 seconds")


async def test_where_the_hub_is_too_busy_and_its_timer_comes_first_it_is_refused_all_the_same(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    spawner.start_timeout = 60
    start = await begin_with(server, spawner, pod)
    await eventually(lambda: spawner.start_state.feed.last and spawner.start_state.feed.last.stage == "waiting")
    spawner.start_state.feed.clock = lambda: time.monotonic() + 60
    with pytest.raises(RefusedStart, match="No room for your server"):
        await asyncio.wait_for(start, 0)


async def test_the_slow_step_is_named_even_if_jupyterhubs_timer_comes_first(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    start = spawner.start()
    await sent(server, spawner)
    spawner.start_state.feed.clock = lambda: time.monotonic() + 60
    with pytest.raises(SlowStartError, match="Your server was not ready after"):
        await asyncio.wait_for(start, 0)


async def test_a_request_that_kubernetes_rejects_until_the_timeout_is_reported_by_its_reason(
    make_spawner: MakeSpawner, server: WatchServer
):
    outage = 'Internal error occurred: failed calling webhook "rules.example": failed to call webhook: EOF'
    spawner = make_spawner()
    server.answers["POST", pods_path(spawner)] = refusal(500, outage)
    spawner.start_timeout = 10
    hurry(spawner)
    with pytest.raises(ClusterFailure) as ended:
        await spawner.start()
    assert format_exception(ended.value)[0] == (
        "The admission webhook rules.example of the cluster cannot be reached or fails, so the server was not started."
        " Please try again later."
    )


async def test_a_busy_hub_does_not_put_the_end_off(make_spawner: MakeSpawner, server: WatchServer, clock: Clock):
    spawner = make_spawner()
    await pod_that_waits(spawner, GPU_OPTIONS)
    spawner.start_state.feed.clock = clock
    start = spawner.start()
    clock.now += 5  # and only now does the hub come to anything else
    await sent(server, spawner)
    assert spawner.start_state.feed.elapsed_s == pytest.approx(5)
    await cut_off(start)


async def test_where_kubespawners_timer_comes_first_it_is_refused_all_the_same(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(supervisor, "add_alternatives", never)
    spawner = make_spawner()
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    spawner.start_timeout = 1
    start = await begin_with(server, spawner, pod)
    with pytest.raises(RefusedStart, match="No room for your server"):
        await asyncio.wait_for(start, 10)


async def test_what_takes_too_long_on_its_node_is_a_timeout_with_a_sentence(
    make_spawner: MakeSpawner, server: WatchServer
):
    def pulling(pod: dict[str, Any]) -> None:
        pod["spec"]["nodeName"] = "gpu-1"
        pod["status"] = {"phase": "Pending"}

    spawner, ending = await started(make_spawner, server, pulling, timeout_s=10)
    assert isinstance(ending, SlowStartError)
    assert format_exception(ending)[0].startswith("Your server was not ready after 10 seconds, so it was stopped. ")
    spawner.clear_state()
    assert "failure_count" not in spawner.user.settings


async def test_an_open_page_shows_a_start_up_to_its_end(make_spawner: MakeSpawner, server: WatchServer):
    spawner, ending = await started(make_spawner, server, running, is_read=True)
    assert ending == server.url
    assert (spawner.start_state.feed.reports[-1].stage, spawner.start_state.feed.is_over) == ("ready", True)
    assert await spawner.poll() is None


async def test_a_start_that_is_cut_off_leaves_nothing_that_runs(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    spawner.user_options = GPU_OPTIONS
    start = spawner.start()
    await sent(server, spawner)
    before = asyncio.all_tasks()
    await cut_off(start)
    assert (start.cancelled(), spawner.start_state.feed.is_over) == (True, True)
    assert len(asyncio.all_tasks()) <= len(before) - 3  # the start, KubeSpawner's and the one that looks
    # Its pod may be there all the same, and JupyterHub only removes what lives.
    assert await spawner.poll() is None


class Looks(dict[str, Any]):
    """Counts how often a pod is looked up."""

    count = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)


class Watched(NamedTuple):
    """A start that the supervisor looks at in long intervals, its pods and its feed."""

    spawner: GPUSpawner
    pods: Looks
    feed: ProgressFeed

    async def supervise(self, start: Awaitable[Any]) -> Any:
        return await supervise_start(self.spawner, start, feed=self.feed)


@pytest.fixture
async def watched(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch) -> Watched:
    spawner, pods = make_spawner(), Looks()
    monkeypatch.setattr(type(spawner), "pod_reflector", Reflector(pods=pods))
    monkeypatch.setattr(supervisor, "_UNREAD_PAUSE_S", 600.0)
    feed = ProgressFeed(is_sent=True)
    feed.begin()
    return Watched(spawner, pods, feed)


def end_with(address: str) -> asyncio.Future[str]:
    """Return a start that ends with an address."""
    start: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    start.set_result(address)
    return start


@pytest.mark.parametrize(("is_read", "looks"), [(True, 1), (False, 0)], ids=["a page is open", "no page is open"])
async def test_a_server_that_listens_when_its_start_ends_is_looked_at_once_more_for_its_page(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, is_read: bool, looks: int
):
    monkeypatch.setattr(type(watched.spawner), "event_reflector", None)
    monkeypatch.setattr(supervisor, "_PAUSE_S", 5.0)
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listener:
        address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        start: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        with watched.feed.read() if is_read else nullcontext():
            supervised = asyncio.ensure_future(watched.supervise(start))
            await (eventually(lambda: watched.pods.count) if is_read else asyncio.sleep(0))
            before = watched.pods.count
            start.set_result(address)
            assert (await supervised, watched.pods.count - before) == (address, looks)


async def test_a_server_that_listens_within_a_second_is_not_looked_at_if_no_page_is_open(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    listens = asyncio.Event()
    monkeypatch.setattr(supervisor, "_PAUSE_S", 600.0)
    monkeypatch.setattr(supervisor, "LISTEN_POLL_S", 0.0)
    monkeypatch.setattr(supervisor, "wait_until_listening", lambda *_, **__: listens.wait())
    supervised = asyncio.ensure_future(watched.supervise(end_with("http://127.0.0.1:1")))
    asyncio.get_running_loop().call_later(0.1, listens.set)
    await supervised
    assert watched.pods.count == 0


async def test_a_pod_that_the_hub_cannot_reach_is_looked_at_although_no_page_is_open(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    async def refuse(*_: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse)
    await watched.supervise(end_with("http://127.0.0.1:1"))
    assert watched.pods.count == 1


async def test_no_observation_delays_the_end_of_a_start(watched: Watched):
    watched.spawner.start_timeout = 1
    with pytest.raises(SlowStartError):
        await watched.supervise(asyncio.get_running_loop().create_future())
    assert watched.pods.count == 0


async def test_how_long_a_pod_waited_is_measured_although_no_page_is_open(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    noted: list[object] = []
    monkeypatch.setattr(starts.SpawnMeter, "note_pod", lambda _, pod: noted.append(pod))
    spawner, pod = watched.spawner, {"metadata": {"name": "own"}}
    spawner.start_state.meter = starts.SpawnMeter("none")
    watched.pods[f"{spawner.namespace}/{spawner.pod_name}"] = pod
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listener:
        await watched.supervise(end_with(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"))
    assert noted == [pod]


async def test_a_page_that_opens_is_not_kept_waiting(watched: Watched):
    supervised = asyncio.ensure_future(watched.supervise(asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    assert watched.pods.count == 0
    pages = [stream_progress(watched.spawner, watched.feed) for _ in range(2)]
    assert [(await anext(page))["message"] for page in pages] == ["Your server is being set up."] * 2
    await pages[0].aclose()
    assert watched.feed.is_read
    await pages[1].aclose()
    assert not watched.feed.is_read
    supervised.cancel()
    await asyncio.wait([supervised])


async def forgets_once(cancelled: list[int]) -> None:
    """Wait for good and do not notice at first that that is to end, as with ``asyncio.wait_for`` before Python 3.12."""
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(len(cancelled))
    raise asyncio.CancelledError


async def test_a_start_that_does_not_notice_that_it_is_cut_off_is_reported_again(make_spawner: MakeSpawner):
    spawner, cancelled = make_spawner(), list[int]()
    start = asyncio.ensure_future(supervise_start(spawner, forgets_once(cancelled), feed=spawner.start_state.feed))
    await asyncio.sleep(0.05)
    start.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(start, return_exceptions=True)
    assert (cancelled, start.cancelled(), spawner.start_state.feed.is_over) == ([0, 1], True, True)


async def test_jupyterhubs_timer_replaces_no_reason_while_the_start_is_being_cancelled(make_spawner: MakeSpawner):
    async def slow_to_end(cancelled: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.Event().wait()

    spawner, cancelled = make_spawner(), asyncio.Event()
    feed = spawner.start_state.feed
    feed.begin()
    feed.clock = lambda: time.monotonic() + spawner.start_timeout
    start = asyncio.ensure_future(supervise_start(spawner, slow_to_end(cancelled), feed=feed))
    async with asyncio.timeout(10):
        await cancelled.wait()
        start.cancel()
        with pytest.raises(SlowStartError, match="Your server was not ready after"):
            await start
    assert feed.is_over


async def test_pages_are_let_go_also_where_a_start_is_cut_off_twice(make_spawner: MakeSpawner):
    async def stubborn() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0.3)

    spawner = make_spawner()
    start = asyncio.ensure_future(supervise_start(spawner, stubborn(), feed=spawner.start_state.feed))
    for _ in range(2):
        await asyncio.sleep(0.05)
        start.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(start, return_exceptions=True)
    assert spawner.start_state.feed.is_over


async def test_a_mistake_in_looking_ends_no_start(
    make_spawner: MakeSpawner,
    server: WatchServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    async def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(observer.StartObserver, "observe", broken)
    _, ending = await started(make_spawner, server, running, is_read=True)
    assert ending == server.url
    # It is looked at again and again, and said once.
    assert len([each for each in caplog.records if "Cannot tell" in each.getMessage()]) == 1


async def test_a_hook_that_fails_after_the_pod_was_made_is_reported_as_it_is(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    def hook(*_: Any) -> None:
        raise ZeroDivisionError

    spawner = make_spawner(kubespawner={"after_pod_created_hook": hook})
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    hurry(spawner)
    start = await begin_with(server, spawner, pod)
    await eventually(lambda: [each for each in server.requests if each.method == "DELETE"])
    going = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-11-22T10:00:01Z"}}
    server.put(pods_path(spawner), going)
    await asyncio.sleep(0.3)
    assert not start.done()
    server.delete(pods_path(spawner), going)
    with pytest.raises(ZeroDivisionError):
        await start


async def test_the_timeout_of_a_gpu_type_is_what_is_waited_for(make_spawner: MakeSpawner, server: WatchServer):
    gpus = {**SETTINGS["gpus"], "a100": {**SETTINGS["gpus"]["a100"], "start_timeout": 10}}
    spawner = make_spawner(settings={**SETTINGS, "gpus": gpus})
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    assert spawner.start_timeout == 10
    hurry(spawner)
    start = await begin_with(server, spawner, pod)
    with pytest.raises(RefusedStart, match="within 10 seconds"):
        await start


async def test_stages_are_measured_as_they_are_shown(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    entered: list[str] = []
    monkeypatch.setattr(starts, "enter_stage", lambda _, stage: entered.append(stage))
    spawner, _ = await started(make_spawner, server, without_image)
    assert entered == [report.stage for report in spawner.start_state.feed.reports]
    assert entered[-1] == "failed"


async def test_a_start_without_a_page_ends_in_the_stage_ready_also_if_the_server_answers_at_once(
    make_spawner: MakeSpawner, server: WatchServer, monkeypatch: pytest.MonkeyPatch
):
    entered: list[str] = []
    monkeypatch.setattr(starts, "enter_stage", lambda _, stage: entered.append(stage))
    monkeypatch.setattr(supervisor, "_UNREAD_PAUSE_S", 60.0)
    monkeypatch.setattr(supervisor, "_PAUSE_S", 5.0)
    _, ending = await started(make_spawner, server, running)
    assert (ending, entered) == (server.url, ["ready"])


async def test_a_pod_that_runs_is_seen_although_the_watch_of_pods_had_given_up(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_listening(make_spawner(), server)
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    start = await begin_with(server, spawner, pod)
    await eventually(lambda: spawner.pod_reflector.pods)
    for watch in (spawner.pod_reflector, spawner.event_reflector):
        await cut_off(watch.watch_task)
    running(pod)
    server.put(pods_path(spawner), pod)
    async with asyncio.timeout(10):
        assert await start == server.url


async def test_a_resumed_start_that_fails_is_neither_counted_nor_pardoned(make_spawner: MakeSpawner):
    spawner = make_spawner()
    hurry(spawner)
    spawner.start_state.feed.resume(None, elapsed_s=10_000)
    with pytest.raises(RefusedStart, match="ended from outside") as refused:
        await spawner.resume()
    assert refused.value.code == "evicted"
    spawner.clear_state()
    assert "failure_count" not in spawner.user.settings


class BrokenFeed(ProgressFeed):
    """A feed that takes no reports."""

    def publish(self, *_: Any, **__: Any) -> None:
        raise ValueError("broken")


async def test_progress_that_cannot_be_shown_does_not_end_the_start(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_listening(make_spawner(), server)
    spawner.start_state.feed = BrokenFeed()
    pod = await pod_that_waits(spawner, GPU_OPTIONS)
    start = await begin_with(server, spawner, pod)
    await eventually(lambda: spawner.pod_reflector.pods)
    running(pod)
    server.put(pods_path(spawner), pod)
    async with asyncio.timeout(10):
        assert await start == server.url


def untouched(pod: dict[str, Any]) -> None:
    pod["spec"]["schedulerName"] = "site-scheduler"
    pod["status"] = {"phase": "Pending"}


async def test_a_pod_that_no_scheduler_looks_at_is_named_to_its_user_in_the_log_and_in_a_metric(
    make_spawner: MakeSpawner, server: WatchServer, caplog: pytest.LogCaptureFixture
):
    _, ending = await started(make_spawner, server, untouched, timeout_s=36)
    assert isinstance(ending, SlowStartError)
    assert "Last status: The scheduler site-scheduler hasn't looked at your server yet." in str(ending)
    assert "Gives up" not in str(ending)
    assert sum("its scheduler site-scheduler has not looked at it" in line for line in caplog.messages) == 1
