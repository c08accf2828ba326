"""Facts that the hub observes of a start, and how seldom it looks closely."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.catalog.model import ScaleUp
from gpuspawner.core.progress.model import Facts, QueuePlace
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.hub.config import offer
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start import observer
from gpuspawner.hub.start.observer import StartObserver, WorkThrottle
from gpuspawner.hub.start.stream import ProgressFeed
from gpuspawner.kube.store import ClusterStore
from tests.unit.clocks import Clock
from tests.unit.core.kueue_workloads import IN_USE, local_queue, pending
from tests.unit.hub.conftest import GPU_NODE, MakeSpawner
from tests.unit.hub.followed import Reflector, pod_that_waits
from tests.unit.hub.starts import GPU_OPTIONS
from tests.unit.kube.watch_server import NODES, PODS, WatchServer, eventually
from tests.unit.kube.watch_server import pod as other_pod


class Seen:
    """A start of a server as its watches have it, and the time."""

    def __init__(self, spawner: GPUSpawner, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
        self.spawner = spawner
        self.clock = clock
        self._versions = itertools.count(1)
        self.pods: dict[str, Any] = {}
        self.events: dict[str, Any] = {}
        monkeypatch.setattr(type(spawner), "pod_reflector", Reflector(pods=self.pods))
        monkeypatch.setattr(type(spawner), "event_reflector", Reflector(resources=self.events))
        self.following = ProgressFeed(clock=clock)
        self.following.begin()
        self.following.note_pod_sent(None)
        self.lookout = StartObserver(spawner, self.following)
        monkeypatch.setattr(StartObserver, "_throttle", WorkThrottle(0.05, clock=clock))

    async def observe(self, *, even_if_unchanged: bool = False) -> Facts:
        facts = await self.lookout.observe(even_if_unchanged=even_if_unchanged)
        assert facts is not None
        return facts

    def put(self, pod: dict[str, Any], **changes: Any) -> None:
        metadata = {**pod["metadata"], "resourceVersion": str(next(self._versions))}
        self.pods[f"{self.spawner.namespace}/{self.spawner.pod_name}"] = {**pod, **changes, "metadata": metadata}


@pytest.fixture
async def seen(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Seen:
    return Seen(make_spawner(), monkeypatch, clock)


async def test_before_its_pod_is_there_a_start_is_all_there_is(seen: Seen):
    facts = await seen.observe()
    assert (facts.pod, facts.verdict, facts.is_node_ready, facts.timeout_s) == (None, None, None, 60.0)


async def test_unchanged_facts_are_not_read_again_at_once(seen: Seen):
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    assert await seen.lookout.observe() is not None
    seen.clock.now += observer.RECHECK_S - 0.1
    assert await seen.lookout.observe() is None
    assert await seen.lookout.observe(even_if_unchanged=True) is not None
    seen.clock.now += 2 * observer.RECHECK_S
    assert await seen.lookout.observe() is not None


async def test_a_change_of_the_pod_or_an_event_is_seen_at_once(seen: Seen, monkeypatch: pytest.MonkeyPatch):
    pod = await pod_that_waits(seen.spawner, GPU_OPTIONS)
    monkeypatch.setattr(observer, "POD_EVENTS", SimpleNamespace(list_events=lambda *_: list(seen.events.values())))
    seen.put(pod)
    await seen.lookout.observe()
    seen.put(pod, status={"phase": "Pending"})
    assert await seen.lookout.observe() is not None
    seen.events["a"] = {"metadata": {"uid": "a", "resourceVersion": "1"}}
    facts = await seen.observe()
    assert len(facts.events) == 1
    seen.events["a"] = {"metadata": {"uid": "a", "resourceVersion": "2"}}
    assert await seen.lookout.observe() is not None


async def test_the_minutes_of_a_new_node_are_those_of_the_type(seen: Seen):
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    gpu = (await seen.spawner.make_offer()).catalog.gpus["a100"]
    seen.following.gpu = replace(gpu, scale_up=ScaleUp(max_nodes=1, gpus_per_node=4, minutes=20.0))
    facts = await seen.observe()
    assert facts.new_node_minutes == 20.0


async def test_a_pod_that_was_there_before_is_not_the_starts(seen: Seen):
    pod = await pod_that_waits(seen.spawner, GPU_OPTIONS, uid="old")
    seen.put(pod)
    seen.following.note_pod_sent(pod)
    facts = await seen.observe()
    assert facts.pod is None


async def test_a_pod_that_the_last_server_left_is_not_the_starts_before_its_own_is_sent(seen: Seen):
    seen.following.is_sent = False
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS, uid="old"), status={"phase": "Failed"})
    facts = await seen.observe()
    assert facts.pod is None


async def test_a_pod_that_waits_has_a_verdict_and_the_name_of_its_type(seen: Seen, server: WatchServer):
    server.put(PODS, other_pod("other", on="gpu-1", gpus=4))
    offer = await seen.spawner.make_offer()
    seen.following.gpu = offer.catalog.gpus["a100"]
    store = seen.spawner.offer_factory.known_store
    assert store is not None
    await eventually(lambda: store._occupancy.get_requested("gpu-1"))
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    facts = await seen.observe()
    assert facts.verdict is not None
    assert (facts.verdict.outcome, facts.gpu_name, facts.is_node_ready) == (Outcome.WAITS, "A100", None)


async def test_verdicts_are_given_no_more_often_than_the_hub_has_time_for(seen: Seen):
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    first = await seen.observe()
    assert first.verdict is not None
    with StartObserver._throttle.measure():  # by another server's
        seen.clock.now += 10.0
    again = await seen.observe()
    assert (again.verdict, again.judged_at_s) == (first.verdict, 0.0)
    seen.clock.now += 5.0
    stale = await seen.observe()
    assert (stale.verdict, stale.judged_at_s) == (None, None)
    seen.clock.now += 191.0
    later = await seen.observe()
    assert later.verdict is not first.verdict
    assert later.judged_at_s == pytest.approx(206)


@pytest.mark.parametrize(("outcome", "age_s"), [(Outcome.NEVER, 0.0), (Outcome.WAITS, 10.01)])
async def test_only_what_looks_hopeless_is_judged_again_though_others_have_the_turn(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, age_s: float
):
    monkeypatch.setattr(offer, "predict_verdict", lambda *_, **__: Verdict(outcome=outcome))
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    await seen.lookout.observe()
    seen.clock.now += 10.0
    with StartObserver._throttle.measure():  # by another server's, whose rest is a fifth of a second
        seen.clock.now += 0.01
    again = await seen.observe()
    assert seen.following.elapsed_s - (again.judged_at_s or 0.0) == pytest.approx(age_s)


async def test_a_pod_on_a_node_is_as_well_as_its_node(seen: Seen, server: WatchServer):
    pod = await pod_that_waits(seen.spawner, GPU_OPTIONS)
    pod["spec"]["nodeName"] = "gpu-1"
    seen.put(pod)
    facts = await seen.observe()
    assert (facts.verdict, facts.is_node_ready) == (None, True)
    server.delete(NODES, GPU_NODE)

    store = seen.spawner.offer_factory.known_store
    assert store is not None
    await eventually(lambda: store._occupancy.get_node("gpu-1") is None)
    early = await seen.lookout.observe(even_if_unchanged=True)
    seen.clock.now += 11.0
    facts = await seen.lookout.observe(even_if_unchanged=True)
    assert (early and early.is_node_ready, facts and facts.is_node_ready) == (None, False)
    seen.pods.clear()
    facts = await seen.observe(even_if_unchanged=True)
    assert (facts.pod, facts.is_node_ready) == (None, False)


@pytest.mark.parametrize(
    ("name", "unread", "expected"),
    [
        pytest.param("gpu-1", PODS, True, id="only nodes can be read"),
        pytest.param("gpu-1", NODES, None, id="no node can be read"),
        pytest.param("gpu-1", "", None, id="old data"),
        pytest.param("new", None, None, id="a node that was never seen well"),
    ],
)
async def test_a_node_is_called_well_or_lost_only_by_data_that_say_so(
    seen: Seen, server: WatchServer, monkeypatch: pytest.MonkeyPatch, *, name: str, unread: str | None, expected: Any
):
    if unread:
        server.status[unread] = 403
    elif unread == "":
        inventory = (await seen.spawner.make_offer()).inventory
        monkeypatch.setattr(ClusterStore, "inventory", replace(inventory, age_s=61.0))
    pod = await pod_that_waits(seen.spawner, GPU_OPTIONS)
    pod["spec"]["nodeName"] = name
    seen.put(pod)
    monkeypatch.setattr(seen.spawner, "make_offer", None)  # which a pod on a node does not need
    await seen.lookout.observe()
    seen.clock.now += 60.0
    assert (await seen.observe()).is_node_ready is expected


async def test_an_offer_is_made_where_a_verdict_is_due(seen: Seen, monkeypatch: pytest.MonkeyPatch):
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    make_offer, made = seen.spawner.make_offer, []

    async def count() -> Any:
        made.append(seen.clock.now)
        return await make_offer()

    monkeypatch.setattr(seen.spawner, "make_offer", count)
    began = seen.clock.now
    for second in range(7):
        seen.clock.now = began + second
        facts = await seen.observe(even_if_unchanged=True)
        assert facts.verdict is not None
    assert made == [began, began + 5]


async def test_without_a_watch_of_events_there_are_none(seen: Seen, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(seen.spawner), "event_reflector", None)
    seen.put(await pod_that_waits(seen.spawner, GPU_OPTIONS))
    facts = await seen.observe()
    assert facts.events == []


async def test_a_pod_that_kueue_queues_has_its_place_until_it_is_let_through(seen: Seen, server: WatchServer):
    queue = f"/namespaces/{seen.spawner.namespace}/localqueues/gpu-queue/pendingworkloads"
    entry = {"metadata": {"name": "pod-x-1a2b3", "ownerReferences": [{"uid": "1"}]}, "positionInClusterQueue": 4}
    server.bodies[f"/apis/visibility.kueue.x-k8s.io/v1beta2{queue}"] = json.dumps({"items": [entry]})
    queues = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{seen.spawner.namespace}"
    server.bodies[f"{queues}/localqueues"] = json.dumps({"items": [local_queue()]})
    server.bodies[f"{queues}/workloads"] = json.dumps({"items": [pending(IN_USE, pod_uid="1")]})
    pod = await pod_that_waits(seen.spawner, GPU_OPTIONS)
    pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpu-queue"
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    seen.put(pod, spec={**pod["spec"], **gates})
    facts = await seen.observe()
    assert facts.queue == QueuePlace(position=4, queue="gpu-queue", reason=QueueReason.QUOTA_IN_USE)
    seen.clock.now += 1.0
    before_next_verdict = await seen.observe(even_if_unchanged=True)
    assert before_next_verdict.queue == facts.queue
    seen.put(pod, spec=pod["spec"])
    facts = await seen.observe()
    assert facts.queue is None
