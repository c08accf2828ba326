"""Define Kueue's labels and the reasons why Kueue does not admit a pod, and compute whether Kueue could admit a pod.

Kueue adds a scheduling gate when a pod is created, and removes the gate when the queue has quota. kube-scheduler then
picks the node. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/

Before a pod exists, the ClusterQueue's own quotas and the labels and taints of the ResourceFlavors show whether Kueue
could admit the pod (``pkg/scheduler/flavorassigner/flavorassigner.go``). This module does not compute what Cohorts lend
or which of several flavors Kueue prefers: the answer is then unknown. It does not read Kueue's configuration either. If
the configuration ignores or renames resources, the results for pods with these resources may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """The pod can only get one ResourceFlavor, which has enough unused quota."""
    IN_USE = 1
    """A ResourceFlavor has enough quota for the pod, but other Workloads use it; none has enough unused quota."""
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
    :param given: for ROOM, the flavor that the pod gets in each resource group.
    :param places: for ROOM, how many copies of the pod the unused quota admits.
    """

    answer: QuotaAnswer
    resource: str = ""
    flavors: tuple[str, ...] = ()
    most: int | None = None
    given: tuple[FlavorCapacity, ...] = ()
    places: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorCapacity:
    """The nodes of a ResourceFlavor, and the quota that a ClusterQueue has for this flavor.

    :param node: the labels and taints of the flavor's nodes; None if the ResourceFlavor is unknown.
    :param tolerations: tolerations that Kueue adds to pods that get the flavor.
    :param most: resource → nominal quota plus borrowing limit, the largest request that Kueue could ever admit; a
        resource without a limit, or whose limit is unknown, is left out.
    :param free: resource → unused quota; left out if it is unknown, or if Kueue also looks at something else: what a
        Cohort lends, AdmissionChecks, or whether the pod fits on the nodes (Topology Aware Scheduling).
    """

    name: str
    node: Node | None
    tolerations: tuple[Toleration, ...] = ()
    most: Mapping[str, int] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCapacity:
    """What a ClusterQueue can admit.

    :param groups: for each resource group, the names of its resources, and its flavors.
    :param namespaces: label selector of the namespaces whose Workloads the ClusterQueue admits.
    :param may_preempt: whether the ClusterQueue may preempt other Workloads.
    :param is_strict: whether a Workload that cannot be admitted holds up all Workloads behind it (``StrictFIFO``).
    :param is_fair: whether the order of Workloads depends on the past usage of each LocalQueue (``admissionScope``).
    :param pending: number of Workloads that wait in the ClusterQueue; None if unknown.
    :param is_stopped: whether an admin has stopped the ClusterQueue (``stopPolicy``).
    :param is_active: whether Kueue uses the ClusterQueue: the ClusterQueue's condition ``Active`` is True.
    """

    groups: tuple[tuple[frozenset[str], tuple[FlavorCapacity, ...]], ...]
    namespaces: LabelSelector = ()
    may_preempt: bool = False
    is_strict: bool = False
    is_fair: bool = False
    pending: int | None = None
    is_stopped: bool = False
    is_active: bool = True

    def judge(self, requests: Mapping[str, int], constraints: PodConstraints) -> QuotaJudgment:
        """Return whether the ClusterQueue could admit a pod, and if not, why.

        The pod needs quota in each resource group that covers a resource of the pod. The result is the worst answer
        among these groups.

        :param requests: resource → amount that the pod effectively requests.
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
        worst = max(judgments, key=lambda judgment: judgment.answer, default=QuotaJudgment(QuotaAnswer.UNKNOWN))
        if worst.answer is not QuotaAnswer.ROOM:
            return worst
        return worst._replace(
            given=tuple(flavor for judgment in judgments for flavor in judgment.given),
            places=min(judgment.places for judgment in judgments),
        )

    def list_flavors(self, resource: str, constraints: PodConstraints) -> tuple[FlavorCapacity, ...]:
        """Return a resource's ResourceFlavors whose labels and taints may fit a pod, whatever their quota.

        :param resource: a resource that the pod requests.
        """
        flavors = next((flavors for resources, flavors in self.groups if resource in resources), ())
        return _list_possible(flavors, constraints)

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
"""Stands for the number of places if all requests of a pod are 0: no quota then limits the number of such pods."""


def _judge_group(
    needed: Mapping[str, int], flavors: Sequence[FlavorCapacity], *, constraints: PodConstraints
) -> QuotaJudgment:
    possible = _list_possible(flavors, constraints)
    judgments = [_judge_flavor(needed, flavor) for flavor in possible]
    best = min(judgments, key=lambda judgment: judgment.answer, default=QuotaJudgment(QuotaAnswer.NO_FLAVOR))
    is_undecided = any(judgment.answer is QuotaAnswer.UNKNOWN for judgment in judgments) or (
        # Kueue may prefer another flavor (``flavorFungibility``), or take the next one if the first is in use.
        best.answer is QuotaAnswer.ROOM and len(possible) > 1
    )
    if is_undecided:
        best = QuotaJudgment(QuotaAnswer.UNKNOWN)
    is_one = best.answer is QuotaAnswer.EXCEEDED and len({judgment.resource for judgment in judgments}) == 1
    most = max(judgment.most or 0 for judgment in judgments) if is_one else None
    return best._replace(flavors=tuple(flavor.name for flavor in flavors), most=most)


def _judge_flavor(needed: Mapping[str, int], flavor: FlavorCapacity) -> QuotaJudgment:
    exceeded = next((name for name, number in needed.items() if number > flavor.most.get(name, number)), "")
    if exceeded:
        return QuotaJudgment(QuotaAnswer.EXCEEDED, exceeded, most=flavor.most[exceeded])
    if any(name not in flavor.free for name in needed):
        return QuotaJudgment(QuotaAnswer.UNKNOWN)
    used = next((name for name, number in needed.items() if number > max(0, flavor.free[name])), "")
    if used:
        return QuotaJudgment(QuotaAnswer.IN_USE, used)
    places = min((flavor.free[name] // number for name, number in needed.items() if number), default=_MANY_PLACES)
    return QuotaJudgment(QuotaAnswer.ROOM, given=(flavor,), places=places)


def _list_possible(flavors: Sequence[FlavorCapacity], constraints: PodConstraints) -> tuple[FlavorCapacity, ...]:
    """Return the flavors of a resource group whose labels and taints may fit a pod.

    Kueue compares the pod's node selector and affinity only with the labels that some flavor of the group has. If a
    flavor is unknown, so are these labels.
    """
    nodes = [flavor.node for flavor in flavors if flavor.node is not None]
    selector = limit_to_keys(constraints, (key for node in nodes for key in node.labels))
    is_known = len(nodes) == len(flavors)
    return tuple(
        flavor
        for flavor in flavors
        if flavor.node is None
        or (
            tolerates_taints(flavor.node, (*constraints.tolerations, *flavor.tolerations))
            and not (is_known and not matches_node_affinity(flavor.node, selector))
        )
    )


def read_capacity(
    cluster_queue: Mapping[str, object], *, flavors: Iterable[Mapping[str, object]] | None
) -> QueueCapacity | None:
    """Return what a ClusterQueue can admit, or None if it is malformed.

    :param cluster_queue: the ClusterQueue as JSON.
    :param flavors: all ResourceFlavors as JSON; None if unknown.
    """
    spec, status = as_dict(cluster_queue.get("spec")), as_dict(cluster_queue.get("status"))
    if not _is_readable(cluster_queue.get("spec")):
        return None
    specs = {as_text(as_dict(flavor.get("metadata")).get("name")): flavor.get("spec") for flavor in flavors or ()}
    used = _read_usage(status)
    in_cohort = bool(spec.get("cohortName") or spec.get("cohort"))  # `cohort` is the field of v1beta1.
    # v1beta1 has both fields; a ClusterQueue lists its AdmissionChecks in one of them.
    has_checks = bool(spec.get("admissionChecks") or spec.get("admissionChecksStrategy"))
    preemption = as_dict(spec.get("preemption"))
    policies = ("withinClusterQueue", "reclaimWithinCohort") if in_cohort else ("withinClusterQueue",)
    groups = []
    for group in as_dicts(spec.get("resourceGroups")):
        listed = as_dicts(group.get("flavors"))
        # If one flavor of a group is unknown, so is which of the group's flavors match a pod.
        are_known = all(as_text(flavor.get("name")) in specs for flavor in listed)
        decides = are_known and not in_cohort and not has_checks
        capacities = [
            _read_flavor(flavor, specs, used=used if decides else {}, in_cohort=in_cohort) for flavor in listed
        ]
        groups.append((frozenset(as_texts(group.get("coveredResources"))), tuple(capacities)))
    return QueueCapacity(
        groups=tuple(groups),
        namespaces=_read_namespaces(spec),
        may_preempt=any(preemption.get(key) not in (None, "Never") for key in policies),
        is_strict=spec.get("queueingStrategy") == "StrictFIFO",
        is_fair=bool(spec.get("admissionScope")),
        pending=as_int(status.get("pendingWorkloads")),
        is_stopped=spec.get("stopPolicy") in ("Hold", "HoldAndDrain"),
        is_active=find_condition(cluster_queue, "Active").get("status") == "True",
    )


_UNDECIDED: LabelSelector = (SelectorRequirement(key="unknown", operator=EXISTS),)
"""Replaces an invalid namespace selector of a ClusterQueue, so that :attr:`.QueueState.is_selected` is None."""


def _read_namespaces(spec: Mapping[str, object]) -> LabelSelector:
    try:
        return decode_selector(spec.get("namespaceSelector"))
    except InvalidSelectorError:
        return _UNDECIDED


def _is_readable(spec: object) -> bool:
    """Return whether the quotas of a ClusterQueue, if it has any, have the structure of Kueue's API."""
    groups = [] if spec is None else as_dict(spec).get("resourceGroups", [] if isinstance(spec, dict) else None)
    if not isinstance(groups, list):
        return False
    flavors = [as_dict(group).get("flavors") for group in groups]
    return all(
        isinstance(listed, list) and listed and all(isinstance(as_dict(each).get("resources"), list) for each in listed)
        for listed in flavors
    )


def _read_usage(status: Mapping[str, object]) -> dict[tuple[str, str], int]:
    """Return (flavor, resource) → quota that Workloads have reserved; malformed amounts are left out."""
    return {
        (as_text(flavor.get("name")), name): number
        for flavor in as_dicts(status.get("flavorsReservation"))
        for resource in as_dicts(flavor.get("resources"))
        for name, number in decode_resources({as_text(resource.get("name")): resource.get("total")}).items()
    }


def _read_flavor(
    raw: Mapping[str, object],
    specs: Mapping[str, object],
    *,
    used: Mapping[tuple[str, str], int],
    in_cohort: bool,
) -> FlavorCapacity:
    name = as_text(raw.get("name"))
    spec = as_dict(specs.get(name))
    most, free = {}, {}
    for quota in as_dicts(raw.get("resources")):
        resource = as_text(quota.get("name"))
        nominal, borrowed = (
            decode_resources({resource: quota.get(key)}).get(resource) for key in ("nominalQuota", "borrowingLimit")
        )
        limit = borrowed if in_cohort else 0
        if nominal is None or limit is None:
            continue
        most[resource] = nominal + limit
        # Kueue writes the usage of each flavor's resources, even a usage of 0 (``getUsage`` of ``cache.go``). A missing
        # usage is therefore unknown, not 0.
        if (name, resource) in used and not spec.get("topologyName"):
            free[resource] = nominal - used[name, resource]
    labels, taints = as_text_map(spec.get("nodeLabels")), decode_taints(spec.get("nodeTaints"))
    return FlavorCapacity(
        name=name,
        node=Node(name=name, labels=labels, taints=taints) if name in specs else None,
        tolerations=decode_tolerations(spec.get("tolerations")),
        most=most,
        free=free,
    )
