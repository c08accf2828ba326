"""Decode Karpenter's NodePools into :class:`~gpuspawner.core.cluster.model.ScalableNodePool`.

Malformed JSON raises no exception. Sources: https://karpenter.sh/docs/concepts/nodepools/, and Karpenter's pkg/apis/v1
and pkg/controllers/provisioning/scheduling.

gpuspawner does not read NodeClasses. A NodePool's condition ``Ready`` says whether its NodeClass is usable. Existing
nodes show the effect of a NodeClass's kubelet settings, such as reserved resources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpuspawner.core.autoscaling.node_pools import NODE_COUNT, PREDICTABLE_DEVICES
from gpuspawner.core.catalog.accelerators import KARPENTER_PREFIXES
from gpuspawner.core.cluster.decode import decode_resources, decode_taints
from gpuspawner.core.cluster.model import (
    MachineConstraints,
    Node,
    PossibleLabels,
    ScalableNodePool,
    SelectorRequirement,
)
from gpuspawner.core.cluster.selectors import (
    DOES_NOT_EXIST,
    GT,
    IN,
    LT,
    filter_values,
    is_valid_requirement,
    meets_requirement,
)
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map, as_texts

NODE_POOL_LABEL = "karpenter.sh/nodepool"
"""Label that Karpenter sets on its nodes; the value is the name of the NodePool."""

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
_KARPENTER_LABELS = frozenset(
    {
        _INSTANCE_TYPE,
        _ZONE,
        "topology.kubernetes.io/region",
        "topology.k8s.aws/zone-id",
        # A volume of the EBS CSI driver can only be used on a node that has the volume's zone in this label. Karpenter
        # treats the label as another name of topology.kubernetes.io/zone.
        "topology.ebs.csi.aws.com/zone",
        "kubernetes.io/arch",
        "kubernetes.io/os",
    }
)
_KARPENTER_LABEL_PREFIXES = ("karpenter.", *KARPENTER_PREFIXES)
"""Prefixes of labels that Karpenter itself sets on nodes, besides :data:`_KARPENTER_LABELS`.

For a pod that requires any other label, Karpenter adds a node only if a NodePool declares that label
(pkg/scheduling/requirements.go, ``Compatible``).
"""

_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_GPU_COUNT_LABELS = tuple(f"{prefix}instance-gpu-count" for prefix in KARPENTER_PREFIXES)
_MAX_NODES_PER_MACHINE = 16
"""Maximum number of existing nodes from which gpuspawner derives the size of one instance type in a NodePool."""
_KARPENTER_OPERATORS = {"Gte": (GT, -1), "Lte": (LT, 1)}
"""Operator that only Karpenter has → (Kubernetes operator, number to add to the value): ``Gte 5`` becomes ``Gt 4``."""


def decode_node_pools(raw_pools: Iterable[object]) -> tuple[ScalableNodePool, ...]:
    """Return the NodePools to which Karpenter may add nodes, in Karpenter's order of preference (``spec.weight``).

    :param raw_pools: v1 NodePools as JSON.
    """
    by_weight = sorted(map(as_dict, raw_pools), key=lambda raw: -(as_int(as_dict(raw.get("spec")).get("weight")) or 0))
    return tuple(scalable_pool for scalable_pool in map(_decode_node_pool, by_weight) if scalable_pool is not None)


def derive_pools_from_nodes(
    scalable_pools: Iterable[ScalableNodePool], nodes: Iterable[Node]
) -> Iterator[ScalableNodePool]:
    """Yield one scalable pool for each pair of a NodePool and an instance type of its existing nodes.

    A NodePool does not say how large its machines are, but existing nodes do. The function skips

    - nodes that no longer meet their NodePool's requirements;
    - NodePools whose :attr:`.MachineConstraints.is_reliable` is False.

    :param scalable_pools: the results of :func:`decode_node_pools`.
    :param nodes: all existing nodes; labels tell which of them Karpenter added.
    """
    machines_by_name = {
        each.name: each.machines for each in scalable_pools if each.machines is not None and each.machines.is_reliable
    }
    if not machines_by_name:
        return
    by_type: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        name, instance_type = node.labels.get(NODE_POOL_LABEL, ""), node.labels.get(_INSTANCE_TYPE)
        if name in machines_by_name and instance_type is not None:
            existing = by_type.setdefault((name, instance_type), [])
            if len(existing) < _MAX_NODES_PER_MACHINE:
                existing.append(node)
    for (name, _), existing in by_type.items():
        yield from _derive_pool(name, machines_by_name[name], existing=existing)


def _derive_pool(name: str, machines: MachineConstraints, *, existing: Iterable[Node]) -> Iterator[ScalableNodePool]:
    allowed = [node for node in existing if all(meets_requirement(node.labels, each) for each in machines.requirements)]
    if not allowed:
        return
    required_keys = {each.key for each in machines.requirements}
    by_zone = {node.labels.get(_ZONE, ""): node for node in allowed}
    size = {**_compute_maximum(node.capacity for node in allowed), NODE_COUNT: 1}
    yield ScalableNodePool(
        name=name,
        minutes=None,
        node_allocatable=_predict_resources(
            _compute_maximum(node.allocatable for node in allowed), labels=allowed[0].labels
        ),
        max_new_nodes=min(
            (max(0, left) // size[each] for each, left in machines.remaining.items() if size.get(each)), default=None
        ),
        examples=tuple(
            Node(
                name="",
                labels={
                    key: value for key, value in node.labels.items() if key in required_keys or _is_karpenter_label(key)
                },
                taints=machines.taints,
            )
            for node in by_zone.values()
        ),
    )


def _compute_maximum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return resource → largest amount that any of the nodes reports.

    A broken or starting node may report less than it has.
    """
    maximum: dict[str, int] = {}
    for each in amounts:
        for name, number in each.items():
            maximum[name] = max(number, maximum.get(name, 0))
    return maximum


def _predict_resources(allocatable: Mapping[str, int], *, labels: Mapping[str, str]) -> dict[str, int]:
    """Return resource → amount that Karpenter expects on a new node.

    The result has no resources such as ``nvidia.com/mig-1g.5gb``, because Karpenter adds no node for them. A node with
    shared GPUs reports more GPUs than Karpenter expects. The label ``instance-gpu-count`` therefore limits the number.

    :param allocatable: resource → allocatable amount of existing nodes of the same instance type.
    :param labels: labels of one of these nodes.
    """
    known = {name: number for name, number in allocatable.items() if "/" not in name or name in PREDICTABLE_DEVICES}
    counts = [int(labels[key]) for key in _GPU_COUNT_LABELS if re.fullmatch("[0-9]{1,9}", labels.get(key, ""))]
    return known | {name: min(known[name], *counts) for name in _GPU_RESOURCES if counts and name in known}


def _is_karpenter_label(key: str) -> bool:
    return key in _KARPENTER_LABELS or key.startswith(_KARPENTER_LABEL_PREFIXES)


def _decode_node_pool(raw: Mapping[str, object]) -> ScalableNodePool | None:
    metadata, spec, status = (as_dict(raw.get(name)) for name in ("metadata", "spec", "status"))
    name, template = as_text(metadata.get("name")), as_dict(spec.get("template"))
    replicas = spec.get("replicas")
    if not name or metadata.get("deletionTimestamp") or as_int(replicas) == 0:
        return None
    node_spec = as_dict(template.get("spec"))
    fixed_labels = {**as_text_map(as_dict(template.get("metadata")).get("labels")), NODE_POOL_LABEL: name}
    decoded = [_decode_requirement(each) for each in as_dicts(node_spec.get("requirements"))]
    requirements = (
        *(SelectorRequirement(key=key, operator=IN, values=(value,)) for key, value in fixed_labels.items()),
        *(each for each in decoded if each is not None),
    )
    labels = _derive_labels(requirements)
    if labels is None:
        return None
    limits, used, is_complete = _decode_limits(spec, status)
    conditions = {as_text(each.get("type")): each.get("status") for each in as_dicts(status.get("conditions"))}
    remaining = {key: limit - used.get(key, 0) for key, limit in limits.items()}
    machines = MachineConstraints(
        limits=limits,
        remaining={**remaining, NODE_COUNT: 0} if conditions.get("Ready") == "False" else remaining,
        taints=decode_taints(node_spec.get("taints")),
        requirements=requirements,
        is_reliable=(
            isinstance(node_spec.get("requirements"), list)
            and None not in decoded
            and is_complete
            # Without one of these values, Karpenter has not processed the NodePool yet. "False" is reliable, too:
            # Karpenter then adds no node.
            and conditions.get("Ready") in ("True", "False")
            # NodeRegistrationHealthy is "False" if the NodePool's last nodes never joined the cluster. gpuspawner must
            # not promise that the next node joins.
            and conditions.get("NodeRegistrationHealthy") != "False"
            # For a static NodePool (with replicas), Karpenter adds no nodes for pods. It only replaces missing nodes.
            and replicas is None
        ),
    )
    return ScalableNodePool(
        name=name, minutes=None, node_allocatable={}, max_new_nodes=None, labels=labels, machines=machines
    )


def _decode_requirement(raw: Mapping[str, object]) -> SelectorRequirement | None:
    """Return a requirement of a NodePool, or None if it is malformed.

    ``minValues`` excludes no node, so it is not part of the result.
    """
    values = raw.get("values") or []
    operator, step = _KARPENTER_OPERATORS.get(as_text(raw.get("operator")), (as_text(raw.get("operator")), 0))
    requirement = SelectorRequirement(key=as_text(raw.get("key")), operator=operator, values=as_texts(values))
    is_list = isinstance(values, list) and len(requirement.values) == len(values)
    if not is_list or not is_valid_requirement(requirement):
        return None
    return replace(requirement, values=(str(int(requirement.values[0]) + step),)) if step else requirement


def _derive_labels(requirements: Iterable[SelectorRequirement]) -> PossibleLabels | None:
    labels: dict[str, tuple[str, ...]] = {}
    absent = {each.key for each in requirements if each.operator == DOES_NOT_EXIST}
    for each in requirements:
        if each.operator == IN:
            labels[each.key] = filter_values(labels.get(each.key, each.values), each)
    for each in requirements:
        if each.key in labels and each.operator != IN:
            labels[each.key] = filter_values(labels[each.key], each)
    if not all(labels.values()):
        return None
    return {**labels, **dict.fromkeys(absent, ())}


def _decode_limits(
    spec: Mapping[str, object], status: Mapping[str, object]
) -> tuple[dict[str, int], dict[str, int], bool]:
    raw, raw_used = as_dict(spec.get("limits")), as_dict(status.get("resources"))
    limits, used = decode_resources(raw), decode_resources(raw_used)
    nodes = as_int(status.get(NODE_COUNT))
    if nodes is not None:
        used[NODE_COUNT] = max(nodes, used.get(NODE_COUNT, 0))
    return limits, used, len(limits) == len(raw) and all(name in used for name in raw_used if name in limits)
