"""Discover GPU types: a node's extended resources tell whether it has GPUs, its labels tell which model.

Callers group equal nodes first, to save time: a cluster with thousands of nodes has a few dozen kinds of nodes.

The module also reads from labels whether a node is a spot node, has NVLink or has GPUs, and finds the largest node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, product
from math import prod
from typing import NamedTuple

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    AcceleratorTable,
)
from gpuspawner.core.catalog.combined_types import LabelMatch
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.catalog.node_gpus import (
    MACHINE_COUNTS,
    PART_LABELS,
    GPUDescription,
    Judgment,
    NodeGPU,
    read_node_gpu,
)
from gpuspawner.core.catalog.node_labels import (
    GPU_RESOURCES,
    MatchExpression,
    find_vendor,
    format_vendor,
    is_gpu_label,
    matches_expressions,
    slugify,
)
from gpuspawner.core.catalog.nodes_by_type import count_units, count_units_for_pod, may_have_units
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.text.i18n import gettext_lazy

SIMULATED_LABEL = "gpuspawner.jupyter.org/simulated"
"""Label (``"true"``) of simulated nodes: they exist only in Kubernetes' API, for tests, and never start containers."""

_SIMULATED_NOTE = gettext_lazy("Simulated: the node has no machine behind it, so a server with this GPU never starts.")
_MAX_VALUES = 32
"""Maximum number of values of a label that tells the nodes of a type from others."""
_MAX_SLUG_LENGTH = 63
"""Largest number of characters of a slug; Kubernetes has the same limit for values of labels."""


SEPARATING_LABELS = (
    GFD_PRODUCT,
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu.count",
    *PART_LABELS,
    *dict.fromkeys(key for keys in MACHINE_COUNTS.values() for key in keys),
    # With these two, admins choose the configuration of NVIDIA's device plugin and MIG manager for a node.
    "nvidia.com/device-plugin.config",
    "nvidia.com/mig.config",
    # All nodes of a pool have the same device plugin, and the same settings of an operating system that has one.
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
)
"""Labels that may tell nodes with whole GPUs from nodes of the same model with shares or slices, or with labels that
contradict each other; the first ones are preferred."""


def discover_gpu_types(nodes: Iterable[Node], table: AcceleratorTable) -> tuple[GPUType, ...]:
    """Return the GPU types of the nodes in display order: by vendor, then whole, sliced and shared GPUs.

    Cordoned and unready nodes count, because their GPUs come back. A GPU model becomes two types if its nodes have GPU
    labels with different keys, such as ``nvidia.com/gpu.product`` and ``cloud.google.com/gke-accelerator``.

    A node whose labels contradict each other has no type. A type of whole GPUs or of slices selects none of these
    nodes, and none that divides its GPUs otherwise: without a label that tells such nodes apart, there is no type.

    :param nodes: the cluster's nodes; of several equal nodes, one is enough.
    """
    judged = [
        _JudgedNode(node, resource, read_node_gpu(node, resource, table=table))
        for node in nodes
        for resource in _list_gpu_resources(node)
    ]
    index = _LabelIndex(judged)
    groups: dict[_TypeKey, list[tuple[GPUType, _JudgedNode]]] = {}
    for judged_node in judged:
        node, resource, gpu = judged_node
        if not isinstance(gpu, NodeGPU):
            continue
        description = _choose_description(judged_node, gpu, index=index)
        # Skip a node without GPU labels if a DRA driver does not say on which nodes its devices are.
        if count_units(node, resource) or resource in node.published_by_dra or description.match:
            found = _build_gpu_type(gpu, description, node=node)
            key = _TypeKey(
                slug=found.slug,
                source=description.source,
                resource=resource,
                profile=gpu.profile or "",
                unit=found.unit,
                keys=tuple(sorted(found.match)),
            )
            groups.setdefault(key, []).append((found, judged_node))
    unique: dict[str, GPUType] = {}
    for key in sorted(groups):
        separate = _build_separate_type(groups[key], index)
        if separate is not None:
            named = _make_slug_unique(separate, key.source, taken=unique)
            unique[named.slug] = named
    return tuple(sorted(unique.values(), key=_get_display_order))


_Kind = tuple[str | None, bool] | None
"""What one unit is (:attr:`NodeGPU.kind`); None if the labels contradict each other."""
_WHOLE: _Kind = (None, False)


class _JudgedNode(NamedTuple):
    """A node's units of one resource, and what one unit is."""

    node: Node
    resource: str
    gpu: Judgment

    @property
    def kind(self) -> _Kind:
        return self.gpu.kind if isinstance(self.gpu, NodeGPU) else None


_LabelTable = dict[tuple[str | None, ...], dict[_Kind, list[Node]]]
"""Values of some labels → kind → nodes; a value is None without the label."""


class _LabelIndex:
    """Finds nodes with units of another kind by their labels.

    Each search for the same labels uses the same table, so the time of all searches grows with the number of nodes and
    not with its square.
    """

    def __init__(self, judged: Iterable[_JudgedNode]) -> None:
        self._by_resource: dict[str, list[_JudgedNode]] = {}
        for judged_node in judged:
            self._by_resource.setdefault(judged_node.resource, []).append(judged_node)
        self._tables: dict[tuple[str, ...], _LabelTable] = {}

    def has_others(self, one: _JudgedNode, match: LabelMatch) -> bool:
        """Return whether a node with units of the same resource and another kind has the labels."""
        return any(kind != one.kind for by_kind in self._find(one.resource, match) for kind in by_kind)

    def list_divided(self, one: _JudgedNode, match: LabelMatch) -> list[Node]:
        """Return the nodes of :meth:`has_others` whose units are not whole GPUs."""
        return [
            node
            for by_kind in self._find(one.resource, match)
            for kind, nodes in by_kind.items()
            if kind not in (one.kind, _WHOLE)
            for node in nodes
        ]

    def _find(self, resource: str, match: LabelMatch) -> Iterator[Mapping[_Kind, list[Node]]]:
        keys = tuple(sorted(match))
        choices = [match[key] or (None,) for key in keys]
        table = self._build_table(resource, keys)
        if prod(map(len, choices)) <= len(table):
            yield from (table[texts] for texts in product(*choices) if texts in table)
        else:
            yield from (
                by_kind
                for texts, by_kind in table.items()
                if all(text in choice for text, choice in zip(texts, choices, strict=True))
            )

    def _build_table(self, resource: str, keys: tuple[str, ...]) -> _LabelTable:
        table = self._tables.get((resource, *keys))
        if table is None:
            table = self._tables[resource, *keys] = {}
            for judged_node in self._by_resource[resource]:
                texts = tuple(map(judged_node.node.labels.get, keys))
                table.setdefault(texts, {}).setdefault(judged_node.kind, []).append(judged_node.node)
        return table


def _choose_description(one: _JudgedNode, gpu: NodeGPU, *, index: _LabelIndex) -> GPUDescription:
    """Return the first description whose labels no node with units of another kind has, or else the first one."""
    clean = (description for description in gpu.descriptions if not index.has_others(one, description.match))
    return next(clean, gpu.descriptions[0])


def _build_separate_type(group: Sequence[tuple[GPUType, _JudgedNode]], index: _LabelIndex) -> GPUType | None:
    """Return the type of a group of nodes, without nodes that its labels do not tell from nodes of another kind.

    :return: None if no node is left. A type of shared GPUs keeps all nodes: its servers get no more than they ask for
        on any of them.
    """
    joined = _join_types([gpu for gpu, _ in group])
    if joined.unit is UnitKind.SHARED:
        return joined
    others = index.list_divided(group[0][1], joined.match)
    if not others:
        return joined
    taken = set(map(_read_separating_labels, others))
    apart = [(gpu, each.node) for gpu, each in group if _read_separating_labels(each.node) not in taken]
    label = _find_separating_label([node for _, node in apart], others) if apart else None
    if label is None:
        return None
    joined = _join_types([gpu for gpu, _ in apart])
    return replace(joined, match={**joined.match, **label})


def _read_separating_labels(node: Node) -> tuple[str | None, ...]:
    return tuple(map(node.labels.get, SEPARATING_LABELS))


def _find_separating_label(own: Iterable[Node], others: Iterable[Node]) -> dict[str, tuple[str, ...]] | None:
    """Return a label, with its values on some nodes, that no other node has; empty values if the label must be absent.

    :return: None if no label of :data:`SEPARATING_LABELS` tells the nodes apart.
    """
    own, others = tuple(own), tuple(others)
    for key in SEPARATING_LABELS:
        values = {node.labels.get(key) for node in own}
        taken = {node.labels.get(key) for node in others}
        texts = tuple(sorted(value for value in values if value is not None))
        if values.isdisjoint(taken) and len(texts) in (0, len(values)) and len(texts) <= _MAX_VALUES:
            return {key: texts}
    return None


def build_conventional_tolerations(resource: str) -> tuple[Toleration, ...]:
    """Return tolerations of the taints that by convention keep pods without GPUs off GPU nodes.

    By convention, the taint's key is the node's extended resource, or the vendor's resource for whole GPUs.

    The tolerations have no effect, so they tolerate the key with any effect (``NoSchedule``, ``NoExecute``).

    :param resource: extended resource. For ``nvidia.com/mig-1g.10gb``, the result tolerates taints with this key and
        with the key ``nvidia.com/gpu``.
    """
    keys = dict.fromkeys((resource, f"{resource.partition('/')[0]}/gpu"))
    return tuple(Toleration(key=key, operator="Exists") for key in keys)


class _TypeKey(NamedTuple):
    """Nodes with equal keys belong to the same GPU type.

    :param source: origin of the nodes' GPU labels (such as ``gfd`` or ``gke``); empty without labels.
    :param profile: MIG profile or AMD partition; empty for whole GPUs.
    :param keys: names, not values, of the labels by which the type matches nodes.
    """

    slug: str
    source: str
    resource: str
    profile: str
    unit: UnitKind
    keys: tuple[str, ...]


def _list_gpu_resources(node: Node) -> list[str]:
    names = {*node.capacity, *node.allocatable, *node.uncounted}
    return sorted(name for name in names if find_vendor(name) is not None and may_have_units(node, name))


def _build_gpu_type(offer: NodeGPU, description: GPUDescription, *, node: Node) -> GPUType:
    slug, name = description.model or _name_unlabeled(offer)
    suffix, part = "", ""
    if offer.profile is not None and (description.model is not None or offer.vendor != "nvidia"):
        suffix += f"-mig-{offer.profile}" if offer.vendor == "nvidia" else f"-{offer.profile}"
        part = f"MIG {offer.profile}" if offer.vendor == "nvidia" else _format_partition(offer.profile)
    if offer.shared:
        suffix += "-shared"
    return GPUType(
        slug=_build_slug(slug, suffix),
        display_name=_format_name(name, part=part, shared=offer.shared),
        resource=offer.resource,
        vendor=offer.vendor,
        unit=find_unit(offer),
        match=description.match,
        max_count=1 if offer.shared else max(1, count_units_for_pod(node, offer.resource)),
        memory_bytes=description.memory_bytes,
        description=_describe_sharing(offer.replicas) if offer.replicas > 1 else "",
        note=_SIMULATED_NOTE if node.labels.get(SIMULATED_LABEL) == "true" else "",
        tolerations=build_conventional_tolerations(offer.resource),
    )


def _format_name(name: str, *, part: str, shared: bool) -> str:
    if part and shared:
        return gettext_lazy("{name} ({part}, shared)", name=name, part=part)
    if shared:
        return gettext_lazy("{name} (shared)", name=name)
    return gettext_lazy("{name} ({part})", name=name, part=part) if part else name


def _describe_sharing(replicas: int) -> str:
    return gettext_lazy("One GPU for up to {replicas} servers at a time.", replicas=replicas)


def _format_partition(profile: str) -> str:
    return gettext_lazy("{profile} partition", profile=profile.upper())


def _build_slug(base: str, suffix: str) -> str:
    ending = f"-{slugify(suffix)[: _MAX_SLUG_LENGTH // 2]}" if suffix else ""
    return slugify(f"{base[: _MAX_SLUG_LENGTH - len(ending)].rstrip('-.')}{ending}")


def find_unit(offer: NodeGPU) -> UnitKind:
    """Return what one unit of a node's GPU resource is; AMD's partitions are slices, as those of MIG."""
    if offer.shared:
        return UnitKind.SHARED
    return UnitKind.MIG if offer.profile is not None else UnitKind.CARD


def _name_unlabeled(offer: NodeGPU) -> tuple[str, str]:
    if offer.profile is not None and offer.vendor == "nvidia":
        return f"nvidia-mig-{offer.profile}", f"NVIDIA MIG {offer.profile}"
    return f"{offer.vendor}-gpu", gettext_lazy("{vendor} GPU (any model)", vendor=format_vendor(offer.vendor))


def _join_types(types: Sequence[GPUType]) -> GPUType:
    first = types[0]
    values = {key: {value for gpu in types for value in gpu.match[key]} for key in first.match}
    return replace(
        first,
        match={key: tuple(sorted(texts)) for key, texts in values.items()},
        max_count=max(gpu.max_count for gpu in types),
        memory_bytes=first.memory_bytes if all(gpu.memory_bytes == first.memory_bytes for gpu in types) else None,
        description=first.description if all(gpu.description == first.description for gpu in types) else "",
        # ``note`` is empty or says that the type's nodes are simulated and start no server. The joined type has the
        # note only if all types have it: a real node can start a server.
        note=first.note if all(gpu.note == first.note for gpu in types) else "",
    )


def _make_slug_unique(found: GPUType, source: str, *, taken: Container[str]) -> GPUType:
    if found.slug not in taken:
        return found
    names = chain([source], map(str, count(2)))
    name = next(name for name in names if name and f"{found.slug[:50]}-{name}" not in taken)
    name_with_source = gettext_lazy("{name} [{source}]", name=found.display_name, source=name.upper())
    return replace(found, slug=f"{found.slug[:50]}-{name}", display_name=name_with_source)


def _get_display_order(gpu: GPUType) -> tuple[int, int, str]:
    return list(GPU_RESOURCES).index(gpu.vendor), list(UnitKind).index(gpu.unit), gpu.slug


def group_nodes_by_kind(nodes: Iterable[Node], *, labels: Collection[str] = ()) -> tuple[tuple[Node, ...], ...]:
    """Return nodes grouped by extended resources, taints and GPU labels, in order of first appearance.

    :param labels: names of further labels. All nodes of a group have the same values of these labels.
    """
    all_nodes = tuple(nodes)
    present = {key for node in all_nodes for key in node.labels}
    significant = sorted(key for key in present if key in labels or is_gpu_label(key))
    found: dict[tuple[object, ...], list[Node]] = {}
    for node in all_nodes:
        amounts = (
            _select_extended_resources(node.capacity),
            _select_extended_resources(node.allocatable),
            node.uncounted,
        )
        found.setdefault((node.taints, amounts, *map(node.labels.get, significant)), []).append(node)
    return tuple(tuple(group) for group in found.values())


def _select_extended_resources(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((name, number) for name, number in amounts.items() if "/" in name)


SPOT_LABELS = {
    # https://karpenter.sh/docs/concepts/scheduling/#well-known-labels
    "karpenter.sh/capacity-type": "spot",
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types
    "eks.amazonaws.com/capacityType": "SPOT",
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
    "cloud.google.com/gke-spot": "true",
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/preemptible-vms
    "cloud.google.com/gke-preemptible": "true",
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Label → value that marks a node that the cloud may reclaim."""

_CLIQUE = "nvidia.com/gpu.clique"
"""Label in which GPU Feature Discovery names the NVLink fabric of a node's GPUs (``lm/imex.go``). Nodes without a
fabric do not have the label."""

_LabelTest = Callable[[str, str], bool]


def is_spot(gpu: GPUType, nodes: Iterable[Mapping[str, str]]) -> bool:
    """Return whether labels show that all nodes of a type are spot nodes, which the cloud may reclaim at any time.

    :param nodes: the labels of each existing node of the type.
    """
    return _holds_on_each_node(gpu, nodes, test=lambda key, value: SPOT_LABELS.get(key) == value)


def find_interconnect(gpu: GPUType, nodes: Iterable[Mapping[str, str]], *, table: AcceleratorTable) -> str | None:
    """Return ``NVLink`` if NVLink connects the GPUs of a server that has several GPUs of the type, else None.

    The result is None for:

    - MIG slices: NVLink does not connect them (https://docs.rapids.ai/deployment/stable/guides/mig).
    - Shared GPUs: several shares may belong to one GPU.
    - GPUs of other vendors: NVIDIA's labels do not describe them.
    - Types with a ``max_count`` of 1.

    :param nodes: the labels of each existing node of the type.
    """
    if gpu.vendor != "nvidia" or gpu.unit is not UnitKind.CARD or gpu.max_count == 1:
        return None
    is_linked = _holds_on_each_node(gpu, nodes, test=lambda key, value: key == _CLIQUE or table.has_nvlink(key, value))
    return "NVLink" if is_linked else None


def _holds_on_each_node(gpu: GPUType, nodes: Iterable[Mapping[str, str]], *, test: _LabelTest) -> bool:
    if any(values and all(test(key, value) for value in values) for key, values in gpu.match.items()):
        return True
    found = [any(test(key, value) for key, value in labels.items()) for labels in nodes]
    return bool(found) and all(found)


GPU_NODE_LABELS = (
    # NVIDIA's GPU Operator sets this label before the driver is installed. On nodes without a GPU, it is "false".
    "nvidia.com/gpu.present",
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    AMD_PRODUCT,
    INTEL_PRODUCT,
    *(f"{prefix}instance-gpu-name" for prefix in KARPENTER_PREFIXES),
    # https://learn.microsoft.com/azure/aks/use-labels
    "kubernetes.azure.com/accelerator",
)
"""Labels that show that a node has GPUs, unless the value is ``"false"``. Clouds and vendors set them."""


def find_gpu_node_label(labels: Mapping[str, str]) -> str | None:
    """Return the name of a label that shows that a node has GPUs, or None if no label does."""
    return next((key for key in GPU_NODE_LABELS if labels.get(key, "false") != "false"), None)


def find_unexcluded_gpu_nodes(
    nodes: Iterable[Node], exclusion: tuple[MatchExpression, ...]
) -> dict[str, tuple[str, ...]]:
    """Return labels of GPU nodes on which servers without a GPU could still run, as label → values.

    The node affinity of these servers excludes the nodes of each GPU type, but not GPU nodes without a GPU type, for
    example while the driver is being installed. The caller excludes the returned labels, too.

    :param exclusion: expressions of this node affinity.
    """
    found: dict[str, set[str]] = {}
    for node in nodes:
        key = find_gpu_node_label(node.labels)
        if key is not None and matches_expressions(node.labels, exclusion):
            found.setdefault(key, set()).add(node.labels[key])
    return {key: tuple(sorted(values)) for key, values in sorted(found.items())}


def find_largest_node(inventory: Inventory) -> tuple[int, int] | None:
    """Return allocatable CPU (millicores) and memory (bytes) of the node with the most memory, or None without nodes.

    Nodes with a taint of the control plane (``node-role.kubernetes.io/…``) do not count. Nodes with other taints count,
    because a GPU type may tolerate these taints.
    """
    sizes = [
        (node.allocatable.get("memory", 0), node.allocatable.get("cpu", 0))
        for node in inventory.nodes or ()
        if not any(taint.key.startswith("node-role.kubernetes.io/") for taint in node.taints)
    ]
    if not sizes:
        return None
    memory, cpu = max(sizes)
    return cpu, memory
