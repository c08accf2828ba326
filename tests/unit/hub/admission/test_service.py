"""The policy at work: real spawners of several users, in front of a server that answers lists and watches."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import begin
from tests.unit.kube.watch_server import WatchServer

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
ONE = {"gpu": "a100", "gpu_count": 1}


def settings(*, policy: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {**SETTINGS, "policy": policy or {}, **more}


FOUR = settings(policy={"default": {"max_gpus": 4}})


def named(make_spawner: MakeSpawner, name: str = "", *, settings: Any = FOUR, user: str = "ada") -> GPUSpawner:
    stored = SimpleNamespace(name=name, user_options=None, server=None, server_name=name)
    return make_spawner(settings=settings, name=user, orm_spawner=stored)


async def start(spawner: GPUSpawner, options: Any) -> str:
    """Start a server as JupyterHub does, up to its pod; return why it was refused, empty when it was not."""
    spawner._start_pending = True
    try:
        await begin(spawner, options)
    except RefusedStart as refused:
        spawner._start_pending = False
        return refused.reason or ""
    return ""


def pod(owner: str, name: str = "", *, gpus: int = 1, **notes: str) -> dict[str, Any]:
    annotations = {"hub.jupyter.org/username": owner, "hub.jupyter.org/servername": name}
    annotations |= {f"gpuspawner.jupyter.org/{key}": value for key, value in {"gpu": "a100", **notes}.items()}
    container = {"name": "notebook", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"name": f"jupyter-{owner}-{name}", "namespace": "default", "annotations": annotations},
        "spec": {"containers": [container]},
        "status": {"phase": "Running"},
    }


async def test_of_many_servers_at_once_as_many_are_let_through_as_the_limit_has(make_spawner: MakeSpawner):
    async def apply(spawner: GPUSpawner) -> str:
        # Only the first of the two times that a choice passes the gate: the second must not have to make up for it.
        spawner._start_pending = True
        try:
            await spawner._run_apply_user_options(ONE)
        except RefusedStart as refused:
            return refused.reason or ""
        return ""

    reasons = await asyncio.gather(*(apply(named(make_spawner, f"s{number}")) for number in range(20)))
    assert sorted(reasons) == [""] * 4 + ["gpu_quota"] * 16


async def test_a_start_that_fails_in_a_hook_holds_nothing(make_spawner: MakeSpawner):
    def fail(_: Any) -> None:
        raise RuntimeError

    failing = named(make_spawner, "a")
    failing.pre_spawn_hook = fail
    with pytest.raises(RuntimeError):
        await start(failing, {"gpu": "a100", "gpu_count": 4})
    assert await start(named(make_spawner, "b"), ONE) == "gpu_quota"
    failing._start_pending = False
    assert await start(named(make_spawner, "b"), ONE) == ""


async def test_servers_that_exist_are_counted_by_the_first_request_of_a_hub(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(PODS, pod("ada", "old", gpus=3), pod("bob", "other", gpus=4))
    assert await start(named(make_spawner, "new"), {"gpu": "a100", "gpu_count": 2}) == "gpu_quota"
    assert await start(named(make_spawner, "new"), ONE) == ""


async def test_what_a_server_had_before_does_not_count_against_itself(make_spawner: MakeSpawner, server: WatchServer):
    server.put(PODS, pod("ada", "old", gpus=4))
    assert await start(named(make_spawner, "old"), {"gpu": "a100", "gpu_count": 4}) == ""


async def test_a_form_that_comes_back_by_a_server_that_runs_counts_it(make_spawner: MakeSpawner, server: WatchServer):
    server.put(PODS, pod("ada", gpus=3))
    running = named(make_spawner)
    assert "3 of 4 GPUs in use by you" not in await running.get_options_form()
    running._spawn_pending = True
    assert "3 of 4 GPUs in use by you" in await running.get_options_form()


async def test_what_a_person_may_have_instead_of_what_is_being_started(make_spawner: MakeSpawner):
    spawner = named(make_spawner)
    await start(spawner, {"gpu": "a100", "gpu_count": 3})
    spawner._spawn_pending = True
    offer, allowances = await spawner.make_offer(), GPUSpawner.admission
    allowed = [await allowances.find_allowance(spawner, offer, is_start=is_start) for is_start in (False, True)]
    assert [each.find_max_count("a100") for each in allowed] == [1, 4]


async def test_while_pods_cannot_be_read_nothing_counted_is_let_through(make_spawner: MakeSpawner, server: WatchServer):
    server.status[PODS] = HTTPStatus.INTERNAL_SERVER_ERROR
    spawner = named(make_spawner)
    with pytest.raises(RefusedStart) as refused:
        await begin(spawner, ONE)
    assert (refused.value.reason, refused.value.status_code) == ("policy_unreadable", 503)
    assert await start(named(make_spawner), {"gpu": None}) == ""
    del server.status[PODS]
    assert await start(named(make_spawner), ONE) == ""


async def test_a_slow_answer_about_pods_is_waited_for_a_while(make_spawner: MakeSpawner, server: WatchServer):
    server.held.add(PODS)
    spawner = named(make_spawner)
    spawner.capacity_timeout = 0.1
    assert await start(spawner, ONE) == "policy_unreadable"
    server.held.clear()


POOLED = settings(
    policy={"default": {"max_gpus": 4}}, pools={"physics": {"groups": ["Physics"], "gpus": ["a100"], "max_gpus": 3}}
)


def member(make_spawner: MakeSpawner, user: str) -> GPUSpawner:
    spawner = named(make_spawner, user=user, settings=POOLED)
    spawner.user.groups = [SimpleNamespace(name="PHYSICS", properties={})]
    return spawner


async def test_a_pool_is_shared_by_its_groups_and_stands_on_their_pods(make_spawner: MakeSpawner):
    two = {"gpu": "a100", "gpu_count": 2}
    ada = member(make_spawner, "ada")
    assert [await start(ada, two), await start(member(make_spawner, "bob"), two)] == ["", "pool_quota"]
    eve = named(make_spawner, user="eve", settings=POOLED)
    assert await start(eve, two) == ""
    notes = [(await each.get_pod_manifest()).metadata.annotations for each in (ada, eve)]
    assert [each["gpuspawner.jupyter.org/pools"] for each in notes] == ["physics", ""]


class _Unreadable:
    def __iter__(self) -> Any:
        raise OperationalError("SELECT", {}, Exception("the database is gone"))


async def test_a_user_whose_groups_cannot_be_read_is_refused(make_spawner: MakeSpawner):
    spawner = named(make_spawner, settings=settings(policy={"groups": {"ml": {"max_gpus": 2}}}))
    spawner.apply_group_overrides = _nothing
    spawner.user.groups = _Unreadable()
    assert await start(spawner, {"gpu": None}) == "policy_unreadable"


async def _nothing() -> None:
    return None


def quota(*, used: int) -> dict[str, Any]:
    counted = {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": str(used)}}
    return {"metadata": {"name": "gpus", "namespace": "default"}, "status": counted}


async def test_what_a_namespaces_quota_leaves_is_the_limit_without_a_policy_too(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(QUOTAS, quota(used=2))
    three = {"gpu": "a100", "gpu_count": 3}
    assert await start(named(make_spawner, settings=SETTINGS), three) == "namespace_quota"
    server.put(QUOTAS, quota(used=1))
    assert await start(named(make_spawner, settings=SETTINGS), three) == ""


async def test_without_a_policy_pods_are_not_read_for_a_form_or_a_choice(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = named(make_spawner, settings=SETTINGS)
    await spawner.get_options_form()
    await start(spawner, ONE)
    assert server.asked(PODS, watch=False) == []


async def test_with_a_policy_pods_are_read_before_a_form_is_shown(make_spawner: MakeSpawner, server: WatchServer):
    await named(make_spawner).get_options_form()
    assert server.asked(PODS, watch=False) != []


async def test_a_sent_form_beyond_the_limits_is_refused_there_and_holds_nothing(
    make_spawner: MakeSpawner, server: WatchServer
):
    server.put(PODS, pod("ada", "old", gpus=3))
    form = {"image": ["pytorch"], "cpu": ["2"], "memory": ["4"], "gpu": ["a100"], "gpu_count": ["2"]}
    with pytest.raises(RefusedStart) as refused:
        await named(make_spawner, "a").run_options_from_form(form)
    assert (refused.value.reason, refused.value.status_code) == ("gpu_quota", 403)
    for name in ("b", "c"):
        await named(make_spawner, name).run_options_from_form({**form, "gpu_count": ["1"]})
    assert await start(named(make_spawner, "d"), ONE) == ""


async def test_after_a_refusal_the_cluster_is_not_asked_whether_anything_runs(make_spawner: MakeSpawner):
    await start(named(make_spawner, "a"), {"gpu": "a100", "gpu_count": 4})
    refused = named(make_spawner, "b")
    assert await start(refused, ONE) == "gpu_quota"
    assert await refused.poll() == 0
