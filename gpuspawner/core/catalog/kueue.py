"""Read and build Kueue's labels on pods, read pods' scheduling gates, and read why a Workload is not admitted.

Kueue adds a scheduling gate when a pod is created, and removes it when the queue has quota. kube-scheduler then picks
the node. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/

Kueue creates a Workload for each pod. The Workload's conditions say why Kueue does not admit it. Kueue 0.16 mostly sets
the reason ``Pending`` there, with the details as text (``pkg/scheduler/flavorassigner/flavorassigner.go``). Newer
versions have a reason for each case, behind the feature gate ``UnadmittedWorkloadsObservability``.

Before a pod exists, the quotas of its ClusterQueue and the labels and taints of the ResourceFlavors say whether Kueue
could admit it (``pkg/scheduler/flavorassigner/flavorassigner.go``, ``pkg/cache/scheduler/resource_node.go``). Kueue's
own configuration may ignore or rename resources, and is not read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from gpuspawner.core.cluster.decode import decode_resources, decode_taints, decode_tolerations
from gpuspawner.core.cluster.model import Node, NodeSelectorTerm, PodConstraints, Toleration
from gpuspawner.core.cluster.node_affinity import matches_node_affinity
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map, as_texts, find_condition

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


class QueueReason(StrEnum):
    """Why Kueue does not admit a pod. The values are Kueue's own reasons where Kueue has one."""

    NOT_EVALUATED = "PendingEvaluation"
    """Kueue has not decided about the Workload yet."""
    QUOTA_IN_USE = "WaitingForQuota"
    PREEMPTION = "WaitingForPreemptedWorkloads"
    OTHERS_NOT_READY = "WaitingForPodsReady"
    NO_TOPOLOGY = "TopologyPlacementFailed"
    CHECKS = "AdmissionChecks"
    """Kueue has reserved the quota, and an AdmissionCheck is not ready yet."""
    REQUEUED = "Requeued"
    """Kueue evicted the Workload, and will consider it again later."""
    EXCEEDS_QUOTA = "ExceedsMaxQuota"
    """The Workload requests more than the whole quota of each ResourceFlavor."""
    NO_FLAVOR = "NoMatchingFlavor"
    """The ClusterQueue lacks a requested resource, or no flavor fits the pod's node selector and tolerations."""
    STOPPED = "Suspended"
    """The LocalQueue or its ClusterQueue is stopped or not set up completely."""
    NO_QUEUE = "QueueNotFound"
    MISCONFIGURED = "Misconfigured"
    DEACTIVATED = "Deactivated"
    NOT_TAKEN = "NoWorkload"
    """Kueue works, but has created no Workload for the pod: for example, the WorkloadPriorityClass does not exist."""


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """Why Kueue does not admit a Workload.

    :param reason: None if unknown.
    :param requeue_at: time at which Kueue considers the Workload again, in RFC 3339; empty if Kueue gives none.
    """

    reason: QueueReason | None = None
    requeue_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueQueue:
    """The LocalQueue for servers with a GPU.

    :param local_queue: name of a LocalQueue in the servers' namespace.
    :param priority_class: name of a WorkloadPriorityClass; empty for the queue's default priority.
    :param timeout_s: seconds that the hub waits until a queued server has started; None = as long as for other servers.
    :param gpus: slugs of the GPU types whose servers are queued; None = all.
    """

    local_queue: str
    priority_class: str = ""
    timeout_s: int | None = None
    gpus: frozenset[str] | None = None

    def accepts(self, gpu: str) -> bool:
        """Return whether servers with a GPU type are queued.

        :param gpu: slug of the type.
        """
        return self.gpus is None or gpu in self.gpus

    @property
    def labels(self) -> dict[str, str]:
        """The labels that make Kueue queue a pod."""
        priority = {PRIORITY_LABEL: self.priority_class} if self.priority_class else {}
        return {QUEUE_LABEL: self.local_queue, **priority}


def read_queue_name(pod: Mapping[str, object]) -> str:
    """Return the name of a pod's LocalQueue, or an empty text if it has none.

    :param pod: v1 Pod as JSON; it may not be created yet.
    """
    return as_text(as_dict(as_dict(pod.get("metadata")).get("labels")).get(QUEUE_LABEL))


def is_gated(pod: Mapping[str, object]) -> bool:
    """Return whether an existing pod has scheduling gates."""
    return bool(as_dicts(as_dict(pod.get("spec")).get("schedulingGates")))


def is_gated_on_creation(pod: Mapping[str, object]) -> bool:
    """Return whether Kueue will add a scheduling gate when a pod is created; False for a pod that already exists."""
    return bool(read_queue_name(pod)) and not as_dict(pod.get("metadata")).get("uid")


def read_workload_state(workload: Mapping[str, object]) -> WorkloadState:
    """Return why Kueue does not admit a Workload.

    :param workload: ``kueue.x-k8s.io`` Workload as JSON.
    """
    status = as_dict(workload.get("status"))
    reserved = find_condition(workload, "QuotaReserved")
    reason, message = as_text(reserved.get("reason")), as_text(reserved.get("message"))
    requeue_at = as_text(as_dict(status.get("requeueState")).get("requeueAt"))
    if as_dict(workload.get("spec")).get("active") is False:
        return WorkloadState(QueueReason.DEACTIVATED)
    if not reserved:
        return WorkloadState(QueueReason.NOT_EVALUATED)
    if reserved.get("status") == "True":
        return WorkloadState(QueueReason.CHECKS)
    if reason == _INADMISSIBLE:
        return WorkloadState(_read_inadmissible_reason(workload))
    # The condition Requeued is false while an evicted Workload waits until Kueue considers it again.
    if find_condition(workload, "Requeued").get("status") == "False" or requeue_at:
        return WorkloadState(QueueReason.REQUEUED, requeue_at)
    if reason in _KNOWN_REASONS:
        return WorkloadState(_KNOWN_REASONS[reason])
    return WorkloadState(_parse_pending_message(message) if reason == "Pending" else None)


def read_queue_problem(queue: Mapping[str, object]) -> QueueReason | None:
    """Return why a LocalQueue admits nothing now, or None if it admits Workloads or its state is unknown.

    :param queue: ``kueue.x-k8s.io`` LocalQueue as JSON.
    """
    active = find_condition(queue, "Active")
    if active.get("status") != "False":
        return None
    return QueueReason.NO_QUEUE if active.get("reason") == "ClusterQueueDoesNotExist" else QueueReason.STOPPED


_INADMISSIBLE = "Inadmissible"
_KNOWN_REASONS: Mapping[str, QueueReason] = {each.value: each for each in QueueReason} | {
    "Waiting": QueueReason.OTHERS_NOT_READY
}
_ASSIGNMENT = "couldn't assign flavors to pod set "
_REFUSALS = re.compile(
    r"insufficient quota for \S+ in flavor (?P<exceeded>[^\s,]+),[^>]*> maximum capacity \([^)]*\)"
    r"|insufficient unused quota for \S+ in flavor (?P<used>[^\s,]+), \S+ more needed"
    r"|flavor (?P<unmatched>\S+) doesn't match node affinity"
    r"|untolerated taint \{[^}]*\} in flavor (?P<tainted>[^\s,;]+)"
    r"|resource (?P<uncovered>\S+) unavailable in ClusterQueue"
)
"""Pattern of a refusal; the message of the condition QuotaReserved lists one for each flavor that Kueue tried."""
_PREEMPTION = re.compile(r"\. Pending the preemption of \d+ workload")
_MISFITS = re.compile(
    r"Workload namespace doesn't match ClusterQueue selector|resources validation failed:"
    r"|resources didn't satisfy LimitRange constraints:"
)


def _read_inadmissible_reason(workload: Mapping[str, object]) -> QueueReason:
    # QuotaReserved has the reason Inadmissible. If the condition Requeued has the same reason, Kueue refuses the
    # Workload's request. Otherwise, the LocalQueue or its ClusterQueue admitted nothing when Kueue last wrote these
    # conditions; read_queue_problem tells whether it still admits nothing.
    is_refused = find_condition(workload, "Requeued").get("reason") == _INADMISSIBLE
    return QueueReason.MISCONFIGURED if is_refused else QueueReason.NOT_EVALUATED


def _parse_pending_message(message: str) -> QueueReason | None:
    if _PREEMPTION.search(message):
        return QueueReason.PREEMPTION
    if _MISFITS.match(message):
        return QueueReason.MISCONFIGURED
    if not message.startswith(_ASSIGNMENT):
        return None
    refusals = message.removeprefix(_ASSIGNMENT).partition(": ")[2]
    found = list(_list_refusals(refusals))
    flavors = {kind: {name for each, name in found if each == kind} for kind in _REFUSALS.groupindex}
    hopeless = flavors["exceeded"] | flavors["unmatched"] | flavors["tainted"]
    if flavors["uncovered"]:
        return QueueReason.NO_FLAVOR
    if flavors["used"] - hopeless:
        return QueueReason.QUOTA_IN_USE
    # Text that _REFUSALS does not match may be about a flavor whose quota becomes free later.
    if not found or _REFUSALS.sub("", refusals).strip(" ,;."):
        return None
    return QueueReason.EXCEEDS_QUOTA if flavors["exceeded"] else QueueReason.NO_FLAVOR


def _list_refusals(message: str) -> Iterator[tuple[str, str]]:
    for each in _REFUSALS.finditer(message):
        kind = each.lastgroup or ""
        yield kind, each[kind]


class QuotaAnswer(IntEnum):
    """Whether a ClusterQueue could admit a pod, from the best answer to the worst."""

    ROOM = 0
    """A ResourceFlavor has enough unused quota for the pod."""
    IN_USE = 1
    """A ResourceFlavor has enough quota for the pod, but other Workloads use it."""
    UNKNOWN = 2
    EXCEEDED = 3
    """The pod requests more than the whole quota of each ResourceFlavor."""
    NO_FLAVOR = 4
    """No ResourceFlavor matches the pod's node selector, node affinity and tolerations."""
    UNCOVERED = 5
    """The ClusterQueue has no quota for a resource that the pod requests."""


class QuotaJudgment(NamedTuple):
    """Whether a ClusterQueue could admit a pod, and why not.

    :param resource: the requested resource whose quota is missing or in use; empty if there is no such resource.
    :param flavors: names of the ResourceFlavors that have quota for this resource.
    """

    answer: QuotaAnswer
    resource: str = ""
    flavors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorCapacity:
    """A ResourceFlavor in a ClusterQueue.

    :param node: the labels and taints of the flavor's nodes; None if the ResourceFlavor is unknown.
    :param tolerations: tolerations that Kueue adds to pods that it admits with this flavor.
    :param most: resource → largest request that Kueue could ever admit, with all quota that may be borrowed; resources
        whose largest request is unknown are missing.
    :param free: resource → unused quota; resources whose unused quota is unknown are missing.
    """

    name: str
    node: Node | None
    tolerations: tuple[Toleration, ...] = ()
    most: Mapping[str, int] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCapacity:
    """What a ClusterQueue can admit.

    :param groups: (resources, their flavors in Kueue's order) for each of the ClusterQueue's ``resourceGroups``.
    :param may_preempt: whether the ClusterQueue may preempt other Workloads.
    :param pending: number of Workloads that wait in the ClusterQueue; None if unknown.
    """

    groups: tuple[tuple[frozenset[str], tuple[FlavorCapacity, ...]], ...]
    may_preempt: bool = False
    pending: int | None = None

    def judge(self, requests: Mapping[str, int], constraints: PodConstraints) -> QuotaJudgment:
        """Return whether the ClusterQueue could admit a pod, and why not.

        :param requests: effective requests of the pod.
        :param constraints: the pod's constraints on its node.
        """
        needed = {name: number for name, number in requests.items() if number} | {_PODS: 1}
        covered = frozenset().union(*(resources for resources, _ in self.groups))
        uncovered = next((name for name in needed if name not in covered and name != _PODS), "")
        if uncovered:
            return QuotaJudgment(QuotaAnswer.UNCOVERED, uncovered)
        judgments = [
            _judge_group({name: needed[name] for name in needed if name in resources}, flavors, constraints=constraints)
            for resources, flavors in self.groups
            if not resources.isdisjoint(needed)
        ]
        return max(judgments, key=lambda each: each.answer, default=QuotaJudgment(QuotaAnswer.UNKNOWN))

    def list_flavors(self, resource: str, constraints: PodConstraints) -> tuple[FlavorCapacity, ...]:
        """Return the ResourceFlavors whose labels and taints fit a pod, even if they lack quota.

        :param resource: a resource that the pod requests.
        :param constraints: the pod's constraints on its node.
        """
        flavors = next((flavors for resources, flavors in self.groups if resource in resources), ())
        selector = _find_selector(constraints, flavors)
        return tuple(each for each in flavors if _may_take(each, constraints, selector=selector))


_PODS = "pods"
"""Resource for the number of pods. Kueue counts it for each Workload if the ClusterQueue has a quota for it."""


def _judge_group(
    needed: Mapping[str, int], flavors: Sequence[FlavorCapacity], *, constraints: PodConstraints
) -> QuotaJudgment:
    selector = _find_selector(constraints, flavors)
    found = [_judge_flavor(needed, flavor, constraints=constraints, selector=selector) for flavor in flavors]
    best = min(found, key=lambda each: each.answer, default=QuotaJudgment(QuotaAnswer.NO_FLAVOR))
    return best._replace(flavors=tuple(flavor.name for flavor in flavors))


def _judge_flavor(
    needed: Mapping[str, int], flavor: FlavorCapacity, *, constraints: PodConstraints, selector: PodConstraints | None
) -> QuotaJudgment:
    if not _may_take(flavor, constraints, selector=selector):
        return QuotaJudgment(QuotaAnswer.NO_FLAVOR)
    exceeded = next((name for name, number in needed.items() if number > flavor.most.get(name, number)), "")
    if exceeded:
        return QuotaJudgment(QuotaAnswer.EXCEEDED, exceeded)
    if selector is None or any(name not in flavor.free for name in needed):
        return QuotaJudgment(QuotaAnswer.UNKNOWN)
    used = next((name for name, number in needed.items() if number > flavor.free[name]), "")
    return QuotaJudgment(QuotaAnswer.IN_USE if used else QuotaAnswer.ROOM, used)


def _may_take(flavor: FlavorCapacity, constraints: PodConstraints, *, selector: PodConstraints | None) -> bool:
    if flavor.node is None:
        return True
    is_tolerated = tolerates_taints(flavor.node, (*constraints.tolerations, *flavor.tolerations))
    return is_tolerated and (selector is None or matches_node_affinity(flavor.node, selector))


def _find_selector(constraints: PodConstraints, flavors: Sequence[FlavorCapacity]) -> PodConstraints | None:
    """Return the part of a pod's node selector and affinity that Kueue compares with flavors; None if unknown."""
    if any(flavor.node is None for flavor in flavors):
        return None
    return _select_keys(constraints, (key for flavor in flavors if flavor.node for key in flavor.node.labels))


def _select_keys(constraints: PodConstraints, keys: Iterable[str]) -> PodConstraints:
    """Return a pod's node selector and affinity, reduced to labels that some flavor has: Kueue ignores other labels."""
    known = frozenset(keys)
    selector = {key: value for key, value in constraints.node_selector.items() if key in known}
    terms = [
        NodeSelectorTerm(expressions=tuple(each for each in term.expressions if each.key in known))
        for term in constraints.node_terms or ()
    ]
    # A node selector term without expressions matches every ResourceFlavor, and so the whole affinity does.
    is_limited = bool(terms) and all(term.expressions for term in terms)
    return PodConstraints(node_selector=selector, node_terms=tuple(terms) if is_limited else None)


def read_queue_capacity(
    name: str,
    cluster_queues: Iterable[Mapping[str, object]],
    *,
    cohorts: Iterable[Mapping[str, object]] | None,
    flavors: Iterable[Mapping[str, object]] | None,
) -> QueueCapacity | None:
    """Return what a ClusterQueue can admit, or None if there is no such ClusterQueue.

    :param name: name of the ClusterQueue.
    :param cluster_queues: all ClusterQueues as JSON, because they lend each other quota.
    :param cohorts: all Cohorts as JSON; None if unknown.
    :param flavors: all ResourceFlavors as JSON; None if unknown.
    """
    by_name = {_read_name(each): each for each in cluster_queues}
    raw = by_name.get(name)
    if raw is None:
        return None
    tree = _QuotaTree(by_name.values(), cohorts)
    described = {_read_name(each): as_dict(each.get("spec")) for each in flavors or ()}
    spec = as_dict(raw.get("spec"))
    groups = []
    for group in as_dicts(spec.get("resourceGroups")):
        resources = frozenset(as_texts(group.get("coveredResources")))
        names = [as_text(flavor.get("name")) for flavor in as_dicts(group.get("flavors"))]
        capacities = [_build_flavor(each, described.get(each), amounts=tree.count(name, each)) for each in names]
        groups.append((resources, tuple(capacities)))
    preemption = as_dict(spec.get("preemption"))
    policies = (preemption.get("withinClusterQueue"), preemption.get("reclaimWithinCohort"))
    return QueueCapacity(
        groups=tuple(groups),
        may_preempt=any(policy not in (None, "Never") for policy in policies),
        pending=as_int(as_dict(raw.get("status")).get("pendingWorkloads")),
    )


def _read_name(raw: Mapping[str, object]) -> str:
    return as_text(as_dict(raw.get("metadata")).get("name"))


def _build_flavor(
    name: str, spec: Mapping[str, object] | None, *, amounts: tuple[Mapping[str, int], Mapping[str, int]]
) -> FlavorCapacity:
    most, free = amounts
    if spec is None:
        return FlavorCapacity(name=name, node=None, most=most, free=free)
    node = Node(name=name, labels=as_text_map(spec.get("nodeLabels")), taints=decode_taints(spec.get("nodeTaints")))
    return FlavorCapacity(
        name=name, node=node, tolerations=decode_tolerations(spec.get("tolerations")), most=most, free=free
    )


_FlavorResource = tuple[str, str]


class _Quota(NamedTuple):
    nominal: int
    borrowing: int | None
    lending: int | None


_NO_QUOTA = _Quota(0, None, None)


@dataclass(slots=True, kw_only=True, eq=False)
class _QuotaNode:
    """A ClusterQueue or Cohort; :class:`_QuotaTree` fills in its ``children``.

    :param parent: name of the Cohort to which the ClusterQueue or Cohort belongs; empty for none.
    :param used: quota that Workloads have reserved in the ClusterQueue.
    """

    parent: str
    quotas: Mapping[_FlavorResource, _Quota] = field(default_factory=dict)
    used: Mapping[_FlavorResource, int] = field(default_factory=dict)
    children: list[_QuotaNode] = field(default_factory=list)

    def count_subtree(self, key: _FlavorResource) -> int:
        lent = (each.count_subtree(key) - each.count_local(key) for each in self.children)
        return self.quotas.get(key, _NO_QUOTA).nominal + sum(lent)

    def count_local(self, key: _FlavorResource) -> int:
        """Return the quota that this ClusterQueue or Cohort does not lend to its parent Cohort."""
        lending = self.quotas.get(key, _NO_QUOTA).lending
        return 0 if lending is None else max(0, self.count_subtree(key) - lending)

    def count_used(self, key: _FlavorResource) -> int:
        borrowed = (max(0, each.count_used(key) - each.count_local(key)) for each in self.children)
        return self.used.get(key, 0) + sum(borrowed)


class _QuotaTree:
    """Counts the quota that ClusterQueues can use, as Kueue does in ``pkg/cache/scheduler/resource_node.go``."""

    def __init__(
        self, cluster_queues: Iterable[Mapping[str, object]], cohorts: Iterable[Mapping[str, object]] | None
    ) -> None:
        self._queues = {_read_name(each): _read_quota_node(each) for each in cluster_queues}
        self._cohorts = {_read_name(each): _read_quota_node(each) for each in cohorts or ()}
        self._are_cohorts_known = cohorts is not None
        for each in (*self._queues.values(), *self._cohorts.values()):
            if each.parent:
                # A ClusterQueue may name a Cohort without a Cohort object: it has no quota of its own and no parent.
                self._cohorts.setdefault(each.parent, _QuotaNode(parent="")).children.append(each)

    def count(self, name: str, flavor: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return resource → largest request that Kueue could ever admit, and resource → unused quota, for a flavor."""
        node = self._queues[name]
        above = self._list_above(node)
        most, free = {}, {}
        for key, quota in node.quotas.items():
            if key[0] != flavor:
                continue
            if above is not None:
                most[key[1]], free[key[1]] = (
                    self._count_most(node, above, key=key),
                    self._count_free(node, above, key=key),
                )
            elif quota.borrowing is not None:
                most[key[1]] = quota.nominal + quota.borrowing
        return most, free

    def _list_above(self, node: _QuotaNode) -> list[_QuotaNode] | None:
        """Return the Cohorts above a ClusterQueue, from its parent to the root; None if unknown."""
        if node.parent and not self._are_cohorts_known:
            return None
        above: list[_QuotaNode] = []
        while node.parent:
            node = self._cohorts[node.parent]
            if node in above:
                return None  # Kueue admits nothing from Cohorts that form a cycle.
            above.append(node)
        return above

    def _count_most(self, node: _QuotaNode, above: Sequence[_QuotaNode], *, key: _FlavorResource) -> int:
        if not above:
            return node.count_subtree(key)
        most = node.count_local(key) + self._count_most(above[0], above[1:], key=key)
        borrowing = node.quotas.get(key, _NO_QUOTA).borrowing
        return most if borrowing is None else min(most, node.count_subtree(key) + borrowing)

    def _count_free(self, node: _QuotaNode, above: Sequence[_QuotaNode], *, key: _FlavorResource) -> int:
        if not above:
            return node.count_subtree(key) - node.count_used(key)
        local, used = node.count_local(key), node.count_used(key)
        shared = self._count_free(above[0], above[1:], key=key)
        borrowing = node.quotas.get(key, _NO_QUOTA).borrowing
        if borrowing is not None:
            shared = min(shared, node.count_subtree(key) - local - max(0, used - local) + borrowing)
        return max(0, local - used) + shared


def _read_quota_node(raw: Mapping[str, object]) -> _QuotaNode:
    spec, status = as_dict(raw.get("spec")), as_dict(raw.get("status"))
    # A ClusterQueue names its Cohort in `cohortName`, or in `cohort` if its API version is v1beta1.
    parent = as_text(spec.get("cohortName")) or as_text(spec.get("cohort")) or as_text(spec.get("parentName"))
    return _QuotaNode(
        parent=parent,
        quotas=dict(_list_quotas(spec)),
        used=dict(_list_amounts(status.get("flavorsReservation"), "total")),
    )


def _list_quotas(spec: Mapping[str, object]) -> Iterator[tuple[_FlavorResource, _Quota]]:
    for group in as_dicts(spec.get("resourceGroups")):
        borrowing = dict(_list_amounts(group.get("flavors"), "borrowingLimit"))
        lending = dict(_list_amounts(group.get("flavors"), "lendingLimit"))
        for key, nominal in _list_amounts(group.get("flavors"), "nominalQuota"):
            yield key, _Quota(nominal, borrowing.get(key), lending.get(key))


def _list_amounts(flavors: object, field_name: str) -> Iterator[tuple[_FlavorResource, int]]:
    for flavor in as_dicts(flavors):
        for each in as_dicts(flavor.get("resources")):
            resource = as_text(each.get("name"))
            for number in decode_resources({resource: each.get(field_name)}).values():
                yield (as_text(flavor.get("name")), resource), number
