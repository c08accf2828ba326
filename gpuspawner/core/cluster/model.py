"""Model nodes, pods, their constraints and scalable node pools as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from gpuspawner.core.value_types import DOMAIN_PATTERN, NAME_PATTERN, FromSettings, LabelValue, OneOf, Pattern, setting

NOTEBOOK = "notebook"
"""Name that KubeSpawner gives the server's container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorRequirement:
    """One requirement on a label of a node or a pod (one entry of ``matchExpressions``).

    :param operator: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``; for nodes also ``Gt`` and ``Lt``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """A node selector term: a node must meet all requirements of the term. A term without requirements matches no node.

    :param expressions: requirements on the node's labels.
    :param fields: requirements on the node's fields (``metadata.name``).
    """

    expressions: tuple[SelectorRequirement, ...] = ()
    fields: tuple[SelectorRequirement, ...] = ()


LabelSelector = tuple[SelectorRequirement, ...] | None
"""Requirements that must all be met (meta/v1 LabelSelector): ``()`` selects everything, None selects nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityTerm:
    """One required term of pod affinity or anti-affinity.

    :param topology_key: node label; nodes with the same value of it are one topology domain.
    :param namespaces: names of the namespaces in which the term selects pods.
    :param namespace_selector: selects further namespaces by their labels; None selects none, ``()`` selects all.
    """

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """One topology spread constraint with ``whenUnsatisfiable: DoNotSchedule``.

    :param max_skew: how many more selected pods a domain may have than the domain with the fewest.
    :param topology_key: node label; nodes with the same value of it are one topology domain.
    :param selector: selects the pods to count.
    :param min_domains: if there are fewer domains than this, the domain with the fewest pods counts as having 0 pods.
    :param honor_affinity: count only nodes that match the pod's node selector and node affinity.
    :param honor_taints: count only nodes whose taints the pod tolerates.
    """

    max_skew: int
    topology_key: str
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


_TaintKey = Annotated[
    str,
    Pattern(rf"^(({DOMAIN_PATTERN}/)?{NAME_PATTERN})?$", rule="must be the key of a taint, such as nvidia.com/gpu"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration(FromSettings):
    """A toleration (core/v1), without ``tolerationSeconds``."""

    # Pods may also have the operators Gt and Lt, for taints whose value is a number. Others tolerate nothing.

    key: Annotated[_TaintKey, setting("Of the taint; empty with operator Exists: every taint.")] = ""
    operator: Annotated[
        str, OneOf("Exists", "Equal"), setting("Equal: the taint must have this value. Exists: any value.")
    ] = "Equal"
    value: Annotated[LabelValue, setting("Value of the taint, with operator Equal.")] = ""
    effect: Annotated[
        str, OneOf("NoSchedule", "PreferNoSchedule", "NoExecute"), setting("Effect of the taint. Omitted: any.")
    ] = ""


PossibleLabels = Mapping[str, tuple[str, ...]]
"""Label → values that the label may have on a node that does not exist yet; ``()`` if the node will not have the label.
A label that is missing in the mapping may have any value."""


class HostPort(NamedTuple):
    """A host port of a pod.

    :param ip: address of the node, ``0.0.0.0`` for all addresses.
    """

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConstraints:
    """A pod's constraints on its node besides resources, as kube-scheduler's filters read them.

    :param node_selector: label → value that the node must have.
    :param node_terms: required node affinity; the node must match at least one term. None if the pod has no required
        node affinity. With ``()``, no node matches.
    :param volume_terms: sets of node selector terms, decoded from the PersistentVolumes that the pod uses; the node
        must match at least one term of each set.
    :param tolerations: the pod's tolerations, and those that the API server will add.
    :param affinity: required pod affinity terms.
    :param anti_affinity: required pod anti-affinity terms.
    :param spread_constraints: topology spread constraints with ``DoNotSchedule``.
    :param host_ports: host ports of containers and sidecars.
    :param is_gated: the pod has scheduling gates, so kube-scheduler does not schedule it yet.
    :param unread_claims: names of PersistentVolumeClaims that are not read yet, so their volumes are still missing in
        ``volume_terms`` and ``undecided``.
    :param undecided: constraints that gpuspawner does not check, each as a text for users.
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

    @property
    def node_affinity_key(self) -> tuple[int, int]:
        """The ``id()`` of the node selector and of the node affinity: a key for caches of results that depend on both.

        The key is valid as long as this constraints object lives.
        """
        return id(self.node_selector), id(self.node_terms)

    @property
    def topology_keys(self) -> frozenset[str]:
        """Labels that the pod's node must have because of pod affinity terms and spread constraints."""
        near = frozenset(each.topology_key for each in self.affinity)
        return near | frozenset(each.topology_key for each in self.spread_constraints)


NO_CONSTRAINTS = PodConstraints()
"""The constraints of a pod that has none; all pods without constraints share this object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node taint (core/v1).

    :param key: never empty.
    :param effect: ``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``.
    :param value: may be empty.
    """

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, with the facts that scheduling and counting need.

    :param allocatable: resource → whole base units (``cpu``: millicores, ``memory``: bytes, devices: their number).
    :param capacity: resource → whole base units; for GPUs, ``capacity - allocatable`` is the number of broken devices.
    :param unschedulable: the node is cordoned (``spec.unschedulable``).
    :param ready: the node's condition Ready is True.
    :param uncounted: extended resources of which the node has an unknown number of DRA devices; ``allocatable`` and
        ``capacity`` do not include these devices.
    :param published_by_dra: resources for which a DRA driver publishes devices on the node, even if their number is
        unknown.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that has neither succeeded nor failed, with the facts that scheduling and counting need.

    :param node: name of the node that the pod is bound to, None while it is pending.
    :param requests: effective requests, in the units of :class:`Node`.
    :param terminating: the pod is being deleted (``metadata.deletionTimestamp``); its requests still count.
    :param priority: ``spec.priority``, 0 if unset.
    :param preempts: whether kube-scheduler may end pods of lower priority to make room for the pod. False for
        ``preemptionPolicy: Never``; None if the pod does not exist yet and its priority is unknown.
    :param created: ``metadata.creationTimestamp`` as text (RFC 3339), which sorts by age; empty if unknown.
    :param constraints: all constraints of a pending pod; of a bound pod only anti-affinity and host ports.
    :param nominated_node: name of the node where preemption makes room for the pod (``status.nominatedNodeName``).
    :param claims: names of the PersistentVolumeClaims that the pod uses.
    :param attachments: name of the resource that stands for a CSI driver (:data:`.VOLUMES_PREFIX`) → number of volumes
        that the driver attaches for the pod, only for drivers with a limit. Empty for a bound pod: gpuspawner counts
        the volumes of a node's bound pods together, because several pods may use one volume.
    """

    name: str
    namespace: str
    node: str | None
    requests: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False
    priority: int = 0
    preempts: bool | None = True
    created: str = ""
    constraints: PodConstraints = NO_CONSTRAINTS
    nominated_node: str | None = None
    claims: tuple[str, ...] = ()
    attachments: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A PriorityClass (scheduling.k8s.io/v1).

    :param value: priority of the pods of the class.
    :param preempts: False for ``preemptionPolicy: Never``.
    :param is_default: pods that name no class get this class (``globalDefault``).
    """

    name: str
    value: int
    preempts: bool = True
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClass:
    """A RuntimeClass (node.k8s.io/v1).

    The API server adds the node selector, tolerations and overhead to the ``spec`` of each pod that names the class.

    :param overhead: resource → quantity as in JSON; None if the RuntimeClass sets no overhead.
    """

    name: str
    node_selector: Mapping[str, object] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, object], ...] = ()
    overhead: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineConstraints:
    """Constraints on the machines that an autoscaler may choose for one node pool, in the units of :class:`Node`.

    :param limits: resource → largest total amount of all nodes of the pool. The key ``nodes`` stands for the number of
        nodes. A resource without a limit is left out.
    :param remaining: resource → part of the resource's limit that is left for new nodes. The value of ``nodes`` is 0
        while the pool's condition ``Ready`` is False, even if the pool has no limit for nodes.
    :param taints: permanent taints of new nodes.
    :param requirements: requirements that the labels of a new node will meet.
    :param is_reliable: False if gpuspawner cannot tell whether the autoscaler adds a node for a pod that fits the pool,
        for example because the pool has ``replicas``, or because its condition ``Ready`` is missing.
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    remaining: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    requirements: tuple[SelectorRequirement, ...] = ()
    is_reliable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableNodePool:
    """A node pool to which an autoscaler may add nodes.

    :param name: name of Karpenter's NodePool, or display name of the GPU type with the setting ``scale_up``.
    :param minutes: time until a new node is ready, None if unknown.
    :param node_allocatable: resource → allocatable amount of a new node, in the units of :class:`Node`. A missing
        extended resource (with a ``/`` in its name) counts as 0, any other missing resource as unlimited.
    :param max_new_nodes: number of nodes that may be added, None for no limit.
    :param labels: label → values that the label may have on a new node.
    :param examples: existing nodes of the pool, sometimes reduced to labels and taints. A new node will have the labels
        and taints of one of them.
    :param machines: constraints on machines if the autoscaler chooses a machine for the pending pods;
        ``node_allocatable`` is then empty. None if the machine type is fixed.
    """

    name: str
    minutes: float | None
    node_allocatable: Mapping[str, int]
    max_new_nodes: int | None
    labels: PossibleLabels = field(default_factory=dict)
    examples: tuple[Node, ...] = ()
    machines: MachineConstraints | None = None
