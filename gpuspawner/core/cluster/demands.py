"""What a pod demands of the node it runs on besides resources, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuspawner.core.catalog.catalogue import Toleration
from gpuspawner.core.cluster.node_terms import NodeTerm
from gpuspawner.core.cluster.pod_terms import PodTerm, SpreadConstraint


class HostPort(NamedTuple):
    """A port of the node that a pod takes for itself.

    :param ip: address of the node, ``0.0.0.0`` for all of them.
    """

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What the filters of kube-scheduler look at besides resources.

    :param node_selector: labels the node must carry with exactly this value.
    :param node_terms: required node affinity, one of them must match; None: no affinity, ``()``: matches no node.
    :param volume_terms: node affinity of each bound PersistentVolume; of each, one term must match.
    :param affinity: required terms only, as are ``anti_affinity``.
    :param spread: constraints with ``DoNotSchedule`` only.
    :param gated: the pod has scheduling gates, so nobody looks for a node yet.
    :param claims: names of PersistentVolumeClaims whose volumes nobody looked at yet. Whoever did replaces them by
        ``volume_terms``, or by words in ``undecided`` (what a claim without a volume waits for is not decided here).
    :param undecided: what the pod demands and this code does not decide, in people's words.
    :param has_runtime_class: it names a RuntimeClass, which may add tolerations when the pod is created.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] | None = None
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: frozenset[HostPort] = frozenset()
    gated: bool = False
    claims: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    has_runtime_class: bool = False

    @property
    def choice(self) -> tuple[int, int]:
        """What stands for the nodes that a pod asks for, the same for its replicas; only as long as this is kept."""
        return id(self.node_selector), id(self.node_terms)


NO_DEMANDS = Demands()
"""Shared by all pods that demand nothing, of which there are very many."""
