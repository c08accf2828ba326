from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from gpuspawner.core.catalog.image_reference import parse_reference
from gpuspawner.core.catalog.model import CustomImages, GPUType, Image, UnitKind


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
