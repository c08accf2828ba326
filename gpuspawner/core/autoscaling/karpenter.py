"""What Karpenter may add, as its NodePools say it. Total over any JSON.

Facts are from https://karpenter.sh/docs/concepts/nodepools/ and from Karpenter's pkg/apis/v1 and
pkg/controllers/provisioning/scheduling. NodeClasses are not read: whether one is usable is part of a NodePool's
condition ``Ready``, and what else they say (images, networks) tells nothing of what a node has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuspawner.core.autoscaling.node_pools import NODE_COUNT, PREDICTABLE_DEVICES
from gpuspawner.core.catalog.accelerators import KARPENTER_PREFIXES
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import (
    MachineConstraints,
    Node,
    PossibleLabels,
    ScalableNodePool,
    SelectorRequirement,
)
from gpuspawner.core.cluster.node_affinity import filter_values
from gpuspawner.core.cluster.selectors import DOES_NOT_EXIST, GT, IN, LT, is_valid_requirement, meets_requirement
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map, as_texts

NODE_POOL_LABEL = "karpenter.sh/nodepool"
"""What a node carries that Karpenter made: the name of its NodePool."""

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
_KARPENTER_LABELS = frozenset(
    {
        _INSTANCE_TYPE,
        _ZONE,
        "topology.kubernetes.io/region",
        "topology.k8s.aws/zone-id",
        # What volumes on EBS ask for; Karpenter takes it for the zone.
        "topology.ebs.csi.aws.com/zone",
        "kubernetes.io/arch",
        "kubernetes.io/os",
    }
)
_KARPENTER_LABEL_PREFIXES = ("karpenter.", *KARPENTER_PREFIXES)
"""Labels that Karpenter gives to nodes by itself. For a pod that asks for any other one it adds a node only where a
NodePool names it, even if somebody else puts it on all nodes (pkg/scheduling/requirements.go, ``Compatible``)."""

_SIZE_LABELS = {"cpu": ("cpu", 1000), "memory": ("memory", 1024**2)}
"""End of a label's name → the resource it counts, and how much one is: CPUs and MiB."""
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
_GPU_COUNT_LABELS = tuple(f"{prefix}instance-gpu-count" for prefix in KARPENTER_PREFIXES)
_MAX_NODES_PER_MACHINE = 16
"""Nodes of a machine that are looked at: a pool may have thousands."""
_MAX_NUMBER = 10**9
"""More than any machine has; a label with a larger number says nothing."""
_KARPENTER_OPERATORS = {"Gte": (GT, -1), "Lte": (LT, 1)}
"""Operators of Karpenter's own, and how to say the same as a pod does."""


def decode_node_pools(found: Iterable[object]) -> tuple[ScalableNodePool, ...]:
    """Return what v1 NodePools may add, those that Karpenter prefers first; nothing for those that never grow."""
    by_weight = sorted(map(as_dict, found), key=lambda raw: -(as_int(as_dict(raw.get("spec")).get("weight")) or 0))
    return tuple(scalable_pool for scalable_pool in map(_decode_node_pool, by_weight) if scalable_pool is not None)


def derive_pools_from_nodes(
    scalable_pools: Iterable[ScalableNodePool], nodes: Iterable[Node]
) -> Iterator[ScalableNodePool]:
    """Yield what pools may add of the machines that they have made before: how large those are is known.

    :param scalable_pools: of NodePools.
    :param nodes: those that Karpenter made are recognised by their labels.
    """
    named = {
        each.name: each.machines for each in scalable_pools if each.machines is not None and each.machines.is_reliable
    }
    if not named:
        return
    there: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        name, machine = node.labels.get(NODE_POOL_LABEL, ""), node.labels.get(_INSTANCE_TYPE)
        if name in named and machine is not None:
            alike = there.setdefault((name, machine), [])
            if len(alike) < _MAX_NODES_PER_MACHINE:
                alike.append(node)
    for (name, _), alike in there.items():
        yield from _derive_pool(name, named[name], alike=alike)


def _derive_pool(name: str, machines: MachineConstraints, *, alike: Iterable[Node]) -> Iterator[ScalableNodePool]:
    """Yield what may be added like nodes of one instance type, where the pool's requirements still allow them."""
    allowed = [node for node in alike if all(meets_requirement(node.labels, each) for each in machines.requirements)]
    if not allowed:
        return
    named = {each.key for each in machines.requirements}
    by_zone = {node.labels.get(_ZONE, ""): node for node in allowed}
    takes = {**_compute_maximum(node.capacity for node in allowed), NODE_COUNT: 1}
    yield ScalableNodePool(
        name=name,
        minutes=None,
        node_allocatable=_predict_resources(
            _compute_maximum(node.allocatable for node in allowed), labels=allowed[0].labels
        ),
        max_new_nodes=min(
            (max(0, left) // takes[each] for each, left in machines.remaining.items() if takes.get(each)), default=None
        ),
        examples=tuple(
            Node(
                name="",
                labels={key: value for key, value in node.labels.items() if key in named or _is_karpenter_label(key)},
                taints=machines.taints,
            )
            for node in by_zone.values()
        ),
    )


def _compute_maximum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the most of each resource: one of several machines that are alike may be broken, or still starting."""
    most: dict[str, int] = {}
    for each in amounts:
        for name, number in each.items():
            most[name] = max(number, most.get(name, 0))
    return most


def _predict_resources(has: Mapping[str, int], *, labels: Mapping[str, str]) -> dict[str, int]:
    """Return what Karpenter knows a further machine to have: no slices of GPUs, and no GPU more than once.

    What a device plugin makes of the cards it learns of when the node is there; it adds none for that.

    :param has: what a machine has that is there.
    :param labels: those of its node; they count cards, also where each is shared by several pods.
    """
    counts = (_parse_number(labels[key]) for key in _GPU_COUNT_LABELS if key in labels)
    cards = min((max(0, number) for number in counts if number is not None), default=_MAX_NUMBER)
    known = {name: number for name, number in has.items() if "/" not in name or name in PREDICTABLE_DEVICES}
    return known | {name: min(known[name], cards) for name in _GPU_RESOURCES.values() if name in known}


def _is_karpenter_label(key: str) -> bool:
    return key in _KARPENTER_LABELS or key.startswith(_KARPENTER_LABEL_PREFIXES)


def _decode_node_pool(raw: Mapping[str, object]) -> ScalableNodePool | None:
    metadata, spec, status = (as_dict(raw.get(name)) for name in ("metadata", "spec", "status"))
    name, template = as_text(metadata.get("name")), as_dict(spec.get("template"))
    replicas = spec.get("replicas")
    if not name or metadata.get("deletionTimestamp") or as_int(replicas) == 0:
        return None
    own = as_dict(template.get("spec"))
    fixed = {**as_text_map(as_dict(template.get("metadata")).get("labels")), NODE_POOL_LABEL: name}
    read = [_decode_requirement(each) for each in as_dicts(own.get("requirements"))]
    requirements = (
        *(SelectorRequirement(key=key, operator=IN, values=(value,)) for key, value in fixed.items()),
        *(each for each in read if each is not None),
    )
    labels = _derive_labels(requirements)
    if labels is None:
        return None
    limits, used, is_counted = _decode_limits(spec, status)
    conditions = {as_text(each.get("type")): each.get("status") for each in as_dicts(status.get("conditions"))}
    left = {key: limit - used.get(key, 0) for key, limit in limits.items()}
    machines = MachineConstraints(
        sizes=_derive_sizes(labels, requirements),
        limits=limits,
        remaining={**left, NODE_COUNT: 0} if conditions.get("Ready") == "False" else left,
        taints=decode.decode_taints(own.get("taints")),
        requirements=requirements,
        is_reliable=(
            isinstance(own.get("requirements"), list)
            and None not in read
            and is_counted
            # Without the first one nobody has looked at it; the second one says that its last nodes never came up.
            and conditions.get("Ready") in ("True", "False")
            and conditions.get("NodeRegistrationHealthy") != "False"
            # A static pool replaces its nodes, but adds none for pods. Whether one is missing nobody tells: its status
            # counts what was launched, minutes before there is a node.
            and replicas is None
        ),
    )
    return ScalableNodePool(
        name=name, minutes=None, node_allocatable={}, max_new_nodes=None, labels=labels, machines=machines
    )


def _decode_requirement(raw: Mapping[str, object]) -> SelectorRequirement | None:
    """Return a requirement, None for one that is not understood; ``minValues`` only says how many to choose from."""
    listed = raw.get("values") or []
    operator, step = _KARPENTER_OPERATORS.get(as_text(raw.get("operator")), (as_text(raw.get("operator")), 0))
    found = SelectorRequirement(key=as_text(raw.get("key")), operator=operator, values=as_texts(listed))
    if not isinstance(listed, list) or len(found.values) != len(listed) or not is_valid_requirement(found):
        return None
    return replace(found, values=(str(int(found.values[0]) + step),)) if step else found


def _derive_labels(requirements: Iterable[SelectorRequirement]) -> PossibleLabels | None:
    """Return the values that a new node's labels may have, as far as that is told; None where no node can have them."""
    found: dict[str, tuple[str, ...]] = {}
    absent = {each.key for each in requirements if each.operator == DOES_NOT_EXIST}
    for each in requirements:
        if each.operator == IN:
            found[each.key] = filter_values(found.get(each.key, each.values), each)
    for each in requirements:
        if each.key in found and each.operator != IN:
            found[each.key] = filter_values(found[each.key], each)
    if not all(found.values()):
        return None
    return {**found, **dict.fromkeys(absent, ())}


def _derive_sizes(labels: PossibleLabels, requirements: Sequence[SelectorRequirement]) -> dict[str, Sequence[int]]:
    """Return how much of each resource one machine may have, from the labels that count it."""
    sizes: dict[str, Sequence[int]] = {}
    for prefix in KARPENTER_PREFIXES:
        for name, (resource, unit) in _SIZE_LABELS.items():
            counts = _derive_counts(f"{prefix}instance-{name}", labels, requirements=requirements)
            if counts is not None:
                sizes[resource] = _scale_counts(counts, unit)
        gpus = _derive_counts(f"{prefix}instance-gpu-count", labels, requirements=requirements)
        if gpus is not None:
            vendors = labels.get(f"{prefix}instance-gpu-manufacturer")
            for vendor, resource in _GPU_RESOURCES.items():
                is_possible = vendors is None or vendor in vendors
                sizes[resource] = (gpus if vendors == (vendor,) else _include_zero(gpus)) if is_possible else (0,)
    return sizes


def _include_zero(counts: Sequence[int]) -> Sequence[int]:
    """Return numbers of GPUs, or none of them, where they may be another vendor's; less than the least in a range."""
    if not counts:
        return counts
    return range(counts.stop) if isinstance(counts, range) else tuple(sorted({0, *counts}))


def _derive_counts(
    key: str, labels: PossibleLabels, *, requirements: Iterable[SelectorRequirement]
) -> Sequence[int] | None:
    """Return the whole numbers that a label may be, ascending; None where that is not told."""
    if key in labels:
        numbers = sorted(number for number in map(_parse_number, labels[key]) if number is not None)
        return None if labels[key] and not numbers else tuple(numbers) or (0,)
    bounds = [
        (each.operator, _parse_number(each.values[0])) for each in requirements if each.key == key and each.values
    ]
    low = max((number + 1 for operator, number in bounds if operator == GT and number is not None), default=None)
    high = min((number for operator, number in bounds if operator == LT and number is not None), default=None)
    return None if low is None and high is None else range(low or 0, _MAX_NUMBER if high is None else high)


def _scale_counts(counts: Sequence[int], unit: int) -> Sequence[int]:
    if isinstance(counts, range):
        return range(counts.start * unit, counts.stop * unit, unit)
    return tuple(count * unit for count in counts)


def _parse_number(value: str) -> int | None:
    """Return the whole number in a label, None where there is none or none that a machine could have."""
    is_number = value.isascii() and value.removeprefix("-").isdigit() and len(value) < len(str(_MAX_NUMBER))
    return int(value) if is_number else None


def _decode_limits(
    spec: Mapping[str, object], status: Mapping[str, object]
) -> tuple[dict[str, int], dict[str, int], bool]:
    """Return what is limited, how much of it is used, and whether all that matters of it could be read."""
    raw, raw_used = as_dict(spec.get("limits")), as_dict(status.get("resources"))
    limits, used = decode.decode_resources(raw), decode.decode_resources(raw_used)
    nodes = as_int(status.get(NODE_COUNT))
    if nodes is not None:
        used[NODE_COUNT] = max(nodes, used.get(NODE_COUNT, 0))
    return limits, used, len(limits) == len(raw) and all(name in used for name in raw_used if name in limits)
