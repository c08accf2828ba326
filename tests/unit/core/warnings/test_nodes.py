from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.accelerators import Accelerator, AcceleratorTable
from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.cluster.dra import Device, ResourceSlice
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.discovery.discover import discover_gpu_types
from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind, find_node_warnings

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
TABLE = AcceleratorTable()
IMAGES = {"i": Image(slug="i", display_name="I", image="i")}
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})


def node(name: str = "n", gpus: int = 4, product: str = "T4", **changes: Any) -> Node:
    has = {GPU: gpus} if gpus else {}
    labels = {PRODUCT: product, "nvidia.com/gpu.count": "4"}
    return replace(Node(name=name, labels=labels, allocatable=has, capacity=has), **changes)


def concerns(*nodes: Node, gpus: tuple[GPUType, ...] = (T4,), **options: Any) -> list[WarningKind]:
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, gpus={gpu.slug: gpu for gpu in gpus})
    return [flag.kind for flag in find_node_warnings(nodes, catalog, table=TABLE, **options)]


def test_nothing_is_the_matter_with_a_good_node():
    assert concerns(node(), Node(name="m")) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"product": "A100-MIG-INVALID"}, WarningKind.MIG_INVALID),
        ({"product": "L4", "gpus": 8}, WarningKind.CONTRADICTION),
        ({"product": "L4"}, WarningKind.NO_TYPE),
        ({"gpus": 0}, WarningKind.NO_RESOURCE),
        ({"product": "A100-MIG-INVALID", "gpus": 0}, WarningKind.MIG_INVALID),
        ({"capacity": {GPU: 5}, "labels": {PRODUCT: "T4"}}, WarningKind.BROKEN),
        ({"taints": (Taint(key="team", effect="NoSchedule"),)}, WarningKind.UNTOLERATED),
    ],
)
def test_problems_are_distinguished(changes: dict[str, Any], expected: WarningKind):
    assert concerns(node(**changes)) == [expected]


def test_a_mixed_node_that_servers_of_a_type_may_land_on_is_flagged():
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, gpus={"t4": T4})
    (flag,) = find_node_warnings([node(gpus=8)], catalog, table=TABLE)
    assert (flag.kind, flag.message.partition(":")[0]) == (
        WarningKind.CONTRADICTION,
        "nvidia.com/gpu may not be what t4 says",
    )


def test_nodes_of_which_the_same_is_to_say_are_one_flag():
    alike = [node("b", product="L4", labels={PRODUCT: "L4", "host": "b"}), node("a", product="L4"), node("c")]
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, gpus={"t4": T4})
    found = find_node_warnings(alike, catalog, table=TABLE)
    assert [(flag.kind, flag.nodes) for flag in found] == [(WarningKind.NO_TYPE, ("a", "b"))]


def test_flags_are_sorted_by_concern():
    nodes = [node("a", gpus=0), node("b", product="L4"), node("c", product="A100-MIG-INVALID")]
    assert concerns(*nodes) == [WarningKind.MIG_INVALID, WarningKind.NO_TYPE, WarningKind.NO_RESOURCE]


def test_what_a_node_is_called_and_labelled_is_repeated_briefly_on_one_line():
    product, taint = "A\n" * 999 + "-MIG-INVALID", Taint(key="team\n" * 999, effect="NoSchedule")
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, gpus={"t4": T4})
    for flag in find_node_warnings([node(product=product), node(taints=(taint,))], catalog, table=TABLE):
        assert flag.message.isprintable()
        assert len(flag.message) < 300


def test_a_flag_says_what_helps():
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, gpus={"t4": T4})
    assert find_node_warnings([node(taints=(Taint(key="team", effect="NoSchedule"),))], catalog, table=TABLE) == (
        AdminWarning(
            nodes=("n",),
            resource=GPU,
            kind=WarningKind.UNTOLERATED,
            message="No server can get nvidia.com/gpu: no GPU type there tolerates the taint team. "
            "Add a toleration to the type, unless the nodes are for others.",
        ),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"taints": (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)},
        {"unschedulable": True},
        {"ready": False, "allocatable": {}, "capacity": {}},
        {"taints": (Taint(key="karpenter.sh/unregistered", effect="NoExecute"),), "allocatable": {}, "capacity": {}},
    ],
)
def test_what_passes_is_no_concern(changes: dict[str, Any]):
    assert concerns(node(**changes)) == []


def test_a_taint_that_every_server_tolerates_is_no_concern():
    tainted = node(taints=(Taint(key="team", effect="NoSchedule"),))
    assert concerns(tainted, tolerations=(Toleration(key="team", operator="Exists"),)) == []


@pytest.mark.parametrize(
    "changes", [{}, {"taints": (Taint(key="team", effect="NoSchedule"),)}, {"gpus": 8}, {"allocatable": {GPU: 1}}]
)
def test_gpus_that_the_admin_took_out_are_no_concern(changes: dict[str, Any]):
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, hidden=(T4,))
    assert find_node_warnings([node(**changes)], catalog, table=TABLE) == ()


@pytest.mark.parametrize("changes", [{}, {"product": "A100-MIG-INVALID"}, {"product": "L4", "gpus": 8}])
def test_what_discovery_leaves_out_is_flagged_and_nothing_else(changes: dict[str, Any]):
    found = {gpu.slug: gpu for gpu in discover_gpu_types([node(**changes)], TABLE)}
    catalog = Catalog(images=IMAGES, cpu=None, memory=None, gpus=found)
    assert bool(find_node_warnings([node(**changes)], catalog, table=TABLE)) == (not found)


@pytest.mark.parametrize(
    ("labels", "resources", "told"),
    [
        pytest.param(
            {PRODUCT: "RTX-4090", "nvidia.com/gpu.count": "2"},
            {GPU: 20},
            "nvidia.com/gpu is not offered: the node has 20 nvidia.com/gpu, but nvidia.com/gpu.count says 2. "
            "Either it has several GPU models, and one resource counts them all, or its GPUs are shared or divided, "
            "and no label says so.",
            id="units that no label explains",
        ),
        pytest.param(
            {PRODUCT: "A100", "nvidia.com/gpu.replicas": "0"},
            {GPU: 2},
            "nvidia.com/gpu is not offered: the node's GPUs are divided into MIG slices (nvidia.com/gpu.replicas=0), "
            "and nvidia.com/gpu counts them as whole GPUs.",
            id="whole GPUs with MIG",
        ),
        pytest.param(
            {PRODUCT: "A100", "nvidia.com/gpu.count": "2"},
            {GPU: 2, "nvidia.com/mig-1g.5gb": 7},
            "nvidia.com/gpu is not offered: the node has 2 GPUs. nvidia.com/gpu counts them all as whole GPUs, and "
            "nvidia.com/mig-1g.5gb as divided.",
            id="whole GPUs and slices of them",
        ),
        pytest.param(
            {PRODUCT: "T4"},
            {GPU: 2, "nvidia.com/gpu.shared": 8},
            "nvidia.com/gpu is not offered: nvidia.com/gpu.shared says that the node's GPUs are shared, "
            "and nvidia.com/gpu counts them, too.",
            id="whole GPUs and shares of them",
        ),
        pytest.param(
            {PRODUCT: "A100-MIG-2g.10gb", "cloud.google.com/gke-gpu-partition-size": "1g.5gb"},
            {GPU: 2},
            "nvidia.com/gpu is not offered: labels and resource name different slices: "
            "cloud.google.com/gke-gpu-partition-size=1g.5gb, nvidia.com/gpu.product=A100-MIG-2g.10gb.",
            id="slices of two sizes",
        ),
        pytest.param(
            {"amd.com/gpu.compute-memory-partition": "SPX_NPS1"},
            {"amd.com/cpx_nps4": 8},
            "amd.com/cpx_nps4 is not offered: labels and resource name different partitions: "
            "amd.com/cpx_nps4, spx_nps1.",
            id="two partitions",
        ),
    ],
)
def test_a_contradiction_is_named(labels: dict[str, str], resources: dict[str, int], told: str):
    found = find_node_warnings(
        [Node(name="n", labels=labels, allocatable=resources, capacity=resources)],
        Catalog(images=IMAGES, cpu=None, memory=None),
        table=TABLE,
    )
    assert [flag.message for flag in found if flag.kind is WarningKind.CONTRADICTION] == [told]


def test_labels_that_name_two_models_are_named():
    models = [
        Accelerator(slug=slug, name=slug, vendor="nvidia", labels={source: (label,)})
        for slug, source, label in (("t4", "gke", "nvidia-t4"), ("l4", "gfd", "NVIDIA-L4"))
    ]
    labels = {"cloud.google.com/gke-accelerator": "nvidia-t4", PRODUCT: "NVIDIA-L4"}
    (flag,) = find_node_warnings(
        [node(labels=labels)], Catalog(images=IMAGES, cpu=None, memory=None), table=AcceleratorTable(models)
    )
    assert flag.message == (
        "nvidia.com/gpu is not offered: the labels name different GPU models: "
        "cloud.google.com/gke-accelerator=nvidia-t4, nvidia.com/gpu.product=NVIDIA-L4."
    )


H100 = Device(name="gpu-0", attributes={"gpu.nvidia.com/productName": "NVIDIA H100"})


def make_slice(node: str | None = "n", driver: str = "gpu.nvidia.com", devices: int = 2) -> ResourceSlice:
    return ResourceSlice(
        name="s", driver=driver, pool="p", generation=1, slice_count=1, node=node, devices=(H100,) * devices
    )


HELD = (
    "Its ResourceSlices hold 2 devices of the DRA driver gpu.nvidia.com (NVIDIA H100), and no user can choose them: a "
    "GPU type needs an extended resource, and no DeviceClass names one for them (extendedResourceName)."
)


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.present": "true"}, {PRODUCT: "H100"}])
def test_devices_of_a_dra_driver_that_no_class_names_are_said(labels: dict[str, str]):
    found = find_node_warnings(
        [node(gpus=0, labels=labels), node("m", gpus=0, labels=labels)],
        Catalog(images=IMAGES, cpu=None, memory=None),
        table=TABLE,
        slices=[make_slice("n"), make_slice("m")],
    )
    assert found == (AdminWarning(kind=WarningKind.NO_DEVICE_CLASS, resource="", message=HELD, nodes=("m", "n")),)


@pytest.mark.parametrize(
    ("changes", "published"),
    [
        ({"driver": "dra.net"}, {}),
        ({"driver": "compute-domain.nvidia.com"}, {}),
        ({"node": None}, {}),
        ({"devices": 0}, {}),
        ({}, {"published_by_dra": frozenset({"example.com/gpu"})}),
    ],
)
def test_devices_of_networks_and_devices_with_a_resource_need_no_class(
    changes: dict[str, Any], published: dict[str, Any]
):
    assert concerns(node(gpus=0, labels={}, **published), slices=[make_slice(**changes)]) == []


def test_devices_without_a_count_are_flagged_once():
    uncounted = node(gpus=0, uncounted=frozenset({GPU, "example.com/nic"}))
    assert concerns(uncounted) == [WarningKind.UNCOUNTED]
    assert concerns(node(gpus=0, uncounted=frozenset({"example.com/nic"}))) == [WarningKind.NO_RESOURCE]
