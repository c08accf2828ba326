"""What becomes of a server that somebody would start now: for the pod that would really be created, in one value.

A verdict is advice. NEVER alone stops a start, so it is said only where what is known is fresh, no node that is there
would take the pod if it were empty and in order, nothing that the admin or an autoscaler says may be added would, no
autoscaler left a trace from which one could not be sure, and no devices may be there unseen. All other doubts are
UNKNOWN.

Who waits for the same as a pod, and would be served before it.

Devices that may be there although nothing is known of them.

What DRA drivers publish of a node comes and goes: kubelet deletes it whenever it starts, because nobody could use the
devices until their driver is back (pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, ``wipeResourceSlices``). Of device
plugins it says 0 for that time. And not every hub may read which resources stand for devices of a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuspawner.core.autoscaling.karpenter import derive_pools_from_nodes
from gpuspawner.core.autoscaling.node_pools import (
    add_gpu_sizes,
    build_scale_up_pools,
    check_new_node,
    find_autoscaler_traces,
    has_room_after,
    may_match_pool,
)
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.nodes_by_type import group_nodes_by_type, may_have_units
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, ScalableNodePool
from gpuspawner.core.cluster.node_affinity import matches_node_affinity, may_match_node_affinity
from gpuspawner.core.cluster.node_table import NodeTable
from gpuspawner.core.cluster.state import Inventory, Occupancy, get_occupancy
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.scheduling.node_filters import build_node_grouping
from gpuspawner.core.scheduling.results import Answer, ScanResult
from gpuspawner.core.scheduling.scan import fits_somewhere, scan_nodes
from gpuspawner.core.text.i18n import gettext, gettext_lazy, translate_now
from gpuspawner.core.text.wording import join_with_and, make_sentence
from gpuspawner.core.verdict.reasons import explain_never, explain_wait, find_candidate_nodes

_MAX_COMPARED_CHOICES = 64
"""Different demands of pods that wait which are compared with each node: anybody may think of thousands."""


def find_pods_ahead(
    pod: Pod, waiting: Iterable[Pod], *, nodes: Sequence[Node], gpu: GPUType | None = None
) -> tuple[Pod, ...]:
    """Return pods that wait for the same as a pod and come before it, in no order.

    They want one of its devices (or, like itself, none), and a node that would do for it. kube-scheduler takes those
    of higher priority first, then those that have waited longer (queuesort/priority_sort.go); a pod that does not exist
    yet comes after all of its priority.

    :param nodes: those that would do for the pod.
    :param gpu: the type that all of them are of; it says what a node will be like while there is none.
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


def _list_devices(pod: Pod) -> frozenset[str]:
    """Return the extended resources that a pod asks for: what nodes have few of, and most have none."""
    return frozenset(name for name, number in pod.requests.items() if number and "/" in name)


def _is_before(other: Pod, pod: Pod) -> bool:
    if other.terminating or other.constraints.is_gated or other.priority < pod.priority:
        return False
    return other.priority > pod.priority or not pod.created or other.created <= pod.created


def _share_a_node(own: PodConstraints, other: PodConstraints, *, nodes: Sequence[Node], gpu: GPUType | None) -> bool:
    if own is other or (own.node_selector == other.node_selector and own.node_terms == other.node_terms):
        return True
    # Said at once of nearly all who want another type, and all that can be said while there is no node.
    if gpu is not None and not any(may_match_node_affinity(match, other) for match in gpu.label_matches):
        return False
    if not nodes:
        return gpu is not None
    return any(matches_node_affinity(node, other) and tolerates_taints(node, other.tolerations) for node in nodes)


def may_need_unseen_devices(pod: Pod, table: NodeTable, *, dra_resources: frozenset[str] | None) -> bool:
    """Tell whether a pod that no node would take may ask for devices that are there and not seen.

    So it is where no node has the resource at all, and where all that a node lacks may be such devices.

    :param dra_resources: as ``dra_resources`` of :class:`~gpuspawner.core.cluster.state.Inventory`.
    """
    extended = {name for name, number in pod.requests.items() if number and "/" in name}
    if not extended:
        return False
    asked = extended if dra_resources is None else extended & dra_resources
    if not all(any(may_have_units(node, name) for node in table) for name in asked):
        return True
    groups = ([table.get_by_row(row) for row in pool.rows] for pool in table.group_nodes(build_node_grouping(pod)))
    return bool(find_candidate_nodes(pod, groups, unseen=asked))


MAX_DATA_AGE_S = 60.0
"""Seconds: what is known of the cluster and older than this is not relied on."""

_MAX_PLACES = 100
"""Places that are counted at most; nobody needs to know of more."""

_UNREADABLE = gettext_lazy("the nodes of the cluster cannot be read")
_UNREADABLE_PODS = gettext_lazy("what is free cannot be read")
_UNCONFIRMED = gettext_lazy("what is known of the cluster is not up to date")
_GATED = gettext_lazy("another system decides when it may start")
_NEW_NODES_TAKEN = gettext_lazy("all nodes that may be added are spoken for")
_UNSEEN_DEVICES = gettext_lazy("devices that cannot be seen right now")
_RUNTIME_CLASS = gettext_lazy("what the cluster adds for its runtime class")
_NEW_NODE = gettext_lazy("a new node")
_FULL = gettext_lazy("no more nodes may be added right now")
_TAKEN = gettext_lazy("all nodes that would do are taken")
_NEW_NODE_IN_DOUBT = gettext_lazy("whether a new node would do for it cannot be told beforehand")


class Outcome(StrEnum):
    """What becomes of it."""

    NOW = "now"
    AFTER_SCALE_UP = "after-scale-up"
    WAITS = "waits"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a server, and why. What does not belong to the outcome is None or empty.

    :param places: for NOW, how many such servers could start.
    :param places_exact: there are that many; otherwise at least that many.
    :param minutes: for AFTER_SCALE_UP, how long a new node takes; None when not known.
    :param pool: for AFTER_SCALE_UP, what people call the nodes that are added to.
    :param is_sure: for AFTER_SCALE_UP, a node that is large enough can be had; otherwise nothing known is against it.
    :param ahead: for WAITS and AFTER_SCALE_UP, how many pods wait for the same and come first.
    :param reason: one sentence for people why it is not NOW, empty where the outcome says it all.
    :param age_s: seconds since what is known of the cluster was confirmed; None when unknown.
    """

    outcome: Outcome
    places: int | None = None
    places_exact: bool = True
    minutes: float | None = None
    pool: str = ""
    is_sure: bool = True
    ahead: int | None = None
    reason: str = ""
    age_s: float | None = None


def predict_verdict(pod: Pod, inventory: Inventory, *, gpu: GPUType | None = None) -> Verdict:
    """Return what becomes of a pod that does not exist yet, or still waits.

    :param pod: as it would be created, with what the admin and KubeSpawner put into it.
    :param gpu: the type chosen; its name is used in reasons, its ``scale_up`` says what may be added.
    """
    known = get_occupancy(inventory)
    if known is None:
        return _make_unknown(inventory, inventory.reason or _UNREADABLE)
    if not _is_fresh(inventory):
        return _make_unknown(inventory, inventory.reason or _UNCONFIRMED)
    case = _PodCase(pod, known.occupancy, gpu=gpu, pools=inventory.scalable_pools)
    blocked = case.explain_blocked()
    doubt = case.explain_doubt(inventory) if blocked else ""
    if blocked and not doubt:
        return Verdict(outcome=Outcome.NEVER, reason=make_sentence(blocked), age_s=inventory.age_s)
    if not known.pods_known:
        return _make_unknown(inventory, inventory.reason or _UNREADABLE_PODS)
    if blocked:
        return _make_unknown(inventory, gettext("{reason}; {doubt} may change that", reason=blocked, doubt=doubt))
    return case.predict(inventory)


def starts_now(pod: Pod, inventory: Inventory) -> bool:
    """Tell whether the verdict is NOW: for questions about many pods, which nobody wants a reason for."""
    known = get_occupancy(inventory)
    if known is None or not known.pods_known or not _is_fresh(inventory):
        return False
    return fits_somewhere(pod, known.occupancy)


def _is_fresh(inventory: Inventory) -> bool:
    return inventory.age_s is not None and inventory.age_s <= MAX_DATA_AGE_S


class _PodCase:
    """One pod in one cluster."""

    def __init__(
        self, pod: Pod, occupancy: Occupancy, *, gpu: GPUType | None, pools: tuple[ScalableNodePool, ...] | None
    ) -> None:
        self._pod = pod
        self._occupancy = occupancy
        self._gpu = gpu
        self._survey: ScanResult = scan_nodes(pod, occupancy, limit=_MAX_PLACES)
        self._pools = pools
        self._scalable_pools: tuple[ScalableNodePool, ...] = ()
        self._groups: list[Sequence[Node]] = []
        self._nodes: list[Node] = []
        self._reserved = False
        # Most pods fit, and then nobody asks for what they would not fit into.
        if self._survey.answer is Answer.NO:
            self._find_nodes()
            self._find_node_pools()

    def explain_blocked(self) -> str:
        """Return why no node that is there or declared would ever take the pod, empty when one might."""
        # Whoever takes the gates away may add tolerations and a node selector, as Kueue does.
        if self._survey.fit_if_empty or self._survey.answer is not Answer.NO or self._pod.constraints.is_gated:
            return ""
        pod, growing = self._pod, self._scalable_pools
        # A pool that is as large as it may be grows again when a node of it has gone.
        pools = [replace(each, max_new_nodes=None) for each in growing]
        if find_candidate_nodes(pod, self._groups) or any(check_new_node(each, pod) is not Answer.NO for each in pools):
            return ""
        for_it = [each for each in growing if may_match_pool(each, pod.constraints)]
        return explain_never(pod, self._groups, gpu=self._gpu, reserved=self._reserved, scalable_pools=for_it)

    def explain_doubt(self, inventory: Inventory) -> str:
        """Return what may change that a pod is blocked, empty where nothing does."""
        if may_need_unseen_devices(self._pod, self._occupancy.table, dra_resources=inventory.dra_resources):
            return _UNSEEN_DEVICES
        # Its tolerations are added when the pod is created (https://kubernetes.io/docs/concepts/containers/runtime-class/),
        # and nobody here reads them.
        if self._reserved and self._pod.constraints.has_runtime_class:
            return _RUNTIME_CLASS
        return _NEW_NODE if self._may_scale_up() else ""

    def _may_scale_up(self) -> bool:
        """Tell whether an autoscaler that nobody described may add a node for a pod that is blocked.

        What the admin says of a type, or of all that it stands for, is all there is to it, but for NodePools that are
        there and could not be read. Nodes of a pool are alike: where the type has some, another one will not do
        either, unless machines are chosen for the pods that wait.
        """
        if self._pools is None:
            return True
        if self._gpu is not None and all(each.scale_up for each in self._gpu.members or (self._gpu,)):
            return False
        left = find_autoscaler_traces(self._occupancy.table)
        return left.any_size or (left.fixed_size and (self._gpu is None or not self._nodes))

    def predict(self, inventory: Inventory) -> Verdict:
        """Return the verdict for a pod that some node may take, where what is known is fresh and complete."""
        found, age_s = self._survey, inventory.age_s
        if found.answer is Answer.YES:
            return Verdict(outcome=Outcome.NOW, places=found.places, places_exact=found.places_exact, age_s=age_s)
        if self._pod.constraints.is_gated:
            return _make_unknown(inventory, _GATED)
        if found.answer is Answer.UNKNOWN:
            return _make_unknown(inventory, gettext("it depends on {things}", things=join_with_and(found.undecided)))
        return self._predict_later(inventory)

    def _predict_later(self, inventory: Inventory) -> Verdict:
        """Return what a pod waits for that fits nowhere now."""
        pod, nodes = self._pod, self._nodes
        could = find_candidate_nodes(pod, self._groups)
        ahead = find_pods_ahead(pod, self._occupancy.pending_pods, nodes=could, gpu=self._gpu)
        growing = [each for each in self._scalable_pools if check_new_node(each, pod) is Answer.YES]
        by_preference = sorted(growing, key=_rank_node_pool)
        first = next((each for each in by_preference if has_room_after(each, pod, ahead=ahead)), None)
        why = (
            make_sentence(explain_wait(could, pod, nodes=nodes, gpu=self._gpu, occupancy=self._occupancy))
            if could
            else ""
        )
        if first is not None:
            told = [each.minutes for each in (first, *self._scalable_pools) if each.minutes is not None]
            return Verdict(
                outcome=Outcome.AFTER_SCALE_UP,
                minutes=told[0] if told else None,
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
        """Find the nodes of the GPU type that are not reserved for others; without a type, all."""
        table, alike = self._occupancy.table, build_node_grouping(self._pod)
        if self._gpu is None:
            self._groups = [[table.get_by_row(row) for row in pool.rows] for pool in table.group_nodes(alike)]
        else:
            (stock,) = group_nodes_by_type(
                [self._gpu], table, tolerations=self._pod.constraints.tolerations, layout=alike
            )
            self._groups = list(stock.list_node_groups(table))
            self._reserved = stock.has_reserved_nodes(table)
        self._nodes = [node for group in self._groups for node in group]

    def _find_node_pools(self) -> None:
        """Find what may be added: what the admin says of the GPU type, machines as they are there, and any others."""
        own = build_scale_up_pools(self._gpu, self._nodes) if self._gpu is not None else ()
        pools = [add_gpu_sizes(each, self._gpu) for each in self._pools or ()]
        self._scalable_pools = (*own, *derive_pools_from_nodes(pools, self._nodes), *pools)


def _make_unknown(inventory: Inventory, reason: str) -> Verdict:
    return Verdict(outcome=Outcome.UNKNOWN, reason=make_sentence(translate_now(reason)), age_s=inventory.age_s)


def _rank_node_pool(scalable_pool: ScalableNodePool) -> tuple[bool, float, bool]:
    """Return what puts growths in order: the soonest first, and what is sure before what is not."""
    return scalable_pool.minutes is None, scalable_pool.minutes or 0.0, scalable_pool.machines is not None
