"""What programs meet on a node besides its GPUs: the processor's architecture, NVIDIA's driver, what its GPUs compute.

As GPU Feature Discovery labels nodes (NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery, ``lm/nvml.go``), in the
present spelling and in the older one. Labels are hostile input: what cannot be read is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuspawner.core.catalog.catalogue import Compute, Platform

ARCHITECTURE = "kubernetes.io/arch"
"""Set by the kubelet on each node, https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-arch"""
DRIVER = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
CUDA = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
"""The newest CUDA that the driver supports, not one that is installed."""
COMPUTE_MAJOR = "nvidia.com/gpu.compute.major"
COMPUTE_MINOR = "nvidia.com/gpu.compute.minor"
PRODUCT = "nvidia.com/gpu.product"

TELLING = (*DRIVER, *CUDA, COMPUTE_MAJOR, COMPUTE_MINOR, PRODUCT, ARCHITECTURE)
"""Labels that a platform is made of."""

_LONGEST = 6
"""Digits of a number that is taken for one."""


def platform_of(labels: Mapping[str, str]) -> Platform:
    """Return the platform that a node's labels tell of."""
    major, minor = (_number(labels.get(key)) for key in (COMPUTE_MAJOR, COMPUTE_MINOR))
    return Platform(
        architecture=labels.get(ARCHITECTURE) or None,
        driver=_first(labels, DRIVER),
        cuda=_first(labels, CUDA),
        compute=None if major is None or minor is None else (major, minor),
        labels=tuple((key, labels[key]) for key in TELLING if key in labels),
    )


def distinct(platforms: Iterable[Platform]) -> tuple[Platform, ...]:
    """Return each platform once, in an order that does not depend on which node came first."""
    return tuple(sorted(set(platforms), key=lambda each: (each.labels, each.compute or ())))


def parse_compute(text: str) -> Compute | None:
    """Return a compute capability from what a table writes (``"8.9"``), None where that is none."""
    major, minor = (_number(part) for part in (*text.split("."), "")[:2])
    return None if major is None or minor is None else (major, minor)


def _first(labels: Mapping[str, str], keys: Iterable[str]) -> int | None:
    return next((number for key in keys if (number := _number(labels.get(key))) is not None), None)


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) <= _LONGEST and text.isascii() and text.isdigit() else None
