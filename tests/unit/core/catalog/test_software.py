from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import GPUType, Image, Platform
from gpuspawner.core.catalog.node_labels import MatchExpression, matches_expressions
from gpuspawner.core.catalog.software import (
    Misfit,
    build_node_exclusions,
    deduplicate_platforms,
    describe_vendors,
    explain_misfit,
    find_misfit,
    read_platform,
)

DRIVER = "nvidia.com/cuda.driver-version.major"
RUNTIME = "nvidia.com/cuda.runtime-version.major"
MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"
ARCH = "kubernetes.io/arch"
PRODUCT = "nvidia.com/gpu.product"


def image(**changes: Any) -> Image:
    return Image(slug="torch", display_name="PyTorch", image="torch:1", **changes)


def gpu(*nodes: dict[str, str], vendor: str = "nvidia") -> GPUType:
    found = deduplicate_platforms(read_platform(labels) for labels in nodes)
    return GPUType(slug="x", display_name="X", resource=f"{vendor}.com/gpu", vendor=vendor, platforms=found)


CUDA_13 = image(cuda="13.0")
OLD_DRIVER = {DRIVER: "535"}
NEW_DRIVER = {DRIVER: "580"}


@pytest.mark.parametrize(
    ("picked", "type_", "text"),
    [
        (image(vendors=("nvidia",)), gpu(vendor="amd"), "PyTorch is made for NVIDIA GPUs."),
        (image(vendors=()), gpu(), "PyTorch can't be used with a GPU."),
        (CUDA_13, gpu(OLD_DRIVER), "CUDA 13.0 needs driver 580 or newer; these nodes have 535."),
        (
            CUDA_13,
            gpu(OLD_DRIVER, {DRIVER: "570"}),
            "CUDA 13.0 needs driver 580 or newer; these nodes have 535 and 570.",
        ),
        (CUDA_13, gpu({RUNTIME: "12"}), "PyTorch has CUDA 13.0; the driver of these nodes supports CUDA 12."),
        (
            CUDA_13,
            gpu({**NEW_DRIVER, MAJOR: "7", MINOR: "0"}),
            "CUDA 13.0 needs compute capability 7.5 or more; this GPU has 7.0.",
        ),
        (
            image(architectures=("amd64",)),
            gpu({ARCH: "arm64"}),
            "PyTorch is built for amd64; these nodes are arm64.",
        ),
        (
            image(cuda="13.0", architectures=("amd64",)),
            gpu({ARCH: "arm64"}, OLD_DRIVER),
            "PyTorch is built for amd64; these nodes are arm64. "
            "CUDA 13.0 needs driver 580 or newer; these nodes have 535.",
        ),
    ],
)
def test_what_an_image_cannot_use_is_said_with_the_reason(picked: Image, type_: GPUType, text: str):
    assert explain_misfit(picked, type_) == text


@pytest.mark.parametrize(
    ("picked", "type_"),
    [
        pytest.param(image(), gpu(OLD_DRIVER, vendor="amd"), id="nothing declared"),
        pytest.param(image(vendors=("nvidia",)), gpu(), id="its vendor"),
        pytest.param(CUDA_13, gpu(), id="no node"),
        pytest.param(CUDA_13, gpu({}), id="no labels"),
        pytest.param(CUDA_13, gpu(OLD_DRIVER, {}), id="one node that does not say"),
        pytest.param(CUDA_13, gpu(OLD_DRIVER, NEW_DRIVER), id="one node that will do"),
        pytest.param(CUDA_13, gpu({**NEW_DRIVER, MAJOR: "7", MINOR: "5"}), id="the least compute capability"),
        pytest.param(CUDA_13, gpu({MAJOR: "6"}), id="half a compute capability"),
        pytest.param(CUDA_13, gpu({**NEW_DRIVER, RUNTIME: "12"}), id="the driver counts more than its CUDA"),
        pytest.param(CUDA_13, gpu(OLD_DRIVER, vendor="amd"), id="another vendor's driver"),
        pytest.param(image(cuda="12.9"), gpu({DRIVER: "525", MAJOR: "5", MINOR: "0"}), id="minor versions"),
        pytest.param(image(cuda="10.2"), gpu({DRIVER: "400", MAJOR: "3", MINOR: "5"}), id="an unknown version"),
        pytest.param(image(architectures=("amd64", "arm64")), gpu({ARCH: "arm64"}), id="one of its architectures"),
    ],
)
def test_an_image_that_can_or_may_use_the_gpu_is_not_refused(picked: Image, type_: GPUType):
    assert explain_misfit(picked, type_) == ""


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([NEW_DRIVER], (), id="all will do"),
        pytest.param(
            [OLD_DRIVER, NEW_DRIVER], (MatchExpression(key=DRIVER, operator="NotIn", values=("535",)),), id="driver"
        ),
        pytest.param(
            [OLD_DRIVER, {DRIVER: "470"}, {}],
            (MatchExpression(key=DRIVER, operator="NotIn", values=("470", "535")),),
            id="two drivers",
        ),
        pytest.param(
            [{MAJOR: "7", MINOR: "0", PRODUCT: "V100"}, {MAJOR: "8", MINOR: "0", PRODUCT: "A100"}],
            (MatchExpression(key=MAJOR, operator="NotIn", values=("7",)),),
            id="compute capability",
        ),
        pytest.param(
            [{MAJOR: "7", MINOR: "0", PRODUCT: "V100"}, {MAJOR: "7", MINOR: "5", PRODUCT: "T4"}],
            (MatchExpression(key=MINOR, operator="NotIn", values=("0",)),),
            id="the minor version tells",
        ),
        pytest.param(
            [
                {MAJOR: "7", MINOR: "0", PRODUCT: "V100"},
                {MAJOR: "7", MINOR: "5", PRODUCT: "T4"},
                {MAJOR: "8", MINOR: "0", PRODUCT: "A100"},
            ],
            (MatchExpression(key=PRODUCT, operator="NotIn", values=("V100",)),),
            id="only the product tells",
        ),
    ],
)
def test_a_server_is_kept_off_the_nodes_of_a_type_that_its_image_cannot_use(
    nodes: list[dict[str, str]], expected: tuple[MatchExpression, ...]
):
    assert build_node_exclusions(CUDA_13, gpu(*nodes)) == expected


def test_the_architecture_is_no_exclusion_of_a_type():
    assert build_node_exclusions(image(architectures=("amd64",)), gpu({ARCH: "arm64"}, {ARCH: "amd64"})) == ()


LABEL_VALUES = {
    DRIVER: st.sampled_from(["470", "535", "580", "595"]),
    RUNTIME: st.sampled_from(["11", "12", "13"]),
    MAJOR: st.sampled_from(["5", "7", "8"]),
    MINOR: st.sampled_from(["0", "5"]),
    PRODUCT: st.sampled_from(["V100", "T4", "A100"]),
}
NODES = st.lists(st.fixed_dictionaries({}, optional=LABEL_VALUES), max_size=5)


@given(NODES, st.sampled_from(["11.8", "12.4", "13.0"]))
def test_no_usable_node_is_ever_excluded(nodes: list[dict[str, str]], cuda: str):
    picked = image(cuda=cuda)
    type_ = gpu(*nodes)
    kept_off = [labels for labels in nodes if not matches_expressions(labels, build_node_exclusions(picked, type_))]
    assert [labels for labels in kept_off if find_misfit(picked, read_platform(labels), vendor="nvidia") is None] == []


@given(NODES, st.sampled_from(["11.8", "12.4", "13.0"]))
def test_a_type_is_refused_exactly_where_no_node_can_be_used(nodes: list[dict[str, str]], cuda: str):
    picked, type_ = image(cuda=cuda), gpu(*nodes)
    usable = [labels for labels in nodes if find_misfit(picked, read_platform(labels), vendor="nvidia") is None]
    assert bool(explain_misfit(picked, type_)) == (bool(nodes) and not usable)


def test_the_first_reason_found_is_the_one_that_is_shown():
    platform = Platform(architecture="arm64", driver=1, compute=(3, 5))
    assert find_misfit(image(cuda="13.0", architectures=("amd64",)), platform, vendor="nvidia") is Misfit.ARCHITECTURE
    assert find_misfit(CUDA_13, platform, vendor="nvidia") is Misfit.DRIVER


@pytest.mark.parametrize(
    ("vendors", "text"),
    [(None, ""), ((), "work without a GPU"), (("nvidia",), "NVIDIA GPUs"), (("nvidia", "amd"), "NVIDIA or AMD GPUs")],
)
def test_an_image_says_what_it_is_made_for(vendors: tuple[str, ...] | None, text: str):
    assert describe_vendors(vendors) == text
