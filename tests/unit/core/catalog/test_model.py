from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from gpuspawner.core.catalog.image_reference import parse_reference
from gpuspawner.core.catalog.model import Catalog, CustomImages, GPUType, Image, UnitKind
from gpuspawner.core.request.field_definitions import Priority

PRODUCT = "nvidia.com/gpu.product"
SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
GPU = GPUType(
    slug="a100",
    display_name="A100",
    resource="nvidia.com/gpu",
    vendor="nvidia",
    match={PRODUCT: ("A100-SXM", "A100-PCIe"), SHARING: ()},
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({PRODUCT: "A100-SXM"}, True),
        ({PRODUCT: "A100-PCIe", "zone": "a"}, True),
        ({PRODUCT: "T4"}, False),
        ({}, False),
        ({PRODUCT: "A100-SXM", SHARING: "mps"}, False),
    ],
)
def test_a_node_is_of_a_type_when_every_label_matches(labels: dict[str, str], expected: bool):
    assert GPU.matches_labels(labels) is expected


def test_a_type_without_a_match_is_on_every_node():
    assert GPUType(slug="g", display_name="G", resource="nvidia.com/gpu", vendor="nvidia").matches_labels({})


def test_any_of_several_types_is_on_the_nodes_of_each():
    t4 = replace(GPU, slug="t4", match={PRODUCT: ("T4",)})
    either = replace(GPU, match={}, members=(GPU, t4))
    assert [either.matches_labels({PRODUCT: product}) for product in ("A100-SXM", "T4", "L4")] == [True, True, False]


def test_a_type_says_what_its_nodes_are_once_for_each_that_would_do():
    t4 = replace(GPU, slug="t4", match={PRODUCT: ("T4",)})
    assert GPU.label_matches == (GPU.match,)
    assert replace(GPU, match={}, members=(GPU, t4)).label_matches == (GPU.match, t4.match)


@pytest.mark.parametrize(
    ("registries", "expected"), [((), True), (("ghcr.io", "quay.io/acme"), True), (("ghcr.io",), False)]
)
def test_an_image_may_be_named_where_any_of_the_registries_has_it(registries: tuple[str, ...], expected: bool):
    reference = parse_reference("quay.io/acme/own:1")
    assert reference is not None
    assert CustomImages(registries=registries).allows(reference) is expected


LISTED = Image(
    slug="t", display_name="Torch", image="acme/torch", cuda="12.8", vendors=("nvidia",), architectures=("arm64",)
)


@pytest.mark.parametrize(
    ("reference", "is_known"),
    [
        ("docker.io/acme/torch", True),
        ("docker.io/acme/torch:latest", True),
        ("docker.io/acme/torch:2", False),
        ("quay.io/acme/torch", False),
    ],
)
def test_an_image_that_the_settings_list_is_known_by_its_reference(reference: str, is_known: bool):
    found = CustomImages(listed={"docker.io/acme/torch:latest": LISTED}).describe(reference)
    plain = Image(slug="", display_name=reference, image=reference)
    known = replace(plain, cuda="12.8", vendors=("nvidia",), architectures=("arm64",))
    assert found == (known if is_known else plain)


def test_the_first_priority_is_the_usual_one():
    bare = Catalog(images={}, cpu=None, memory=None)
    ranks = [Priority(slug=each, display_name=each, priority_class=each, value=1) for each in ("b", "a")]
    assert bare.find_default_choice("priority") is None
    assert (
        replace(bare, choices={"priority": {each.slug: each for each in ranks}}).find_default_choice("priority") == "b"
    )


def test_a_type_reads_settings_and_knows_their_keys():
    written = {"match": {"gpu": ["T4", "T4G"], "pool": "a"}, "memory": "16G", "unit": "mig", "new_nodes": "none"}
    gpu = TypeAdapter(GPUType).validate_python(written)
    assert (gpu.match, gpu.memory_bytes, gpu.unit, gpu.new_nodes, gpu.given) == (
        {"gpu": ("T4", "T4G"), "pool": ("a",)},
        16 << 30,
        UnitKind.MIG,
        False,
        {"match", "memory", "unit", "new_nodes"},
    )


def test_code_may_make_a_type_of_any_values():
    gpu = GPUType(slug="t4", memory_bytes=-1)
    assert replace(gpu, max_count=0) == GPUType(slug="t4", memory_bytes=-1, max_count=0)
