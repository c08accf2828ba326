"""Why nodes do not take a pod, for admins: with names of resources and taints, in words near to kube-scheduler's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.overview import KnownOccupancy
from gpuspawner.core.scheduling.fit import check_each_node
from gpuspawner.core.scheduling.obstacles import Answer, FitResult, Obstacle, Reason
from gpuspawner.core.text.language import translate_now

_OBSTACLE_TEXTS = {
    Reason.GATED: "a scheduling gate has to go first",
    Reason.UNSCHEDULABLE: "cordoned",
    Reason.NODE_NAME: "the pod names another node",
    Reason.TAINT: "untolerated taint {detail}",
    Reason.NODE_AFFINITY: "the pod's node selector or affinity does not match",
    Reason.VOLUME_NODE_AFFINITY: "the pod's volume cannot be used there",
    Reason.HOST_PORT: "a port of the host is taken",
    Reason.TOO_MANY_PODS: "too many pods",
    Reason.INSUFFICIENT: "insufficient {detail}",
    Reason.SPREAD: "the pod's topology spread constraint on {detail}",
    Reason.POD_AFFINITY: "the pod's affinity to other pods, by {detail}",
    Reason.POD_ANTI_AFFINITY: "the pod's anti-affinity, by {detail}",
    Reason.EXISTING_ANTI_AFFINITY: "the anti-affinity of pods that are there, by {detail}",
    Reason.UNDECIDED: "not known: {detail}",
}
_PODS_UNREAD = "not known: pods that are there cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of which the same is to be said.

    :param answer: whether they take the pod now.
    :param why: what stands in its way, in a few words each; empty where they take it.
    """

    names: tuple[str, ...]
    answer: Answer
    why: tuple[str, ...]

    def serialize(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "number": len(self.names),
            "names": list(self.names),
            "answer": self.answer.value,
            "why": list(self.why),
        }


def group_nodes(pod: Pod, known: KnownOccupancy) -> tuple[NodeGroup, ...]:
    """Return all nodes in groups: first those that take a pod, then the largest."""
    names: dict[FitResult, list[str]] = {}
    for node, fit in check_each_node(pod, known.occupancy):
        names.setdefault(fit, []).append(node.name)
    groups = [_make_group(fit, found, pods_known=known.pods_known) for fit, found in names.items()]
    return tuple(sorted(groups, key=lambda group: (list(Answer).index(group.answer), -len(group.names), group.why)))


def _make_group(fit: FitResult, names: Iterable[str], *, pods_known: bool) -> NodeGroup:
    if fit.answer is Answer.YES and not pods_known:
        return NodeGroup(names=tuple(names), answer=Answer.UNKNOWN, why=(_PODS_UNREAD,))
    return NodeGroup(names=tuple(names), answer=fit.answer, why=tuple(map(_format_obstacle, fit.obstacles)))


def _format_obstacle(obstacle: Obstacle) -> str:
    return _OBSTACLE_TEXTS[obstacle.reason].format(detail=translate_now(obstacle.detail))
