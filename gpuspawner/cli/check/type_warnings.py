"""Warns about GPU types that no server can use, and about images without a CUDA version; reads only values files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.cli.values.trait_sources import find_trait_source, has_profiles, list_pod_tolerations
from gpuspawner.core.catalog.accelerators import GKE_ACCELERATOR
from gpuspawner.core.catalog.model import GPUType, Image
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.wording import format_list

_AKS_SPOT = "kubernetes.azure.com/scalesetpriority"
_TAINTS_BY_LABEL = (
    # https://cloud.google.com/kubernetes-engine/docs/how-to/gpus
    (GKE_ACCELERATOR, "", Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"), "GKE puts on GPU nodes"),
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    (_AKS_SPOT, "spot", Taint(key=_AKS_SPOT, value="spot", effect="NoSchedule"), "AKS puts on spot nodes"),
)
"""Taints that clouds set on nodes that have a certain label.

Each row has four parts: the label, its value ("" for any value), the taint, and a clause for messages, which names the
cloud and the nodes.
"""
_START_TIMEOUT_S = 300
"""Default of ``singleuser.startTimeout`` in zero-to-jupyterhub, in seconds."""


def find_type_warnings(values: HelmValues, configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield the problems of GPU types and images, with paths below ``hub.config.GPUSpawner``.

    :param values: the merged values files, without errors.
    """
    yield from find_undeclared_images(configured.images, configured.gpus)
    if not (configured.discover or configured.gpus or has_profiles(values)):
        message = "is false, and gpus has no GPU types: no user can pick a GPU"
        yield Problem(field="discover_gpus", code="unused", message=message)
    pod_tolerations = list_pod_tolerations(values)
    slugs_by_resource: dict[str, list[str]] = {}
    for slug, gpu in configured.gpus.items():
        slugs_by_resource.setdefault(gpu.resource, []).append(slug)
    for slug, gpu in configured.gpus.items():
        path = f"gpus.{slug}"
        yield from _check_taints(path, gpu, tolerations=(*gpu.tolerations, *pod_tolerations))
        yield from _check_start_timeout(path, gpu, values=values)
        others = [other for other in slugs_by_resource[gpu.resource] if other != slug] if not gpu.match else []
        if others:
            message = f"is missing: every node with {gpu.resource} counts, those of {format_list(others)} as well"
            yield Problem(field=f"{path}.match", code="too_wide", message=message)


def find_undeclared_images(images: Mapping[str, Image], gpus: Mapping[str, GPUType]) -> Iterator[Problem]:
    """Yield a problem for each image that may run on NVIDIA GPUs, but for which the settings name no CUDA version.

    Yield nothing if no GPU type has NVIDIA GPUs.
    """
    if not any(gpu.vendor == "nvidia" for gpu in gpus.values()):
        return
    for slug, image in images.items():
        if image.cuda is None and (image.vendors is None or "nvidia" in image.vendors):
            message = (
                "does not declare its CUDA version, so the form cannot warn of a node's driver that is too old: add "
                'cuda: "12.8", or vendors: [] if the image is not for GPUs'
            )
            yield Problem(field=f"images.{slug}", code="no_cuda", message=message)


def _check_taints(path: str, gpu: GPUType, *, tolerations: tuple[Toleration, ...]) -> Iterator[Problem]:
    for label, value, taint, source in _TAINTS_BY_LABEL:
        is_tainted = label in gpu.match and (not value or gpu.match[label] == (value,))
        if is_tainted and not tolerates_taints(Node(name="", taints=(taint,)), tolerations):
            message = (
                f"do not tolerate the taint {taint.key}:{taint.effect}, which {source}: its nodes would take no server"
            )
            yield Problem(field=f"{path}.tolerations", code="untolerated", message=message)


def _check_start_timeout(path: str, gpu: GPUType, *, values: HelmValues) -> Iterator[Problem]:
    if gpu.scale_up is None:
        return
    source = find_trait_source(values, "start_timeout")
    general_s = source.value if source is not None and isinstance(source.value, int | float) else _START_TIMEOUT_S
    timeout_s = gpu.start_timeout_s or general_s
    if gpu.scale_up.minutes * 60 >= timeout_s:
        field = f"{path}.start_timeout" if gpu.start_timeout_s else f"{path}.scale_up.minutes"
        message = (
            f"a new node takes {gpu.scale_up.minutes:g} minutes, and a start is given up after {timeout_s:g} seconds: "
            "say a longer start_timeout"
        )
        yield Problem(field=field, code="too_short", message=message)
