"""JupyterHub learns the truth about a server until its pod is gone, whatever is asked in the meantime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import jupyterhub
import pytest
from jupyterhub.user import User

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import CPU_NODE, GPU_NODE, SETTINGS, MakeSpawner, spawners
from tests.unit.hub.hub_requests import RealHub
from tests.unit.hub.starts import begin
from tests.unit.hub.storm import OWN_PODS, FollowedSpawner, StormyAuthenticator, StormyServer
from tests.unit.kube.watch_server import NODES, NVIDIA_CLASS, RUNTIME_CLASSES, eventually, serve_watches

OPTIONS = {"image": "pytorch", "cpu": 1, "memory": "1G"}
CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/claim-ada--lablab"
IS_5 = jupyterhub.version_info < (6,)
HUB: dict[str, Any] = {"allow_named_servers": True, "allow_invalid_named_server_start": True, "slow_spawn_timeout": 0}

pytestmark = [
    # JupyterHub refuses in a task, which nothing awaits, to remove a server that is active.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
async def server() -> AsyncIterator[StormyServer]:
    async with serve_watches(StormyServer(is_stormy=False, lets_run=False)) as answering:
        assert isinstance(answering, StormyServer)
        answering.put(NODES, GPU_NODE, CPU_NODE)
        answering.put(RUNTIME_CLASSES, NVIDIA_CLASS)
        yield answering
        for task in answering.tasks:
            task.cancel()


@pytest.fixture
async def make_hub(
    server: StormyServer, use_api: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., RealHub]]:
    use_api(server.url)

    def make(**settings: object) -> RealHub:
        given = {
            "namespace": "default",
            "delete_grace_period": 0,
            "pvc_name_template": "claim-{user_server}{servername}",
        }
        hub = RealHub({"GPUSpawner": SETTINGS, "KubeSpawner": given}, **HUB, **settings)
        hub.add_user("ada")
        return hub

    async with spawners(monkeypatch):
        yield make


async def start(hub: RealHub, server: StormyServer, name: str = "lab") -> None:
    """Start a server, and wait until its pod exists."""
    assert await hub.ask("POST", "ada", name, OPTIONS) in {201, 202}
    await eventually(lambda: f"jupyter-ada--{name}" in server.list_pods())


async def stop(hub: RealHub) -> None:
    """Stop the server that :func:`start` has started, and wait until JupyterHub knows it."""
    assert await hub.ask("DELETE", "ada", "lab") in {202, 204}
    await eventually(lambda: not hub.find_user("ada").active)


async def cancel(hub: RealHub, name: str = "lab") -> asyncio.Task[int]:
    """Ask for a stop, and return its request in the second in which JupyterHub waits."""
    spawner = hub.find_user("ada").spawners[name]
    request = asyncio.create_task(hub.ask("DELETE", "ada", name))
    await eventually(lambda: spawner._spawn_future is None)
    assert not request.done()
    return request


def known(user: User) -> set[str]:
    return {name for name in user.orm_user.orm_spawners if name}


@pytest.mark.parametrize(
    ("method", "name", "body", "status"),
    [
        pytest.param("DELETE", "lab", None, 202, id="stop"),
        pytest.param("POST", "lab", OPTIONS, 400, id="start"),
        pytest.param("DELETE", None, None, 500, id="remove the user"),
        pytest.param(
            "PATCH", "lab", {"name": "other"}, 400, id="rename",
            marks=pytest.mark.skipif(IS_5, reason="JupyterHub 5 renames no servers"),
        ),
    ],
)  # fmt: skip
async def test_a_server_whose_start_was_cancelled_is_kept_until_its_pod_is_gone(
    make_hub: Callable[..., RealHub], server: StormyServer, method: str, name: str | None, body: Any, status: int
):
    hub = make_hub()
    await start(hub, server)
    first = await cancel(hub)
    assert await hub.ask(method, "ada", name, body) == status
    assert await first in {202, 204}
    await eventually(lambda: not server.list_pods())
    assert known(hub.find_user("ada")) == {"lab"}


async def test_no_user_leaves_pods_by_removing_servers_while_their_starts_end(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub(named_server_limit_per_user=1)
    for name in "abc":
        await start(hub, server, name)
        first = await cancel(hub, name)
        assert await hub.ask("DELETE", "ada", name, {"remove": True}) == 202
        assert known(hub.find_user("ada")) == {name}
        assert await first in {202, 204}
        await eventually(lambda: not known(hub.find_user("ada")))
        assert server.list_pods() == []
    assert server.created == 3


async def test_another_request_can_stop_a_server_whose_start_was_cancelled_by_one_that_went_away(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub()
    await start(hub, server)
    spawner = hub.find_user("ada").spawners["lab"]

    async def cancel_and_leave() -> None:
        assert spawner.pending == "spawn"
        spawner._spawn_future.cancel()

    await asyncio.create_task(cancel_and_leave())
    await eventually(lambda: spawner._spawn_future is None)
    assert (spawner.pending, spawner.active) == (None, True)
    assert await hub.ask("DELETE", "ada", "lab") in {202, 204}
    await eventually(lambda: not server.list_pods())
    assert not hub.find_user("ada").active


async def test_no_request_starts_a_server_that_jupyterhub_removes(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub()
    await start(hub, server)
    await stop(hub)
    held = asyncio.Event()

    async def answer_late(_: object) -> None:
        await held.wait()

    server.answers["DELETE", CLAIM] = answer_late
    removal = asyncio.create_task(hub.ask("DELETE", "ada", "lab", {"remove": True}))
    await eventually(lambda: [each for each in server.requests if each.path == CLAIM])
    assert await hub.ask("POST", "ada", "lab", OPTIONS) == 400
    held.set()
    await removal
    assert (known(hub.find_user("ada")), server.list_pods()) == (set(), [])


async def test_a_removed_server_is_created_again_at_once_and_known(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub()
    await start(hub, server)
    first = await cancel(hub)
    await hub.ask("DELETE", "ada", "lab", {"remove": True})
    await first
    await eventually(lambda: not known(hub.find_user("ada")))
    await start(hub, server)
    assert (known(hub.find_user("ada")), hub.find_user("ada").spawners["lab"].pending) == ({"lab"}, "spawn")
    await hub.ask("DELETE", "ada", "lab")
    await eventually(lambda: not server.list_pods())


async def test_of_two_requests_that_remove_a_stopped_server_at_once_one_deletes_its_claim(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub()
    await start(hub, server)
    await stop(hub)
    await asyncio.gather(*(hub.ask("DELETE", "ada", "lab", {"remove": True}) for _ in range(2)))
    deleted = [request for request in server.requests if (request.method, request.path) == ("DELETE", CLAIM)]
    assert (len(deleted), known(hub.find_user("ada"))) == (1, set())


async def test_two_requests_that_remove_a_server_leave_alone_the_server_that_is_created_after_it(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub()
    # JupyterHub refuses the second removal in a task that nothing awaits.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await start(hub, server)
    claims, held = 0, asyncio.Event()

    async def answer_the_second_late(_: object) -> None:
        nonlocal claims
        claims += 1
        if claims > 1:
            await held.wait()

    server.answers["DELETE", CLAIM] = answer_the_second_late
    first = await cancel(hub)
    removals = [await hub.ask("DELETE", "ada", "lab", {"remove": True}) for _ in range(2)]
    await first
    await eventually(lambda: not known(hub.find_user("ada")))
    await start(hub, server)
    held.set()
    await eventually(lambda: not [task for task in asyncio.all_tasks() if "_remove_spawner" in repr(task)])
    assert claims == 1  # another would be that of the new server
    assert (removals, known(hub.find_user("ada")), list(hub.find_user("ada").spawners)) == (
        [202, 202],
        {"lab"},
        ["lab"],
    )
    await hub.ask("DELETE", "ada", "lab")
    await eventually(lambda: not server.list_pods())


@pytest.mark.skipif(IS_5, reason="JupyterHub 5 renames no servers")
async def test_a_renamed_server_and_a_new_server_of_its_old_name_have_pods_of_their_own(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    hub = make_hub()
    await start(hub, server)
    await stop(hub)
    assert await hub.ask("PATCH", "ada", "lab", {"name": "other"}) == 200
    await start(hub, server, "other")
    await start(hub, server, "lab")
    assert server.list_pods() == ["jupyter-ada--lab", "jupyter-ada--other"]
    for name in ("lab", "other"):
        await hub.ask("DELETE", "ada", name)
    await eventually(lambda: not server.list_pods())


async def test_a_start_waits_until_the_pod_of_an_earlier_start_is_gone(make_spawner: MakeSpawner, server: StormyServer):
    spawner = make_spawner(kubespawner={"namespace": "default"})
    tokens = []
    for _ in range(2):
        await begin(spawner, dict(OPTIONS))
        future = spawner.start()
        before = server.created
        await eventually(lambda made=before: server.created == made + 1)
        (pod,) = server.objects[OWN_PODS].values()
        tokens.append(pod["metadata"]["annotations"]["gpuspawner.jupyter.org/created-by-start"])
        future.cancel()
    await asyncio.gather(future, return_exceptions=True)
    assert tokens[0] != tokens[1]
    assert any("deleting jupyter-ada, uid-1" in line for line in server.journal)


async def test_a_start_follows_an_open_start_if_the_proxy_keeps_jupyterhub_from_stopping_the_server(
    make_hub: Callable[..., RealHub], server: StormyServer
):
    """JupyterHub asks the identity provider meanwhile, and has looked before whether it may start the server."""
    begun, ends = asyncio.Event(), asyncio.Event()

    async def change_pod(_: object, pod: object) -> object:
        begun.set()
        if not ends.is_set():
            try:
                await asyncio.sleep(60)
            finally:
                await ends.wait()
        return pod

    async def fail(*_: object) -> None:
        if server.created == 0:
            raise ConnectionError

    hub = make_hub(
        authenticator=StormyAuthenticator(), spawner_class=FollowedSpawner, proxy=SimpleNamespace(delete_user=fail)
    )
    hub.settings["config"].KubeSpawner.modify_pod_hook = change_pod
    before = FollowedSpawner.followed
    gpu = {**OPTIONS, "gpu": "a100", "gpu_count": 1}
    assert await hub.ask("POST", "ada", "lab", gpu) == 202
    spawner = hub.find_user("ada").spawners["lab"]

    async def cancel_and_leave() -> None:
        assert spawner.pending == "spawn"
        spawner._spawn_future.cancel()

    await begun.wait()
    await asyncio.create_task(cancel_and_leave())
    stop = asyncio.create_task(hub.ask("DELETE", "ada", "lab"))
    await asyncio.sleep(0)
    again = asyncio.create_task(hub.ask("POST", "ada", "lab", gpu))
    await asyncio.sleep(0)
    ends.set()
    assert await asyncio.gather(stop, again) == [204, 202]
    await eventually(lambda: server.list_pods() == ["jupyter-ada--lab"])
    assert (FollowedSpawner.followed - before, spawner.start_timeout) == (1, 900)
    await hub.ask("DELETE", "ada", "lab")
    await eventually(lambda: not server.list_pods())


async def start_twice(spawner: GPUSpawner, options: dict[str, Any], *, meanwhile: Callable[[], None]) -> list[Any]:
    """Start a server while an earlier start of its spawner still ends; return what the new start sees when it begins.

    :param meanwhile: what the earlier start does after JupyterHub has prepared the new start.
    """
    begun: list[Any] = []

    async def send() -> None:
        begun.append((spawner.start_timeout, spawner.start_state.is_refused, spawner.has_open_start))

    async def wait_for(starting: asyncio.Future[Any]) -> Any:
        return await starting

    async def fail() -> None:
        raise RuntimeError

    spawner._start_future = earlier = spawner.open_starts.follow(fail, wait_for)
    await asyncio.gather(earlier, return_exceptions=True)
    await begin(spawner, dict(options))
    meanwhile()
    spawner._start_future = start = spawner.open_starts.follow(lambda: spawner.begin_start(send), wait_for)
    await start
    return begun


async def test_a_start_keeps_the_timeout_of_its_type_when_it_waits_for_an_earlier_start(
    make_spawner: MakeSpawner, server: StormyServer
):
    spawner = make_spawner(kubespawner={"namespace": "default", "start_timeout": 77})
    gpu = {**OPTIONS, "gpu": "a100", "gpu_count": 1}
    assert await start_twice(spawner, gpu, meanwhile=lambda: None) == [(900, False, False)]
    spawner.clear_state()
    assert spawner.start_timeout == 77


async def test_the_late_refusal_of_an_earlier_start_does_not_end_the_next(
    make_spawner: MakeSpawner, server: StormyServer
):
    spawner = make_spawner(kubespawner={"namespace": "default", "start_timeout": 77})

    def refuse() -> None:
        spawner.start_state.is_refused = True

    assert await start_twice(spawner, OPTIONS, meanwhile=refuse) == [(77, False, False)]


async def test_a_server_is_not_removed_while_a_stop_is_pending(make_spawner: MakeSpawner, server: StormyServer):
    spawner = make_spawner(kubespawner={"namespace": "default"})
    spawner._spawn_pending = True

    async def ask() -> str | None:
        return spawner.pending

    assert await asyncio.create_task(ask()) == "spawn"
    spawner._spawn_pending, spawner._stop_pending = False, True  # the start has failed, so JupyterHub stops the server
    assert spawner.pending == "stop"
    stop = asyncio.ensure_future(spawner._stop_future)
    done, _ = await asyncio.wait([stop], timeout=0.5)
    assert not done
    spawner._stop_pending = False
    await asyncio.wait_for(stop, timeout=5)
