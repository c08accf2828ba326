"""What an autoscaler that picks a machine to fit the pods that wait may pick from, and how much of that is left.

Karpenter's NodePools are of this kind: which machines a cloud has is not written in them, only what they must be like.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from gpuspawner.core.cluster.model import MachineConstraints

NODE_COUNT = "nodes"
"""The name under which Karpenter limits the number of nodes (https://karpenter.sh/docs/concepts/nodepools/#speclimits)."""


def may_fit_machine(machines: MachineConstraints, requests: Mapping[str, int]) -> bool:
    """Tell whether a machine may be large enough, and within the limits if nothing else were there.

    Limits are compared with what the pod asks for: how much of it Karpenter counts for a machine is only nearly known
    (memory less what its provider takes off, ``vmMemoryOverheadPercent``).
    """
    for name, number in requests.items():
        sizes = machines.sizes.get(name)
        if sizes is not None and number > (sizes[-1] if sizes else 0):
            return False
    return all(_get_wanted(requests, name) <= limit for name, limit in machines.limits.items())


def has_capacity_left(machines: MachineConstraints, pod_requests: Iterable[Mapping[str, int]]) -> bool:
    """Tell whether the limits leave room for some pods' requests, each on a machine of its own.

    The smallest machines that would do are counted. Karpenter takes larger ones where it has no smaller, so this is
    sure only where the sizes are known.
    """
    left = dict(machines.remaining)
    for requests in pod_requests:
        for name in left:
            left[name] -= _compute_smallest_size(machines, requests, name=name)
        if any(number < 0 for number in left.values()):
            return False
    return True


def find_largest_size(machines: MachineConstraints, name: str) -> int | None:
    """Return how much of a resource one machine has at most, None when not known."""
    known = [machines.limits[name]] if name in machines.limits else []
    sizes = machines.sizes.get(name)
    if sizes is not None:
        known.append(sizes[-1] if sizes else 0)
    return min(known, default=None)


def _compute_smallest_size(machines: MachineConstraints, requests: Mapping[str, int], *, name: str) -> int:
    """Return how much of a limited resource the smallest machine for a pod takes."""
    number = _get_wanted(requests, name)
    sizes = machines.sizes.get(name, ())
    at = bisect_left(sizes, number)
    return sizes[at] if at < len(sizes) else number


def _get_wanted(requests: Mapping[str, int], name: str) -> int:
    """Return how much of a limited resource a pod takes, on a machine of its own."""
    return 1 if name == NODE_COUNT else requests.get(name, 0)
