"""What Karpenter may add, as its NodePools say it. Total over any JSON.

Facts are from https://karpenter.sh/docs/concepts/nodepools/ and from Karpenter's pkg/apis/v1 and
pkg/controllers/provisioning/scheduling. NodeClasses are not read: whether one is usable is part of a NodePool's
condition ``Ready``, and what else they say (images, networks) tells nothing of what a node has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuspawner.core.autoscaling.growth import KNOWN_BEFOREHAND
from gpuspawner.core.autoscaling.machines import NODES
from gpuspawner.core.catalog.accelerators import KARPENTER_PREFIXES
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Growth, Labels, Machines, Node, Requirement
from gpuspawner.core.cluster.node_choice import kept
from gpuspawner.core.cluster.node_terms import DOES_NOT_EXIST, GT, IN, LT, fulfils, is_well_formed
from gpuspawner.core.rawjson import mapping, mappings, text, text_map, texts, whole

LABEL = "karpenter.sh/nodepool"
"""What a node carries that Karpenter made: the name of its NodePool."""

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
_PROMISED = frozenset(
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
_PROMISED_PREFIXES = ("karpenter.", *KARPENTER_PREFIXES)
"""Labels that Karpenter gives to nodes by itself. For a pod that asks for any other one it adds a node only where a
NodePool names it, even if somebody else puts it on all nodes (pkg/scheduling/requirements.go, ``Compatible``)."""

_AMOUNTS = {"cpu": ("cpu", 1000), "memory": ("memory", 1024**2)}
"""End of a label's name → the resource it counts, and how much one is: CPUs and MiB."""
_GPUS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
_GPU_COUNTS = tuple(f"{prefix}instance-gpu-count" for prefix in KARPENTER_PREFIXES)
_ENOUGH = 16
"""Nodes of a machine that are looked at: a pool may have thousands."""
_MOST = 10**9
"""More than any machine has; a label with a larger number says nothing."""
_BESIDE = {"Gte": (GT, -1), "Lte": (LT, 1)}
"""Operators of Karpenter's own, and how to say the same as a pod does."""


def pools(found: Iterable[object]) -> tuple[Growth, ...]:
    """Return what v1 NodePools may add, those that Karpenter prefers first; nothing for those that never grow."""
    by_weight = sorted(map(mapping, found), key=lambda raw: -(whole(mapping(raw.get("spec")).get("weight")) or 0))
    return tuple(growth for growth in map(_growth, by_weight) if growth is not None)


def more_like(growths: Iterable[Growth], nodes: Iterable[Node]) -> Iterator[Growth]:
    """Yield what pools may add of the machines that they have made before: how large those are is known.

    :param growths: of NodePools.
    :param nodes: those that Karpenter made are recognised by their labels.
    """
    named = {each.pool: each.machines for each in growths if each.machines is not None and each.machines.is_clear}
    if not named:
        return
    there: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        name, machine = node.labels.get(LABEL, ""), node.labels.get(_INSTANCE_TYPE)
        if name in named and machine is not None:
            alike = there.setdefault((name, machine), [])
            if len(alike) < _ENOUGH:
                alike.append(node)
    for (name, _), alike in there.items():
        yield from _like(name, named[name], alike=alike)


def _like(name: str, machines: Machines, *, alike: Iterable[Node]) -> Iterator[Growth]:
    """Yield what may be added like nodes of one instance type, where the pool's requirements still allow them."""
    allowed = [node for node in alike if all(fulfils(node.labels, each) for each in machines.requirements)]
    if not allowed:
        return
    named = {each.key for each in machines.requirements}
    by_zone = {node.labels.get(_ZONE, ""): node for node in allowed}
    takes = {**_most(node.capacity for node in allowed), NODES: 1}
    yield Growth(
        pool=name,
        minutes=None,
        shape=_beforehand(_most(node.allocatable for node in allowed), labels=allowed[0].labels),
        nodes_left=min(
            (max(0, left) // takes[each] for each, left in machines.left.items() if takes.get(each)), default=None
        ),
        examples=tuple(
            Node(
                name="",
                labels={key: value for key, value in node.labels.items() if key in named or _is_promised(key)},
                taints=machines.taints,
            )
            for node in by_zone.values()
        ),
    )


def _most(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the most of each resource: one of several machines that are alike may be broken, or still starting."""
    most: dict[str, int] = {}
    for each in amounts:
        for name, number in each.items():
            most[name] = max(number, most.get(name, 0))
    return most


def _beforehand(has: Mapping[str, int], *, labels: Mapping[str, str]) -> dict[str, int]:
    """Return what Karpenter knows a further machine to have: no slices of GPUs, and no GPU more than once.

    What a device plugin makes of the cards it learns of when the node is there; it adds none for that.

    :param has: what a machine has that is there.
    :param labels: those of its node; they count cards, also where each is shared by several pods.
    """
    counts = (_number(labels[key]) for key in _GPU_COUNTS if key in labels)
    cards = min((max(0, number) for number in counts if number is not None), default=_MOST)
    known = {name: number for name, number in has.items() if "/" not in name or name in KNOWN_BEFOREHAND}
    return known | {name: min(known[name], cards) for name in _GPUS.values() if name in known}


def _is_promised(key: str) -> bool:
    return key in _PROMISED or key.startswith(_PROMISED_PREFIXES)


def _growth(raw: Mapping[str, object]) -> Growth | None:
    metadata, spec, status = (mapping(raw.get(name)) for name in ("metadata", "spec", "status"))
    name, template = text(metadata.get("name")), mapping(spec.get("template"))
    replicas = spec.get("replicas")
    if not name or metadata.get("deletionTimestamp") or whole(replicas) == 0:
        return None
    own = mapping(template.get("spec"))
    fixed = {**text_map(mapping(template.get("metadata")).get("labels")), LABEL: name}
    read = [_requirement(each) for each in mappings(own.get("requirements"))]
    requirements = (
        *(Requirement(key=key, operator=IN, values=(value,)) for key, value in fixed.items()),
        *(each for each in read if each is not None),
    )
    labels = _labels(requirements)
    if labels is None:
        return None
    limits, used, is_counted = _limits(spec, status)
    conditions = {text(each.get("type")): each.get("status") for each in mappings(status.get("conditions"))}
    left = {key: limit - used.get(key, 0) for key, limit in limits.items()}
    machines = Machines(
        sizes=_sizes(labels, requirements),
        limits=limits,
        left={**left, NODES: 0} if conditions.get("Ready") == "False" else left,
        taints=decode.taints(own.get("taints")),
        requirements=requirements,
        is_clear=(
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
    return Growth(pool=name, minutes=None, shape={}, nodes_left=None, labels=labels, machines=machines)


def _requirement(raw: Mapping[str, object]) -> Requirement | None:
    """Return a requirement, None for one that is not understood; ``minValues`` only says how many to choose from."""
    listed = raw.get("values") or []
    operator, step = _BESIDE.get(text(raw.get("operator")), (text(raw.get("operator")), 0))
    found = Requirement(key=text(raw.get("key")), operator=operator, values=texts(listed))
    if not isinstance(listed, list) or len(found.values) != len(listed) or not is_well_formed(found):
        return None
    return replace(found, values=(str(int(found.values[0]) + step),)) if step else found


def _labels(requirements: Iterable[Requirement]) -> Labels | None:
    """Return the values that a new node's labels may have, as far as that is told; None where no node can have them."""
    found: dict[str, tuple[str, ...]] = {}
    absent = {each.key for each in requirements if each.operator == DOES_NOT_EXIST}
    for each in requirements:
        if each.operator == IN:
            found[each.key] = kept(found.get(each.key, each.values), each)
    for each in requirements:
        if each.key in found and each.operator != IN:
            found[each.key] = kept(found[each.key], each)
    if not all(found.values()):
        return None
    return {**found, **dict.fromkeys(absent, ())}


def _sizes(labels: Labels, requirements: Sequence[Requirement]) -> dict[str, Sequence[int]]:
    """Return how much of each resource one machine may have, from the labels that count it."""
    sizes: dict[str, Sequence[int]] = {}
    for prefix in KARPENTER_PREFIXES:
        for name, (resource, unit) in _AMOUNTS.items():
            counts = _counts(f"{prefix}instance-{name}", labels, requirements=requirements)
            if counts is not None:
                sizes[resource] = _times(counts, unit)
        gpus = _counts(f"{prefix}instance-gpu-count", labels, requirements=requirements)
        if gpus is not None:
            vendors = labels.get(f"{prefix}instance-gpu-manufacturer")
            for vendor, resource in _GPUS.items():
                is_possible = vendors is None or vendor in vendors
                sizes[resource] = (gpus if vendors == (vendor,) else _or_none(gpus)) if is_possible else (0,)
    return sizes


def _or_none(counts: Sequence[int]) -> Sequence[int]:
    """Return numbers of GPUs, or none of them, where they may be another vendor's; less than the least in a range."""
    if not counts:
        return counts
    return range(counts.stop) if isinstance(counts, range) else tuple(sorted({0, *counts}))


def _counts(key: str, labels: Labels, *, requirements: Iterable[Requirement]) -> Sequence[int] | None:
    """Return the whole numbers that a label may be, ascending; None where that is not told."""
    if key in labels:
        numbers = sorted(number for number in map(_number, labels[key]) if number is not None)
        return None if labels[key] and not numbers else tuple(numbers) or (0,)
    bounds = [(each.operator, _number(each.values[0])) for each in requirements if each.key == key and each.values]
    low = max((number + 1 for operator, number in bounds if operator == GT and number is not None), default=None)
    high = min((number for operator, number in bounds if operator == LT and number is not None), default=None)
    return None if low is None and high is None else range(low or 0, _MOST if high is None else high)


def _times(counts: Sequence[int], unit: int) -> Sequence[int]:
    if isinstance(counts, range):
        return range(counts.start * unit, counts.stop * unit, unit)
    return tuple(count * unit for count in counts)


def _number(value: str) -> int | None:
    """Return the whole number in a label, None where there is none or none that a machine could have."""
    is_number = value.isascii() and value.removeprefix("-").isdigit() and len(value) < len(str(_MOST))
    return int(value) if is_number else None


def _limits(spec: Mapping[str, object], status: Mapping[str, object]) -> tuple[dict[str, int], dict[str, int], bool]:
    """Return what is limited, how much of it is used, and whether all that matters of it could be read."""
    raw, raw_used = mapping(spec.get("limits")), mapping(status.get("resources"))
    limits, used = decode.resources(raw), decode.resources(raw_used)
    nodes = whole(status.get(NODES))
    if nodes is not None:
        used[NODES] = max(nodes, used.get(NODES, 0))
    return limits, used, len(limits) == len(raw) and all(name in used for name in raw_used if name in limits)
