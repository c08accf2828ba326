"""Check whether an image works on a GPU type's nodes: vendor, CPU architecture, NVIDIA driver, compute capability.

Driver version, CUDA version and compute capability come from labels of GPU Feature Discovery
(NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery, ``lm/nvml.go``). The version labels have current and older names;
this module reads both. A label that cannot be parsed counts as missing. Missing information never makes an image
unusable.

The form, the admission check and the pod's node affinity all use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from gpuspawner.core.catalog.image_reference import parse_reference
from gpuspawner.core.catalog.model import ComputeCapability, GPUType, Image, Platform
from gpuspawner.core.catalog.node_labels import MatchExpression, format_vendor
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences, join_with_and, join_with_or

ARCHITECTURE_LABEL = "kubernetes.io/arch"
"""Label with the CPU architecture, https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-arch"""
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
CUDA_LABELS = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
"""Labels with the major version of the newest CUDA that the node's driver supports, not of an installed CUDA."""
COMPUTE_MAJOR_LABEL = "nvidia.com/gpu.compute.major"
COMPUTE_MINOR_LABEL = "nvidia.com/gpu.compute.minor"
PRODUCT_LABEL = "nvidia.com/gpu.product"

PLATFORM_LABELS = (
    *DRIVER_LABELS,
    *CUDA_LABELS,
    COMPUTE_MAJOR_LABEL,
    COMPUTE_MINOR_LABEL,
    PRODUCT_LABEL,
    ARCHITECTURE_LABEL,
)
"""Labels that describe a node's platform: those that :func:`read_platform` parses, and the GPU's product name."""

_MAX_DIGITS = 6
"""A number in a label with more digits than this counts as missing."""


def read_platform(labels: Mapping[str, str]) -> Platform:
    """Return the CPU architecture, GPU driver, CUDA version and compute capability that a node's labels name."""
    major, minor = (_parse_number(labels.get(key)) for key in (COMPUTE_MAJOR_LABEL, COMPUTE_MINOR_LABEL))
    return Platform(
        architecture=labels.get(ARCHITECTURE_LABEL) or None,
        driver=_read_first_number(labels, DRIVER_LABELS),
        cuda=_read_first_number(labels, CUDA_LABELS),
        compute=None if major is None or minor is None else (major, minor),
        labels=tuple((key, labels[key]) for key in PLATFORM_LABELS if key in labels),
    )


def deduplicate_platforms(platforms: Iterable[Platform]) -> tuple[Platform, ...]:
    """Return each platform once, sorted, so that the result does not depend on the order of the nodes."""
    return tuple(sorted(set(platforms), key=lambda each: (each.labels, each.compute or ())))


def parse_compute_capability(text: str) -> ComputeCapability | None:
    """Return the compute capability in a text such as ``"8.9"``, or None for a malformed text."""
    major, minor = (_parse_number(part) for part in (*text.split("."), "")[:2])
    return None if major is None or minor is None else (major, minor)


def _read_first_number(labels: Mapping[str, str], keys: Iterable[str]) -> int | None:
    return next((number for key in keys if (number := _parse_number(labels.get(key))) is not None), None)


def _parse_number(text: str | None) -> int | None:
    return int(text) if text and len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() else None


_MIN_DRIVER = {11: 450, 12: 525, 13: 580}
"""CUDA's major version → oldest NVIDIA driver branch that supports all minor versions of this CUDA version,
https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"""

_MIN_COMPUTE: dict[int, ComputeCapability] = {12: (5, 0), 13: (7, 5)}
"""CUDA's major version → lowest compute capability that its libraries and compiler support. CUDA 12.0 dropped Kepler;
CUDA 13.0 dropped Maxwell, Pascal and Volta (release notes of the CUDA Toolkit)."""


class Misfit(StrEnum):
    """Why an image does not work on nodes with a certain CPU architecture, GPU driver and GPU generation."""

    ARCHITECTURE = "architecture"
    DRIVER = "driver"
    CUDA = "cuda"
    COMPUTE = "compute"


def explain_misfit(image: Image, gpu: GPUType) -> str:
    """Return sentences that say why an image works on no node of a GPU type; empty if it may work on some node."""
    if image.vendors is not None and gpu.vendor not in image.vendors:
        return _explain_vendors(image)
    found = [find_misfit(image, platform, vendor=gpu.vendor) for platform in gpu.platforms]
    if not found or None in found:
        return ""
    why = {kind: [each for each, is_so in zip(gpu.platforms, found, strict=True) if is_so is kind] for kind in Misfit}
    return join_sentences(*(_EXPLAINERS[kind](image, platforms) for kind, platforms in why.items() if platforms))


def find_misfit(image: Image, platform: Platform, *, vendor: str) -> Misfit | None:
    """Return why an image does not work on nodes with a CPU, driver and GPU as in ``platform``; None if it may work.

    The function does not check whether the image supports the vendor's GPUs.

    :param vendor: vendor of the platform's GPUs. The function checks driver, CUDA and compute capability only
        for ``nvidia``.
    """
    if image.architectures and platform.architecture and platform.architecture not in image.architectures:
        return Misfit.ARCHITECTURE
    major = parse_cuda_major(image)
    if major is None or vendor != "nvidia":
        return None
    if platform.driver is not None:
        if platform.driver < _MIN_DRIVER.get(major, 0):
            return Misfit.DRIVER
    elif platform.cuda is not None and platform.cuda < major:
        return Misfit.CUDA
    if platform.compute is not None and platform.compute < _MIN_COMPUTE.get(major, (0, 0)):
        return Misfit.COMPUTE
    return None


def build_node_exclusions(image: Image, gpu: GPUType) -> tuple[MatchExpression, ...]:
    """Return node affinity expressions that keep a server off those nodes of a GPU type on which the image cannot work.

    Each expression is a ``NotIn`` for one label, for example for an old driver version. It never excludes a node on
    which the image may work. :mod:`gpuspawner.core.request.pod_requirements` adds the expression about the CPU
    architecture.
    """
    usable: set[tuple[str, str]] = set()
    unfit: list[Platform] = []
    for platform in gpu.platforms:
        why = find_misfit(image, platform, vendor=gpu.vendor)
        if why is None:
            usable.update(platform.labels)
        elif why is not Misfit.ARCHITECTURE:
            unfit.append(platform)
    values: dict[str, set[str]] = {}
    for platform in unfit:
        candidates = (pair for pair in platform.labels if pair[0] != ARCHITECTURE_LABEL and pair not in usable)
        key, value = next(candidates, ("", ""))
        if key:
            values.setdefault(key, set()).add(value)
    return tuple(
        MatchExpression(key=key, operator="NotIn", values=tuple(sorted(found))) for key, found in values.items()
    )


def describe_vendors(vendors: tuple[str, ...] | None) -> str:
    """Return in words which GPUs an image supports, such as ``"NVIDIA or AMD GPUs"``.

    :param vendors: the image's GPU vendors; ``()`` = the image is for servers without a GPU. If None, the settings do
        not declare the vendors, and the result is empty.
    """
    if vendors is None:
        return ""
    if not vendors:
        return gettext("work without a GPU")
    return gettext("{vendors} GPUs", vendors=join_with_or([format_vendor(vendor) for vendor in vendors]))


def parse_cuda_major(image: Image) -> int | None:
    """Return the major version of the CUDA in an image, or None if the settings do not declare a CUDA version."""
    return int(image.cuda.partition(".")[0]) if image.cuda else None


def _explain_vendors(image: Image) -> str:
    if not image.vendors:
        return gettext("{image} can't be used with a GPU.", image=image.display_name)
    return gettext("{image} is made for {gpus}.", image=image.display_name, gpus=describe_vendors(image.vendors))


def _explain_architecture(image: Image, platforms: list[Platform]) -> str:
    return gettext(
        "{image} is built for {built}; these nodes are {found}.",
        image=image.display_name,
        built=join_with_and(image.architectures),
        found=_join_values(each.architecture for each in platforms),
    )


def _explain_driver(image: Image, platforms: list[Platform]) -> str:
    return gettext(
        "CUDA {cuda} needs driver {least} or newer; these nodes have {found}.",
        cuda=image.cuda,
        least=_MIN_DRIVER[parse_cuda_major(image) or 0],
        found=_join_values(each.driver for each in platforms),
    )


def _explain_cuda(image: Image, platforms: list[Platform]) -> str:
    return gettext(
        "{image} has CUDA {cuda}; the driver of these nodes supports CUDA {found}.",
        image=image.display_name,
        cuda=image.cuda,
        found=_join_values(each.cuda for each in platforms),
    )


def _explain_compute(image: Image, platforms: list[Platform]) -> str:
    least = _MIN_COMPUTE[parse_cuda_major(image) or 0]
    return gettext(
        "CUDA {cuda} needs compute capability {least} or more; this GPU has {found}.",
        cuda=image.cuda,
        least=f"{least[0]}.{least[1]}",
        found=_join_values(f"{each.compute[0]}.{each.compute[1]}" for each in platforms if each.compute),
    )


def _join_values(values: Iterable[object]) -> str:
    return join_with_and(sorted({str(value) for value in values}))


_EXPLAINERS: dict[Misfit, Callable[[Image, list[Platform]], str]] = {
    Misfit.ARCHITECTURE: _explain_architecture,
    Misfit.DRIVER: _explain_driver,
    Misfit.CUDA: _explain_cuda,
    Misfit.COMPUTE: _explain_compute,
}


def index_images(images: Iterable[Image]) -> dict[str, Image]:
    """Return a mapping for :attr:`.CustomImages.listed`: image reference → image.

    Images whose reference cannot be parsed are missing. Of several images with one reference, the first one counts,
    without what another one declares differently: what the image contains is then unknown, and nothing is overridden.
    """
    listed: dict[str, Image] = {}
    for image in images:
        reference = parse_reference(image.image)
        if reference is not None:
            first = listed.get(reference.pulled, image)
            listed[reference.pulled] = replace(
                first,
                cuda=first.cuda if first.cuda == image.cuda else None,
                vendors=first.vendors if first.vendors == image.vendors else None,
                architectures=first.architectures if first.architectures == image.architectures else (),
                overrides=first.overrides if first.overrides == image.overrides else {},
            )
    return listed
