"""The cluster as the place where fleets are put up, changed and taken down, and where pods are followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bench.api import Api, RefusedError
from bench.truth import facts
from bench.truth.facts import View
from bench.truth.fleet import Change, Fleet
from bench.truth.judge import Event, Fate
from bench.truth.queue_facts import NO_WORKLOAD, QueueAnswer, is_held, read_answer
from bench.truth.queue_stage import QueueStage
from bench.truth.queues import Queue
from bench.truth.vocabulary import GPU, NAMESPACE, POOL, PRIORITY_CLASSES, Manifest
from devcluster.errors import DevclusterError
from gpuspawner.core.cluster.decode import decode_resources

NODES = "/api/v1/nodes"
ALL_PODS = "/api/v1/pods"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

START_S = 10.0
"""Within so many seconds a pod of the verdict ``now`` has to be bound."""
NEW_NODE_S = 40.0
WORD_S = 15.0
"""How long Karpenter is waited for. It looks at waiting pods at least each ten seconds."""
NO_WORKLOAD_S = 3.0
"""After so many seconds Kueue creates no Workload for a pod any more."""
SETTLE_S = 60.0
POLL_S = 0.02
QUEUE_POLL_S = 0.1
"""Each look at Kueue takes several requests."""


class Stage:
    """One cluster with Karpenter; for one fleet at a time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._queues = QueueStage(api)
        self._words: dict[str, str] = {}
        """uid of a pod → what Karpenter said of it, empty where it said nothing in time."""
        self._since: dict[str, float] = {}
        self.unsettled = 0
        """How often the cluster did not come to rest in time."""

    def prepare(self, *, real_node: str) -> None:
        """Make what all fleets share, and keep pods off the node that would run them."""
        for name, fields in PRIORITY_CLASSES.items():
            self._api.create(CLASSES, {"metadata": {"name": name}, **fields})
        self._api.patch(f"{NODES}/{real_node}", {"spec": {"unschedulable": True}})

    async def put_up(self, fleet: Fleet) -> None:
        """Make a fleet."""
        for node in fleet.nodes:
            self._api.create(NODES, node)
        for pool in fleet.pools:
            self._api.create(NODE_POOLS, pool)
        await self._until(lambda: all(map(_is_ready_pool, self._pools())), "NodePools ready")
        if queue := fleet.queue:
            self._queues.create(queue)
            await self._until(lambda: self._queues.is_ready(queue), "queues ready")
        for pod in (*fleet.placeholders, *fleet.pods, *(queue.pods if queue else ())):
            self._api.create(PODS, pod)

    async def take_down(self, fleet: Fleet) -> None:
        """Remove a fleet and what Karpenter added to it."""
        self._api.delete(PODS)
        await self._until(lambda: not self._api.get(PODS)["items"], "no pods")
        if fleet.queue:
            self._queues.delete(fleet.queue)
            await self._until(self._queues.is_gone, "no queues")
        for pool in fleet.pools:
            self._api.delete(f"{NODE_POOLS}/{pool['metadata']['name']}")
        await self._until(lambda: not self._api.get(NODE_CLAIMS)["items"], "no NodeClaims")
        await self._until(lambda: not any(map(_pool_of, self._nodes())), "no nodes of Karpenter")
        for node in fleet.nodes:
            self._api.delete(f"{NODES}/{node['metadata']['name']}")
        self._api.delete(EVENTS)
        self._words.clear()
        self._since.clear()

    def change(self, change: Change) -> None:
        """Let something happen."""
        if change.kind == "end":
            self._api.delete(f"{PODS}/{change.name}")
        else:
            self._api.patch(f"{NODES}/{change.name}", {"spec": {"unschedulable": change.kind == "cordon" or None}})

    async def settle(self, fleet: Fleet) -> View:
        """Return the cluster once no component has work left in it."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            view = self._look(fleet)
            left = next(self._list_work(fleet, view), "")
            if not left:
                return view
            if time.monotonic() > deadline:
                print(f"truth: the fleet {fleet.seed} does not come to rest: {left}", flush=True)
                self.unsettled += 1
                return view
            await asyncio.sleep(POLL_S)

    async def wait_for_next_second(self, view: View) -> None:
        """Wait until a new Workload is younger than all others: Kueue orders those of one second by their uid."""
        times = [each["metadata"]["creationTimestamp"] for each in view.queue.workloads] if view.queue else []
        newest = max((datetime.fromisoformat(each).timestamp() for each in times), default=0.0)
        await asyncio.sleep(max(0.0, newest + 1 - datetime.now(UTC).timestamp()))

    def admit(self, manifest: Manifest) -> Manifest:
        """Return the pod that the API server would make of a manifest."""
        return self._api.create(f"{PODS}?dryRun=All", manifest)

    def create(self, manifest: Manifest) -> None:
        """Create a pod."""
        self._api.create(PODS, manifest)

    async def follow(self, name: str, *, view: View, fleet: Fleet, is_now: bool) -> Event:
        """Return whether a pod started, or why it waits.

        :param view: the cluster before the pod was created.
        :param is_now: whether it is expected to start, so that a refusal is not the last word.
        """
        before = {node["metadata"]["name"] for node in view.nodes}
        held_s, kueue = await self._follow_in_queue(name, fleet=fleet, is_now=is_now)
        if kueue is not None:
            return Event(fate=Fate.WAITED, kueue=kueue, took_s=held_s)
        began = time.monotonic() - (held_s if is_now else 0.0)
        words = ""
        while True:
            pod = self._read_pod(name)
            took_s = time.monotonic() - began
            if node := pod["spec"].get("nodeName"):
                fate = Fate.STARTED if node in before else Fate.NEW_NODE
                return Event(fate=fate, node=node, words=words, took_s=took_s, pod=pod)
            refusal = _refusal(pod)
            words = words or refusal
            is_final = bool(refusal) and not pod["status"].get("nominatedNodeName")
            word = self._word(pod) if is_final and fleet.pools else ""
            has_answered = bool(word) or not fleet.pools or pod["metadata"]["uid"] in self._words
            comes = word.startswith("Pod should schedule on")
            limit_s = NEW_NODE_S if comes else START_S if is_now or not (is_final and has_answered) else 0.0
            if took_s > limit_s and (has_answered or is_now or took_s > WORD_S):
                return Event(fate=Fate.WAITED, words=words, autoscaler=word, took_s=took_s, pod=pod)
            await asyncio.sleep(POLL_S)

    async def _follow_in_queue(self, name: str, *, fleet: Fleet, is_now: bool) -> tuple[float, QueueAnswer | None]:
        """Wait until Kueue admits a pod or has decided against it.

        :return: seconds that this took, and what Kueue says of a pod that it holds, None for a pod that it admitted.
        """
        began = time.monotonic()
        while True:
            pod = self._read_pod(name)
            took_s = time.monotonic() - began
            if fleet.queue is None or not is_held(pod):
                return took_s, None
            answer = self._ask_kueue(fleet.queue, pod, waited_s=took_s)
            if took_s > (START_S if is_now or not answer.is_final else 0.0):
                return took_s, answer
            await asyncio.sleep(QUEUE_POLL_S)

    def _ask_kueue(self, queue: Queue, pod: Manifest, *, waited_s: float) -> QueueAnswer:
        """Return what Kueue says of a pod that it holds."""
        answer = read_answer(self._queues.look(), pod, cluster_queue=queue.cluster_queue)
        return replace(answer, is_final=answer.is_final or (answer.words == NO_WORKLOAD and waited_s > NO_WORKLOAD_S))

    async def _until_queue_empty(self, fleet: Fleet) -> None:
        """Wait until Kueue has taken note that a fleet has no pods."""
        if queue := fleet.queue:
            await self._until(lambda: not any(self._queues.list_work(queue, self._queues.look(), ())), "quota free")

    async def empty(self, fleet: Fleet) -> View:
        """End all pods and open all nodes that are cordoned or have broken GPUs; placeholders do not come back."""
        self._api.delete(PODS)
        await self._until(lambda: not self._api.get(PODS)["items"], "no pods")
        for node in fleet.nodes:
            path = f"{NODES}/{node['metadata']['name']}"
            self._api.patch(path, {"spec": {"unschedulable": None}})
            self._api.patch(f"{path}/status", {"status": {"allocatable": node["status"]["capacity"]}})
        await self._until(lambda: not any(_obstacles(node) for node in self._fleet_nodes(fleet)), "nodes open")
        await self._until_queue_empty(fleet)
        return self._look(fleet)

    async def try_alone(self, manifest: Manifest, fleet: Fleet) -> Manifest:
        """Return a pod that is alone once it is bound or refused; it is gone afterwards."""
        self.create(manifest)
        try:
            began = time.monotonic()
            while True:
                pod = self._read_pod(manifest["metadata"]["name"])
                took_s = time.monotonic() - began
                if pod["spec"].get("nodeName") or _refusal(pod):
                    return pod
                if fleet.queue and is_held(pod):
                    if took_s > START_S or self._ask_kueue(fleet.queue, pod, waited_s=took_s).is_final:
                        return pod
                    await asyncio.sleep(QUEUE_POLL_S)
                elif took_s > START_S:
                    raise DevclusterError("kube-scheduler says nothing")
                else:
                    await asyncio.sleep(POLL_S)
        finally:
            self._api.delete(f"{PODS}/{manifest['metadata']['name']}")
            await self._until(lambda: not self._api.get(PODS)["items"], "no pods")
            await self._until_queue_empty(fleet)

    def _read_pod(self, name: str) -> Manifest:
        """Return a pod; of one that was preempted right after it was bound, the node that its event names."""
        try:
            return self._api.get(f"{PODS}/{name}")
        except RefusedError:
            selector = f"involvedObject.name={name},reason=Scheduled"
            events = self._api.get(f"{EVENTS}?fieldSelector={selector}")["items"]
            if not events:
                raise
            return {"spec": {"nodeName": events[-1]["message"].rpartition(" ")[2]}, "status": {}}

    def _look(self, fleet: Fleet) -> View:
        pods = [pod for pod in self._api.get(ALL_PODS)["items"] if pod["status"].get("phase") not in facts.ENDED]
        return View(self._nodes(), pods, self._pools(), self._queues.look() if fleet.queue else None)

    def _nodes(self) -> list[Manifest]:
        return list(self._api.get(NODES)["items"])

    def _pools(self) -> list[Manifest]:
        return list(self._api.get(NODE_POOLS)["items"])

    def _fleet_nodes(self, fleet: Fleet) -> Iterator[Manifest]:
        names = {node["metadata"]["name"] for node in fleet.nodes}
        return (node for node in self._nodes() if node["metadata"]["name"] in names)

    def _list_work(self, fleet: Fleet, view: View) -> Iterator[str]:
        """Yield the work that is left, after doing ourselves the work of kubelet and controllers."""
        for pod in view.pods:
            if facts.is_leaving(pod):
                yield f"{pod['metadata']['name']} is ended"
        if self._refill(fleet, view.pods):
            yield "placeholders are created"
        for node in view.nodes:
            self._complete_capacity(node)
            if obstacles := _obstacles(node):
                yield f"{node['metadata']['name']}: {obstacles}"
        yield from self._list_growth(view)
        if fleet.queue and view.queue:
            yield from self._queues.list_work(fleet.queue, view.queue, view.pods)
        for pod in view.waiting():
            yield from self._list_hopes(pod, view)

    def _list_hopes(self, pod: Manifest, view: View) -> Iterator[str]:
        """Yield who may still bind a waiting pod or add a node for it."""
        name = pod["metadata"]["name"]
        if not _refusal(pod) or pod["status"].get("nominatedNodeName"):
            yield f"kube-scheduler looks at {name}"
        elif facts.is_startable(view, pod):
            yield f"{name} has room"
        elif view.pools and not self._word(pod) and pod["metadata"]["uid"] not in self._words:
            yield f"Karpenter looks at {name}"

    def _list_growth(self, view: View) -> Iterator[str]:
        """Yield what Karpenter is still about to do with its nodes."""
        for claim in self._api.get(NODE_CLAIMS)["items"] if view.pools else ():
            if not _has_condition(claim, "Initialized"):
                yield f"{claim['metadata']['name']} is no node yet"
        for pool in view.pools:
            name, counted = pool["metadata"]["name"], decode_resources(pool.get("status", {}).get("resources"))
            capacities = [decode_resources(node["status"]["capacity"]) for node in view.nodes if _pool_of(node) == name]
            for resource in ("cpu", GPU):
                if counted.get(resource, 0) != sum(each.get(resource, 0) for each in capacities):
                    yield f"{name} counts its {resource}"

    def _complete_capacity(self, node: Manifest) -> None:
        """Write the capacity of a node that Karpenter has made, as kubelet does.

        Its simulated cloud writes only what the first pods ask for (kwok/cloudprovider/cloudprovider.go, ``toNode``).
        """
        status = node["status"]
        if _pool_of(node) and status.get("capacity") != status.get("allocatable"):
            body = {"status": {"capacity": status["allocatable"]}}
            self._api.patch(f"{NODES}/{node['metadata']['name']}/status", body)

    def _refill(self, fleet: Fleet, pods: Iterable[Manifest]) -> bool:
        """Create the placeholders anew that are gone, and return whether there were any."""
        if not fleet.is_refilled:
            return False
        there = {pod["metadata"]["name"] for pod in pods}
        gone = [each for each in fleet.placeholders if each["metadata"]["name"] not in there]
        for each in gone:
            spec = {name: value for name, value in each["spec"].items() if name != "nodeName"}
            self._api.create(PODS, {**each, "spec": spec})
        return bool(gone)

    def _word(self, pod: Manifest) -> str:
        """Return what Karpenter said of a pod, empty where nothing; after some time it is asked no more."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if uid in self._words:
            return self._words[uid]
        selector = f"involvedObject.name={metadata['name']},involvedObject.uid={uid}"
        for event in self._api.get(f"{EVENTS}?fieldSelector={selector}")["items"]:
            if "karpenter" in (event.get("source", {}).get("component"), event.get("reportingComponent")):
                self._words[uid] = event.get("message", "")
                return self._words[uid]
        if time.monotonic() - self._since.setdefault(uid, time.monotonic()) > WORD_S:
            self._words[uid] = ""
        return ""

    async def _until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not condition():
            if time.monotonic() > deadline:
                raise DevclusterError(f"after {SETTLE_S:.0f} s still not: {what}")
            await asyncio.sleep(POLL_S)


def _refusal(pod: Manifest) -> str:
    """Return kube-scheduler's words about a pod that it has not bound, empty where it has said nothing."""
    for condition in pod["status"].get("conditions") or ():
        is_refused = condition["type"] == "PodScheduled" and condition["status"] == "False"
        if is_refused and condition.get("reason") != "SchedulingGated":
            return str(condition.get("message") or condition.get("reason"))
    return ""


def _has_condition(thing: Manifest, name: str) -> bool:
    conditions = thing.get("status", {}).get("conditions") or ()
    return any(each["type"] == name and each["status"] == "True" for each in conditions)


def _is_ready_pool(pool: Manifest) -> bool:
    return _has_condition(pool, "Ready")


def _pool_of(node: Manifest) -> str:
    return str(node["metadata"]["labels"].get(POOL, ""))


def _obstacles(node: Manifest) -> str:
    """Return what is passing about a node, empty where nothing is."""
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    is_cordoned = bool(node["spec"].get("unschedulable"))
    passing = {key for key in taints if key.startswith((facts.PASSING, "karpenter.sh/"))}
    expected = {f"{facts.PASSING}unschedulable"} if is_cordoned else set()
    if passing != expected:
        return ", ".join(sorted(passing ^ expected))
    return "" if _has_condition(node, "Ready") else "not ready"
