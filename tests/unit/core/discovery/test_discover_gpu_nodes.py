from __future__ import annotations

import pytest

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.discovery.discover import find_gpu_node_label, find_unexcluded_gpu_nodes

PRESENT, PRODUCT = "nvidia.com/gpu.present", "nvidia.com/gpu.product"


def node(**labels: str) -> Node:
    names = {"present": PRESENT, "product": PRODUCT, "gke": "cloud.google.com/gke-accelerator", "pool": "pool"}
    return Node(name="n", labels={names[key]: value for key, value in labels.items()})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, None),
        ({"kubernetes.io/os": "linux", "nvidia.com/gpu.deploy.driver": "true"}, None),
        ({PRESENT: "true", PRODUCT: "T4"}, PRESENT),
        ({PRESENT: "false"}, None),
        ({PRESENT: "false", PRODUCT: "T4"}, PRODUCT),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "cloud.google.com/gke-accelerator"),
        ({"karpenter.k8s.aws/instance-gpu-name": "t4"}, "karpenter.k8s.aws/instance-gpu-name"),
        ({"eks.amazonaws.com/instance-gpu-name": "t4"}, "eks.amazonaws.com/instance-gpu-name"),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, "kubernetes.azure.com/accelerator"),
        ({"amd.com/gpu.product-name": "MI210"}, "amd.com/gpu.product-name"),
        ({"gpu.intel.com/product": "Max_1550"}, "gpu.intel.com/product"),
    ],
)
def test_clouds_and_vendors_label_nodes_with_gpus(labels: dict[str, str], expected: str | None):
    assert find_gpu_node_label(labels) == expected


def test_nodes_with_gpus_that_nothing_keeps_servers_off_are_named_by_one_label_each():
    nodes = (node(), node(pool="cpu"), node(product="T4", present="true"), node(gke="l4"), node(gke="t4"))
    assert find_unexcluded_gpu_nodes(nodes, ()) == {
        "cloud.google.com/gke-accelerator": ("l4", "t4"),
        PRESENT: ("true",),
    }


def test_nodes_that_servers_are_kept_off_anyway_need_no_more():
    avoided = (MatchExpression(key=PRODUCT, operator="NotIn", values=("T4",)),)
    assert find_unexcluded_gpu_nodes((node(product="T4", present="true"), node(product="L4")), avoided) == {
        PRODUCT: ("L4",)
    }
