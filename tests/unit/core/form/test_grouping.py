"""MIG slices and shared GPUs stand under the type of their full GPU, if a user sees one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image, UnitKind
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.form.grouping import order_by_card
from tests.unit.islands import build_view

PRODUCT = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
KARPENTER = "karpenter.k8s.aws/instance-gpu-"


def gpu(
    slug: str, match: dict[str, tuple[str, ...]], unit: UnitKind = UnitKind.CARD, vendor: str = "nvidia"
) -> GPUType:
    return GPUType(slug=slug, display_name=slug, resource="nvidia.com/gpu", vendor=vendor, unit=unit, match=match)


A100 = gpu("a100", {PRODUCT: ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB")})
A100_80 = gpu("a100-80", {PRODUCT: ("NVIDIA-A100-SXM4-80GB",)})
T4 = gpu("t4", {PRODUCT: ("Tesla-T4",)})
MIXED = gpu("mixed", {"nvidia.com/mig-1g.5gb.product": ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",)}, UnitKind.MIG)
SHARED = gpu("shared", {PRODUCT: ("Tesla-T4-SHARED",)}, UnitKind.SHARED)


def order(*gpus: GPUType) -> list[tuple[str, str]]:
    return [(each.slug, card) for each, card in order_by_card(gpus)]


def test_parts_follow_their_card_and_all_else_keeps_its_order():
    found = order(T4, MIXED, A100_80, A100, SHARED)
    assert found == [("t4", ""), ("shared", "t4"), ("a100-80", ""), ("a100", ""), ("mixed", "a100")]


@pytest.mark.parametrize(
    ("card", "part"),
    [
        pytest.param(A100, MIXED, id="MIG strategy mixed"),
        pytest.param(
            A100, gpu("part", {PRODUCT: ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",)}, UnitKind.MIG), id="MIG strategy single"
        ),
        pytest.param(
            A100, gpu("part", {PRODUCT: ("NVIDIA-A100-SXM4-40GB",)}, UnitKind.MIG), id="slice with the card's label"
        ),
        pytest.param(T4, SHARED, id="shared"),
        pytest.param(
            T4,
            gpu("part", {PRODUCT: ("Tesla-T4",), "nvidia.com/gpu.replicas": ("4",)}, UnitKind.SHARED),
            id="shared with the card's label",
        ),
        pytest.param(
            A100,
            gpu(
                "part", {"nvidia.com/mig-1g.5gb.product": ("NVIDIA-A100-PCIE-40GB-MIG-1g.5gb-SHARED",)}, UnitKind.SHARED
            ),
            id="shared slice",
        ),
        pytest.param(
            gpu("card", {GKE: ("nvidia-tesla-t4",), GKE_SHARING: ()}),
            gpu("part", {GKE: ("nvidia-tesla-t4",), GKE_SHARING: ("time-sharing",)}, UnitKind.SHARED),
            id="shared on GKE",
        ),
        pytest.param(
            gpu("card", {GKE: ("nvidia-tesla-a100",), GKE_PARTITION: ()}),
            gpu("part", {GKE: ("nvidia-tesla-a100",), GKE_PARTITION: ("1g.5gb",)}, UnitKind.MIG),
            id="slice on GKE",
        ),
        pytest.param(
            gpu("card", {f"{KARPENTER}name": ("a100",), f"{KARPENTER}memory": ("40960",)}),
            gpu("part", {f"{KARPENTER}name": ("a100",), f"{KARPENTER}memory": ("40960",)}, UnitKind.MIG),
            id="slice with Karpenter's labels",
        ),
    ],
)
def test_the_labels_tell_which_card_a_part_is_of(card: GPUType, part: GPUType):
    assert order(T4 if card is not T4 else A100, part, card)[-1] == (part.slug, card.slug)


@pytest.mark.parametrize(
    ("other", "part"),
    [
        pytest.param(A100_80, MIXED, id="another model"),
        pytest.param(replace(T4, vendor="other"), SHARED, id="another vendor"),
        pytest.param(gpu("any", {}), gpu("part", {}, UnitKind.SHARED), id="no labels"),
        pytest.param(
            gpu("pool", {"example.org/pool": ("a",)}),
            gpu("part", {"example.org/pool": ("a",)}, UnitKind.MIG),
            id="own labels",
        ),
        pytest.param(
            gpu("a100-80", {f"{KARPENTER}name": ("a100",), f"{KARPENTER}memory": ("81920",)}),
            gpu("part", {f"{KARPENTER}name": ("a100",), f"{KARPENTER}memory": ("40960",)}, UnitKind.MIG),
            id="same name and other memory",
        ),
        pytest.param(replace(A100, members=(A100,)), MIXED, id="combined type"),
        pytest.param(replace(MIXED, slug="a slice"), MIXED, id="another slice"),
    ],
)
def test_without_its_card_a_part_stands_alone_where_it_is_listed(other: GPUType, part: GPUType):
    assert order(part, other) == [(part.slug, ""), (other.slug, "")]


def test_of_two_cards_the_one_with_more_models_in_common_has_the_part():
    both = replace(SHARED, match={PRODUCT: ("Tesla-T4-SHARED", "NVIDIA-T4-SHARED")})
    wide = replace(T4, slug="wide", match={PRODUCT: ("Tesla-T4", "NVIDIA-T4")})
    assert order(T4, wide, both)[-1] == ("shared", "wide")


def test_of_two_equal_cards_the_first_has_the_part():
    assert order(T4, replace(T4, slug="spot"), SHARED)[:2] == [("t4", ""), ("shared", "t4")]


def test_the_form_has_each_part_under_its_card():
    catalog = Catalog(
        images={"plain": Image(slug="plain", display_name="Plain", image="plain:1")},
        cpu=None,
        memory=None,
        gpus={each.slug: each for each in (SHARED, A100, T4, MIXED)},
    )
    (vendor,) = build_view(catalog, Inventory()).vendors
    assert [(each.slug, each.card) for each in vendor.types] == [
        ("a100", ""),
        ("mixed", "a100"),
        ("t4", ""),
        ("shared", "t4"),
    ]
