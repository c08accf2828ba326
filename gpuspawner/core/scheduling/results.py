"""Define the results of checking a pod against one node or all nodes: the answer, and the obstacles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """Whether kube-scheduler would bind a pod now."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a node does not accept a pod, in the order of kube-scheduler's filters.

    The reasons up to ``VOLUME_NODE_AFFINITY`` do not depend on other pods. ``UNDECIDED`` means that gpuspawner cannot
    check a constraint, so the node may accept the pod or not.
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
    VOLUME_LIMIT = "volume_limit"
    SPREAD = "spread"
    POD_AFFINITY = "pod_affinity"
    POD_ANTI_AFFINITY = "pod_anti_affinity"
    EXISTING_ANTI_AFFINITY = "existing_anti_affinity"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A reason why a node does not accept a pod.

    :param reason: why the node does not accept the pod; most reasons stand for one filter of kube-scheduler.
    :param detail: for ``INSUFFICIENT``, the name of the resource; for ``TAINT``, the taint's key; for ``SPREAD`` and
        pod affinity or anti-affinity, the topology key; for ``UNDECIDED``, a text for users. Otherwise empty.
    """

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The result for one pod and one node.

    :param obstacles: why the node does not accept the pod: empty for YES, only ``UNDECIDED`` reasons for UNKNOWN.
    """

    answer: Answer
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """The result for one pod and all nodes.

    :param answer: YES if at least one node accepts the pod now. Otherwise UNKNOWN if at least one node may accept the
        pod, and NO if every node rejects the pod.
    :param places: number of copies of the pod that all nodes together accept now, at most the ``limit`` of
        :func:`.scan_nodes`.
    :param places_exact: False if ``places`` is only a lower bound: more copies fit than the limit, a node's answer is
        UNKNOWN, or copies of the pod restrict each other (affinity, anti-affinity, topology spread).
    :param fit_if_empty: number of nodes that would accept the pod if no other pods ran. Volume limits of CSI drivers
        are ignored: a driver may raise its limit, and kube-scheduler counts a volume that several pods share only once.
    :param undecided: constraints that were not checked, each as a text for users.
    """

    answer: Answer
    places: int
    places_exact: bool
    fit_if_empty: int
    undecided: tuple[str, ...] = ()


_RANKS = {reason: rank for rank, reason in enumerate(Reason)}


def sort_obstacles(found: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    """Return the obstacles of one node without duplicates, in the order of kube-scheduler's filters.

    If an obstacle other than ``UNDECIDED`` excludes the node, the result lacks the ``UNDECIDED`` ones.
    """
    obstacles = sorted(dict.fromkeys(found), key=lambda obstacle: _RANKS[obstacle.reason])
    decided = tuple(obstacle for obstacle in obstacles if obstacle.reason is not Reason.UNDECIDED)
    return decided or tuple(obstacles)


def derive_answer(obstacles: tuple[Obstacle, ...]) -> Answer:
    """Return whether a node accepts a pod: yes, no or unknown.

    :param obstacles: all reasons why the node may not accept the pod, sorted by :func:`sort_obstacles`.
    """
    if not obstacles:
        return Answer.YES
    return Answer.UNKNOWN if obstacles[0].reason is Reason.UNDECIDED else Answer.NO
