"""Predicts whether a server would start now, later or never, from the pod that would be created.

A verdict (the prediction) is advice; only NEVER stops a start. In doubt, the verdict is UNKNOWN. The verdict also
counts the pods that wait for the same nodes and are scheduled first.

A pod that Kueue will queue is first compared with the queue's own quotas. The nodes matter only if these quotas show
that Kueue admits the pod at once. The verdict is NEVER if Kueue can never admit the pod, and UNKNOWN if Kueue may
decide either way.

If the pod is compared with the nodes, the verdict can be NEVER only if all of this is true:

- The data about the nodes is fresh.
- No node could take the pod even if the node were empty and healthy.
- No new node of a known node pool could take the pod.
- No other nodes are added, as the admin says, or the pod can run only on existing nodes, which it names.
- The pod does not request devices that nodes may have but do not report at present.

Nodes do not report all devices for a while after kubelet starts: kubelet then deletes the ResourceSlices of DRA drivers
(``wipeResourceSlices`` in kubelet's dra_plugin_manager.go) and reports 0 units of device plugins, until the drivers and
plugins register again. A hub that cannot read DeviceClasses treats each extended resource as a possible DRA device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, compress
from typing import NamedTuple

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth
from gpuspawner.core.autoscaling.karpenter import derive_pools_from_nodes
from gpuspawner.core.autoscaling.node_pools import (
    build_scale_up_pools,
    check_new_node,
    has_room_after,
    may_match_pool,
    may_take_pod,
)
from gpuspawner.core.catalog.kueue import (
    FlavorCapacity,
    QueueCapacity,
    QueueReason,
    QuotaAnswer,
    QuotaJudgment,
)
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.nodes_by_type import group_nodes_by_type
from gpuspawner.core.catalog.queue import QueueState
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, ScalableNodePool
from gpuspawner.core.cluster.selectors import matches_node_affinity, may_match_node_affinity, names_existing_nodes
from gpuspawner.core.cluster.state import Inventory, Occupancy, get_occupancy
from gpuspawner.core.cluster.taints import is_reserved_for_others
from gpuspawner.core.scheduling.node_filters import build_node_grouping
from gpuspawner.core.scheduling.results import Answer, ScanResult
from gpuspawner.core.scheduling.scan import find_fitting_sizes, fits_somewhere, scan_nodes
from gpuspawner.core.text.i18n import gettext, gettext_lazy, translate_now
from gpuspawner.core.text.wording import join_with_and, make_sentence
from gpuspawner.core.verdict.reasons import (
    explain_never,
    explain_wait,
    find_candidate_nodes,
    find_fitting_node,
    format_amount,
    format_number,
    may_need_unseen_devices,
)

_MAX_COMPARED_CHOICES = 64
"""Limit to save time: a verdict compares this many kinds of pending pods with each node. Pods of one kind have the same
node selector, affinity and tolerations. It compares further kinds only with the labels of the GPU type."""
_MAX_COMPARED_NODES = 10_000
"""Limit to save time: after this many comparisons of a pending pod with a node, all further pods count as fitting."""


def find_pods_ahead(
    pod: Pod, waiting: Iterable[Pod], *, nodes: Sequence[Node], gpu: GPUType | None = None
) -> tuple[Pod, ...]:
    """Return the pending pods that compete with a pod and are scheduled first, in the order of ``waiting``.

    A pod competes if it could run on one of ``nodes``, and if both pods request the same extended resource or neither
    pod requests any extended resource. kube-scheduler takes pods with higher priorities first, then older pods
    (queuesort/priority_sort.go). A pod that does not exist yet counts as the youngest.

    :param nodes: nodes that could take the pod.
    :param gpu: the GPU type of all ``nodes``, None without a GPU. If ``nodes`` is empty, a pod competes if its node
        selector and affinity match the type's labels.
    """
    devices = _list_devices(pod)
    shared: dict[tuple[int, ...], bool] = {}
    found = []
    for other in waiting:
        if (other.namespace, other.name) == (pod.namespace, pod.name) or not _is_before(other, pod):
            continue
        theirs = _list_devices(other)
        if devices.isdisjoint(theirs) if devices else theirs:
            continue
        key = (*other.constraints.node_affinity_key, id(other.constraints.tolerations))
        if key not in shared:
            known = nodes if len(shared) < _MAX_COMPARED_CHOICES else ()
            shared[key] = _share_a_node(pod.constraints, other.constraints, nodes=known, gpu=gpu)
        if shared[key]:
            found.append(other)
    return tuple(found)


def select_runnable_pods(
    pods: Iterable[Pod], *, nodes: Sequence[Node], pools: Iterable[ScalableNodePool]
) -> tuple[Pod, ...]:
    """Return the pending pods that would fit an existing node if the node were empty, or may fit a new node of a pool.

    Pods that fit nowhere stay pending and delay no other pod.

    :param pools: node pools that may grow.
    """
    pools = tuple(pools)
    known: dict[tuple[object, ...], bool] = {}
    takers: dict[tuple[object, ...], tuple[Node, ...]] = {}
    """Constraints → the node that a pod with these constraints fitted; try it first for the next such pod."""
    left = _MAX_COMPARED_NODES
    found = []
    for pod in pods:
        choice = _make_choice_key(pod.constraints)
        key = (*choice, *sorted(pod.requests.items()))
        if key not in known:
            likely = takers.get(choice, ())
            at = find_fitting_node(pod, chain(likely, nodes)) if left > 0 else 0
            left -= len(nodes) if at is None else at
            known[key] = at is not None or any(may_take_pod(each, pod) for each in pools)
            if at:
                takers[choice] = (nodes[at - len(likely)],)
        if known[key]:
            found.append(pod)
    return tuple(found)


def _make_choice_key(constraints: PodConstraints) -> tuple[object, ...]:
    """Return a cache key for the constraints that decide whether a pod fits an empty node.

    The key contains the ``id()`` of objects in ``constraints``, so it is valid only while ``constraints`` exists.
    """
    key = constraints.node_affinity_key
    return (*key, id(constraints.tolerations), constraints.volume_terms, constraints.topology_keys)


def _list_devices(pod: Pod) -> frozenset[str]:
    return frozenset(name for name, number in pod.requests.items() if number and "/" in name)


def _is_before(other: Pod, pod: Pod) -> bool:
    if other.terminating or other.constraints.is_gated or other.priority < pod.priority:
        return False
    return other.priority > pod.priority or not pod.created or other.created <= pod.created


def _share_a_node(own: PodConstraints, other: PodConstraints, *, nodes: Sequence[Node], gpu: GPUType | None) -> bool:
    if own is other or (own.node_selector == other.node_selector and own.node_terms == other.node_terms):
        return True
    # Check the GPU type's labels first, because that is fast. If `nodes` is empty, these labels alone decide.
    if gpu is not None and not any(may_match_node_affinity(match, other) for match in gpu.label_matches):
        return False
    if not nodes:
        return gpu is not None
    # Do not skip cordoned nodes: when such a node takes pods again, `other` competes with the pod for this node.
    return any(
        matches_node_affinity(node, other) and not is_reserved_for_others(node, other.tolerations) for node in nodes
    )


MAX_DATA_AGE_S = 60.0
"""If the data about the nodes or the queue is older than this many seconds, a verdict that needs it is UNKNOWN."""
_MAX_PLACES = 100
"""A verdict counts how many copies of the pod could start now, up to this many."""

_UNREADABLE = gettext_lazy("the hub can't read the cluster's nodes")
_UNREADABLE_PODS = gettext_lazy("the hub can't read what is free")
_UNCONFIRMED = gettext_lazy("the data about the cluster is out of date")
_GATED = gettext_lazy("another system decides when it may start")
_NEW_NODES_TAKEN = gettext_lazy("all nodes that can be added are already taken")
_UNSEEN_DEVICES = gettext_lazy("devices that cannot be seen right now")
_FULL = gettext_lazy("no more nodes can be added right now")
_TAKEN = gettext_lazy("all suitable nodes are taken")
_NEW_NODE_IN_DOUBT = gettext_lazy("the hub can't predict whether a new node would be suitable")


class Outcome(StrEnum):
    """When a server starts."""

    NOW = "now"
    AFTER_SCALE_UP = "after-scale-up"
    WAITS = "waits"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """When a server starts, and why not now. Fields that do not apply to the outcome are None or empty.

    :param places: for NOW, how many copies of the pod could start.
    :param places_exact: for NOW, whether ``places`` is exact; otherwise it is a lower bound.
    :param minutes: for AFTER_SCALE_UP, how many minutes a new node takes; None when unknown.
    :param pool: for AFTER_SCALE_UP, the display name of the node pool that grows.
    :param is_sure: for AFTER_SCALE_UP, whether the new node is certainly large enough; False if Karpenter chooses it.
    :param ahead: number of competing pods that are scheduled first or, if ``is_queued``, of Workloads that Kueue takes
        first; None when unknown.
    :param is_queued: whether Kueue's queue decides the outcome.
    :param reason: why the outcome is not NOW, as a sentence; may be empty.
    :param age_s: seconds since the data about the cluster was last confirmed; None when unknown.
    :param may_add_node: for UNKNOWN, whether no known node could take the pod, but a node may be added that could.
    :param growth: for ``may_add_node``, what the cluster-autoscaler says about adding nodes.
    :param start_timeout_s: for ``may_add_node``, seconds that the server waits at most; None when unknown.
    """

    outcome: Outcome
    places: int | None = None
    places_exact: bool = True
    minutes: float | None = None
    pool: str = ""
    is_sure: bool = True
    ahead: int | None = None
    is_queued: bool = False
    reason: str = ""
    age_s: float | None = None
    may_add_node: bool = False
    growth: NodeGrowth = NodeGrowth.UNSEEN
    start_timeout_s: float | None = None

    @property
    def needs_alternatives(self) -> bool:
        """Whether similar choices that start now would help the user: as far as known, the server does not."""
        return self.may_add_node or self.outcome not in (Outcome.NOW, Outcome.UNKNOWN)


def predict_verdict(
    pod: Pod,
    inventory: Inventory,
    *,
    gpu: GPUType | None = None,
    queue: QueueState | None = None,
    new_nodes: bool = True,
    start_timeout_s: float | None = None,
) -> Verdict:
    """Return a prediction of when a pod will start.

    :param pod: a pod that is pending or does not exist yet; complete, with the admin's and KubeSpawner's additions.
    :param gpu: the chosen GPU type, None without a GPU. Its ``scale_up`` says which nodes can be added.
    :param queue: Kueue's queue, for a pod that does not exist yet; None if unknown, or if Kueue does not queue the pod.
    :param new_nodes: whether nodes may be added that neither ``scale_up`` nor a NodePool describes.
    :param start_timeout_s: seconds that the server waits at most; None when unknown.
    """
    admission = _ask_queue(pod, queue, gpu=gpu)
    if isinstance(admission, Verdict):
        return admission
    known = get_occupancy(inventory)
    if known is None:
        return _make_unknown(inventory, inventory.reason or _UNREADABLE)
    if not _is_fresh(inventory):
        return _make_unknown(inventory, inventory.reason or ("" if inventory.age_s else _UNCONFIRMED))
    case = _PodCase(admission.pod, known.occupancy, gpu=gpu, inventory=inventory, new_nodes=new_nodes)
    blocked = case.explain_blocked()
    doubt = case.explain_doubt() if blocked else ""
    if blocked and not doubt:
        if case.may_add_node():
            unknown = _make_unknown(inventory, blocked)
            return replace(unknown, may_add_node=True, start_timeout_s=start_timeout_s)
        return Verdict(outcome=Outcome.NEVER, reason=make_sentence(blocked), age_s=inventory.age_s)
    if not known.pods_known:
        return _make_unknown(inventory, inventory.reason or _UNREADABLE_PODS)
    if blocked:
        return _make_unknown(inventory, gettext("{reason}; {doubt} may change that", reason=blocked, doubt=doubt))
    return _limit_places(case.predict(inventory), admission.places)


def starts_now(pod: Pod, inventory: Inventory, *, queue: QueueState | None = None) -> bool:
    """Return whether the verdict is NOW. This is cheaper than :func:`predict_verdict`, which also finds reasons.

    :param pod: the complete pod, with the admin's and KubeSpawner's additions.
    :param queue: as for :func:`predict_verdict`.
    """
    answer, known = _ask_queue(pod, queue, gpu=None), get_occupancy(inventory)
    if isinstance(answer, Verdict) or known is None or not known.pods_known or not _is_fresh(inventory):
        return False
    return fits_somewhere(answer.pod, known.occupancy)


def starts_before_rivals(pod: Pod, inventory: Inventory) -> bool:
    """Return whether a pod starts now even if all competing pending pods are bound first, to any node.

    Competing pods are pending pods that kube-scheduler takes first and that could use the same nodes. With n competing
    pods, n + 1 copies of the pod must fit on the nodes. A copy requests the most CPU, memory and GPUs that any of these
    pods requests. Pods that kube-scheduler could preempt keep their resources.
    """
    known = get_occupancy(inventory)
    pod = replace(pod, preempts=False)
    if known is None or not starts_now(pod, inventory):
        return False
    rivals = _find_rivals(pod, known.occupancy)
    if any(rival.constraints.anti_affinity for rival in rivals):
        return False  # A competing pod's anti-affinity may keep further pods off its node.
    largest = dict(pod.requests)
    for rival in rivals:
        largest |= {name: max(number, largest.get(name, 0)) for name, number in rival.requests.items()}
    found = scan_nodes(replace(pod, requests=largest), known.occupancy, limit=len(rivals) + 1)
    return found.places > len(rivals)


def _find_rivals(pod: Pod, occupancy: Occupancy) -> list[Pod]:
    earlier = [
        other
        for other in occupancy.pending_pods
        if (other.namespace, other.name) != (pod.namespace, pod.name) and _is_before(other, pod)
    ]
    return list(compress(earlier, find_fitting_sizes(pod, earlier, occupancy=occupancy)))


class _Admission(NamedTuple):
    """A pod to compare with the nodes, and how many such pods Kueue's quota allows.

    :param pod: without Kueue's scheduling gate if Kueue admits the pod at once; otherwise unchanged.
    :param places: how many such pods Kueue admits at once; None if Kueue's quota does not limit them, or if unknown.
    """

    pod: Pod
    places: int | None = None


def _ask_queue(pod: Pod, queue: QueueState | None, *, gpu: GPUType | None) -> Verdict | _Admission:
    """Return a verdict if Kueue alone decides when the pod starts; otherwise the pod, to compare it with the nodes."""
    if queue is None or not pod.constraints.is_gated or queue.age_s > MAX_DATA_AGE_S:
        return _Admission(pod)
    if hopeless := _explain_problem(queue):
        return _make_queued(Outcome.NEVER, hopeless, queue=queue)
    capacity = queue.capacity
    answer = _leave_to_queue(queue) if capacity is None else _judge_quota(pod, queue, capacity=capacity, gpu=gpu)
    doubt = _explain_idle_queue(queue)
    is_hopeless = isinstance(answer, Verdict) and answer.outcome is Outcome.NEVER
    return _make_queued(Outcome.UNKNOWN, doubt, queue=queue) if doubt and not is_hopeless else answer


def _judge_quota(pod: Pod, queue: QueueState, *, capacity: QueueCapacity, gpu: GPUType | None) -> Verdict | _Admission:
    found = capacity.judge(pod.requests, pod.constraints)
    if found.answer <= QuotaAnswer.IN_USE and not queue.is_selected:
        return _leave_to_queue(queue)
    match found.answer:
        case QuotaAnswer.ROOM:
            return _use_room(pod, queue, capacity=capacity, found=found)
        case QuotaAnswer.IN_USE if not capacity.may_preempt:
            reason = gettext("the quota of the queue {queue} is in use", queue=queue.name)
            return _make_queued(Outcome.WAITS, reason, queue=queue, ahead=queue.count_ahead())
        case QuotaAnswer.EXCEEDED:
            return _make_queued(Outcome.NEVER, _explain_excess(pod, queue, found=found, gpu=gpu), queue=queue)
        case QuotaAnswer.NO_FLAVOR:
            reason = gettext("The queue {queue} has nothing of the kind that your server asks for.", queue=queue.name)
            return _make_queued(Outcome.NEVER, reason, queue=queue)
        case QuotaAnswer.UNCOVERED:
            # UNKNOWN, not NEVER: Kueue's configuration may exempt the resource from quotas. The hub does not read it.
            reason = gettext("the queue {queue} has no quota for {resource}", queue=queue.name, resource=found.resource)
            return _make_queued(Outcome.UNKNOWN, reason, queue=queue)
        case _:
            return _leave_to_queue(queue)


def _leave_to_queue(queue: QueueState) -> Verdict:
    reason = gettext("the queue {queue} decides when it may start", queue=queue.name)
    return _make_queued(Outcome.UNKNOWN, reason, queue=queue, ahead=queue.count_ahead())


def _explain_problem(queue: QueueState) -> str:
    if queue.problem is QueueReason.NO_QUEUE:
        return gettext("The queue {queue} does not exist.", queue=queue.name)
    if queue.problem is QueueReason.STOPPED or (queue.capacity is not None and queue.capacity.is_stopped):
        return gettext("The queue {queue} is stopped, or not set up completely.", queue=queue.name)
    if queue.is_selected is False:
        return gettext(
            "The queue {queue} accepts no servers from the namespace {namespace}.",
            queue=queue.name,
            namespace=queue.namespace,
        )
    return ""


def _explain_idle_queue(queue: QueueState) -> str:
    """Return why Kueue does nothing with the server's pod now, or "" without a reason.

    This reason alone makes a verdict UNKNOWN, not NEVER: an admin may be adding a missing object, for example.
    """
    if queue.problem is QueueReason.INACTIVE or (queue.capacity is not None and not queue.capacity.is_active):
        return gettext("The queue {queue} is stopped, or not set up completely.", queue=queue.name)
    if queue.missing_class:
        return gettext("The priority class {name} of the queue does not exist.", name=queue.missing_class)
    return ""


def _explain_excess(pod: Pod, queue: QueueState, *, found: QuotaJudgment, gpu: GPUType | None) -> str:
    if found.most is None or found.resource not in pod.requests:
        return gettext("Your server asks for more than the whole quota of the queue {queue}.", queue=queue.name)
    return gettext(
        "the server requests {amount}; the queue {queue} never admits more than {most}",
        amount=format_amount(found.resource, pod.requests[found.resource], gpu=gpu),
        queue=queue.name,
        most=format_number(found.resource, found.most),
    )


def _use_room(pod: Pod, queue: QueueState, *, capacity: QueueCapacity, found: QuotaJudgment) -> Verdict | _Admission:
    admitted = _admit(pod, found.given)
    # A Workload that waits may hold up this one in strict order, or have quota reserved while it preempts others
    # (stickyWorkload).
    may_be_held_up = queue.may_have_waiting and (capacity.is_strict or capacity.may_preempt)
    if admitted is None or may_be_held_up:
        return _leave_to_queue(queue)
    return _Admission(admitted, found.places)


def _admit(pod: Pod, flavors: Iterable[FlavorCapacity]) -> Pod | None:
    """Return the pod as Kueue admits it: without its scheduling gate, with the flavors' node labels and tolerations.

    The result is None if two flavors set different values for a label: Kueue may use either value.
    """
    own = pod.constraints
    labels: dict[str, str] = {}
    tolerations = own.tolerations
    for flavor in flavors:
        for key, value in (flavor.node.labels if flavor.node is not None else {}).items():
            if labels.setdefault(key, value) != value:
                return None
        tolerations += flavor.tolerations
    selector = {**own.node_selector, **labels}
    return replace(pod, constraints=replace(own, is_gated=False, node_selector=selector, tolerations=tolerations))


def _limit_places(verdict: Verdict, admitted: int | None) -> Verdict:
    if verdict.places is None or admitted is None:
        return verdict
    is_exact = verdict.places_exact or admitted <= verdict.places
    return replace(verdict, places=min(verdict.places, admitted), places_exact=is_exact)


def _make_queued(outcome: Outcome, reason: str, *, queue: QueueState, ahead: int | None = None) -> Verdict:
    return Verdict(outcome=outcome, ahead=ahead, is_queued=True, reason=make_sentence(reason), age_s=queue.age_s)


def _is_fresh(inventory: Inventory) -> bool:
    return inventory.age_s is not None and inventory.age_s <= MAX_DATA_AGE_S


class _PodCase:
    def __init__(
        self, pod: Pod, occupancy: Occupancy, *, gpu: GPUType | None, inventory: Inventory, new_nodes: bool
    ) -> None:
        self._pod = pod
        self._occupancy = occupancy
        self._gpu = gpu
        self._survey: ScanResult = scan_nodes(pod, occupancy, limit=_MAX_PLACES)
        self._inventory = inventory
        self._new_nodes = new_nodes
        self._scalable_pools: tuple[ScalableNodePool, ...] = ()
        self._groups: list[Sequence[Node]] = []
        self._nodes: list[Node] = []
        self._reserved = False
        # Search for nodes and node pools only if the pod does not fit; otherwise the verdict does not need them.
        if self._survey.answer is Answer.NO:
            self._find_nodes()
            self._find_node_pools()

    def explain_blocked(self) -> str:
        # A pod with a scheduling gate must not get NEVER: Kueue may add tolerations when it removes the gate.
        if self._survey.fit_if_empty or self._survey.answer is not Answer.NO or self._pod.constraints.is_gated:
            return ""
        pod, growing = self._pod, self._scalable_pools
        # A node pool at its maximum size counts: it can grow again after a node is removed.
        pools = [replace(each, max_new_nodes=None) for each in growing]
        if find_candidate_nodes(pod, self._groups) or any(
            check_new_node(each, pod, gpu=self._gpu) is not Answer.NO for each in pools
        ):
            return ""
        for_it = [each for each in growing if may_match_pool(each, pod.constraints)]
        return explain_never(pod, self._groups, gpu=self._gpu, reserved=self._reserved, scalable_pools=for_it)

    def explain_doubt(self) -> str:
        known = self._inventory.dra_resources
        is_hidden = may_need_unseen_devices(self._pod, self._occupancy.node_groups, dra_resources=known)
        return translate_now(_UNSEEN_DEVICES) if is_hidden else ""

    def may_add_node(self) -> bool:
        """Return whether a node may be added that could take a pod that no known node or node pool could take.

        NodePools that the hub cannot read may add such a node, too.
        """
        if not self._new_nodes and self._inventory.scalable_pools is not None:
            return False
        return not names_existing_nodes(self._pod.constraints, self._occupancy.node_groups)

    def predict(self, inventory: Inventory) -> Verdict:
        found, age_s = self._survey, inventory.age_s
        if found.answer is Answer.YES:
            return Verdict(outcome=Outcome.NOW, places=found.places, places_exact=found.places_exact, age_s=age_s)
        if self._pod.constraints.is_gated:
            return _make_unknown(inventory, _GATED)
        if found.answer is Answer.UNKNOWN:
            return _make_unknown(inventory, gettext("it depends on {things}", things=join_with_and(found.undecided)))
        return self._predict_later(inventory)

    def _predict_later(self, inventory: Inventory) -> Verdict:
        pod, nodes = self._pod, self._nodes
        could = find_candidate_nodes(pod, self._groups)
        rivals = find_pods_ahead(pod, self._occupancy.pending_pods, nodes=could, gpu=self._gpu)
        growing = [each for each in self._scalable_pools if check_new_node(each, pod, gpu=self._gpu) is Answer.YES]
        ahead = select_runnable_pods(rivals, nodes=could, pools=growing)
        by_preference = sorted(growing, key=_rank_node_pool)
        first = next((each for each in by_preference if has_room_after(each, pod, ahead=rivals)), None)
        why = ""
        if could:
            why = make_sentence(explain_wait(could, pod, nodes=nodes, gpu=self._gpu, occupancy=self._occupancy))
        if first is not None:
            minutes = [each.minutes for each in (first, *self._scalable_pools) if each.minutes is not None]
            return Verdict(
                outcome=Outcome.AFTER_SCALE_UP,
                minutes=minutes[0] if minutes else None,
                pool=first.name,
                is_sure=first.machines is None,
                ahead=len(ahead),
                reason=why,
                age_s=inventory.age_s,
            )
        if not could and not growing and not self._survey.fit_if_empty:
            return _make_unknown(inventory, _NEW_NODE_IN_DOUBT)
        could_grow = any(has_room_after(each, pod, ahead=()) for each in growing)
        why = why or make_sentence(translate_now(_NEW_NODES_TAKEN if could_grow else _FULL if growing else _TAKEN))
        return Verdict(outcome=Outcome.WAITS, ahead=len(ahead), reason=why, age_s=inventory.age_s)

    def _find_nodes(self) -> None:
        nodes, alike = self._occupancy.node_groups, build_node_grouping(self._pod)
        if self._gpu is None:
            self._groups = [list(group.values()) for group in nodes.group_nodes(alike)]
        else:
            (stock,) = group_nodes_by_type(
                [self._gpu], nodes, tolerations=self._pod.constraints.tolerations, layout=alike
            )
            self._groups = list(stock.list_node_groups())
            self._reserved = stock.has_reserved_nodes()
        self._nodes = [node for group in self._groups for node in group]

    def _find_node_pools(self) -> None:
        own = build_scale_up_pools(self._gpu, self._nodes) if self._gpu is not None else ()
        pools = self._inventory.scalable_pools or ()
        self._scalable_pools = (*own, *derive_pools_from_nodes(pools, self._nodes), *pools)


def _make_unknown(inventory: Inventory, reason: str) -> Verdict:
    return Verdict(outcome=Outcome.UNKNOWN, reason=make_sentence(translate_now(reason)), age_s=inventory.age_s)


def _rank_node_pool(scalable_pool: ScalableNodePool) -> tuple[bool, float, bool]:
    return scalable_pool.minutes is None, scalable_pool.minutes or 0.0, scalable_pool.machines is not None
