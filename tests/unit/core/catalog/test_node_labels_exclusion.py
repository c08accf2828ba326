from __future__ import annotations

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.catalog.node_labels import MatchExpression, build_gpu_node_exclusion, matches_expressions

PRODUCT = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"


def catalog(*matches: dict[str, tuple[str, ...]]) -> Catalog:
    gpus = {
        str(number): GPUType(
            slug=str(number), display_name="G", resource="nvidia.com/gpu", vendor="nvidia", match=match
        )
        for number, match in enumerate(matches)
    }
    return Catalog(images={"i": Image(slug="i", display_name="I", image="i")}, cpu=None, memory=None, gpus=gpus)


def not_in(key: str, *values: str) -> MatchExpression:
    return MatchExpression(key=key, operator="NotIn", values=values)


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        ([], ()),
        ([{}], ()),
        ([{PRODUCT: ("A", "B")}, {PRODUCT: ("B", "C")}], (not_in(PRODUCT, "A", "B", "C"),)),
        ([{PRODUCT: ("A",)}, {GKE: ("k80",)}], (not_in(PRODUCT, "A"), not_in(GKE, "k80"))),
        # A label that other nodes have too does not mark GPU nodes if another label does.
        ([{PRODUCT: ("A",), "kubernetes.io/arch": ("amd64",), "pool": ("x",)}], (not_in(PRODUCT, "A"),)),
        ([{"pool": ("gpu",), "topology.kubernetes.io/zone": ("a",)}], (not_in("pool", "gpu"),)),
        ([{"kubernetes.io/arch": ("arm64",)}], ()),
        # A label that must be missing is missing on nodes without GPUs, too.
        ([{GKE: ("t4",), "cloud.google.com/gke-gpu-sharing-strategy": ()}], (not_in(GKE, "t4"),)),
    ],
)
def test_gpu_nodes_are_avoided_by_the_labels_that_tell_them(
    matches: list[dict[str, tuple[str, ...]]], expected: tuple[MatchExpression, ...]
):
    assert build_gpu_node_exclusion(catalog(*matches)) == expected


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("A",), [False, True, False]),
        ("NotIn", ("A",), [True, False, True]),
        ("DoesNotExist", (), [True, False, False]),
    ],
)
def test_expressions_are_fulfilled_as_kubernetes_decides(operator: str, values: tuple[str, ...], expected: list[bool]):
    expressions = (MatchExpression(key=PRODUCT, operator=operator, values=values),)
    assert [matches_expressions(labels, expressions) for labels in ({}, {PRODUCT: "A"}, {PRODUCT: "B"})] == expected
