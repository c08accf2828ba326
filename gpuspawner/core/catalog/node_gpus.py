"""Read what one unit of a GPU resource is on a node: a whole GPU, a slice or a share, and of which model.

Many programs describe a node's GPUs: NVIDIA GPU Feature Discovery, GKE, Karpenter and EKS Auto Mode, AMD's node
labeller and Intel's NFD rules by labels, the device plugin by the resource's name, kubelet by the number of units. Each
of them may be out of date or know only a part. The module first gathers what each of them says (:class:`_Statement`),
and then judges all statements together:

- One of them says that GPUs are shared: the unit is a share, whatever the others say. The same holds for slices.
- A machine has fewer GPUs than units: the units are shares, because all GPUs of a cloud's machine are alike.
- They contradict each other in another way: the unit is unknown (:class:`LabelContradiction`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

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
from gpuspawner.core.catalog.node_labels import (
    AMD_WHOLE,
    find_vendor,
    parse_amd_partition,
    parse_mig_memory,
    parse_mig_profile,
    slugify,
)
from gpuspawner.core.catalog.nodes_by_type import count_units
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.text.wording import format_list, sanitize_name

_NVIDIA_CARD = "nvidia.com/gpu"
_SHARED = ".shared"
"""Ending of the names of resources that NVIDIA's device plugin shares and renames (``renameByDefault``)."""

_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_AMD_PARTITION = "amd.com/gpu.compute-memory-partition"
PART_LABELS = (_GKE_PARTITION, _GKE_SHARING, _GKE_CLIENTS, _AMD_PARTITION, f"beta.{_AMD_PARTITION}")
"""Labels of GKE and AMD that say how GPUs are divided or shared."""
_AMD_COUNTER = re.compile(
    r"(?P<property>(?:beta\.)?amd\.com/gpu\.(?:product-name|device-id|family|vram|cu-count|simd-count))\..+", re.ASCII
)
_NOT_SHARED = frozenset({None, "", "none"})
_INVALID = "INVALID"
"""MIG profile in GPU Feature Discovery's label if the strategy is ``single`` and the GPUs have different layouts."""
_UNIFORM_SOURCES = frozenset({"gke", "karpenter", "intel"})
"""Sources of labels that name a model only if all GPUs of the machine are of this model."""
_MAX_SLICES = 8
"""Largest number of slices of one GPU: NVIDIA's MIG makes up to 7, AMD's partitioning up to 8."""

MACHINE_COUNTS = {
    "nvidia": (
        *(f"{prefix}instance-gpu-count" for prefix in KARPENTER_PREFIXES),
        "cloud.google.com/gke-accelerator-count",
        # https://github.com/Azure/karpenter-provider-azure/blob/main/pkg/apis/v1beta1/labels.go
        "karpenter.azure.com/sku-gpu-count",
    ),
    "amd": tuple(f"{prefix}instance-gpu-count" for prefix in KARPENTER_PREFIXES),
    # https://github.com/intel/intel-device-plugins-for-kubernetes/blob/main/cmd/gpu_plugin/labels.md
    "intel": ("gpu.intel.com/device.count",),
}
"""Vendor → labels with the number of the machine's GPUs. Other than ``nvidia.com/gpu.count``, they count all GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUDescription:
    """A node's GPU model, as one source of labels describes it.

    :param source: origin of the labels (``gfd``, ``gke``, ``karpenter``, ``amd``, ``intel``); empty without labels.
    :param model: the model's name in slugs (``a100-40gb``) and in the form (``A100 40 GB``); None if no label names it.
    :param match: label → values that select nodes with the same GPUs; no values = the label must be missing.
    :param memory_bytes: memory of one unit; None if unknown.
    """

    source: str = ""
    model: tuple[str, str] | None = None
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGPU:
    """One unit of a GPU resource on a node.

    :param profile: MIG profile (``1g.5gb``) or AMD partition (``cpx_nps4``); None for a whole GPU.
    :param shared: whether several servers share one GPU.
    :param replicas: number of servers that can share one GPU; 1 if it is not shared or the number is unknown.
    :param descriptions: the unit's model by each source of labels, at least one. Labels that tell this unit from
        others, and that new nodes have from the start, come first.
    """

    resource: str
    vendor: str
    profile: str | None = None
    shared: bool = False
    replicas: int = 1
    descriptions: tuple[GPUDescription, ...] = (GPUDescription(),)

    @property
    def kind(self) -> tuple[str | None, bool]:
        """What one unit is; the units of a GPU type are all of the same kind."""
        return self.profile, self.shared


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelContradiction:
    """What is known of a node contradicts itself, so what one unit of a resource is stays unknown.

    :param reason: the contradiction, for admins, as the end of a sentence.
    :param is_invalid_mig: whether a label says that the node's MIG layout is invalid.
    """

    reason: str
    is_invalid_mig: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """What one source says about the units of one resource on one node; a source says only a part.

    :param source: as in :class:`GPUDescription`; empty for sources that name no model.
    :param origin: label, label with value, or resource's name, for messages.
    :param known: the model in the table of models.
    :param label: the model as the label writes it; empty if the source names no model.
    :param memory_bytes: memory of one unit.
    :param profile: MIG profile or AMD partition; None if the source says nothing of slices.
    :param replicas: number of shares of each GPU, 0 for a GPU with MIG enabled; None if the source does not say.
    :param count: number of GPUs (for slices: of slices), without replicas; None if the source does not say.
    :param count_origin: label of ``count``, for messages.
    :param is_complete: whether ``count`` counts all GPUs of the machine, not only those of one model.
    """

    origin: str
    source: str = ""
    known: AcceleratorMatch | None = None
    label: str = ""
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory_bytes: int | None = None
    profile: str | None = None
    shared: bool = False
    replicas: int | None = None
    count: int | None = None
    count_origin: str = ""
    is_complete: bool = False


Judgment: TypeAlias = NodeGPU | LabelContradiction


def read_node_gpu(node: Node, resource: str, *, table: AcceleratorTable) -> Judgment:
    """Return what one unit of a GPU resource is on a node (GPU, slice or share), or why that is unknown.

    :param node: the node, with units of the resource.
    """
    evidence = _Evidence(
        node=node, resource=resource, statements=tuple(_gather_statements(node, resource, table=table))
    )
    return next(_find_contradictions(evidence), None) or _judge(evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """All statements about the units of one resource on one node."""

    node: Node
    resource: str
    statements: tuple[_Statement, ...]

    @property
    def units(self) -> int:
        return count_units(self.node, self.resource)

    @property
    def profile(self) -> str | None:
        return next((statement.profile for statement in self.statements if statement.profile is not None), None)

    @property
    def is_shared(self) -> bool:
        return any(statement.shared for statement in self.statements)

    @property
    def is_divided(self) -> bool:
        """Whether MIG is enabled on all GPUs, and no source says the size of the slices."""
        return self.profile is None and any(statement.replicas == 0 for statement in self.statements)

    @property
    def is_uniform(self) -> bool:
        """Whether all GPUs of the node are of one model, as in the machines of clouds."""
        return any(statement.is_complete or statement.source in _UNIFORM_SOURCES for statement in self.statements)

    @property
    def replicas(self) -> int:
        """Largest number of shares of each GPU that a source says; 1 if none does."""
        return max([1, *(statement.replicas for statement in self.statements if statement.replicas is not None)])

    @property
    def machine_count(self) -> int | None:
        """Smallest number of GPUs among the sources that count all GPUs of the machine."""
        counts = (
            statement.count for statement in self.statements if statement.is_complete and statement.count is not None
        )
        return min(counts, default=None)

    def find_smallest_count(self) -> _Statement | None:
        """Return the statement with the smallest number of GPUs, or None if no source counts them."""
        counted = [statement for statement in self.statements if statement.count is not None]
        return min(counted, key=lambda statement: statement.count or 0, default=None)

    def has_excess_units(self) -> bool:
        """Return whether the node has more units than the GPUs (or slices) of any count, times replicas, can be.

        A GPU that is lost leaves the count of GPU Feature Discovery at once, but kubelet's capacity only when the
        device plugin restarts. Until then the units that work (allocatable) are those that are counted.
        """
        working = self.node.allocatable.get(self.resource, 0)
        for statement in self.statements:
            if statement.count is None:
                continue
            # A source that does not know the slices counts whole GPUs.
            slices = _MAX_SLICES if self.profile is not None and statement.profile is None else 1
            most = statement.count * self.replicas * slices
            if self.units > most and (statement.is_complete or not 0 < working <= most):
                return True
        return False


def _judge(evidence: _Evidence) -> NodeGPU:
    profile, replicas = evidence.profile, evidence.replicas
    # More units than GPUs of one model: shares of them or slices, which the device plugin does not tell apart.
    is_part = not evidence.is_shared and evidence.has_excess_units()
    machine = evidence.machine_count
    if is_part and machine:
        replicas = -(-evidence.units // machine)
    has_unknown_size = evidence.is_divided or (is_part and machine != 0)
    named = sorted(
        (statement for statement in evidence.statements if statement.source),
        key=lambda statement: not _says_kind(statement, evidence),
    )
    descriptions = tuple(
        GPUDescription(
            source=statement.source,
            model=_choose_names(statement.known, statement.label),
            match=statement.match,
            memory_bytes=None if has_unknown_size else _find_unit_memory(statement, profile),
        )
        for statement in named
    )
    return NodeGPU(
        resource=evidence.resource,
        vendor=find_vendor(evidence.resource) or "",
        profile=profile,
        shared=evidence.is_shared or is_part,
        replicas=replicas,
        descriptions=descriptions or (GPUDescription(memory_bytes=parse_mig_memory(profile)),),
    )


def _find_contradictions(evidence: _Evidence) -> Iterator[LabelContradiction]:
    invalid = next((statement for statement in evidence.statements if statement.profile == _INVALID), None)
    if invalid is not None:
        yield LabelContradiction(
            reason=f"the MIG layout is not the same on all GPUs ({invalid.origin}). "
            "Make it the same, or use the device plugin's strategy mixed.",
            is_invalid_mig=True,
        )
    reasons = (
        _contrast_models(evidence.statements),
        _contrast_profiles(evidence.statements),
        _contrast_partitions(evidence.node, evidence.resource),
        _contrast_resources(evidence),
        _contrast_counts(evidence),
    )
    yield from (LabelContradiction(reason=reason) for reason in reasons if reason)


def _contrast_models(statements: Iterable[_Statement]) -> str:
    models = {
        statement.known.accelerator.slug: statement.origin for statement in statements if statement.known is not None
    }
    if len(models) > 1:
        return f"the labels name different GPU models: {format_list(list(models.values()))}."
    return ""


def _contrast_profiles(statements: Iterable[_Statement]) -> str:
    profiles = {
        _normalize(statement.profile): statement.origin for statement in statements if statement.profile is not None
    }
    if len(profiles) > 1:
        return f"labels and resource name different slices: {format_list(list(profiles.values()))}."
    return ""


def _contrast_partitions(node: Node, resource: str) -> str:
    """Return what AMD's labels say against each other or against the resource's name, or "".

    On a node with several models or partitions, the node labeller sets no ``amd.com/gpu.product-name``, but for each
    value a label ``amd.com/gpu.product-name.<value>`` with the number of GPUs (cmd/k8s-node-labeller/main.go).
    """
    if find_vendor(resource) != "amd":
        return ""
    products = (AMD_PRODUCT, f"beta.{AMD_PRODUCT}")
    if any(key.startswith(products) for key in node.labels) and not any(key in node.labels for key in products):
        return "the node has several GPU models, and one resource counts them all. A server could get any of them."
    labelled, named = _list_amd_partitions(node.labels), parse_amd_partition(resource)
    if (named and labelled and named not in labelled) or (not named and len(labelled) > 1):
        return f"labels and resource name different partitions: {format_list([resource, *sorted(labelled)])}."
    return ""


def _contrast_resources(evidence: _Evidence) -> str:
    """Return why units of a resource for whole GPUs cannot be whole GPUs, by other resources and by the replicas."""
    node, resource = evidence.node, evidence.resource
    if evidence.is_shared or not evidence.units:
        return ""
    if count_units(node, f"{resource}{_SHARED}"):
        return f"{resource}{_SHARED} says that the node's GPUs are shared, and {resource} counts them, too."
    if evidence.is_divided:
        # GPU Feature Discovery writes 0 replicas if all GPUs have MIG enabled (internal/lm/resource.go).
        zero = next(statement.origin for statement in evidence.statements if statement.replicas == 0)
        return f"the node's GPUs are divided into MIG slices ({zero}), and {resource} counts them as whole GPUs."
    slices = sorted(name for name in node.capacity if parse_mig_profile(name) and count_units(node, name))
    fewest = evidence.find_smallest_count()
    count = fewest.count if fewest is not None else None
    if resource == _NVIDIA_CARD and evidence.profile is None and slices and count is not None:
        divided = format_list(slices)
        if evidence.units >= count:
            return f"the node has {count} GPUs. {resource} counts them all as whole GPUs, and {divided} as divided."
    return ""


def _contrast_counts(evidence: _Evidence) -> str:
    replicas = evidence.replicas
    fewest = evidence.find_smallest_count()
    if fewest is None or evidence.is_uniform or (evidence.is_shared and replicas <= 1):
        return ""
    if not evidence.has_excess_units():
        return ""
    shares = f", and {replicas} shares of each" if replicas > 1 else ""
    return (
        f"the node has {evidence.units} {evidence.resource}, but {fewest.count_origin} says {fewest.count}{shares}. "
        "Either it has several GPU models, and one resource counts them all, or its GPUs are shared or divided, "
        "and no label says so."
    )


def _says_kind(statement: _Statement, evidence: _Evidence) -> bool:
    """Return whether a source says that units are slices or shares, if they are and the resource's name says neither.

    The labels of other sources also match nodes with whole GPUs.
    """
    resource, profile = evidence.resource, evidence.profile
    is_slice_named = profile is None or parse_mig_profile(resource) or parse_amd_partition(resource)
    is_share_named = not evidence.is_shared or resource.endswith(_SHARED)
    return bool(is_slice_named or statement.profile) and (is_share_named or statement.shared)


def _find_unit_memory(statement: _Statement, profile: str | None) -> int | None:
    is_own = _normalize(statement.profile) == _normalize(profile)
    return statement.memory_bytes if is_own else parse_mig_memory(profile)


def _normalize(profile: str | None) -> str:
    """Return a slice's profile without punctuation: a label cannot contain ``+``, so its spelling varies."""
    return re.sub(r"[^a-z0-9]", "", (profile or "").lower())


def _gather_statements(node: Node, resource: str, *, table: AcceleratorTable) -> Iterator[_Statement]:
    """Yield what each source says, sources of labels first that new nodes have from the start."""
    labels, vendor = node.labels, find_vendor(resource)
    yield _Statement(
        origin=resource,
        profile=parse_mig_profile(resource) or parse_amd_partition(resource),
        shared=resource.endswith(_SHARED),
    )
    karpenter = _gather_karpenter_labels(labels, vendor=vendor, table=table)
    if vendor == "nvidia":
        gfd = _gather_gfd_labels(labels, resource, table=table)
        yield from _gather_gke_labels(labels, table=table)
        # Karpenter knows how many whole GPUs a new node has. If the table has a model only under the name that GPU
        # Feature Discovery writes, that name describes more.
        is_known = bool(karpenter and karpenter.known) or gfd.known is None
        ordered = (karpenter, gfd) if resource == _NVIDIA_CARD and is_known else (gfd, karpenter)
        yield from filter(None, ordered)
    elif vendor == "amd":
        yield _gather_amd_labels(labels, resource, table=table)
        yield from filter(None, (karpenter,))
    elif vendor == "intel" and INTEL_PRODUCT in labels:
        yield _name_model(labels, INTEL_PRODUCT, source="intel", table=table)
    for key in MACHINE_COUNTS.get(vendor or "", ()):
        count = _parse_number(labels.get(key))
        maker = labels.get(key.replace("-count", "-manufacturer"), vendor) if key.endswith("-count") else vendor
        if count is not None and maker == vendor:
            yield _Statement(origin=f"{key}={count}", count=count, is_complete=True)


def _name_model(
    labels: Mapping[str, str], key: str, *, source: str, table: AcceleratorTable, memory_mib: int | None = None
) -> _Statement:
    """Return the statement of a source that only names the GPU model.

    :param key: label with the model.
    :param source: as in :class:`GPUDescription`.
    :param memory_mib: memory of one GPU by the source's labels, in MiB; None if they do not say.
    """
    known = table.find(key.removeprefix("beta."), labels[key])
    return _Statement(
        origin=f"{key}={sanitize_name(labels[key])}",
        source=source,
        known=known,
        label=labels[key],
        match={key: (labels[key],)},
        memory_bytes=reconcile_memory(memory_mib, known.memory_bytes if known else None),
    )


def _gather_gfd_labels(labels: Mapping[str, str], resource: str, *, table: AcceleratorTable) -> _Statement:
    """Return the statement of GPU Feature Discovery's labels. Without ``nvidia.com/gpu.product``, it names no model.

    With MIG strategy ``mixed``, each MIG profile has labels of its own.
    """
    base = resource.removesuffix(_SHARED)
    key = f"{base}.product" if f"{base}.product" in labels else GFD_PRODUCT
    product = labels.get(key, "")
    profile = parse_mig_profile(resource)
    if (profile is None or key != GFD_PRODUCT) and "-MIG-" in product:
        profile = product.removesuffix("-SHARED").partition("-MIG-")[2]
    replicas = _parse_number(labels.get(f"{base}.replicas"))
    sharing = {
        f"{base}.replicas": (replicas or 0) > 1,
        f"{base}.sharing-strategy": labels.get(f"{base}.sharing-strategy") not in _NOT_SHARED,
        # True only if the device plugin's configuration has MPS (internal/lm/nvml.go, newSharingLabeler).
        "nvidia.com/mps.capable": labels.get("nvidia.com/mps.capable") == "true" and profile is None,
    }
    said = _Statement(
        origin=f"{base}.replicas=0" if replicas == 0 and profile is None else f"{key}={sanitize_name(product)}",
        profile=profile,
        shared=product.endswith("-SHARED") or any(sharing.values()),
        replicas=replicas,
        count=_parse_number(labels.get(f"{base}.count")),
        count_origin=f"{base}.count",
    )
    if GFD_PRODUCT not in labels:
        return said
    match = {key: (product,)}
    if not (resource.endswith(_SHARED) or product.endswith("-SHARED")):
        match |= {name: (labels[name],) for name, is_said in sharing.items() if is_said}
    known = table.find(GFD_PRODUCT, labels[GFD_PRODUCT])
    whole = known.memory_bytes if known and not profile else None
    memory = reconcile_memory(_parse_number(labels.get(f"{base}.memory")), whole) or parse_mig_memory(profile)
    label = strip_product_suffix(labels[GFD_PRODUCT])
    return replace(said, source="gfd", known=known, label=label, match=match, memory_bytes=memory)


def _gather_gke_labels(labels: Mapping[str, str], *, table: AcceleratorTable) -> Iterator[_Statement]:
    """Yield the statement of GKE's labels.

    Its ``match`` uses GKE's labels only, because GKE's autoscaler knows these labels before a node exists. Nodes with
    whole, sliced and shared GPUs have the same accelerator label, so the match includes the labels for the MIG
    partition size and the sharing strategy.
    """
    partition, strategy = labels.get(_GKE_PARTITION), labels.get(_GKE_SHARING)
    clients = _parse_number(labels.get(_GKE_CLIENTS))
    shared = strategy not in _NOT_SHARED or (clients or 0) > 1
    origin = f"{_GKE_PARTITION}={sanitize_name(partition)}"
    said = _Statement(origin=origin, profile=partition or None, shared=shared, replicas=clients)
    if GKE_ACCELERATOR not in labels:
        yield said
        return
    mib = _parse_number(labels.get("nvidia.com/gpu.memory"))
    named = _name_model(labels, GKE_ACCELERATOR, source="gke", table=table, memory_mib=mib)
    yield replace(
        named,
        match={
            **named.match,
            _GKE_PARTITION: () if partition is None else (partition,),
            _GKE_SHARING: () if strategy is None else (strategy,),
        },
        origin=said.origin if partition else named.origin,
        memory_bytes=parse_mig_memory(partition) if partition else named.memory_bytes,
        profile=said.profile,
        shared=said.shared,
        replicas=said.replicas,
    )


def _gather_karpenter_labels(
    labels: Mapping[str, str], *, vendor: str | None, table: AcceleratorTable
) -> _Statement | None:
    """Return the statement of the labels of Karpenter or EKS Auto Mode, or None if the node has none for the vendor.

    Its ``match`` includes the memory label, because GPU models with different memory can share a name.
    """
    for prefix in KARPENTER_PREFIXES:
        key, memory_key = f"{prefix}instance-gpu-name", f"{prefix}instance-gpu-memory"
        if key in labels and labels.get(f"{prefix}instance-gpu-manufacturer") == vendor:
            mib = _parse_number(labels.get(memory_key))
            known = table.find(key, labels[key], memory_mib=mib)
            match = {name: (labels[name],) for name in (key, memory_key) if name in labels}
            memory = reconcile_memory(mib, known.memory_bytes if known else None)
            named = _name_model(labels, key, source="karpenter", table=table)
            return replace(named, known=known, match=match, memory_bytes=memory)
    return None


def _gather_amd_labels(labels: Mapping[str, str], resource: str, *, table: AcceleratorTable) -> _Statement:
    """Return the statement of AMD's labels. Without a product's name, it names no model."""
    named_partition = parse_amd_partition(resource)
    partitions = {named_partition} if named_partition else _list_amd_partitions(labels)
    profile = next(iter(sorted(partitions - AMD_WHOLE)), None)
    counts = {} if profile else _count_amd_gpus(labels)
    fewest = min(counts, key=lambda label: counts[label], default="")
    said = _Statement(origin=_AMD_PARTITION, profile=profile, count=counts.get(fewest), count_origin=f"{fewest}.*")
    key = next((key for key in (AMD_PRODUCT, f"beta.{AMD_PRODUCT}") if key in labels), None)
    if key is None:
        return said
    gib = _parse_number(labels.get(key.replace("product-name", "vram"), "").removesuffix("G"))
    named = _name_model(labels, key, source="amd", table=table, memory_mib=gib * 1024 if gib else None)
    return replace(
        named,
        match={**named.match, **{label: (labels[label],) for label in (_AMD_PARTITION,) if label in labels}},
        memory_bytes=None if profile else named.memory_bytes,
        profile=said.profile,
        count=said.count,
        count_origin=said.count_origin,
    )


def _count_amd_gpus(labels: Mapping[str, str]) -> dict[str, int]:
    """Return property of AMD's GPUs → number of GPUs by its labels ``beta.amd.com/gpu.<property>.<value>=<number>``.

    The numbers may differ: older labellers count partitions for some properties, and GPUs for the others.
    """
    found: dict[str, int] = {}
    for key, text in labels.items():
        counter = _AMD_COUNTER.fullmatch(key)
        number = _parse_number(text)
        if counter is not None and number is not None:
            found[counter["property"]] = found.get(counter["property"], 0) + number
    return found


def _list_amd_partitions(labels: Mapping[str, str]) -> set[str]:
    """Return the partitions in AMD's labels in lower case; a node with several has one label for each."""
    found = {labels[key].lower() for key in (_AMD_PARTITION, f"beta.{_AMD_PARTITION}") if key in labels}
    for key in labels:
        prefix, _, value = key.partition(f"{_AMD_PARTITION}.")
        if value and prefix in ("", "beta."):
            found.add(value.lower())
    return found - {""}


def _choose_names(known: AcceleratorMatch | None, label: str) -> tuple[str, str]:
    if known is not None:
        return known.accelerator.slug, known.accelerator.name
    words = re.sub(r"[^A-Za-z0-9.]+", " ", label, flags=re.ASCII).strip()
    return slugify(re.sub(r"^(nvidia|amd) ", "", words.lower())) or "gpu", words or "GPU"


def _parse_number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
