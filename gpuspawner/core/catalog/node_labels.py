"""Read from a node's labels which GPUs the node has, and keep servers without a GPU off nodes with such labels.

Sources: NVIDIA GPU Feature Discovery, GKE, Karpenter and EKS Auto Mode, AMD's node labeller, Intel's NFD rules. If the
labels are ambiguous (two models on one node, an invalid MIG layout), :func:`read_node_gpu` returns None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    AcceleratorMatch,
    AcceleratorTable,
    reconcile_memory,
    strip_product_suffix,
)
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.text.i18n import gettext_lazy

GPU_RESOURCES = {
    "nvidia": re.compile(r"nvidia\.com/(?:gpu|mig-(?P<profile>\d+g\.\d+gb[a-z.-]*?))(?P<shared>\.shared)?", re.ASCII),
    "amd": re.compile(r"amd\.com/(?:gpu|(?P<partition>[a-z]+_nps\d+))", re.ASCII),
    "intel": re.compile(r"gpu\.intel\.com/(?:i915|xe)", re.ASCII),
}
"""Vendor → pattern of the names of the extended resources for its GPUs."""

_GPU_LABEL_PREFIXES = (
    "nvidia.com/gpu.",
    "nvidia.com/mig-",
    "cloud.google.com/gke-",
    *(f"{prefix}instance-gpu-" for prefix in KARPENTER_PREFIXES),
    "amd.com/gpu.",
    "beta.amd.com/gpu.",
    "gpu.intel.com/",
)

_NVIDIA_CARD = "nvidia.com/gpu"

_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_AMD_PARTITION = "amd.com/gpu.compute-memory-partition"
_AMD_WHOLE = frozenset({"", "spx_nps1"})
_MIG_MEMORY = re.compile(r"\d+g\.(?P<gb>\d+)gb", re.ASCII)
_GIB = 1024**3


class KarpenterModel(NamedTuple):
    """The GPU labels that Karpenter or EKS Auto Mode sets on a node.

    :param prefix: prefix of the labels, one of :data:`gpuspawner.core.catalog.accelerators.KARPENTER_PREFIXES`.
    :param memory: value of the memory label, a number of MiB as text; None if the label is missing.
    """

    prefix: str
    vendor: str
    name: str
    memory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGPU:
    """One unit of a GPU resource on a node, as the node's labels describe it.

    :param model: the model's name in slugs (``a100-40gb``) and in the form (``A100 40 GB``); None if no label names it.
    :param source: origin of the labels (``gfd``, ``gke``, ``karpenter``, ``amd``, ``intel``); empty without labels.
    :param match: label → values that select nodes with the same GPUs; no values = the label must be missing.
    :param memory_bytes: memory of one unit; None if unknown.
    :param profile: MIG profile (``1g.5gb``) or AMD partition (``cpx_nps4``); None for a whole GPU.
    :param shared: whether several servers share one GPU.
    :param replicas: number of servers that can share one GPU; 1 if it is not shared or the number is unknown.
    """

    resource: str
    vendor: str
    model: tuple[str, str] | None = None
    source: str = ""
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory_bytes: int | None = None
    profile: str | None = None
    shared: bool = False
    replicas: int = 1


def find_vendor(resource: str) -> str | None:
    """Return the vendor of a GPU resource, or None if the resource is not a GPU.

    :param resource: extended resource, such as ``nvidia.com/gpu``.
    """
    return next((vendor for vendor, pattern in GPU_RESOURCES.items() if pattern.fullmatch(resource)), None)


_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def format_vendor(vendor: str) -> str:
    """Return a vendor's name in the vendor's spelling (``NVIDIA``).

    Return an unknown name unchanged, and "Other" for an empty name.
    """
    return _VENDOR_NAMES.get(vendor, vendor) or gettext_lazy("Other")


def is_gpu_label(key: str) -> bool:
    """Return whether a label is about a node's GPUs, judged by the prefix of its name."""
    return key.startswith(_GPU_LABEL_PREFIXES)


def find_divided_models(nodes: Iterable[Node]) -> frozenset[KarpenterModel]:
    """Return the GPU models, as Karpenter's labels name them, of all nodes whose GPUs are MIG slices or shares.

    On such a node, one unit of ``nvidia.com/gpu`` is not a whole GPU, but Karpenter's labels do not show this.
    """
    found = (
        read_karpenter_model(node.labels)
        for node in nodes
        if _NVIDIA_CARD in node.capacity and _is_divided(node.labels)
    )
    return frozenset(model for model in found if model is not None)


def read_karpenter_model(labels: Mapping[str, str]) -> KarpenterModel | None:
    """Return the GPU model in the labels of Karpenter or EKS Auto Mode, or None if the node has no such labels."""
    for prefix in KARPENTER_PREFIXES:
        names = ("name", "memory", "manufacturer")
        name, memory, vendor = (labels.get(f"{prefix}instance-gpu-{each}") for each in names)
        if name is not None and vendor is not None:
            return KarpenterModel(prefix, vendor, name, memory)
    return None


def read_node_gpu(
    node: Node, resource: str, *, table: AcceleratorTable, ambiguous: Collection[KarpenterModel] = ()
) -> NodeGPU | None:
    """Return what one unit of a GPU resource is on a node (GPU, slice or share); None if the labels are ambiguous.

    :param ambiguous: GPU models whose nodes must not be identified by Karpenter's labels, because some of these nodes
        have MIG slices or shared GPUs (:func:`find_divided_models`).
    """
    vendor = find_vendor(resource) or ""
    labels = node.labels
    model = read_karpenter_model(labels)
    if model is not None and model.vendor != vendor:
        model = None
    if vendor == "nvidia" and GKE_ACCELERATOR in labels:
        return _read_gke_labels(labels, resource, table=table)
    cards = model if resource == _NVIDIA_CARD and model not in ambiguous else None
    if (
        vendor == "nvidia"
        and GFD_PRODUCT in labels
        and not (cards and _identifies_whole_cards(labels, cards, table=table))
    ):
        return _read_gfd_labels(node, resource, table=table)
    if vendor == "amd" and any(key.startswith((AMD_PRODUCT, f"beta.{AMD_PRODUCT}")) for key in labels):
        return _read_amd_labels(labels, resource, table=table)
    if vendor == "intel" and INTEL_PRODUCT in labels:
        return _read_intel_labels(labels, resource, table=table)
    if model is not None:
        return _read_karpenter_labels(model, resource, table=table)
    shared, profile = _parse_nvidia_resource(resource)
    return NodeGPU(
        resource=resource, vendor=vendor, shared=shared, profile=profile, memory_bytes=parse_mig_memory(profile)
    )


def slugify(text: str) -> str:
    """Return a text as a slug: lower-case letters and digits, with ``-`` and ``.`` only between them."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def parse_mig_profile(resource: str) -> str | None:
    """Return the MIG profile in a resource's name (``1g.5gb`` in ``nvidia.com/mig-1g.5gb``), or None without a profile.

    Only MIG strategy ``mixed`` has such names.
    """
    return _parse_nvidia_resource(resource)[1]


def parse_mig_memory(profile: str | None) -> int | None:
    """Return a MIG slice's memory in bytes, from its profile (``<slices>g.<memory>gb``), or None for any other text."""
    match = _MIG_MEMORY.match(profile or "")
    return int(match["gb"]) * _GIB if match else None


def _read_gfd_labels(node: Node, resource: str, *, table: AcceleratorTable) -> NodeGPU | None:
    """Return a node's GPU or MIG slice, as GPU Feature Discovery's labels describe it, or None if they are ambiguous.

    With MIG strategy ``mixed``, each MIG profile has labels of its own.
    """
    labels = node.labels
    shared_resource, profile = _parse_nvidia_resource(resource)
    prefix = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
    key = f"{prefix}.product" if f"{prefix}.product" in labels else GFD_PRODUCT
    product, card = labels[key], labels[GFD_PRODUCT]
    if profile is None and "-MIG-" in product:
        profile = product.removesuffix("-SHARED").partition("-MIG-")[2]
    replicas = max(1, _parse_number(labels.get(f"{prefix}.replicas")) or 1)
    count = _parse_number(labels.get(f"{prefix}.count"))
    # INVALID: the node's GPUs have different MIG layouts. More units than the labels count: the node has several GPU
    # models, and the labels describe only one.
    if profile == "INVALID" or (count and node.capacity.get(resource, 0) > count * replicas):
        return None
    match = {key: (product,)}
    if replicas > 1 and not (shared_resource or product.endswith("-SHARED")):
        match[f"{prefix}.replicas"] = (str(replicas),)
    known = table.find(GFD_PRODUCT, card)
    labelled = reconcile_memory(
        _parse_number(labels.get(f"{prefix}.memory")), known.memory_bytes if known and not profile else None
    )
    return NodeGPU(
        resource=resource,
        vendor="nvidia",
        model=_choose_names(known, strip_product_suffix(card)),
        source="gfd",
        match=match,
        memory_bytes=labelled or parse_mig_memory(profile),
        profile=profile,
        shared=replicas > 1 or shared_resource or product.endswith("-SHARED"),
        replicas=replicas,
    )


def _read_gke_labels(labels: Mapping[str, str], resource: str, *, table: AcceleratorTable) -> NodeGPU:
    """Return a node's GPU or GPU slice, as GKE's labels describe it.

    The result's ``match`` uses GKE's labels only, because GKE's autoscaler knows these labels before a node exists.
    Nodes with whole, sliced and shared GPUs have the same accelerator label, so the match includes the labels for the
    MIG partition size and the sharing strategy.
    """
    accelerator = labels[GKE_ACCELERATOR]
    partition, strategy = labels.get(_GKE_PARTITION), labels.get(_GKE_SHARING)
    # NVIDIA's own device plugin may run on GKE, too. Its resource names show whether a unit is a MIG slice or a share.
    shared_resource, profile = _parse_nvidia_resource(resource)
    profile = profile or partition
    known = table.find(GKE_ACCELERATOR, accelerator)
    memory = reconcile_memory(_parse_number(labels.get("nvidia.com/gpu.memory")), known.memory_bytes if known else None)
    return NodeGPU(
        resource=resource,
        vendor="nvidia",
        model=_choose_names(known, accelerator),
        source="gke",
        match={
            GKE_ACCELERATOR: (accelerator,),
            _GKE_PARTITION: () if partition is None else (partition,),
            _GKE_SHARING: () if strategy is None else (strategy,),
        },
        memory_bytes=parse_mig_memory(profile) if profile else memory,
        profile=profile,
        shared=shared_resource or bool(strategy),
        replicas=_parse_number(labels.get(_GKE_CLIENTS)) or 1,
    )


def _read_karpenter_labels(model: KarpenterModel, resource: str, *, table: AcceleratorTable) -> NodeGPU:
    """Return a node's GPU or GPU slice, as Karpenter's labels describe it.

    The result's ``match`` includes the memory label, because GPU models with different memory can share a name.
    """
    known = _find_karpenter_model(model, table)
    shared, profile = _parse_nvidia_resource(resource)
    match = {f"{model.prefix}instance-gpu-name": (model.name,)}
    if model.memory is not None:
        match[f"{model.prefix}instance-gpu-memory"] = (model.memory,)
    memory = reconcile_memory(_parse_number(model.memory), known.memory_bytes if known else None)
    return NodeGPU(
        resource=resource,
        vendor=model.vendor,
        model=_choose_names(known, model.name),
        source="karpenter",
        match=match,
        memory_bytes=parse_mig_memory(profile) or memory,
        profile=profile,
        shared=shared,
    )


def _find_karpenter_model(model: KarpenterModel, table: AcceleratorTable) -> AcceleratorMatch | None:
    return table.find(f"{model.prefix}instance-gpu-name", model.name, memory_mib=_parse_number(model.memory))


def _identifies_whole_cards(labels: Mapping[str, str], model: KarpenterModel, *, table: AcceleratorTable) -> bool:
    """Return whether to identify a node's GPUs by Karpenter's labels instead of those of GPU Feature Discovery.

    - False for MIG slices and shared GPUs, because Karpenter's labels do not show these.
    - True if ``table`` lists the model under Karpenter's name: a new node has Karpenter's labels first.
    - True if ``table`` lists the model under neither name.
    - False if ``table`` lists it only under GPU Feature Discovery's name.
    """
    if _is_divided(labels):
        return False
    return _find_karpenter_model(model, table) is not None or table.find(GFD_PRODUCT, labels[GFD_PRODUCT]) is None


def _is_divided(labels: Mapping[str, str]) -> bool:
    product = labels.get(GFD_PRODUCT, "")
    return product != strip_product_suffix(product) or (_parse_number(labels.get("nvidia.com/gpu.replicas")) or 1) > 1


def _read_amd_labels(labels: Mapping[str, str], resource: str, *, table: AcceleratorTable) -> NodeGPU | None:
    """Return a node's GPU or GPU slice, as AMD's labels describe it, or None for a node with several GPU models.

    On a node with several models, AMD's labels only give the number of GPUs of each model.
    """
    key = next((key for key in (AMD_PRODUCT, f"beta.{AMD_PRODUCT}") if key in labels), None)
    if key is None:
        return None
    product = labels[key]
    known = table.find(AMD_PRODUCT, product)
    found = GPU_RESOURCES["amd"].fullmatch(resource)
    partition = (found["partition"] if found else None) or labels.get(_AMD_PARTITION, "").lower()
    whole = partition in _AMD_WHOLE
    vram = labels.get(key.replace("product-name", "vram"), "").removesuffix("G")
    gib = _parse_number(vram)
    match = {key: (product,)} | ({_AMD_PARTITION: (labels[_AMD_PARTITION],)} if _AMD_PARTITION in labels else {})
    return NodeGPU(
        resource=resource,
        vendor="amd",
        model=_choose_names(known, product),
        source="amd",
        match=match,
        memory_bytes=reconcile_memory(gib * 1024 if gib else None, known.memory_bytes if known else None)
        if whole
        else None,
        profile=None if whole else partition,
    )


def _read_intel_labels(labels: Mapping[str, str], resource: str, *, table: AcceleratorTable) -> NodeGPU:
    product = labels[INTEL_PRODUCT]
    known = table.find(INTEL_PRODUCT, product)
    return NodeGPU(
        resource=resource,
        vendor="intel",
        model=_choose_names(known, product),
        source="intel",
        match={INTEL_PRODUCT: (product,)},
        memory_bytes=known.memory_bytes if known else None,
    )


def _parse_nvidia_resource(resource: str) -> tuple[bool, str | None]:
    found = GPU_RESOURCES["nvidia"].fullmatch(resource)
    return (bool(found["shared"]), found["profile"]) if found else (False, None)


def _choose_names(known: AcceleratorMatch | None, label: str) -> tuple[str, str]:
    if known is not None:
        return known.accelerator.slug, known.accelerator.name
    words = re.sub(r"[^A-Za-z0-9.]+", " ", label, flags=re.ASCII).strip()
    return slugify(re.sub(r"^(nvidia|amd) ", "", words.lower())) or "gpu", words or "GPU"


def _parse_number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text, re.ASCII) else None


_GPU_LABEL_DOMAINS = (
    "nvidia.com/",
    "amd.com/",
    "gpu.intel.com/",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu",
    "karpenter.k8s.aws/instance-gpu",
    "eks.amazonaws.com/instance-gpu",
    "k8s.amazonaws.com/accelerator",
)
"""Prefixes of labels that only GPU nodes carry."""

_GENERAL_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "hub.jupyter.org/")
"""Prefixes of labels that nodes without GPUs carry, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchExpression:
    """One node selector requirement (core/v1 NodeSelectorRequirement).

    :param operator: ``In``, ``NotIn`` or ``DoesNotExist``.
    :param values: empty for ``DoesNotExist``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


def build_gpu_node_exclusion(catalog: Catalog) -> tuple[MatchExpression, ...]:
    """Return node affinity that excludes GPU nodes, also those without a GPU type that users can choose.

    The result has one ``NotIn`` per label. It prefers labels that only GPU nodes carry, such as
    ``nvidia.com/gpu.product``, and never uses general labels, such as ``kubernetes.io/arch``.
    """
    values: dict[str, list[str]] = {}
    for gpu in (*catalog.gpus.values(), *catalog.hidden):
        for key in _list_gpu_keys(gpu.match):
            values.setdefault(key, []).extend(gpu.match[key])
    for key, more in catalog.untyped.items():
        values.setdefault(key, []).extend(more)
    return tuple(
        MatchExpression(key=key, operator="NotIn", values=tuple(dict.fromkeys(found))) for key, found in values.items()
    )


def matches_expressions(labels: Mapping[str, str], expressions: tuple[MatchExpression, ...]) -> bool:
    """Return whether a node with these labels meets all expressions; a missing label meets ``NotIn``."""
    return all(_matches_expression(labels, each) for each in expressions)


def _matches_expression(labels: Mapping[str, str], expression: MatchExpression) -> bool:
    if expression.operator == "DoesNotExist":
        return expression.key not in labels
    return (labels.get(expression.key) in expression.values) == (expression.operator == "In")


def _list_gpu_keys(match: Mapping[str, tuple[str, ...]]) -> list[str]:
    keys = [key for key, values in match.items() if values]
    return [key for key in keys if key.startswith(_GPU_LABEL_DOMAINS)] or [
        key for key in keys if not key.startswith(_GENERAL_LABELS)
    ]
