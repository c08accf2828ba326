"""A list and what changes after it, over whatever a connection does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.client.api_requests import APIUnavailableError
from gpuspawner.kube.watch.watch import (
    IDLE_GAP_S,
    MAX_SILENT_WATCHES,
    LineTooLongError,
    RelistError,
    Watch,
    WatchedResource,
    WatchTiming,
)
from tests.unit.kube.watch.kept import Kept
from tests.unit.kube.watch_server import (
    CUT,
    HANG,
    PODS,
    WatchServer,
    bookmark,
    event,
    eventually,
    pod,
)

TIMING = {"answer_s": 5, "watch_s": 10, "grace_s": 5, "settle_s": 0.02, "batch_s": 0.02}
SELECTOR = "status.phase!=Succeeded"


class Followed:
    """A watch on pods, what it keeps, and the moments it confirmed."""

    def __init__(self, api: CoreV1Api, **seconds: float) -> None:
        self.target = Kept()
        self.confirmed: list[float] = []
        self.now = 1000.0
        self.watch = Watch(
            WatchedResource(
                method=api.list_pod_for_all_namespaces, page_size=2, selectors={"field_selector": SELECTOR}
            ),
            self.target,
            confirm=self.confirmed.append,
            timing=WatchTiming(**{**TIMING, **seconds}),
            clock=lambda: self.now,
            random=lambda: 0.0,
        )

    @property
    def names(self) -> list[str]:
        return self.target.names


@pytest.fixture
def followed(cluster: WatchServer, cluster_api: CoreV1Api) -> Followed:
    cluster.put(PODS, pod("a"), pod("b"), pod("c"))
    return Followed(cluster_api)


async def streaming(
    followed: Followed, condition: Callable[[], object], *, then: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Stream until a condition holds; the stream must not end by itself."""
    task = asyncio.create_task(followed.watch.stream())
    try:
        await eventually(lambda: condition() or task.done())
        assert not task.done() or condition(), task
        if then:
            await then()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def since(cluster: WatchServer) -> list[str]:
    return [request.query["resourceVersion"] for request in cluster.asked(PODS, watch=True)]


async def test_a_list_confirms_as_of_when_it_was_asked_for(followed: Followed, cluster: WatchServer):
    cluster.open_.clear()
    task = asyncio.create_task(followed.watch.relist())
    await eventually(lambda: cluster.requests)
    followed.now += 7
    cluster.open_.set()
    await task
    assert followed.confirmed == [1000.0]


async def test_changes_after_the_list_arrive(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.put(PODS, pod("b", on="n2"), pod("d"))
    cluster.delete(PODS, pod("a"))
    await streaming(followed, lambda: followed.names == ["b", "c", "d"])
    assert followed.target.objects["other", "b"].value == "n2"


async def test_a_watch_begins_where_the_list_ended(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    await streaming(followed, lambda: len(followed.confirmed) > 1)
    (asked,) = cluster.asked(PODS, watch=True)
    expected = {"resourceVersion": str(cluster.version), "allowWatchBookmarks": "True", "fieldSelector": SELECTOR}
    assert {name: asked.query[name] for name in expected} == expected
    assert asked.query["timeoutSeconds"] == "10"


async def test_the_next_watch_begins_after_the_last_event(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.sends_bookmarks, cluster.lifetime_s = False, 0.1
    cluster.put(PODS, pod("d"))
    await followed.watch.stream()
    await followed.watch.stream()
    assert since(cluster) == [str(cluster.version - 1), str(cluster.version)]
    assert followed.target.changes == 4


async def test_the_next_watch_begins_after_a_bookmark(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.lifetime_s = 0.1
    cluster.version += 50
    await followed.watch.stream()
    await followed.watch.stream()
    assert since(cluster) == ["103", "153"]


async def test_a_watch_that_is_cut_is_taken_up_again(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.scripts[PODS] = [[event("ADDED", pod("d", resourceVersion="900")), CUT]]
    with pytest.raises(APIUnavailableError):
        await followed.watch.stream()
    cluster.lifetime_s = 0.1
    await followed.watch.stream()
    assert since(cluster) == ["103", "900"]


async def test_half_a_line_at_the_end_is_forgotten(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    whole = event("ADDED", pod("d", resourceVersion="900"))
    cluster.scripts[PODS] = [[whole[:40], CUT], [whole[:40], whole[40:], HANG]]
    with pytest.raises(APIUnavailableError):
        await followed.watch.stream()
    assert followed.names == ["a", "b", "c"]
    await streaming(followed, lambda: followed.names == ["a", "b", "c", "d"])
    assert since(cluster) == ["103", "103"]


async def test_a_silent_connection_is_given_up(cluster: WatchServer, cluster_api: CoreV1Api):
    followed = Followed(cluster_api, watch_s=1, grace_s=-0.9)
    await followed.watch.relist()
    cluster.scripts[PODS] = [[HANG]]
    with pytest.raises(APIUnavailableError, match="in time"):
        await followed.watch.stream()


async def test_an_api_server_that_does_not_answer_is_given_up(cluster: WatchServer, cluster_api: CoreV1Api):
    followed = Followed(cluster_api, answer_s=0.05)
    cluster.open_.clear()
    with pytest.raises(APIUnavailableError, match="in time"):
        await followed.watch.relist()


async def test_a_watch_that_ends_at_once_is_a_failure(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.scripts[PODS] = [[]]
    with pytest.raises(APIUnavailableError, match="at once"):
        await followed.watch.stream()


@pytest.mark.parametrize("status", [400, 404, 410])
async def test_a_refusal_that_will_not_change_asks_for_a_list(followed: Followed, cluster: WatchServer, status: int):
    await followed.watch.relist()
    cluster.watch_status[PODS] = status
    with pytest.raises(RelistError):
        await followed.watch.stream()


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_refusal_that_may_change_does_not(followed: Followed, cluster: WatchServer, status: int):
    await followed.watch.relist()
    cluster.watch_status[PODS] = status
    with pytest.raises(APIUnavailableError) as refused:
        await followed.watch.stream()
    assert refused.value.status == status


@pytest.mark.parametrize("line", [b"{\n", b"<html>\n", b"[" * 100_000 + b"\n", b"\xff\n", event("ERROR", None)])
async def test_junk_asks_for_a_list(followed: Followed, cluster: WatchServer, line: bytes):
    await followed.watch.relist()
    cluster.scripts[PODS] = [[line, HANG]]
    with pytest.raises(RelistError):
        await followed.watch.stream()


@pytest.mark.parametrize(
    "line",
    [
        b"3\n",
        b"null\n",
        b"{}\n",
        b'{"type": ["ADDED"], "object": 3}\n',
        b"\n\n",
        event("RENAMED", pod("x", resourceVersion="900")),
        event("ADDED", None),
        event("ADDED", {"metadata": {}}),
        event("MODIFIED", {"metadata": {"name": 7}}),
        event("DELETED", {"metadata": None}),
        event("DELETED", pod("never-seen")),
        event("BOOKMARK", {}),
    ],
)
async def test_what_says_nothing_changes_nothing(followed: Followed, cluster: WatchServer, line: bytes):
    await followed.watch.relist()
    cluster.scripts[PODS] = [[line, event("ADDED", pod("d")), HANG]]
    await streaming(followed, lambda: followed.names == ["a", "b", "c", "d"])


async def test_managed_fields_that_are_nested_too_deeply_take_no_event_away(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    fields = '{"f:a":' * 5000 + "{}" + "}" * 5000
    whole = json.dumps({"type": "ADDED", "object": pod("d", managedFields=["X"])}, separators=(",", ":"))
    cluster.scripts[PODS] = [[whole.replace('"X"', fields).encode() + b"\n", HANG]]
    await streaming(followed, lambda: followed.names == ["a", "b", "c", "d"])


async def test_an_object_of_many_megabytes_is_kept(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.put(PODS, pod("d", annotations={"large": "x" * 9_000_000}))
    await streaming(followed, lambda: followed.names == ["a", "b", "c", "d"])


async def test_a_line_without_an_end_is_an_error(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.scripts[PODS] = [[b"x" * 1_000_000] * 40 + [HANG]]
    with pytest.raises(LineTooLongError):
        await followed.watch.stream()


async def test_a_second_list_brings_everything_up_to_date(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.delete(PODS, pod("a"))
    cluster.put(PODS, pod("c", on="n2"), pod("d"))
    cluster.expire()
    followed.watch.forget()
    await followed.watch.relist()
    assert (followed.names, followed.target.objects["other", "c"].value) == (["b", "c", "d"], "n2")


async def test_a_pod_that_has_finished_is_dropped(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.put(PODS, pod("b", phase="Failed"))
    await streaming(followed, lambda: followed.names == ["a", "c"])


async def test_a_list_that_fails_half_way_drops_nothing(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    page = {"items": [pod("a")], "metadata": {"resourceVersion": "9", "continue": "more"}}
    cluster.bodies[PODS] = json.dumps(page)[:-1]
    followed.watch.forget()
    with pytest.raises(APIUnavailableError):
        await followed.watch.relist()
    assert (followed.names, followed.watch.needs_list) == (["a", "b", "c"], True)


async def test_a_quiet_watch_confirms_as_of_when_it_was_asked_for(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    followed.now += 20
    await streaming(followed, lambda: len(followed.confirmed) > 1)
    assert followed.confirmed == [1000.0, 1020.0]


async def test_events_confirm_nothing(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()

    def step() -> bool:
        if len(followed.confirmed) == 2 and followed.now == 1000:
            followed.now += 30
            cluster.put(PODS, pod("d"))
        return "d" in followed.names

    await streaming(followed, step)
    assert followed.confirmed == [1000.0, 1000.0]


async def test_changes_after_a_batch_wait_for_the_next_one(cluster: WatchServer, cluster_api: CoreV1Api):
    followed = Followed(cluster_api, batch_s=0.3)
    await followed.watch.relist()
    time = asyncio.get_running_loop().time

    def step() -> bool:
        if len(followed.confirmed) == 2 and not cluster.objects[PODS].get(("other", "d")):
            cluster.put(PODS, pod("d"))
        return "d" in followed.names

    async def change_again() -> None:
        began = time()
        cluster.put(PODS, pod("e"))
        cluster.put(PODS, pod("f"))
        await eventually(lambda: "e" in followed.names)
        assert (time() - began > 0.2, followed.names) == (True, ["d", "e", "f"])

    await streaming(followed, step, then=change_again)


async def test_a_busy_watch_confirms_as_of_when_it_was_asked_for(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    followed.now += 20
    time = asyncio.get_running_loop().time
    put_at = time()

    def step() -> bool:
        nonlocal put_at
        # It never rests, and what comes is no rush: more than GAP_S apart.
        if time() - put_at > 4 * IDLE_GAP_S:
            put_at = time()
            cluster.put(PODS, pod("d"))
        return len(followed.confirmed) > 1

    await streaming(followed, step)
    assert followed.confirmed == [1000.0, 1020.0]


async def test_missed_changes_confirm_nothing(cluster: WatchServer, cluster_api: CoreV1Api):
    followed = Followed(cluster_api, settle_s=60)
    await followed.watch.relist()
    cluster.put(PODS, pod("a"), pod("b"))
    await streaming(followed, lambda: followed.names == ["a", "b"])
    assert followed.confirmed == [1000.0]


async def test_half_a_line_confirms_nothing(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.scripts[PODS] = [[event("ADDED", pod("d"))[:-5], HANG]]
    task = asyncio.create_task(followed.watch.stream())
    done, _ = await asyncio.wait({task}, timeout=0.2)
    task.cancel()
    assert (done, followed.confirmed) == (set(), [1000.0])


async def test_a_bookmark_confirms_at_once(cluster: WatchServer, cluster_api: CoreV1Api):
    followed = Followed(cluster_api, settle_s=60)
    await followed.watch.relist()
    followed.now += 30
    cluster.scripts[PODS] = [[bookmark(500), HANG]]
    await streaming(followed, lambda: len(followed.confirmed) > 1)
    assert followed.confirmed == [1000.0, 1030.0]


async def test_a_server_that_never_says_anything_is_asked_for_a_list(followed: Followed, cluster: WatchServer):
    await followed.watch.relist()
    cluster.lifetime_s, cluster.sends_bookmarks = 0.05, False
    for _ in range(MAX_SILENT_WATCHES - 1):
        await followed.watch.stream()
    with pytest.raises(RelistError):
        await followed.watch.stream()
