"""Random priorities: pods that may be preempted, such as placeholders, and pods that may preempt them."""

from __future__ import annotations

from collections.abc import Iterable

from bench.fit.draw import Draw
from bench.fit.scene import Manifest

_RUNNING = {"placeholder": 4, "usual": 3, "urgent": 1}
_DECIDED = {"urgent": 3, "patient": 1, "usual": 2, "placeholder": 1}


def rank_pods(draw: Draw, pods: Iterable[Manifest]) -> None:
    """Give some of a scene's pods a PriorityClass; most scenes have none, and each pod the cluster's default."""
    share = draw.weighted({0: 3, 20: 1, 60: 1})
    for pod in pods:
        if draw.chance(share):
            pod["spec"]["priorityClassName"] = draw.weighted(_RUNNING)


def rank_pod(draw: Draw, pod: Manifest) -> None:
    """Give a pod to decide a PriorityClass in half of the cases."""
    if draw.chance(50):
        pod["spec"]["priorityClassName"] = draw.weighted(_DECIDED)
