"""What one node's labels say about the GPUs of one of its resources, for each way clusters label them.

Sources: NVIDIA GPU Feature Discovery, GKE, Karpenter and EKS Auto Mode, AMD's node labeller, Intel's NFD rules. A node
whose labels cannot tell its GPUs apart (two models on one node, an invalid MIG layout) has no offer.
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
from gpuspawner.core.cluster.model import Node

GPU_RESOURCES = {
    "nvidia": re.compile(r"nvidia\.com/(?:gpu|mig-(?P<profile>\d+g\.\d+gb[a-z.-]*?))(?P<shared>\.shared)?", re.ASCII),
    "amd": re.compile(r"amd\.com/(?:gpu|(?P<partition>[a-z]+_nps\d+))", re.ASCII),
    "intel": re.compile(r"gpu\.intel\.com/(?:i915|xe)", re.ASCII),
}
"""Vendor → extended resources that are its GPUs."""

_GPU_LABEL_PREFIXES = (
    "nvidia.com/gpu.",
    "nvidia.com/mig-",
    "cloud.google.com/gke-",
    *(f"{prefix}instance-gpu-" for prefix in KARPENTER_PREFIXES),
    "amd.com/gpu.",
    "beta.amd.com/gpu.",
    "gpu.intel.com/",
)
"""How labels begin that can tell one node's GPUs from another's."""

_NVIDIA_CARD = "nvidia.com/gpu"

_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_AMD_PARTITION = "amd.com/gpu.compute-memory-partition"
_AMD_WHOLE = frozenset({"", "spx_nps1"})
_MIG_MEMORY = re.compile(r"\d+g\.(?P<gb>\d+)gb", re.ASCII)
_GIB = 1024**3


class KarpenterModel(NamedTuple):
    """What Karpenter or EKS Auto Mode call the GPUs of a machine.

    :param prefix: which of the two.
    :param memory: the label's text, None when there is none.
    """

    prefix: str
    vendor: str
    name: str
    memory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGPU:
    """What one unit of a resource on one node is.

    :param model: words for the slug (``a100-40gb``) and for people (``A100 40 GB``); None when no label tells.
    :param source: which labels told.
    :param profile: MIG profile (``1g.5gb``) or AMD partition (``cpx_nps4``), None for a whole GPU.
    :param replicas: servers that share one unit, 1 = not shared.
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
    """Return whose GPUs an extended resource counts, None when it is no GPU."""
    return next((vendor for vendor, pattern in GPU_RESOURCES.items() if pattern.fullmatch(resource)), None)


def is_gpu_label(key: str) -> bool:
    """Tell whether a label can tell one node's GPUs from another's: :func:`read_node_gpu` reads no other."""
    return key.startswith(_GPU_LABEL_PREFIXES)


def find_divided_models(nodes: Iterable[Node]) -> frozenset[KarpenterModel]:
    """Return what Karpenter calls the models of which some node counts parts as ``nvidia.com/gpu``.

    Its labels describe the machine, whatever the device plugin makes of it, so they do not tell these nodes apart.
    """
    found = (
        read_karpenter_model(node.labels)
        for node in nodes
        if _NVIDIA_CARD in node.capacity and _is_divided(node.labels)
    )
    return frozenset(model for model in found if model is not None)


def read_karpenter_model(labels: Mapping[str, str]) -> KarpenterModel | None:
    """Return what Karpenter or EKS Auto Mode call a node's GPU model, None when neither does."""
    for prefix in KARPENTER_PREFIXES:
        names = ("name", "memory", "manufacturer")
        name, memory, vendor = (labels.get(f"{prefix}instance-gpu-{each}") for each in names)
        if name is not None and vendor is not None:
            return KarpenterModel(prefix, vendor, name, memory)
    return None


def read_node_gpu(
    node: Node, resource: str, *, table: AcceleratorTable, ambiguous: Collection[KarpenterModel] = ()
) -> NodeGPU | None:
    """Return what one unit of a GPU resource on a node is, None when its labels cannot tell.

    :param ambiguous: what Karpenter calls models that some nodes offer whole and others in parts.
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
    """Return a text as a slug may hold it: lower-case letters, digits, ``-`` and ``.``, the last two only inside."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def parse_mig_profile(resource: str) -> str | None:
    """Return the MIG profile in a resource of the ``mixed`` strategy (``nvidia.com/mig-1g.5gb``), else None."""
    return _parse_nvidia_resource(resource)[1]


def parse_mig_memory(profile: str | None) -> int | None:
    """Return the memory of a MIG slice: NVIDIA defines the profile's name as ``<slices>g.<memory>gb``."""
    match = _MIG_MEMORY.match(profile or "")
    return int(match["gb"]) * _GIB if match else None


def _read_gfd_labels(node: Node, resource: str, *, table: AcceleratorTable) -> NodeGPU | None:
    """Read GPU Feature Discovery; with mixed MIG each profile has labels of its own beside those of the cards."""
    labels = node.labels
    shared_resource, profile = _parse_nvidia_resource(resource)
    prefix = f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"
    key = f"{prefix}.product" if f"{prefix}.product" in labels else GFD_PRODUCT
    product, card = labels[key], labels[GFD_PRODUCT]
    if profile is None and "-MIG-" in product:
        profile = product.removesuffix("-SHARED").partition("-MIG-")[2]
    replicas = max(1, _parse_number(labels.get(f"{prefix}.replicas")) or 1)
    count = _parse_number(labels.get(f"{prefix}.count"))
    # Cards sliced unequally under the single strategy; or labels name one model, while the resource counts them all.
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
    """Read GKE's labels: unlike the others they are on a node before its driver works, also in the autoscaler's mind.

    Nodes whose GPUs are sliced or shared carry the same accelerator and further labels, so a match says which.
    """
    accelerator = labels[GKE_ACCELERATOR]
    partition, strategy = labels.get(_GKE_PARTITION), labels.get(_GKE_SHARING)
    # A device plugin other than GKE's names slices and shares in the resource.
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
    """Read Karpenter's labels; one name covers models that differ in memory only (``a100``), so both are matched."""
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
    """Tell whether Karpenter's labels say as much of a node's whole cards as GPU Feature Discovery's.

    They are then the better match: Karpenter promises them for nodes it has yet to make, and a node has them before
    GPU Feature Discovery has run there.
    """
    if _is_divided(labels):
        return False
    return _find_karpenter_model(model, table) is not None or table.find(GFD_PRODUCT, labels[GFD_PRODUCT]) is None


def _is_divided(labels: Mapping[str, str]) -> bool:
    """Tell whether GPU Feature Discovery says that a node's ``nvidia.com/gpu`` are slices or shares."""
    product = labels.get(GFD_PRODUCT, "")
    return product != strip_product_suffix(product) or (_parse_number(labels.get("nvidia.com/gpu.replicas")) or 1) > 1


def _read_amd_labels(labels: Mapping[str, str], resource: str, *, table: AcceleratorTable) -> NodeGPU | None:
    """Read AMD's node labeller; a node with several models has counters only (``….product-name.<model>=4``)."""
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
    """Return whether an NVIDIA resource is a renamed shared one, and its MIG profile."""
    found = GPU_RESOURCES["nvidia"].fullmatch(resource)
    return (bool(found["shared"]), found["profile"]) if found else (False, None)


def _choose_names(known: AcceleratorMatch | None, label: str) -> tuple[str, str]:
    """Return words for a slug and for people: the table's, else the label's own."""
    if known is not None:
        return known.accelerator.slug, known.accelerator.name
    words = re.sub(r"[^A-Za-z0-9.]+", " ", label, flags=re.ASCII).strip()
    return slugify(re.sub(r"^(nvidia|amd) ", "", words.lower())) or "gpu", words or "GPU"


def _parse_number(text: str | None) -> int | None:
    """Return a count or size in a label, None when there is none."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
