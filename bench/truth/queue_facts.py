"""Kueue's decisions at one moment, read from its own objects and from its visibility API."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.truth.queues import PRIORITY_LABEL, find_queue_name
from bench.truth.vocabulary import Manifest
from gpuspawner.core.cluster.decode import decode_resources

NO_WORKLOAD = "there is no Workload"
_IN_USE = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_PREEMPTING = ". Pending the preemption of "
_REFUSED = "couldn't assign flavors to pod set "
_INADMISSIBLE = "Inadmissible"
_DUE = "QuotaReserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """All of Kueue's objects of a fleet at one moment, as the API server sends them.

    :param pending: name of each ClusterQueue → names of the Workloads that wait there, in Kueue's order.
    """

    workloads: Sequence[Manifest]
    cluster_queues: Sequence[Manifest] = ()
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer:
    """Kueue's state of a pod that it holds.

    :param words: Kueue's message about the quota; empty where it has none yet.
    :param position: how many Workloads Kueue takes first; None for a Workload that is in no queue.
    :param is_final: whether Kueue says the same until something else changes.
    """

    words: str = ""
    position: int | None = None
    is_final: bool = False


def is_held(pod: Manifest) -> bool:
    """Return whether a pod has scheduling gates."""
    return bool(pod["spec"].get("schedulingGates"))


def find_workload(view: QueueView, pod: Manifest) -> Manifest | None:
    """Return the Workload of a pod, or None if Kueue has created none."""
    uid = pod["metadata"]["uid"]
    return next((each for each in view.workloads if uid in _list_owners(each)), None)


def read_answer(view: QueueView, pod: Manifest, *, cluster_queue: str) -> QueueAnswer:
    """Return what Kueue says of a pod that it holds.

    :param cluster_queue: name of the ClusterQueue behind the pod's LocalQueue.
    """
    workload = find_workload(view, pod)
    if workload is None:
        return QueueAnswer(words=NO_WORKLOAD)
    order = list(view.pending.get(cluster_queue, ()))
    name = workload["metadata"]["name"]
    position = order.index(name) if name in order else None
    condition = _find_condition(workload, _DUE)
    words = str(condition.get("message", ""))
    is_behind = bool(position) and any(
        _is_strict(each) for each in view.cluster_queues if each["metadata"]["name"] == cluster_queue
    )
    is_refused = words.startswith(_REFUSED) and _PREEMPTING not in words
    return QueueAnswer(
        words=words,
        position=position,
        is_final=is_behind or is_refused or condition.get("reason") == _INADMISSIBLE,
    )


def is_about_use(words: str) -> bool:
    """Return whether Kueue says that some flavor has enough quota, which is in use."""
    return bool(_IN_USE.search(words))


def list_work(view: QueueView, pods: Iterable[Manifest], *, absent_class: str = "") -> Iterator[str]:
    """Yield what Kueue is still about to do.

    :param pods: all pods of the fleet.
    :param absent_class: name of a WorkloadPriorityClass that does not exist: Kueue creates no Workload for its pods.
    """
    queued = [pod for pod in pods if find_queue_name(pod)]
    for pod in queued:
        if "deletionTimestamp" in pod["metadata"] or (
            absent_class and pod["metadata"]["labels"].get(PRIORITY_LABEL) == absent_class
        ):
            continue
        if work := _find_work(pod, find_workload(view, pod)):
            yield f"{pod['metadata']['name']}: {work}"
    uids = {pod["metadata"]["uid"] for pod in queued}
    for workload in view.workloads:
        if uids.isdisjoint(_list_owners(workload)):
            yield f"the Workload {workload['metadata']['name']} is left"
    for each in view.cluster_queues:
        yield from _list_counting(view, each)


def list_states(view: QueueView) -> frozenset[tuple[str, bool]]:
    """Return the uid of each Workload, and whether it has quota: if an element is lost, quota may have become free."""
    return frozenset((each["metadata"]["uid"], _has_quota(each)) for each in view.workloads)


def summarize_queue(view: QueueView) -> Iterator[str]:
    """Yield lines about ClusterQueues and Workloads, for people."""
    for each in view.cluster_queues:
        spec, name = each["spec"], each["metadata"]["name"]
        policies = {**(spec.get("preemption") or {}), **(spec.get("flavorFungibility") or {})}
        named = [str(spec[key]) for key in ("queueingStrategy", "cohortName", "stopPolicy") if key in spec]
        yield f"{name} {' '.join(named)} { ({key: value for key, value in policies.items() if value in _UNUSUAL}) }"
        for group in spec["resourceGroups"]:
            for flavor in group["flavors"]:
                yield f"  {flavor['name']}: {', '.join(map(_summarize_quota, flavor['resources']))}"
        yield f"  in use: { ({' '.join(key): number for key, number in _count_used(view, name).items()}) }"
        yield f"  waiting: {list(view.pending.get(name, ()))}"
    for each in view.workloads:
        condition = _find_condition(each, _DUE)
        priority = each["spec"].get("priority")
        yield f"{each['metadata']['name']} priority {priority}: {condition.get('reason')} {condition.get('message')}"


_UNUSUAL = ("LowerPriority", "Any", "TryNextFlavor")
_LIMITS = ("borrowingLimit", "lendingLimit")


def _summarize_quota(quota: Mapping[str, str]) -> str:
    limits = "".join(f" {key} {quota[key]}" for key in _LIMITS if key in quota)
    return f"{quota['name']} {quota['nominalQuota']}{limits}"


def _find_work(pod: Manifest, workload: Manifest | None) -> str:
    if workload is None:
        return "Kueue creates its Workload"
    if _find_condition(workload, "Evicted").get("status") == "True":
        return "Kueue evicts it"
    if not is_held(pod):
        return ""
    if _has_quota(workload):
        return "Kueue lets it in"
    message = str(_find_condition(workload, _DUE).get("message", ""))
    return "Kueue preempts others for it" if _PREEMPTING in message else ""


def _list_counting(view: QueueView, cluster_queue: Manifest) -> Iterator[str]:
    """Yield what Kueue has yet to write into a ClusterQueue's status, and the Workloads that it has yet to look at."""
    name, status = cluster_queue["metadata"]["name"], cluster_queue.get("status", {})
    counted: Counter[tuple[str, str]] = Counter()
    for flavor in status.get("flavorsReservation") or ():
        for resource in flavor["resources"]:
            amounts = decode_resources({resource["name"]: resource.get("total", "0")})
            counted.update({(flavor["name"], key): number for key, number in amounts.items()})
    if +counted != +_count_used(view, name):
        yield f"{name} counts its quota"
    order = view.pending.get(name, ())
    if status.get("pendingWorkloads", 0) != len(order):
        yield f"{name} counts what waits"
    if _find_condition(cluster_queue, "Active").get("status") != "True":
        return
    looked_at = {each["metadata"]["name"] for each in view.workloads if _find_condition(each, _DUE)}
    for workload in order[:1] if _is_strict(cluster_queue) else order:
        if workload not in looked_at:
            yield f"Kueue looks at {workload}"


def _count_used(view: QueueView, cluster_queue: str) -> Counter[tuple[str, str]]:
    """Return flavor and resource → quota of a ClusterQueue that Workloads have, counted from the Workloads."""
    found: Counter[tuple[str, str]] = Counter()
    for workload in view.workloads:
        admission = workload.get("status", {}).get("admission") or {}
        if admission.get("clusterQueue") != cluster_queue:
            continue
        for each in admission["podSetAssignments"]:
            usage = decode_resources(each.get("resourceUsage"))
            found.update({(flavor, name): usage.get(name, 0) for name, flavor in each.get("flavors", {}).items()})
    return found


def _has_quota(workload: Manifest) -> bool:
    return _find_condition(workload, _DUE).get("status") == "True"


def _is_strict(cluster_queue: Manifest) -> bool:
    return bool(cluster_queue["spec"].get("queueingStrategy") == "StrictFIFO")


def _list_owners(workload: Manifest) -> set[str]:
    return {each["uid"] for each in workload["metadata"].get("ownerReferences") or ()}


def _find_condition(thing: Manifest, name: str) -> Manifest:
    conditions = thing.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == name), {})
