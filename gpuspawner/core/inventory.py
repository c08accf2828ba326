"""What the cluster has and what is taken, as plain values; who fetched them and when is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    :param schedulable: Ready and not cordoned.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    schedulable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The few facts of a pod that is not finished.

    :param node: name of the node it is bound to, None while it waits.
    :param requests: effective requests, in the units of :class:`Node`.
    """

    name: str
    namespace: str
    node: str | None
    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A snapshot of the cluster.

    :param nodes: None when nodes could not be read: capacity is then unknown, never zero.
    :param pods: None when the pods of all namespaces could not be read: what is free is then unknown.
    :param reason: one sentence for people why something is unknown, empty when all was read.
    """

    nodes: tuple[Node, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    reason: str = ""
