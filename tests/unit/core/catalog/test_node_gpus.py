from __future__ import annotations

import pytest

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.node_gpus import LabelContradiction, NodeGPU, read_node_gpu
from gpuspawner.core.cluster.model import Node

GIB = 1 << 30
PRODUCT = "nvidia.com/gpu.product"
A100 = Accelerator(
    slug="a100-40gb",
    name="A100 40 GB",
    vendor="nvidia",
    memory_bytes=40 * GIB,
    labels={"gfd": ("A100-40",), "gke": ("nvidia-tesla-a100",), "karpenter": ("a100",)},
)
MI300 = Accelerator(
    slug="mi300x", name="MI300X", vendor="amd", memory_bytes=192 * GIB, labels={"amd": ("AMD_Instinct_MI300X_OAM",)}
)
MAX = Accelerator(
    slug="max-1550", name="Max 1550", vendor="intel", memory_bytes=128 * GIB, labels={"intel": ("Max_1550",)}
)
TABLE = AcceleratorTable([A100, MI300, MAX])
GKE, PARTITION, SHARING, CLIENTS = (
    f"cloud.google.com/gke-{name}"
    for name in ("accelerator", "gpu-partition-size", "gpu-sharing-strategy", "max-shared-clients-per-gpu")
)


def offer(resource: str, labels: dict[str, str], number: int = 4) -> NodeGPU:
    found = read_node_gpu(Node(name="n", labels=labels, capacity={resource: number}), resource, table=TABLE)
    assert isinstance(found, NodeGPU)
    return found


def summary(found: NodeGPU) -> tuple[str | None, str | None, bool, int | None]:
    first = found.descriptions[0]
    gib = None if first.memory_bytes is None else first.memory_bytes // GIB
    return first.model[0] if first.model else None, found.profile, found.shared, gib


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ("nvidia.com/gpu", {PRODUCT: "A100-40"}, ("a100-40gb", None, False, 40)),
        ("nvidia.com/gpu", {PRODUCT: "A100-40", "nvidia.com/gpu.memory": "40960"}, ("a100-40gb", None, False, 40)),
        ("nvidia.com/gpu", {PRODUCT: "NVIDIA-New-One", "nvidia.com/gpu.memory": "49140"}, ("new-one", None, False, 48)),
        ("nvidia.com/gpu", {PRODUCT: "A100-40-SHARED", "nvidia.com/gpu.replicas": "4"}, ("a100-40gb", None, True, 40)),
        ("nvidia.com/gpu.shared", {PRODUCT: "A100-40"}, ("a100-40gb", None, True, 40)),
        ("nvidia.com/gpu", {PRODUCT: "A100-40-MIG-1g.5gb"}, ("a100-40gb", "1g.5gb", False, 5)),
        ("nvidia.com/gpu", {PRODUCT: "A100-40-MIG-1g.5gb-SHARED"}, ("a100-40gb", "1g.5gb", True, 5)),
        ("nvidia.com/mig-1g.5gb", {PRODUCT: "A100-40"}, ("a100-40gb", "1g.5gb", False, 5)),
        ("nvidia.com/mig-3g.20gb.shared", {PRODUCT: "A100-40"}, ("a100-40gb", "3g.20gb", True, 20)),
        ("nvidia.com/gpu", {}, (None, None, False, None)),
        ("nvidia.com/mig-1g.5gb", {}, (None, "1g.5gb", False, 5)),
        ("amd.com/gpu", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, ("mi300x", None, False, 192)),
        ("amd.com/gpu", {"beta.amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, ("mi300x", None, False, 192)),
        (
            "amd.com/gpu",
            {"amd.com/gpu.product-name": "AMD_New", "amd.com/gpu.vram": "64G"},
            ("new", None, False, 64),
        ),
        ("amd.com/gpu", {}, (None, None, False, None)),
        ("gpu.intel.com/xe", {"gpu.intel.com/product": "Max_1550"}, ("max-1550", None, False, 128)),
        ("nvidia.com/gpu", {GKE: "nvidia-tesla-a100"}, ("a100-40gb", None, False, 40)),
        ("nvidia.com/gpu", {GKE: "nvidia-tesla-a100", PARTITION: "1g.5gb"}, ("a100-40gb", "1g.5gb", False, 5)),
        ("nvidia.com/gpu", {GKE: "nvidia-tesla-a100", SHARING: "mps", CLIENTS: "3"}, ("a100-40gb", None, True, 40)),
        ("nvidia.com/gpu", {GKE: "nvidia-x1"}, ("x1", None, False, None)),
        # A device plugin other than GKE's, on a node of GKE's.
        ("nvidia.com/mig-1g.5gb", {GKE: "nvidia-tesla-a100", PRODUCT: "A100-40"}, ("a100-40gb", "1g.5gb", False, 5)),
        ("nvidia.com/gpu.shared", {GKE: "nvidia-tesla-a100"}, ("a100-40gb", None, True, 40)),
    ],
)
def test_labels_say_what_one_unit_is(
    resource: str, labels: dict[str, str], expected: tuple[str | None, str | None, bool, int | None]
):
    assert summary(offer(resource, labels)) == expected


def test_a_node_with_several_amd_models_offers_nothing():
    labels = {"amd.com/gpu.product-name.AMD_A": "1", "amd.com/gpu.product-name.AMD_B": "1"}
    node = Node(name="n", labels=labels, capacity={"amd.com/gpu": 2})
    assert isinstance(read_node_gpu(node, "amd.com/gpu", table=TABLE), LabelContradiction)


def test_the_count_label_leaves_replicas_out():
    labels = {PRODUCT: "A100-40-SHARED", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}
    found = offer("nvidia.com/gpu", labels, number=8)
    assert (found.shared, found.replicas) == (True, 4)


def test_on_gke_whole_gpus_are_those_without_further_labels():
    labels = {GKE: "nvidia-tesla-a100", PRODUCT: "A100-40"}
    assert offer("nvidia.com/gpu", labels).descriptions[0].match == {
        GKE: ("nvidia-tesla-a100",),
        PARTITION: (),
        SHARING: (),
    }


def test_on_gke_a_label_without_a_text_is_still_on_the_node():
    found = offer("nvidia.com/gpu", {GKE: "nvidia-tesla-a100", SHARING: "", PARTITION: ""})
    assert (found.descriptions[0].match[SHARING], found.descriptions[0].match[PARTITION]) == (("",), ("",))


KARPENTER = {
    f"eks.amazonaws.com/instance-gpu-{name}": text
    for name, text in (("name", "a100"), ("manufacturer", "nvidia"), ("memory", "40960"))
}


@pytest.mark.parametrize(
    ("resource", "labels", "source"),
    [
        ("nvidia.com/gpu", {PRODUCT: "A100-40"}, "karpenter"),
        ("nvidia.com/gpu", {PRODUCT: "A100-40", "nvidia.com/gpu.replicas": "1"}, "karpenter"),
        ("nvidia.com/gpu", {PRODUCT: "A100-40-SHARED"}, "gfd"),
        ("nvidia.com/gpu", {PRODUCT: "A100-40", "nvidia.com/gpu.replicas": "4"}, "gfd"),
        ("nvidia.com/gpu", {PRODUCT: "A100-40-MIG-1g.5gb"}, "gfd"),
        ("nvidia.com/mig-1g.5gb", {PRODUCT: "A100-40"}, "gfd"),
        # The table knows only what GPU Feature Discovery calls it.
        ("nvidia.com/gpu", {PRODUCT: "A100-40", "eks.amazonaws.com/instance-gpu-name": "a900"}, "gfd"),
        ("nvidia.com/gpu", {PRODUCT: "A900", "eks.amazonaws.com/instance-gpu-name": "a900"}, "karpenter"),
    ],
)
def test_whole_gpus_are_recognized_by_labels_that_new_nodes_have_from_the_start(
    resource: str, labels: dict[str, str], source: str
):
    assert offer(resource, {**KARPENTER, **labels}).descriptions[0].source == source


@pytest.mark.parametrize(
    ("resource", "labels", "origin"),
    [
        ("nvidia.com/gpu", {PRODUCT: "A100-40-MIG-INVALID"}, f"{PRODUCT}=A100-40-MIG-INVALID"),
        (
            "nvidia.com/gpu",
            {PRODUCT: "A100-40-MIG-INVALID", "nvidia.com/gpu.replicas": "0"},
            f"{PRODUCT}=A100-40-MIG-INVALID",
        ),
        ("nvidia.com/gpu", {PARTITION: "INVALID"}, f"{PARTITION}=INVALID"),
        ("nvidia.com/gpu", {PARTITION: "INVALID", PRODUCT: "A100-40"}, f"{PARTITION}=INVALID"),
        (
            "nvidia.com/mig-1g.5gb",
            {"nvidia.com/mig-1g.5gb.product": "A100-MIG-INVALID"},
            "nvidia.com/mig-1g.5gb.product=A100-MIG-INVALID",
        ),
    ],
)
def test_the_label_that_calls_the_mig_layout_invalid_is_named(resource: str, labels: dict[str, str], origin: str):
    found = read_node_gpu(Node(name="n", labels=labels, capacity={resource: 8}), resource, table=TABLE)
    assert isinstance(found, LabelContradiction)
    assert (found.is_invalid_mig, found.reason.partition(". ")[0]) == (
        True,
        f"the MIG layout is not the same on all GPUs ({origin})",
    )
