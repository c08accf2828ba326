from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.discovery.discover import discover_gpu_types

GIB = 1 << 30
GPU, PRODUCT, GKE = "nvidia.com/gpu", "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"
TABLE = AcceleratorTable(
    [
        Accelerator(
            slug="a100",
            name="A100",
            vendor="nvidia",
            memory_bytes=40 * GIB,
            labels={"gfd": ("A100-SXM", "A100-PCIe"), "gke": ("nvidia-tesla-a100",), "karpenter": ("a100",)},
        )
    ]
)
SLUG = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


def node(labels: dict[str, str], **resources: int) -> Node:
    amounts = {resource.replace("__", "/").replace("_", "."): number for resource, number in resources.items()}
    return Node(name="n", labels=labels, allocatable=amounts, capacity=amounts)


def gpus(labels: dict[str, str], number: int = 4, resource: str = GPU) -> Node:
    return Node(name="n", labels=labels, allocatable={resource: number}, capacity={resource: number})


def slugs(*nodes: Node) -> list[str]:
    return [gpu.slug for gpu in discover_gpu_types(nodes, TABLE)]


def test_nodes_of_one_model_are_one_type():
    found = discover_gpu_types([gpus({PRODUCT: "A100-SXM"}, 4), gpus({PRODUCT: "A100-PCIe"}, 8)], TABLE)
    assert found == (
        GPUType(
            slug="a100",
            display_name="A100",
            resource=GPU,
            vendor="nvidia",
            match={PRODUCT: ("A100-PCIe", "A100-SXM")},
            max_count=8,
            memory_bytes=40 * GIB,
            tolerations=(Toleration(key=GPU, operator="Exists"),),
        ),
    )


def test_whole_cards_slices_and_shares_are_types_of_their_own():
    mixed = Node(
        name="n",
        labels={PRODUCT: "A100-SXM"},
        allocatable={GPU: 4, "nvidia.com/mig-1g.5gb": 7},
        capacity={GPU: 4, "nvidia.com/mig-1g.5gb": 7},
    )
    shared = gpus({PRODUCT: "A100-SXM-SHARED", "nvidia.com/gpu.replicas": "4"}, 16)
    found = [
        (gpu.slug, gpu.display_name, gpu.unit, gpu.max_count) for gpu in discover_gpu_types([shared, mixed], TABLE)
    ]
    assert found == [
        ("a100", "A100", UnitKind.CARD, 4),
        ("a100-mig-1g.5gb", "A100 (MIG 1g.5gb)", UnitKind.MIG, 7),
        ("a100-shared", "A100 (shared)", UnitKind.SHARED, 1),
    ]


def test_a_shared_type_says_by_how_many():
    (found,) = discover_gpu_types([gpus({PRODUCT: "A100-SXM-SHARED", "nvidia.com/gpu.replicas": "4"})], TABLE)
    assert found.description == "One GPU for up to 4 servers at a time."


def test_vendors_come_in_a_fixed_order():
    amd = gpus({"amd.com/gpu.product-name": "AMD_X"}, resource="amd.com/gpu")
    intel = gpus({"gpu.intel.com/product": "Max_1"}, resource="gpu.intel.com/xe")
    assert slugs(intel, amd, gpus({PRODUCT: "A100-SXM"})) == ["a100", "x", "max-1"]


def test_one_model_under_two_kinds_of_labels_is_two_types():
    found = discover_gpu_types([gpus({GKE: "nvidia-tesla-a100"}), gpus({PRODUCT: "A100-SXM"})], TABLE)
    assert [(gpu.slug, gpu.display_name) for gpu in found] == [("a100", "A100"), ("a100-gke", "A100 [GKE]")]


KARPENTER = {
    f"karpenter.k8s.aws/instance-gpu-{name}": text
    for name, text in (("name", "a100"), ("manufacturer", "nvidia"), ("memory", "40960"))
}


def test_a_karpenter_node_is_of_one_type_before_and_after_its_gpus_were_looked_at():
    (found,) = discover_gpu_types(
        [gpus(KARPENTER), gpus({**KARPENTER, PRODUCT: "A100-SXM", "nvidia.com/gpu.replicas": "1"})], TABLE
    )
    assert (found.slug, found.display_name, found.memory_bytes) == ("a100", "A100", 40 * GIB)
    assert set(found.match) == {"karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"}


def test_whole_gpus_of_a_machine_that_other_nodes_share_are_recognized_by_their_product():
    shared = gpus({**KARPENTER, PRODUCT: "A100-SXM-SHARED", "nvidia.com/gpu.replicas": "4"}, 16)
    found = discover_gpu_types([shared, gpus({**KARPENTER, PRODUCT: "A100-SXM"})], TABLE)
    assert [(gpu.slug, gpu.match[PRODUCT]) for gpu in found] == [
        ("a100", ("A100-SXM",)),
        ("a100-shared", ("A100-SXM-SHARED",)),
    ]


def test_nodes_without_labels_offer_any_model():
    (found,) = discover_gpu_types([gpus({})], TABLE)
    assert (found.slug, found.display_name, found.match) == ("nvidia-gpu", "NVIDIA GPU (any model)", {})


def test_a_slice_of_an_unknown_model_is_offered_by_its_profile():
    (found,) = discover_gpu_types([gpus({}, resource="nvidia.com/mig-1g.5gb")], TABLE)
    assert (found.slug, found.display_name) == ("nvidia-mig-1g.5gb", "NVIDIA MIG 1g.5gb")


@pytest.mark.parametrize("nodes", [[], [gpus({PRODUCT: "A100-SXM"}, 0)], [gpus({}, resource="example.com/fpga")]])
def test_without_gpus_there_are_no_types(nodes: list[Node]):
    assert discover_gpu_types(nodes, TABLE) == ()


def test_gpus_that_do_not_work_right_now_are_still_a_type():
    broken = Node(name="n", labels={PRODUCT: "A100-SXM"}, allocatable={GPU: 0}, capacity={GPU: 4}, ready=False)
    (found,) = discover_gpu_types([broken], TABLE)
    assert found.max_count == 1


def test_a_slice_tolerates_the_taints_of_its_resource_and_of_whole_cards():
    (found,) = discover_gpu_types([gpus({PRODUCT: "A100-SXM"}, resource="nvidia.com/mig-1g.5gb")], TABLE)
    assert [(item.key, item.operator, item.effect) for item in found.tolerations] == [
        ("nvidia.com/mig-1g.5gb", "Exists", ""),
        (GPU, "Exists", ""),
    ]


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize(
    ("resource", "key"),
    [
        (GPU, GPU),
        ("nvidia.com/gpu.shared", GPU),
        ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("amd.com/gpu", "amd.com/gpu"),
        ("amd.com/cpx_nps4", "amd.com/gpu"),
        ("gpu.intel.com/i915", "gpu.intel.com/i915"),
    ],
)
def test_servers_tolerate_the_usual_taint_of_gpu_nodes_with_any_effect(resource: str, key: str, effect: str):
    taint = Taint(key=key, value="present", effect=effect)
    tainted = replace(gpus({}, resource=resource), taints=(taint,))
    (found,) = discover_gpu_types([tainted], TABLE)
    assert tolerates_taints(tainted, found.tolerations)


def test_a_type_of_simulated_nodes_says_so():
    simulated = gpus({PRODUCT: "A100-SXM", "gpuspawner.jupyter.org/simulated": "true"})
    (found,) = discover_gpu_types([simulated], TABLE)
    assert found.note.startswith("Simulated")


def test_a_type_with_a_real_node_is_not_called_simulated():
    simulated = gpus({PRODUCT: "A100-SXM", "gpuspawner.jupyter.org/simulated": "true"})
    (found,) = discover_gpu_types([simulated, gpus({PRODUCT: "A100-SXM"})], TABLE)
    assert found.note == ""


LABELS = st.dictionaries(
    st.sampled_from(
        [
            PRODUCT,
            GKE,
            "nvidia.com/gpu.replicas",
            "nvidia.com/gpu.count",
            "nvidia.com/gpu.memory",
            "cloud.google.com/gke-gpu-sharing-strategy",
            "cloud.google.com/gke-gpu-partition-size",
            "karpenter.k8s.aws/instance-gpu-name",
            "karpenter.k8s.aws/instance-gpu-manufacturer",
            "karpenter.k8s.aws/instance-gpu-memory",
            "amd.com/gpu.product-name",
            "amd.com/gpu.compute-memory-partition",
        ]
    ),
    st.sampled_from(["A100-SXM", "A100-SXM-SHARED", "A100-SXM-MIG-1g.5gb", "nvidia", "amd", "4", "1g.5gb", "", "-_."])
    | st.text(max_size=63),
)
RESOURCES = st.dictionaries(
    st.sampled_from([GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "amd.com/cpx_nps4", "cpu"]),
    st.integers(0, 16),
)
NODES = st.lists(
    st.builds(Node, name=st.just("n"), labels=LABELS, allocatable=RESOURCES, capacity=RESOURCES), max_size=6
)


@given(NODES)
def test_every_type_has_a_valid_slug_of_its_own_and_a_node_that_has_it(nodes: list[Node]):
    found: Any = discover_gpu_types(nodes, TABLE)
    names = [gpu.slug for gpu in found]
    assert len(set(names)) == len(names)
    for gpu in found:
        assert SLUG.fullmatch(gpu.slug)
        assert gpu.max_count >= 1
        assert any(
            gpu.matches_labels(node.labels) and (node.capacity.get(gpu.resource) or node.allocatable.get(gpu.resource))
            for node in nodes
        )


@given(NODES)
def test_types_do_not_depend_on_the_order_of_nodes(nodes: list[Node]):
    def essence(found: tuple[GPUType, ...]) -> list[tuple[Any, ...]]:
        return [(gpu.slug, gpu.max_count, {key: set(values) for key, values in gpu.match.items()}) for gpu in found]

    assert essence(discover_gpu_types(nodes, TABLE)) == essence(discover_gpu_types(nodes[::-1], TABLE))


def test_a_node_with_devices_without_a_count_has_its_type():
    (found,) = discover_gpu_types(
        [Node(name="n", labels={PRODUCT: "A100-SXM"}, uncounted=frozenset({GPU, "example.com/nic"}))], TABLE
    )
    assert (found.slug, found.resource, found.max_count) == ("a100", GPU, 1)


def test_without_labels_only_devices_that_a_driver_shows_make_a_type():
    anywhere = frozenset({GPU})
    cpu_node = Node(name="c", labels={"zone": "x"}, uncounted=anywhere)
    shown = Node(name="s", uncounted=anywhere, published_by_dra=anywhere)
    assert slugs(cpu_node) == []
    assert slugs(cpu_node, Node(name="n", labels={PRODUCT: "A100-SXM"}, uncounted=anywhere)) == ["a100"]
    assert slugs(cpu_node, shown) == ["nvidia-gpu"]
