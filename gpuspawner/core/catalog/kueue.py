"""Define Kueue's labels and the reasons why Kueue does not admit a pod, and compute whether Kueue could admit a pod.

Kueue adds a scheduling gate when a pod is created, and removes the gate when the queue has quota. kube-scheduler then
picks the node. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/

Before a pod exists, the quotas of the ClusterQueue and the labels and taints of the ResourceFlavors show whether Kueue
could admit the pod (``pkg/scheduler/flavorassigner/flavorassigner.go``, ``pkg/cache/scheduler/resource_node.go``). This
module does not read Kueue's configuration. If the configuration ignores or renames resources, the results for pods with
these resources may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from gpuspawner.core.cluster.decode import decode_resources, decode_taints, decode_tolerations
from gpuspawner.core.cluster.decode_selectors import InvalidSelectorError, decode_selector
from gpuspawner.core.cluster.model import (
    LabelSelector,
    Node,
    PodConstraints,
    SelectorRequirement,
    Toleration,
)
from gpuspawner.core.cluster.selectors import EXISTS, limit_to_keys, matches_node_affinity
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map, as_texts, find_condition

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


class QueueReason(StrEnum):
    """Why Kueue does not admit a pod. The values are Kueue's own reason strings, where Kueue has one."""

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
    """In each matching ResourceFlavor, the Workload's request exceeds the quota, even with all that may be borrowed."""
    NO_FLAVOR = "NoMatchingFlavor"
    """The ClusterQueue has no quota for a requested resource, or no flavor fits the node selector and tolerations."""
    STOPPED = "Suspended"
    """An admin has stopped the LocalQueue."""
    INACTIVE = "ClusterQueueIsInactive"
    """Kueue does not use the ClusterQueue: an admin stopped it, or its spec names an object that does not exist yet."""
    NO_QUEUE = "QueueNotFound"
    MISCONFIGURED = "Misconfigured"
    DEACTIVATED = "Deactivated"
    NOT_TAKEN = "NoWorkload"
    """Kueue runs, but has created no Workload for the pod, for example because a WorkloadPriorityClass is missing."""


def read_queue_problem(queue: Mapping[str, object]) -> QueueReason | None:
    """Return why a LocalQueue admits nothing now, or None if it admits Workloads or its state is unknown.

    :param queue: ``kueue.x-k8s.io`` LocalQueue as JSON.
    """
    active = find_condition(queue, "Active")
    if active.get("status") != "False":
        return None
    # The keys are reasons that Kueue writes in this condition (pkg/controller/core/localqueue_controller.go).
    found = {"ClusterQueueDoesNotExist": QueueReason.NO_QUEUE, "Stopped": QueueReason.STOPPED}
    return found.get(as_text(active.get("reason")), QueueReason.INACTIVE)


class QuotaAnswer(IntEnum):
    """The possible answers to the question whether a ClusterQueue could admit a pod, from the best to the worst."""

    ROOM = 0
    """A ResourceFlavor has enough unused quota for the pod."""
    IN_USE = 1
    """A ResourceFlavor has enough quota for the pod, but other Workloads use it."""
    UNKNOWN = 2
    EXCEEDED = 3
    """In each ResourceFlavor that matches, the pod's request exceeds the quota, even with all that may be borrowed."""
    NO_FLAVOR = 4
    """No ResourceFlavor matches the pod's node selector, node affinity and tolerations."""
    UNCOVERED = 5
    """The ClusterQueue has no quota for a resource that the pod requests."""


class QuotaJudgment(NamedTuple):
    """Whether a ClusterQueue could admit a pod, and if not, why.

    :param resource: the resource whose quota is missing, too small or in use; empty if the answer has another cause.
    :param flavors: names of the ResourceFlavors in the resource group with the worst answer; may be empty.
    :param most: for EXCEEDED, the largest request for ``resource`` that Kueue could admit; None for other answers, or
        if the pod exceeds the quota of different resources in different flavors.
    """

    answer: QuotaAnswer
    resource: str = ""
    flavors: tuple[str, ...] = ()
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorCapacity:
    """The nodes of a ResourceFlavor, and the quota that a ClusterQueue has for this flavor.

    :param node: the labels and taints of the flavor's nodes; None if the ResourceFlavor is unknown.
    :param tolerations: tolerations that Kueue adds to pods that get the flavor.
    :param most: resource → largest request that Kueue could ever admit, including borrowed quota; a resource whose
        largest request is unknown is left out.
    :param free: resource → unused quota; a resource whose unused quota is unknown is left out.
    :param sure: resource → the part of ``free`` that no other ClusterQueue may reserve for its own waiting Workload.
    :param has_topology: whether Kueue also checks that the pod fits on the nodes (Topology Aware Scheduling).
    """

    name: str
    node: Node | None
    tolerations: tuple[Toleration, ...] = ()
    has_topology: bool = False
    most: Mapping[str, int] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)
    sure: Mapping[str, int] = field(default_factory=dict)


class FlavorChoice(NamedTuple):
    """The ResourceFlavors that Kueue would give a pod.

    :param choices: for each resource group that the pod needs: first the flavor that the pod would get now, then the
        flavors that the pod may get if the quota of the first one is in use.
    :param places: number of copies of the pod that certainly fit now in the unused quota of the first flavors.
    :param has_more: whether further copies of the pod may fit, in the first or in other flavors.
    """

    choices: tuple[tuple[FlavorCapacity, ...], ...]
    places: int
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCapacity:
    """What a ClusterQueue can admit.

    :param groups: for each resource group, the names of its resources, and its flavors in Kueue's order.
    :param namespaces: label selector of the namespaces whose Workloads the ClusterQueue admits.
    :param may_preempt: whether the ClusterQueue may preempt other Workloads.
    :param is_strict: whether a Workload that cannot be admitted holds up all Workloads behind it (``StrictFIFO``).
    :param has_checks: whether AdmissionChecks must also agree after Kueue has reserved the quota.
    :param takes_first: whether Kueue takes the first flavor with enough unused quota. False = Kueue may prefer another
        flavor (``flavorFungibility``).
    :param is_fair: whether the order of Workloads depends on the past usage of each LocalQueue (``admissionScope``).
    :param pending: number of Workloads that wait in the ClusterQueue; None if unknown.
    :param is_stopped: whether an admin has stopped the ClusterQueue (``stopPolicy``).
    :param is_active: whether Kueue uses the ClusterQueue: the ClusterQueue's condition ``Active`` is True.
    """

    groups: tuple[tuple[frozenset[str], tuple[FlavorCapacity, ...]], ...]
    namespaces: LabelSelector = ()
    may_preempt: bool = False
    is_strict: bool = False
    has_checks: bool = False
    takes_first: bool = True
    is_fair: bool = False
    pending: int | None = None
    is_stopped: bool = False
    is_active: bool = True

    def judge(self, requests: Mapping[str, int], constraints: PodConstraints) -> QuotaJudgment:
        """Return whether the ClusterQueue could admit a pod, and if not, why.

        The pod needs quota in each resource group that covers a resource of the pod. The result is the worst answer
        among these groups.

        :param requests: resource → amount that the pod effectively requests.
        :param constraints: the pod's constraints on its node.
        """
        needed = self._list_needs(requests)
        covered = self._list_resources()
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
        """Return a resource's ResourceFlavors whose labels and taints may fit a pod, whatever their quota.

        :param resource: a resource that the pod requests.
        :param constraints: the pod's constraints on its node.
        """
        flavors = next((flavors for resources, flavors in self.groups if resource in resources), ())
        selector = _find_selector(constraints, flavors)
        return tuple(each for each in flavors if _may_take(each, constraints, selector=selector))

    def find_flavors(self, requests: Mapping[str, int], constraints: PodConstraints) -> FlavorChoice | None:
        """Return the flavors that Kueue would give a pod now, or None if this is unknown or no flavor has enough quota.

        :param requests: resource → amount that the pod effectively requests.
        :param constraints: the pod's constraints on its node.
        """
        needed, places, has_more = self._list_needs(requests), [], False
        choices: list[tuple[FlavorCapacity, ...]] = []
        for resources, flavors in self.groups:
            own = {name: number for name, number in needed.items() if name in resources}
            if not own:
                continue
            selector = _find_selector(constraints, flavors)
            answers = [_judge_flavor(own, each, constraints=constraints, selector=selector).answer for each in flavors]
            possible = [at for at, answer in enumerate(answers) if answer <= QuotaAnswer.UNKNOWN]
            first = next((at for at in possible if answers[at] != QuotaAnswer.IN_USE), None)
            if first is None or answers[first] != QuotaAnswer.ROOM or (len(possible) > 1 and not self.takes_first):
                return None
            free, sure = (_count_places(each, own) for each in (flavors[first].free, flavors[first].sure))
            if not sure:
                return None
            places.append(sure)
            has_more |= sure < free or any(answers[at] != QuotaAnswer.IN_USE for at in possible if at != first)
            choices.append((flavors[first], *(flavors[at] for at in possible if at != first)))
        return FlavorChoice(tuple(choices), places=min(places, default=0), has_more=has_more)

    def _list_resources(self) -> frozenset[str]:
        return frozenset().union(*(resources for resources, _ in self.groups))

    def _list_needs(self, requests: Mapping[str, int]) -> dict[str, int]:
        # Keep a request of 0 if there is quota for the resource: Kueue picks a flavor for such a request, too
        # (``assignFlavors`` of ``flavorassigner.go``).
        covered = self._list_resources()
        return {name: number for name, number in requests.items() if number or name in covered} | {_PODS: 1}


_PODS = "pods"
"""Name of the resource by which Kueue counts pods. A ClusterQueue need not have a quota for this resource."""

_MANY_PLACES = 2**31
"""Result of :func:`_count_places` if all requests of a pod are 0: no quota then limits the number of such pods."""


def _count_places(unused: Mapping[str, int], needed: Mapping[str, int]) -> int:
    return max(0, min((unused[name] // number for name, number in needed.items() if number), default=_MANY_PLACES))


def _judge_group(
    needed: Mapping[str, int], flavors: Sequence[FlavorCapacity], *, constraints: PodConstraints
) -> QuotaJudgment:
    selector = _find_selector(constraints, flavors)
    found = [_judge_flavor(needed, flavor, constraints=constraints, selector=selector) for flavor in flavors]
    best = min(found, key=lambda each: each.answer, default=QuotaJudgment(QuotaAnswer.NO_FLAVOR))
    if best.answer is QuotaAnswer.IN_USE and any(each.answer is QuotaAnswer.UNKNOWN for each in found):
        best = QuotaJudgment(QuotaAnswer.UNKNOWN)
    exceeded = [each for each in found if each.answer == QuotaAnswer.EXCEEDED]
    is_one = best in exceeded and len({each.resource for each in exceeded}) == 1
    most = max(each.most or 0 for each in exceeded) if is_one else None
    return best._replace(flavors=tuple(flavor.name for flavor in flavors), most=most)


def _judge_flavor(
    needed: Mapping[str, int], flavor: FlavorCapacity, *, constraints: PodConstraints, selector: PodConstraints | None
) -> QuotaJudgment:
    if not _may_take(flavor, constraints, selector=selector):
        return QuotaJudgment(QuotaAnswer.NO_FLAVOR)
    exceeded = next((name for name, number in needed.items() if number > flavor.most.get(name, number)), "")
    if exceeded:
        return QuotaJudgment(QuotaAnswer.EXCEEDED, exceeded, most=flavor.most[exceeded])
    if selector is None or any(name not in flavor.free for name in needed):
        return QuotaJudgment(QuotaAnswer.UNKNOWN)
    used = next((name for name, number in needed.items() if number > max(0, flavor.free[name])), "")
    if used and flavor.has_topology:
        # IN_USE would mean that the pod only has to wait, but the pod may never fit in the flavor's topology
        # (``checkPodSetAndFlavorMatchForTAS`` of ``tas_flavorassigner.go``).
        return QuotaJudgment(QuotaAnswer.UNKNOWN)
    return QuotaJudgment(QuotaAnswer.IN_USE if used else QuotaAnswer.ROOM, used)


def _may_take(flavor: FlavorCapacity, constraints: PodConstraints, *, selector: PodConstraints | None) -> bool:
    if flavor.node is None:
        return True
    is_tolerated = tolerates_taints(flavor.node, (*constraints.tolerations, *flavor.tolerations))
    return is_tolerated and (selector is None or matches_node_affinity(flavor.node, selector))


def _find_selector(constraints: PodConstraints, flavors: Sequence[FlavorCapacity]) -> PodConstraints | None:
    """Return a pod's node selector and affinity, limited to labels of the flavors; None if a flavor is unknown."""
    if any(flavor.node is None for flavor in flavors):
        return None
    return limit_to_keys(constraints, (key for flavor in flavors if flavor.node for key in flavor.node.labels))


class ClusterQueues:
    """Computes what each ClusterQueue can admit.

    :param cluster_queues: all ClusterQueues of the cluster as JSON; all are needed, because they lend each other quota.
    :param cohorts: all Cohorts as JSON; None if unknown.
    :param flavors: all ResourceFlavors as JSON; None if unknown.
    """

    def __init__(
        self,
        cluster_queues: Iterable[Mapping[str, object]],
        *,
        cohorts: Iterable[Mapping[str, object]] | None,
        flavors: Iterable[Mapping[str, object]] | None,
    ) -> None:
        self._by_name = {_read_name(each): each for each in cluster_queues}
        self._tree = _QuotaTree(self._by_name.values(), cohorts)
        self._flavors = {_read_name(each): as_dict(each.get("spec")) for each in flavors or ()}

    def read_capacity(self, name: str) -> QueueCapacity | None:
        """Return what a ClusterQueue can admit, or None if there is no such ClusterQueue, or if it is malformed.

        :param name: name of the ClusterQueue.
        """
        if name not in self._by_name or not _is_readable(self._by_name[name].get("spec")):
            return None
        raw, quota = self._by_name[name], self._tree.count(name)
        spec = as_dict(raw.get("spec"))
        groups = []
        for group in as_dicts(spec.get("resourceGroups")):
            resources = frozenset(as_texts(group.get("coveredResources")))
            names = [as_text(flavor.get("name")) for flavor in as_dicts(group.get("flavors"))]
            capacities = [_build_flavor(each, self._flavors.get(each), quota=quota) for each in names]
            groups.append((resources, tuple(capacities)))
        fungibility = as_dict(spec.get("flavorFungibility"))
        return QueueCapacity(
            groups=tuple(groups),
            namespaces=_read_namespaces(spec),
            may_preempt=_may_preempt(spec),
            is_strict=_is_strict(spec),
            # v1beta1 has both fields; a ClusterQueue lists its AdmissionChecks in one of them.
            has_checks=bool(spec.get("admissionChecks") or spec.get("admissionChecksStrategy")),
            takes_first=(
                fungibility.get("whenCanBorrow") != _NEXT_FLAVOR
                and fungibility.get("whenCanPreempt", _NEXT_FLAVOR) == _NEXT_FLAVOR
            ),
            is_fair=bool(spec.get("admissionScope")),
            pending=as_int(as_dict(raw.get("status")).get("pendingWorkloads")),
            is_stopped=spec.get("stopPolicy") in ("Hold", "HoldAndDrain"),
            is_active=find_condition(raw, "Active").get("status") == "True",
        )


_NEXT_FLAVOR = "TryNextFlavor"
_UNDECIDED: LabelSelector = (SelectorRequirement(key="unknown", operator=EXISTS),)
"""Replaces an invalid namespace selector of a ClusterQueue, so that :attr:`.QueueState.is_selected` is None."""


def _read_namespaces(spec: Mapping[str, object]) -> LabelSelector:
    try:
        return decode_selector(spec.get("namespaceSelector"))
    except InvalidSelectorError:
        return _UNDECIDED


def _is_strict(spec: Mapping[str, object]) -> bool:
    return spec.get("queueingStrategy") == "StrictFIFO"


def _may_preempt(spec: Mapping[str, object]) -> bool:
    preemption = as_dict(spec.get("preemption"))
    policies = [preemption.get("withinClusterQueue")]
    if _read_parent(spec):
        policies.append(preemption.get("reclaimWithinCohort"))
    return any(policy not in (None, "Never") for policy in policies)


def _is_readable(spec: object) -> bool:
    """Return whether the quotas of a ClusterQueue or Cohort, if it has any, have the structure of Kueue's API."""
    groups = [] if spec is None else as_dict(spec).get("resourceGroups", [] if isinstance(spec, dict) else None)
    if not isinstance(groups, list):
        return False
    flavors = [as_dict(group).get("flavors") for group in groups]
    return all(
        isinstance(listed, list) and listed and all(isinstance(as_dict(each).get("resources"), list) for each in listed)
        for listed in flavors
    )


def _read_name(raw: Mapping[str, object]) -> str:
    return as_text(as_dict(raw.get("metadata")).get("name"))


def _build_flavor(name: str, spec: Mapping[str, object] | None, *, quota: _CountedQuota) -> FlavorCapacity:
    most, free, sure = ({key[1]: number for key, number in each.items() if key[0] == name} for each in quota)
    if spec is None:
        return FlavorCapacity(name=name, node=None, most=most, free=free, sure=sure)
    return FlavorCapacity(
        name=name,
        node=Node(name=name, labels=as_text_map(spec.get("nodeLabels")), taints=decode_taints(spec.get("nodeTaints"))),
        tolerations=decode_tolerations(spec.get("tolerations")),
        has_topology=bool(spec.get("topologyName")),
        most=most,
        free=free,
        sure=sure,
    )


_FlavorResource = tuple[str, str]
_CountedQuota = tuple[dict[_FlavorResource, int], dict[_FlavorResource, int], dict[_FlavorResource, int]]
"""A ClusterQueue's amounts ``most``, ``free`` and ``sure`` of :class:`FlavorCapacity`, in this order, each as (flavor,
resource) → amount. Unknown amounts are left out."""


class _Quota(NamedTuple):
    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


_NO_QUOTA = _Quota()


@dataclass(slots=True, kw_only=True, eq=False)
class _QuotaNode:
    """A ClusterQueue or Cohort in the tree of Cohorts. Its descendants are the ClusterQueues and Cohorts below it.

    :param parent: name of the Cohort to which the ClusterQueue or Cohort belongs; empty for none.
    :param total: own quota of the ClusterQueue or Cohort, and all quota that its children lend it (``SubtreeQuota``).
    :param used: for a ClusterQueue, quota that Workloads have reserved; for a Cohort, the part of ``total`` that its
        children use.
    :param unread_quotas: pairs (flavor, resource) for which this object or a descendant has a malformed quota.
    :param unread_usage: pairs (flavor, resource) whose usage is malformed or missing in this object or a descendant.
    :param is_readable: whether the quotas of this object and of all descendants have the structure of Kueue's API.
    :param holders: (flavor, resource) → number of ClusterQueues, among this object and its descendants, that may keep
        unused quota for a waiting Workload.
    """

    parent: str
    quotas: dict[_FlavorResource, _Quota] = field(default_factory=dict)
    total: dict[_FlavorResource, int] = field(default_factory=dict)
    used: dict[_FlavorResource, int] = field(default_factory=dict)
    unread_quotas: set[_FlavorResource] = field(default_factory=set)
    unread_usage: set[_FlavorResource] = field(default_factory=set)
    is_readable: bool = True
    holders: Counter[_FlavorResource] = field(default_factory=Counter)

    def add_child(self, child: _QuotaNode) -> None:
        """Add to ``total`` what a child lends to this Cohort, and to ``used`` what the child borrows from this Cohort.

        :param child: a ClusterQueue or Cohort to which all its own children have been added.
        """
        for key, number in child.total.items():
            self.total[key] = self.total.get(key, 0) + number - child.count_local(key)
        for key, number in child.used.items():
            self.used[key] = self.used.get(key, 0) + max(0, number - child.count_local(key))
        self.unread_quotas |= child.unread_quotas
        self.unread_usage |= child.unread_usage
        self.holders.update(child.holders)
        self.is_readable &= child.is_readable

    def count_local(self, key: _FlavorResource) -> int:
        """Return the quota that this ClusterQueue or Cohort does not lend to its parent Cohort."""
        lending = self.quotas.get(key, _NO_QUOTA).lending
        return 0 if lending is None else max(0, self.total.get(key, 0) - lending)


class _QuotaTree:
    """Computes the quota that ClusterQueues can use, as Kueue does in ``pkg/cache/scheduler/resource_node.go``."""

    def __init__(
        self, cluster_queues: Iterable[Mapping[str, object]], cohorts: Iterable[Mapping[str, object]] | None
    ) -> None:
        self._queues = {_read_name(each): _read_quota_node(each) for each in cluster_queues}
        for node in self._queues.values():
            # Kueue writes the usage of each flavor's resources, even a usage of 0 (``getUsage`` of ``cache.go``). A
            # missing usage is therefore unknown, not 0.
            node.unread_usage |= node.quotas.keys() - node.used.keys()
        self._cohorts = {_read_name(each): _read_quota_node(each) for each in cohorts or ()}
        self._are_cohorts_known = cohorts is not None
        children = Counter(each.parent for each in (*self._queues.values(), *self._cohorts.values()) if each.parent)
        for name in children:
            # Children may name a Cohort that has no object. Such a Cohort has no parent and no quota of its own.
            self._cohorts.setdefault(name, _QuotaNode(parent=""))
        # Add each object to its parent only after the object's own children. Cohorts in a cycle are never added.
        complete = [*self._queues.values(), *(each for name, each in self._cohorts.items() if not children[name])]
        while complete:
            each = complete.pop()
            if each.parent:
                self._cohorts[each.parent].add_child(each)
                children[each.parent] -= 1
                if not children[each.parent]:
                    complete.append(self._cohorts[each.parent])

    def count(self, name: str) -> _CountedQuota:
        node = self._queues[name]
        path = self._find_path(node)
        if path is None:
            limited = ((key, each.nominal, each.borrowing) for key, each in node.quotas.items())
            return {key: nominal + borrowing for key, nominal, borrowing in limited if borrowing is not None}, {}, {}
        if not path[0].is_readable:
            return {}, {}, {}
        most = {key: _count_most(path, key) for key in node.quotas.keys() - path[0].unread_quotas}
        free = {key: _count_free(path, key) for key in most.keys() - path[0].unread_usage}
        return most, free, {key: _count_sure(path, key, free=number) for key, number in free.items()}

    def _find_path(self, node: _QuotaNode) -> list[_QuotaNode] | None:
        """Return the path from the root Cohort to a ClusterQueue; None if Cohorts are unknown or form a cycle."""
        if node.parent and not self._are_cohorts_known:
            return None
        path = [node]
        while path[-1].parent:
            if len(path) > len(self._cohorts):
                return None  # More steps than Cohorts mean a cycle, and Kueue admits nothing in a cycle.
            path.append(self._cohorts[path[-1].parent])
        return path[::-1]


def _count_most(path: Sequence[_QuotaNode], key: _FlavorResource) -> int:
    most = path[0].total.get(key, 0)
    for node in path[1:]:
        most += node.count_local(key)
        borrowing = node.quotas.get(key, _NO_QUOTA).borrowing
        if borrowing is not None:
            most = min(most, node.total.get(key, 0) + borrowing)
    return most


def _count_free(path: Sequence[_QuotaNode], key: _FlavorResource) -> int:
    free = path[0].total.get(key, 0) - path[0].used.get(key, 0)
    for node in path[1:]:
        local, used = node.count_local(key), node.used.get(key, 0)
        borrowing = node.quotas.get(key, _NO_QUOTA).borrowing
        if borrowing is not None:
            free = min(free, node.total.get(key, 0) - local - max(0, used - local) + borrowing)
        free += max(0, local - used)
    return free


def _count_sure(path: Sequence[_QuotaNode], key: _FlavorResource, *, free: int) -> int:
    node = path[-1]
    if path[0].holders[key] == node.holders[key]:
        return free
    # Count only this ClusterQueue's own unused nominal quota. No other ClusterQueue can take it first: Kueue admits
    # Workloads that borrow after those that do not (``entryOrdering`` of ``pkg/scheduler/scheduler.go``).
    return min(free, node.quotas[key].nominal - node.used.get(key, 0))


def _read_quota_node(raw: Mapping[str, object]) -> _QuotaNode:
    spec, status = as_dict(raw.get("spec")), as_dict(raw.get("status"))
    node = _QuotaNode(parent=_read_parent(spec), is_readable=_is_readable(raw.get("spec")))
    for group in as_dicts(spec.get("resourceGroups")):
        for key, amounts in _list_amounts(group.get("flavors"), ("nominalQuota", "borrowingLimit", "lendingLimit")):
            nominal = amounts.get("nominalQuota")
            if nominal is None or None in amounts.values():
                node.unread_quotas.add(key)
                continue
            node.quotas[key] = _Quota(nominal, amounts.get("borrowingLimit"), amounts.get("lendingLimit"))
            node.total[key] = nominal
    for key, amounts in _list_amounts(status.get("flavorsReservation"), ("total",)):
        total = amounts.get("total")
        if total is None:
            node.unread_usage.add(key)
        else:
            node.used[key] = total
    if _may_hold_back(spec, status):
        node.holders.update(node.quotas)
    return node


def _may_hold_back(spec: Mapping[str, object], status: Mapping[str, object]) -> bool:
    """Return whether Kueue may keep unused quota for the first Workload of a ClusterQueue until this Workload fits.

    Kueue tries the first Workload of a ``StrictFIFO`` ClusterQueue in each cycle and keeps the unused quota for it
    (``schedule`` of ``pkg/scheduler/scheduler.go``). Kueue keeps none if ``reclaimWithinCohort`` is ``Any``: the
    ClusterQueue can then preempt any Workload that borrows its quota.
    """
    is_waiting = as_int(status.get("pendingWorkloads")) != 0
    can_reclaim = as_dict(spec.get("preemption")).get("reclaimWithinCohort") == "Any"
    return is_waiting and _is_strict(spec) and not can_reclaim


def _read_parent(spec: Mapping[str, object]) -> str:
    # A ClusterQueue names its Cohort in `cohortName` (`cohort` in v1beta1). A Cohort names its parent in `parentName`.
    return as_text(spec.get("cohortName")) or as_text(spec.get("cohort")) or as_text(spec.get("parentName"))


def _list_amounts(flavors: object, fields: Iterable[str]) -> Iterator[tuple[_FlavorResource, Mapping[str, int | None]]]:
    """Yield ((flavor, resource), field → amount) for each resource of each flavor.

    A malformed amount is None. A field that is not set is left out.
    """
    for flavor in as_dicts(flavors):
        for each in as_dicts(flavor.get("resources")):
            resource = as_text(each.get("name"))
            amounts = {
                name: decode_resources({resource: each[name]}).get(resource)
                for name in fields
                if each.get(name) is not None
            }
            yield (as_text(flavor.get("name")), resource), amounts
