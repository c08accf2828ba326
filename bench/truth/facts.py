"""The facts in the API server at one moment, counted from its objects without any of our answers.

Only what fleets have is counted: resources, node selectors and required node affinity, taints, priorities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.truth.queue_facts import QueueView
from bench.truth.vocabulary import GPU, Manifest
from gpuspawner.core.cluster.decode import decode_resources

ENDED = ("Succeeded", "Failed")
PASSING = "node.kubernetes.io/"
"""Prefix of the taints that tell a node's state."""
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class View:
    """All nodes, unfinished pods, NodePools and Kueue's objects at one moment, as the API server sends them.

    :param queue: None for a fleet without a queue.
    """

    nodes: Sequence[Manifest]
    pods: Sequence[Manifest]
    pools: Sequence[Manifest] = ()
    queue: QueueView | None = None

    def waiting(self) -> Iterator[Manifest]:
        """Yield the pods that are bound nowhere and that the scheduler may bind."""
        for pod in self.pods:
            if not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates") and not is_leaving(pod):
                yield pod


def is_leaving(thing: Manifest) -> bool:
    """Return whether something is being deleted."""
    return "deletionTimestamp" in thing["metadata"]


def requests(pod: Manifest) -> dict[str, int]:
    """Return what a pod of plain containers asks for, and itself."""
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        asked = {**decode_resources(resources.get("limits")), **decode_resources(resources.get("requests"))}
        for name, number in asked.items():
            total[name] = total.get(name, 0) + number
    return {name: number for name, number in total.items() if number}


def priority(pod: Manifest) -> int:
    """Return a pod's priority."""
    return int(pod["spec"].get("priority") or 0)


def is_selected(labels: Mapping[str, str], pod: Manifest) -> bool:
    """Return whether a pod's node selector and node affinity allow a node with these labels."""
    spec = pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    terms = required["nodeSelectorTerms"]
    return any(all(_is_met(labels, each) for each in term.get("matchExpressions") or ()) for term in terms)


def _is_met(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"fleets have no {expression['operator']}")


def _is_tolerated(taint: Mapping[str, str], pod: Manifest) -> bool:
    if taint["effect"] == "PreferNoSchedule":
        return True
    return any(
        each.get("key", taint["key"]) == taint["key"]
        and each.get("effect", taint["effect"]) == taint["effect"]
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in pod["spec"].get("tolerations") or ()
    )


def may_use(node: Manifest, pod: Manifest) -> bool:
    """Return whether a node is for pods like this one, even if it takes none right now."""
    return is_selected(node["metadata"]["labels"], pod) and all(
        _is_tolerated(taint, pod) for taint in node["spec"].get("taints") or () if not taint["key"].startswith(PASSING)
    )


def takes_pods(node: Manifest, pod: Manifest) -> bool:
    """Return whether a node takes pods like this one now, if it has room."""
    return not node["spec"].get("unschedulable") and all(
        _is_tolerated(taint, pod) for taint in node["spec"].get("taints") or ()
    )


def could_hold(node: Manifest, pod: Manifest) -> bool:
    """Return whether a pod would find room on a node that is empty and whose hardware works."""
    allocatable, capacity = (decode_resources(node["status"].get(key)) for key in ("allocatable", "capacity"))
    return all(
        max(allocatable.get(name, 0), capacity.get(name, 0) if "/" in name else 0) >= number
        for name, number in requests(pod).items()
    )


def candidates(view: View, pod: Manifest) -> list[Manifest]:
    """Return the nodes that could take a pod some day as they are."""
    return [node for node in view.nodes if may_use(node, pod) and could_hold(node, pod)]


def free(view: View, nodes: Iterable[Manifest], *, pod: Manifest | None = None) -> list[dict[str, int]]:
    """Return what each of some nodes has left.

    :param pod: one whose room includes that of pods that it may preempt; None to count all pods.
    """
    taken: dict[str, dict[str, int]] = {}
    for other in view.pods:
        if pod is not None and _may_preempt(pod, other):
            continue
        on = taken.setdefault(other["spec"].get("nodeName", ""), {})
        for name, number in requests(other).items():
            on[name] = on.get(name, 0) + number
    found = []
    for node in nodes:
        used = taken.get(node["metadata"]["name"], {})
        allocatable = decode_resources(node["status"].get("allocatable"))
        found.append({name: number - used.get(name, 0) for name, number in allocatable.items()})
    return found


def _may_preempt(pod: Manifest, other: Manifest) -> bool:
    return pod["spec"].get("preemptionPolicy") != "Never" and priority(other) < priority(pod)


def has_room(left: Amounts, pod: Manifest) -> bool:
    """Return whether a pod fits into what is left of a node."""
    return all(left.get(name, 0) >= number for name, number in requests(pod).items())


def is_startable(view: View, pod: Manifest) -> bool:
    """Return whether some node has room for a pod now, by preemption or not."""
    nodes = [node for node in view.nodes if may_use(node, pod) and takes_pods(node, pod)]
    return any(has_room(left, pod) for left in free(view, nodes, pod=pod))


def count_ahead(view: View, pod: Manifest) -> range:
    """Return how many waiting pods may be said to be ahead of a new one.

    They are the pods that the scheduler looks at first, that ask for one of its devices, or for none as it does, and
    that could run on a node that could take it. Those that would compete for a new node only may be counted or not: the
    hub does not know how large it would be, and Karpenter takes them in an order of its own.
    """
    devices = _devices(pod)
    rivals = [
        other
        for other in view.waiting()
        if priority(other) >= priority(pod)
        and (not devices.isdisjoint(_devices(other)) if devices else not _devices(other))
    ]
    could = candidates(view, pod)
    new = [node for node in map(_new_node, view.pools) if may_use(node, pod)]
    sure = [other for other in rivals if any(may_use(node, other) and could_hold(node, other) for node in could)]
    possible = [other for other in rivals if other in sure or any(may_use(node, other) for node in new)]
    return range(len(sure), len(possible) + 1)


def _new_node(pool: Manifest) -> Manifest:
    """Return labels and taints of the nodes that Karpenter might add for a NodePool."""
    template = pool["spec"]["template"]
    return {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}


def _devices(pod: Manifest) -> set[str]:
    return {name for name in requests(pod) if "/" in name}


def is_enough_by_sum(view: View, labels: Mapping[str, str], *, count: int) -> bool:
    """Answer as the naive rule does: whether the GPUs that are free on all nodes of a type are as many as asked for."""
    nodes = [node for node in view.nodes if labels.items() <= node["metadata"]["labels"].items()]
    return sum(left.get(GPU, 0) for left in free(view, nodes)) >= count


def summarize_pod(pod: Manifest) -> str:
    """Return a pod's name, priority, size and selector, for a reader."""
    return f"{pod['metadata']['name']} {priority(pod)} {requests(pod)} {pod['spec'].get('nodeSelector') or ''}"


def summarize_nodes(view: View, pod: Manifest) -> Iterator[str]:
    """Yield a line for each node that may be used by a pod, for a reader: its resources, and what is left of them."""
    nodes = [node for node in view.nodes if may_use(node, pod)]
    for node, left in zip(nodes, free(view, nodes, pod=pod), strict=True):
        state = "open" if takes_pods(node, pod) else "closed"
        allocatable = decode_resources(node["status"]["allocatable"])
        named = {name: f"{left[name]}/{allocatable[name]}" for name in ("cpu", "memory", GPU) if name in left}
        yield f"{node['metadata']['name']} {state} {named}"
