"""What programs meet on a node besides its GPUs: the processor's architecture, NVIDIA's driver, what its GPUs compute.

As GPU Feature Discovery labels nodes (NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery, ``lm/nvml.go``), in the
present spelling and in the older one. Labels are hostile input: what cannot be read is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuspawner.core.catalog.catalogue import ComputeCapability, Platform

ARCHITECTURE_LABEL = "kubernetes.io/arch"
"""Set by the kubelet on each node, https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-arch"""
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
CUDA_LABELS = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
"""The newest CUDA that the driver supports, not one that is installed."""
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
"""Labels that a platform is made of."""

_MAX_DIGITS = 6
"""Digits of a number that is taken for one."""


def read_platform(labels: Mapping[str, str]) -> Platform:
    """Return the platform that a node's labels tell of."""
    major, minor = (_parse_number(labels.get(key)) for key in (COMPUTE_MAJOR_LABEL, COMPUTE_MINOR_LABEL))
    return Platform(
        architecture=labels.get(ARCHITECTURE_LABEL) or None,
        driver=_read_first_number(labels, DRIVER_LABELS),
        cuda=_read_first_number(labels, CUDA_LABELS),
        compute=None if major is None or minor is None else (major, minor),
        labels=tuple((key, labels[key]) for key in PLATFORM_LABELS if key in labels),
    )


def deduplicate_platforms(platforms: Iterable[Platform]) -> tuple[Platform, ...]:
    """Return each platform once, in an order that does not depend on which node came first."""
    return tuple(sorted(set(platforms), key=lambda each: (each.labels, each.compute or ())))


def parse_compute_capability(text: str) -> ComputeCapability | None:
    """Return a compute capability from what a table writes (``"8.9"``), None where that is none."""
    major, minor = (_parse_number(part) for part in (*text.split("."), "")[:2])
    return None if major is None or minor is None else (major, minor)


def _read_first_number(labels: Mapping[str, str], keys: Iterable[str]) -> int | None:
    return next((number for key in keys if (number := _parse_number(labels.get(key))) is not None), None)


def _parse_number(text: str | None) -> int | None:
    return int(text) if text and len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() else None
