"""What a look at a node, or at all of them, found: whether a pod could run there, and what stands in its way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """Whether kube-scheduler would put a pod there now."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a node does not take a pod: one for each of kube-scheduler's filters, in its order.

    The first ones, up to ``VOLUME_NODE_AFFINITY``, cannot be cured by pods that end.
    """

    GATED = "gated"
    UNSCHEDULABLE = "unschedulable"
    NODE_NAME = "node_name"
    TAINT = "taint"
    NODE_AFFINITY = "node_affinity"
    VOLUME_NODE_AFFINITY = "volume_node_affinity"
    HOST_PORT = "host_port"
    TOO_MANY_PODS = "too_many_pods"
    INSUFFICIENT = "insufficient"
    SPREAD = "spread"
    POD_AFFINITY = "pod_affinity"
    POD_ANTI_AFFINITY = "pod_anti_affinity"
    EXISTING_ANTI_AFFINITY = "existing_anti_affinity"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps a pod off a node.

    :param detail: resource name for ``INSUFFICIENT``, key of the taint or of the topology, words for ``UNDECIDED``.
    """

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """One pod, one node.

    :param obstacles: empty for YES; for UNKNOWN only such that say what is not decided.
    """

    answer: Answer
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObstacleGroup:
    """Nodes with the same obstacles; without any they take the pod now.

    :param nodes: how many.
    """

    nodes: int
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """One pod, all nodes.

    :param answer: YES where at least one node takes the pod now.
    :param places: how many copies of the pod could be put now, over all nodes, counted up to a limit.
    :param places_exact: ``places`` is the number; otherwise it is at least that many (more than the limit, or copies
        that have a say in where the others go).
    :param fit_if_empty: nodes that would take the pod if they were empty.
    :param groups: every node is in exactly one, largest group first.
    :param undecided: what could not be decided, in people's words.
    """

    answer: Answer
    places: int
    places_exact: bool
    fit_if_empty: int
    groups: tuple[ObstacleGroup, ...]
    undecided: tuple[str, ...] = ()


_RANKS = {reason: rank for rank, reason in enumerate(Reason)}


def sort_obstacles(found: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    """Return obstacles each once, in the order of the filters; what is undecided only where nothing else is found."""
    obstacles = sorted(dict.fromkeys(found), key=lambda obstacle: _RANKS[obstacle.reason])
    decided = tuple(obstacle for obstacle in obstacles if obstacle.reason is not Reason.UNDECIDED)
    return decided or tuple(obstacles)


def derive_answer(obstacles: tuple[Obstacle, ...]) -> Answer:
    """Return what obstacles in order amount to."""
    if not obstacles:
        return Answer.YES
    return Answer.UNKNOWN if obstacles[0].reason is Reason.UNDECIDED else Answer.NO
