"""What labels, resources and capacity say of one node's GPUs, together: agreeing, dividing them, or contradicting."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.catalog.nodes_by_type import count_units
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.discovery.discover import discover_gpu_types

GIB = 1 << 30
GPU, SHARED, SLICE = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
AMD = "amd.com/gpu"
GKE = "cloud.google.com/gke-"
KARPENTER = "karpenter.k8s.aws/instance-gpu-"
AUTO = "eks.amazonaws.com/instance-gpu-"
TABLE = AcceleratorTable(
    [
        Accelerator(
            slug=slug,
            name=slug.upper(),
            vendor="nvidia",
            memory_bytes=gib * GIB,
            labels={"gfd": (gfd,), "gke": (gke,), "karpenter": (slug,)},
        )
        for slug, gib, gfd, gke in (("a100", 40, "A100-SXM", "nvidia-tesla-a100"), ("t4", 15, "Tesla-T4", "nvidia-t4"))
    ]
)


def make_node(labels: dict[str, str], name: str = "n", **changes: Any) -> Node:
    units = changes.get("units", {GPU: 4})
    return Node(name=name, labels=labels, allocatable=units, capacity=units)


def gfd(product: str = "Tesla-T4", base: str = GPU, **labels: str) -> dict[str, str]:
    return {f"{GPU}.product": product} | {f"{base}.{key.replace('_', '-')}": text for key, text in labels.items()}


def karpenter(name: str = "t4", count: str = "1", prefix: str = KARPENTER) -> dict[str, str]:
    return {f"{prefix}name": name, f"{prefix}manufacturer": "nvidia", f"{prefix}count": count}


def summarize(*nodes: Node) -> list[tuple[str, UnitKind, int, int | None]]:
    found = discover_gpu_types(nodes, TABLE)
    return [(gpu.slug, gpu.unit, gpu.max_count, gpu.memory_bytes and gpu.memory_bytes // GIB) for gpu in found]


def choose(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


PRODUCTS = choose("Tesla-T4", "Tesla-T4-SHARED", "A100-SXM", "A100-SXM-MIG-1g.5gb", "A100-SXM-MIG-INVALID", "Unknown")
NUMBERS = choose("0", "1", "2", "4", "8")
LABELS = st.fixed_dictionaries(
    {},
    optional={
        f"{GPU}.product": PRODUCTS,
        f"{GPU}.replicas": NUMBERS,
        f"{GPU}.count": NUMBERS,
        f"{GPU}.sharing-strategy": choose("none", "time-slicing", "mps", ""),
        f"{GPU}.memory": choose("4864", "15360", "40536"),
        f"{SLICE}.product": choose("A100-SXM-MIG-1g.5gb", "A100-SXM-MIG-1g.5gb-SHARED"),
        f"{SLICE}.replicas": NUMBERS,
        f"{SLICE}.count": NUMBERS,
        f"{GKE}accelerator": choose("nvidia-tesla-a100", "nvidia-t4", "nvidia-new"),
        f"{GKE}accelerator-count": NUMBERS,
        f"{GKE}gpu-partition-size": choose("1g.5gb", ""),
        f"{GKE}gpu-sharing-strategy": choose("time-sharing", "mps", ""),
        f"{GKE}max-shared-clients-per-gpu": choose("1", "3"),
        f"{GKE}nodepool": choose("a", "b"),
        "amd.com/gpu.product-name": choose("MI300"),
        "beta.amd.com/gpu.product-name.MI300": NUMBERS,
        "amd.com/gpu.compute-memory-partition": choose("SPX_NPS1", "CPX_NPS4"),
        "beta.amd.com/gpu.compute-memory-partition.CPX_NPS4": NUMBERS,
        "gpu.intel.com/product": choose("Max_1550"),
        "gpu.intel.com/device.count": NUMBERS,
    },
)
MACHINES = st.sampled_from([{}, {}, karpenter(), karpenter("a100", "8"), karpenter("l4", "0"), karpenter(prefix=AUTO)])
UNITS = st.dictionaries(
    st.sampled_from([GPU, SHARED, SLICE, f"{SLICE}.shared", AMD, "amd.com/cpx_nps4", "gpu.intel.com/i915"]),
    st.sampled_from([0, 1, 2, 4, 8, 50]),
    min_size=1,
)
NODES = st.lists(
    st.builds(lambda labels, machine, units: make_node(labels | machine, units=units), LABELS, MACHINES, UNITS),
    min_size=1,
    max_size=4,
)


def says_shared(node: Node, resource: str) -> bool:
    """Return whether any source says that servers share the GPUs or slices of a resource."""
    labels, base = node.labels, resource.removesuffix(".shared")
    if not base.startswith("nvidia.com/"):
        return False
    return (
        resource.endswith(".shared")
        or count_units(node, f"{resource}.shared") > 0
        or labels.get(f"{base}.product", labels.get(f"{GPU}.product", "")).endswith("-SHARED")
        or labels.get(f"{base}.replicas", "1") not in ("0", "1")
        or labels.get(f"{base}.sharing-strategy", "") not in ("", "none")
        or says_shared_by_gke(labels)
    )


def says_shared_by_gke(labels: Any) -> bool:
    is_limited = labels.get(f"{GKE}max-shared-clients-per-gpu", "1") != "1"
    return labels.get(f"{GKE}gpu-sharing-strategy", "") != "" or is_limited


def says_sliced(node: Node, resource: str) -> bool:
    """Return whether any source says that the units of a resource are slices of GPUs."""
    labels = node.labels
    if resource == AMD:
        return any("compute-memory-partition" in key and "CPX" in f"{key}{text}" for key, text in labels.items())
    return resource.startswith("nvidia.com/mig-") or (
        resource.startswith(GPU)
        and (
            "-MIG-" in labels.get(f"{GPU}.product", "")
            or labels.get(f"{GPU}.replicas") == "0"
            or labels.get(f"{GKE}gpu-partition-size", "") != ""
        )
    )


def find_smallest_count(node: Node, resource: str) -> int:
    """Return the smallest number of GPUs that any source names, or the number of units if none does."""
    own = {
        GPU: (f"{GPU}.count", f"{GKE}accelerator-count", f"{KARPENTER}count", f"{AUTO}count"),
        AMD: ("beta.amd.com/gpu.product-name.MI300",) if "amd.com/gpu.product-name" in node.labels else (),
        "gpu.intel.com/i915": ("gpu.intel.com/device.count",),
    }
    counted = [
        *own.get(resource, ()),
        *([f"{GPU}.count"] if resource == GPU and f"{GPU}.product" in node.labels else []),
    ]
    return min((int(node.labels[key]) for key in counted if key in node.labels), default=count_units(node, resource))


def is_whole(gpu: GPUType) -> bool:
    return gpu.unit is UnitKind.CARD and "partition" not in gpu.display_name


def list_units(gpu: GPUType, nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if gpu.matches_labels(node.labels) and count_units(node, gpu.resource)]


@given(NODES)
def test_nothing_is_a_whole_gpu_where_any_source_says_that_it_is_shared_or_sliced(nodes: list[Node]):
    found = [gpu for gpu in discover_gpu_types(nodes, TABLE) if is_whole(gpu)]
    divided = [
        (gpu.slug, node)
        for gpu in found
        for node in list_units(gpu, nodes)
        if says_shared(node, gpu.resource) or says_sliced(node, gpu.resource)
    ]
    assert divided == []


@given(NODES)
def test_no_node_has_more_whole_gpus_than_the_smallest_count_that_any_source_names(nodes: list[Node]):
    found = [gpu for gpu in discover_gpu_types(nodes, TABLE) if is_whole(gpu)]
    excess = [
        (gpu.slug, node)
        for gpu in found
        for node in list_units(gpu, nodes)
        if count_units(node, gpu.resource) > find_smallest_count(node, gpu.resource)
    ]
    assert excess == []


@given(NODES)
def test_a_slice_is_nowhere_shared(nodes: list[Node]):
    found = [gpu for gpu in discover_gpu_types(nodes, TABLE) if gpu.unit is UnitKind.MIG]
    shared = [(gpu.slug, node) for gpu in found for node in list_units(gpu, nodes) if says_shared(node, gpu.resource)]
    assert shared == []


@given(NODES)
def test_a_server_gets_at_most_one_share(nodes: list[Node]):
    found = discover_gpu_types(nodes, TABLE)
    assert {gpu.max_count for gpu in found if gpu.unit is UnitKind.SHARED} <= {1}
