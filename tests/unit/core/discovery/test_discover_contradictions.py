"""What labels, resources and capacity say of one node's GPUs, together: agreeing, dividing them, or contradicting."""

from __future__ import annotations

from typing import Any

import pytest
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
LABELS_BY_KEY = {
    f"{GPU}.product": PRODUCTS,
    f"{GPU}.replicas": NUMBERS,
    f"{GPU}.count": NUMBERS,
    f"{GPU}.sharing-strategy": choose("none", "time-slicing", "mps", ""),
    f"{GPU}.memory": choose("4864", "15360", "40536"),
    f"{SLICE}.product": choose("A100-SXM-MIG-1g.5gb", "A100-SXM-MIG-1g.5gb-SHARED", "A100-SXM-MIG-INVALID"),
    f"{SLICE}.replicas": NUMBERS,
    f"{SLICE}.count": NUMBERS,
    f"{GKE}accelerator": choose("nvidia-tesla-a100", "nvidia-t4", "nvidia-new"),
    f"{GKE}accelerator-count": NUMBERS,
    f"{GKE}gpu-partition-size": choose("1g.5gb", "", "INVALID"),
    f"{GKE}gpu-sharing-strategy": choose("time-sharing", "mps", ""),
    f"{GKE}max-shared-clients-per-gpu": choose("1", "3"),
    f"{GKE}nodepool": choose("a", "b"),
    "amd.com/gpu.product-name": choose("MI300"),
    "beta.amd.com/gpu.product-name.MI300": NUMBERS,
    "beta.amd.com/gpu.device-id.74a1": NUMBERS,
    "amd.com/gpu.compute-memory-partition": choose("SPX_NPS1", "CPX_NPS4", "INVALID"),
    "beta.amd.com/gpu.compute-memory-partition.CPX_NPS4": NUMBERS,
    "gpu.intel.com/product": choose("Max_1550"),
    "gpu.intel.com/device.count": NUMBERS,
}
LABELS = st.fixed_dictionaries({}, optional=LABELS_BY_KEY)
HOSTILE_TEXTS = choose("INVALID", "X-MIG-INVALID", "X-MIG-INVALID-SHARED", "-MIG-", "-SHARED", "0" * 9) | st.text()
HOSTILE_LABELS = st.fixed_dictionaries({}, optional=dict.fromkeys(LABELS_BY_KEY, HOSTILE_TEXTS))
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
        AMD: ("beta.amd.com/gpu.product-name.MI300", "beta.amd.com/gpu.device-id.74a1"),
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


@given(st.lists(st.builds(lambda labels, units: make_node(labels, units=units), HOSTILE_LABELS, UNITS), max_size=4))
def test_no_label_of_a_node_stops_the_discovery(nodes: list[Node]):
    slugs = [gpu.slug for gpu in discover_gpu_types(nodes, TABLE)]
    assert len(slugs) == len(set(slugs))


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


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            make_node(gfd(count="1", replicas="1") | {f"{GPU}.memory": "15360"}, units={GPU: 0, SHARED: 50}),
            [("t4-shared", UnitKind.SHARED, 1, 15)],
            id="a renamed resource beside replicas from before",
        ),
        pytest.param(
            make_node({f"{GKE}accelerator": "nvidia-t4"} | gfd("Tesla-T4-SHARED", count="1", replicas="4")),
            [("t4-shared", UnitKind.SHARED, 1, 15)],
            id="NVIDIA's device plugin shares GPUs on GKE",
        ),
        pytest.param(
            make_node(
                {f"{GKE}accelerator": "nvidia-tesla-a100"}
                | gfd("A100-SXM-MIG-1g.5gb", count="7", replicas="1", memory="4864"),
                units={GPU: 7},
            ),
            [("a100-mig-1g.5gb", UnitKind.MIG, 7, 5)],
            id="NVIDIA's device plugin slices GPUs on GKE",
        ),
        pytest.param(
            make_node(
                {f"{GKE}accelerator": "nvidia-tesla-a100", f"{GKE}gpu-partition-size": "1g.5gb"}
                | gfd("A100-SXM", count="1", replicas="0"),
                units={GPU: 7},
            ),
            [("a100-mig-1g.5gb", UnitKind.MIG, 7, 5)],
            id="GKE slices GPUs and GPU Feature Discovery counts whole ones",
        ),
        pytest.param(
            make_node({f"{GKE}accelerator": "nvidia-t4"} | gfd("Tesla-T4", count="1", sharing_strategy="mps")),
            [("t4-shared", UnitKind.SHARED, 1, 15)],
            id="only the strategy says that GPUs are shared",
        ),
        pytest.param(
            make_node(karpenter()), [("t4-shared", UnitKind.SHARED, 1, None)], id="a machine with one GPU has four"
        ),
        pytest.param(
            make_node(karpenter(prefix=AUTO) | gfd(count="1", replicas="1"), units={GPU: 50}),
            [("t4-shared", UnitKind.SHARED, 1, None)],
            id="and GPU Feature Discovery does not know it",
        ),
        pytest.param(
            make_node({f"{GKE}accelerator": "nvidia-t4", f"{GKE}accelerator-count": "1"}),
            [("t4-shared", UnitKind.SHARED, 1, None)],
            id="GKE counts fewer GPUs than the node has",
        ),
        pytest.param(
            make_node(karpenter("l4", "0") | {f"{KARPENTER}memory": "2861"}, units={GPU: 1}),
            [("l4-shared", UnitKind.SHARED, 1, 3)],
            id="a machine with a part of a GPU",
        ),
        pytest.param(
            make_node(karpenter(), units={SHARED: 8}),
            [("t4-shared", UnitKind.SHARED, 1, 15)],
            id="more shares than GPUs of a machine",
        ),
        pytest.param(
            make_node(
                {"gpu.intel.com/product": "Flex_170", "gpu.intel.com/device.count": "2"},
                units={"gpu.intel.com/i915": 10},
            ),
            [("flex-170-shared", UnitKind.SHARED, 1, None)],
            id="Intel's device plugin shares without a label",
        ),
        pytest.param(
            make_node(
                {"amd.com/gpu.product-name": "MI300", "amd.com/gpu.compute-memory-partition": "CPX_NPS4"},
                units={AMD: 64},
            ),
            [("mi300-cpx-nps4", UnitKind.MIG, 64, None)],
            id="partitions of an AMD GPU are no whole GPUs",
        ),
        pytest.param(
            make_node({}, units={"amd.com/cpx_nps4": 64}),
            [("amd-gpu-cpx-nps4", UnitKind.MIG, 64, None)],
            id="a resource of partitions without labels",
        ),
        pytest.param(
            make_node(gfd("A100-SXM", count="8"), units={SLICE: 57}),
            [("a100-mig-1g.5gb", UnitKind.MIG, 57, 5)],
            id="slices are not counted by the GPUs",
        ),
        pytest.param(
            make_node(karpenter("a100", "8"), units={GPU: 8}),
            [("a100", UnitKind.CARD, 8, 40)],
            id="sources that agree",
        ),
    ],
)
def test_sources_are_judged_together(node: Node, expected: list[tuple[str, UnitKind, int, int | None]]):
    assert summarize(node) == expected


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(
            make_node(
                {f"{GKE}accelerator": "nvidia-tesla-a100"} | gfd("A100-SXM-MIG-INVALID", count="0", replicas="0")
            ),
            id="an invalid MIG layout on GKE",
        ),
        pytest.param(make_node(gfd(count="2", replicas="1"), units={GPU: 20}), id="ten units a GPU that no label says"),
        pytest.param(
            make_node(gfd("A100-SXM", count="2", replicas="0"), units={GPU: 2}), id="MIG is on and the GPUs stay whole"
        ),
        pytest.param(make_node(gfd() | {f"{GKE}accelerator": "nvidia-tesla-a100"}), id="two models for one GPU"),
        pytest.param(make_node(gfd() | karpenter("a100", "4")), id="another model than the machine's"),
        pytest.param(
            make_node(gfd("A100-SXM-MIG-2g.10gb") | {f"{GKE}gpu-partition-size": "1g.5gb"}), id="two sizes of slices"
        ),
        pytest.param(
            make_node({"amd.com/gpu.product-name": "MI300", "beta.amd.com/gpu.device-id.74a1": "1"}, units={AMD: 8}),
            id="a labeller that does not know partitions",
        ),
        pytest.param(
            make_node({"amd.com/gpu.compute-memory-partition": "SPX_NPS1"}, units={"amd.com/cpx_nps4": 8}),
            id="a partition and a resource of another",
        ),
    ],
)
def test_sources_that_contradict_each_other_make_no_type(node: Node):
    assert summarize(node) == []


def test_slices_are_offered_even_if_the_whole_gpus_beside_them_cannot_be():
    node = make_node(gfd("A100-SXM", count="2"), units={GPU: 2, "nvidia.com/mig-2g.10gb": 6})
    assert [slug for slug, *_ in summarize(node)] == ["a100-mig-2g.10gb"]


def test_shares_are_offered_even_if_the_same_gpus_are_counted_as_whole():
    assert summarize(make_node(gfd(count="4"), units={GPU: 4, SHARED: 8})) == [("t4-shared", UnitKind.SHARED, 1, 15)]


def test_whole_gpus_keep_their_type_beside_slices_on_the_same_node():
    node = make_node(gfd("A100-SXM", count="2"), units={GPU: 1, "nvidia.com/mig-2g.10gb": 3})
    assert [slug for slug, *_ in summarize(node)] == ["a100", "a100-mig-2g.10gb"]


def find_matches(*nodes: Node) -> dict[str, dict[str, tuple[str, ...]]]:
    return {gpu.slug: dict(gpu.match) for gpu in discover_gpu_types(nodes, TABLE)}


def test_whole_gpus_stay_apart_from_shares_of_the_same_machine_by_the_node_pool():
    pool = "karpenter.sh/nodepool"
    whole = make_node(karpenter() | {pool: "whole"}, units={GPU: 1})
    shares = make_node(karpenter() | {pool: "shared"})
    assert find_matches(whole, shares) == {
        "t4": {f"{KARPENTER}name": ("t4",), pool: ("whole",)},
        "t4-shared": {f"{KARPENTER}name": ("t4",)},
    }


def test_where_no_label_tells_whole_gpus_from_shares_all_are_shares():
    found = discover_gpu_types([make_node(karpenter(), units={GPU: 1}), make_node(karpenter())], TABLE)
    assert [(gpu.slug, gpu.unit, gpu.max_count) for gpu in found] == [("t4-shared", UnitKind.SHARED, 1)]


def test_whole_gpus_of_gke_stay_apart_from_nodes_that_another_device_plugin_shares():
    labels = {f"{GKE}accelerator": "nvidia-t4"}
    found = find_matches(make_node(labels), make_node(labels | gfd("Tesla-T4-SHARED", replicas="4")))
    assert found["t4"][f"{GPU}.product"] == ()
    assert found["t4-shared"] == {f"{GPU}.product": ("Tesla-T4-SHARED",)}


def test_whole_gpus_stay_apart_from_nodes_whose_labels_contradict_each_other():
    found = find_matches(make_node(gfd(count="4")), make_node(gfd(count="2")))
    assert found == {"t4": {f"{GPU}.product": ("Tesla-T4",), f"{GPU}.count": ("4",)}}


def test_gpus_of_any_model_are_not_those_that_labels_call_shared():
    found = find_matches(make_node({}), make_node(gfd("Tesla-T4-SHARED", replicas="4")))
    assert found["nvidia-gpu"] == {f"{GPU}.product": ()}


def test_shares_of_different_size_have_no_size_in_common():
    nodes = [make_node(gfd("Tesla-T4-SHARED", replicas=text)) for text in ("4", "8")]
    (found,) = discover_gpu_types(nodes, TABLE)
    assert found.description == ""


def test_a_node_that_lost_a_gpu_keeps_its_type():
    lost = Node(name="n", labels=gfd(count="7"), capacity={GPU: 8}, allocatable={GPU: 7})
    (found,) = discover_gpu_types([lost, make_node(gfd(count="8"), units={GPU: 8})], TABLE)
    assert (found.match, found.max_count) == ({f"{GPU}.product": ("Tesla-T4",)}, 8)


def test_shares_stay_shares_while_the_device_plugin_is_away():
    away = Node(name="n", labels=karpenter(), capacity={GPU: 4}, allocatable={GPU: 0})
    assert [gpu.slug for gpu in discover_gpu_types([away], TABLE)] == ["t4-shared"]
