"""What the cluster has and what is taken, as plain values; who fetched them and when is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuspawner.core.cluster.demands import NO_DEMANDS, Demands

if TYPE_CHECKING:
    from gpuspawner.core.autoscaling.growth import Growth
    from gpuspawner.core.cluster.occupancy import Occupancy


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
    :param published: names of resources of which a DRA driver shows devices there, counted or not.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    unschedulable: bool = False
    ready: bool = True
    uncounted: frozenset[str] = frozenset()
    published: frozenset[str] = frozenset()

    @property
    def schedulable(self) -> bool:
        """Ready and not cordoned."""
        return self.ready and not self.unschedulable


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The few facts of a pod that is not finished.

    :param node: name of the node it is bound to, None while it waits.
    :param requests: effective requests, in the units of :class:`Node`.
    :param deleting: it was told to go (``metadata.deletionTimestamp``), and still holds what it requested.
    :param created: ``metadata.creationTimestamp`` as the API server wrote it, so texts sort by age; empty if unknown.
    :param demands: of a bound pod only what still matters to others: its anti-affinity and its host ports.
    :param nominated: name of the node that is being cleared for it (``status.nominatedNodeName``).
    """

    name: str
    namespace: str
    node: str | None
    requests: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    priority: int = 0
    created: str = ""
    demands: Demands = NO_DEMANDS
    nominated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A snapshot of the cluster.

    :param nodes: None when nodes could not be read: capacity is then unknown, never zero.
    :param pods: None when the pods of all namespaces could not be read: what is free is then unknown.
    :param reason: one sentence for people why something is unknown, empty when all was read.
    :param occupancy: nodes and pods as they are kept up to date; None when the pods of all namespaces are not known.
    :param growths: what autoscalers say that they may add; None when that could not be read, empty where nobody says.
    :param device_resources: extended resources that stand for devices of DRA drivers; None when that could not be read.
    :param age_s: seconds since the API server last confirmed all this; None when unknown, or when it never did.
    :param generation: grows when anything changes.
    """

    nodes: tuple[Node, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    reason: str = ""
    occupancy: Occupancy | None = None
    growths: tuple[Growth, ...] | None = ()
    device_resources: frozenset[str] | None = frozenset()
    age_s: float | None = None
    generation: int = 0
