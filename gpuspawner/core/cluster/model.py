"""Nodes, pods and what they demand of each other, as plain values.

Everything else in this room computes with these; nothing here knows who read them, or when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorRequirement:
    """One requirement on labels, of a node or of a pod.

    :param operator: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``; for nodes also ``Gt`` and ``Lt``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """Requirements that a node must all fulfil; a term without any matches no node.

    :param expressions: on the node's labels.
    :param fields: on the node's fields (``metadata.name``).
    """

    expressions: tuple[SelectorRequirement, ...] = ()
    fields: tuple[SelectorRequirement, ...] = ()


LabelSelector = tuple[SelectorRequirement, ...] | None
"""A label selector: all requirements must hold; ``()`` selects everything, None nothing (meta/v1 LabelSelector)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityTerm:
    """One required term of pod affinity or anti-affinity.

    :param topology_key: the node label that says what is near: nodes with the same value are one place.
    :param selector: which pods are meant.
    :param namespaces: in which namespaces they are looked for.
    :param namespace_selector: by labels, in which more; None for no more, ``()`` for all.
    """

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """One topology spread constraint with ``whenUnsatisfiable: DoNotSchedule``.

    :param max_skew: by how many pods a domain may be ahead of the emptiest one.
    :param topology_key: nodes with the same value of this label are one domain.
    :param min_domains: with fewer domains than this the emptiest one counts as empty.
    :param honor_affinity: only nodes that the pod's node selector and affinity allow make up domains.
    :param honor_taints: only nodes whose taints the pod tolerates do.
    """

    max_skew: int
    topology_key: str
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration as Kubernetes' core/v1 API holds it; an empty key with ``Exists`` tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


PossibleLabels = Mapping[str, tuple[str, ...]]
"""Label → values that a node may have; no values: the label will not be there. Others are not known."""


class HostPort(NamedTuple):
    """A port of the node that a pod takes for itself.

    :param ip: address of the node, ``0.0.0.0`` for all of them.
    """

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConstraints:
    """What the filters of kube-scheduler look at besides resources.

    :param node_selector: labels the node must carry with exactly this value.
    :param node_terms: required node affinity, one of them must match; None: no affinity, ``()``: matches no node.
    :param volume_terms: node affinity of each bound PersistentVolume; of each, one term must match.
    :param affinity: required terms only, as are ``anti_affinity``.
    :param spread_constraints: constraints with ``DoNotSchedule`` only.
    :param is_gated: the pod has scheduling gates, so nobody looks for a node yet.
    :param unread_claims: names of PersistentVolumeClaims whose volumes nobody looked at yet. Whoever did replaces them
        by
        ``volume_terms``, or by words in ``undecided`` (what a claim without a volume waits for is not decided here).
    :param undecided: what the pod demands and this code does not decide, in people's words.
    :param has_runtime_class: it names a RuntimeClass, which may add tolerations when the pod is created.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    volume_terms: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    host_ports: frozenset[HostPort] = frozenset()
    is_gated: bool = False
    unread_claims: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    has_runtime_class: bool = False

    @property
    def node_affinity_key(self) -> tuple[int, int]:
        """What stands for the nodes that a pod asks for, the same for its replicas; only as long as this is kept."""
        return id(self.node_selector), id(self.node_terms)


NO_CONSTRAINTS = PodConstraints()
"""Shared by all pods that demand nothing, of which there are very many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node taint (core/v1)."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The few facts of a node that placement and counting need.

    :param allocatable: resource name → whole base units (``cpu`` in millicores, ``memory`` in bytes, others counts).
    :param capacity: same form; ``capacity - allocatable`` of a GPU resource is broken hardware.
    :param unschedulable: cordoned (``spec.unschedulable``).
    :param ready: its condition Ready is True.
    :param uncounted: names of resources that it may have, nobody can tell how many; both amounts lack them.
    :param published_by_dra: names of resources of which a DRA driver shows devices there, counted or not.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    unschedulable: bool = False
    ready: bool = True
    uncounted: frozenset[str] = frozenset()
    published_by_dra: frozenset[str] = frozenset()

    @property
    def schedulable(self) -> bool:
        """Ready and not cordoned."""
        return self.ready and not self.unschedulable


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The few facts of a pod that is not finished.

    :param node: name of the node it is bound to, None while it waits.
    :param requests: effective requests, in the units of :class:`Node`.
    :param terminating: it was told to go (``metadata.deletionTimestamp``), and still holds what it requested.
    :param created: ``metadata.creationTimestamp`` as the API server wrote it, so texts sort by age; empty if unknown.
    :param constraints: of a bound pod only what still matters to others: its anti-affinity and its host ports.
    :param nominated_node: name of the node that is being cleared for it (``status.nominatedNodeName``).
    """

    name: str
    namespace: str
    node: str | None
    requests: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False
    priority: int = 0
    created: str = ""
    constraints: PodConstraints = NO_CONSTRAINTS
    nominated_node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineConstraints:
    """What the nodes of one pool may be. Amounts are in the units of :class:`~gpuspawner.core.cluster.model.Node`.

    :param sizes: resource name → amounts that one machine may have, ascending; what is missing is not known.
    :param limits: resource name → what all nodes together may have; ``nodes`` counts them.
    :param remaining: of these, what new nodes may still have; 0 ``nodes`` also while none can be added for another
        reason.
    :param taints: those that stay: a pod has to tolerate them.
    :param requirements: what is asked of a machine, as its node's labels will say it.
    :param is_reliable: everything that is said of them was understood, and nothing says that new nodes fail.
    """

    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    remaining: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    requirements: tuple[SelectorRequirement, ...] = ()
    is_reliable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableNodePool:
    """A pool of nodes that may grow.

    :param name: what people call it.
    :param minutes: how long a new node takes to be ready, None when not known.
    :param node_allocatable: resource name → what a new node has for pods, in the units of
        :class:`~gpuspawner.core.cluster.model.Node`. What every node has (CPU, memory) and is missing is taken to
        suffice;
        of extended resources (with a ``/`` in the name) it has none that are missing.
    :param max_new_nodes: nodes it may grow by, None for no limit.
    :param labels: what is known of a new node's labels.
    :param examples: nodes of the pool that are there: a new one will be like them in labels and taints.
    :param machines: what may become a node, where that is picked to fit the pods that wait; ``node_allocatable`` is
        then empty.
    """

    name: str
    minutes: float | None
    node_allocatable: Mapping[str, int]
    max_new_nodes: int | None
    labels: PossibleLabels = field(default_factory=dict)
    examples: tuple[Node, ...] = ()
    machines: MachineConstraints | None = None
