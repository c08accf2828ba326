"""Computes what the pod of a selection (a valid choice) must contain, as values that do not depend on KubeSpawner."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import lru_cache

from gpuspawner.core.catalog.combined_types import LabelMatch, merge_matches
from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, TraitValues, find_lowest_limit
from gpuspawner.core.catalog.node_labels import MatchExpression, build_gpu_node_exclusion, find_vendor
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.catalog.software import ARCHITECTURE_LABEL, build_node_exclusions
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.field_definitions import CPU, MEMORY, PRIORITY, Priority
from gpuspawner.core.request.fields import AmountField
from gpuspawner.core.request.selection import Selection, find_image, find_max_run_time_s, summarize_selection

ANNOTATION_PREFIX = "gpuspawner.jupyter.org/"

HIDING_VARIABLES = {
    "nvidia": ("NVIDIA_VISIBLE_DEVICES", "void"),
    "amd": ("AMD_VISIBLE_DEVICES", "void"),
    "habana": ("HABANA_VISIBLE_DEVICES", "none"),  # Use "none": habana-container-runtime-hook takes "void" as "all".
}
"""Vendor → (environment variable by which the vendor's container runtime picks GPUs, the value that picks no GPU)."""

GPU_HIDING_ENVIRONMENT = dict(HIDING_VARIABLES.values())
"""Environment variable → value; together, these variables hide the GPUs of every vendor from a container."""

GPU_VARIABLES = ("GPUSPAWNER_GPU", "GPUSPAWNER_GPU_NAME", "GPUSPAWNER_GPU_COUNT")
"""Environment variables that tell programs in a server its GPU type (slug and display name) and its number of GPUs."""

_BRAND = "(?:tesla|quadro|titan|geforce|rtx|gtx)"
_MODEL_END = r"[a-z]{0,2}(?![a-z\d]).*"
_NVIDIA_MODELS = (
    # Of the models with one digit, only these count: m2 or p2 may be another device.
    rf"(?:{_BRAND}[-_.]?)*(?:(?:g[bh]|[abhlvtpkm])\d{{2,4}}|[ltp]4|a2){_MODEL_END}"
    rf"|{_BRAND}[-_.]?(?:(?:{_BRAND}|pro)[-_.]?)*\d{{3,4}}{_MODEL_END}"
    rf"|titan[-_.]?(?:v|xp?|rtx){_MODEL_END}"
)
_DEVICE_RESOURCES = {
    "NVIDIA_VISIBLE_DEVICES": re.compile(
        # NVIDIA's device plugin can name a resource after the GPU's model. Others of its domain are no GPUs, such as
        # NICs, and the memory and cores of HAMi: https://github.com/NVIDIA/k8s-device-plugin/issues/424
        rf"nvidia\.com/(?:nvidia[-_.])?(?:{_NVIDIA_MODELS})"
        # https://github.com/volcano-sh/devices and https://github.com/Project-HAMi/volcano-vgpu-device-plugin
        r"|volcano\.sh/(?:gpu-number|gpu-memory|vgpu-number)"
        r"|aliyun\.com/gpu-mem"  # https://github.com/AliyunContainerService/gpushare-device-plugin
        r"|k8s\.amazonaws\.com/vgpu",  # https://github.com/awslabs/aws-virtual-gpu-device-plugin
        re.ASCII | re.IGNORECASE,
    ),
    "HABANA_VISIBLE_DEVICES": re.compile(r"habana\.ai/.+", re.ASCII),
}
"""Variable of :data:`GPU_HIDING_ENVIRONMENT` → names of resources, beside those that :func:`find_vendor` knows, whose
device plugin sets the variable to the devices that the container gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """The resource limits and requests of the server's container.

    For CPU and memory, None keeps KubeSpawner's configured value, and ``NO_LIMIT`` removes that value.

    :param cpu_limit_millis: CPU limit in millicores.
    :param extended_resources: resource name → count, for ``limits`` (Kubernetes copies limits of extended resources
        to requests); empty without a GPU.
    """

    cpu_limit_millis: int | None
    cpu_request_millis: int | None
    memory_limit_bytes: int | None
    memory_request_bytes: int | None
    extended_resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequirements(ContainerResources):
    """What the pod of one selection must contain.

    :mod:`gpuspawner.hub.pod.patch` puts them into the pod.

    :param image: container image reference.
    :param node_selector: the pod's ``nodeSelector``: labels that the node must have.
    :param required: expressions to be merged into EVERY required node selector term (terms are ORed).
    :param alternatives: groups of expressions. The node must match all expressions of at least one group. Without
        groups, every node matches.
    :param avoided: expressions that keep a server without a GPU off GPU nodes: only nodes without GPUs match them. The
        pod prefers such nodes (a preferred node affinity term of weight 100). If such a node has room right before the
        hub creates the pod, the hub makes this affinity required.
    :param environment: environment variables to set.
    :param information: environment variables that only inform programs in the server. A variable of the same name from
        the admin or in ``environment`` overrides them.
    :param tolerations: tolerations to add to those of the admin.
    :param removed_environment: environment variables that the pod must not have, even if the admin sets them.
    :param runtime_class: name of a RuntimeClass, None = as KubeSpawner is configured.
    :param shm_bytes: size limit of a memory-backed /dev/shm, None = no volume.
    :param annotations: annotations of the pod.
    :param start_timeout_s: seconds that the hub waits for the server, None = as KubeSpawner is configured.
    :param run_time_s: seconds after which Kubernetes stops the pod, None = never.
    :param labels: labels of the pod.
    :param priority: the priority that the user picked, None = as KubeSpawner is configured.
    :param overrides: values of KubeSpawner's traits from the image and the GPU type; later values override earlier
        ones. The hub first replaces the admin's values of these traits, and then merges in what the other attributes of
        this class contain.
    """

    image: str
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[MatchExpression, ...] = ()
    alternatives: tuple[tuple[MatchExpression, ...], ...] = ()
    avoided: tuple[MatchExpression, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    information: Mapping[str, str] = field(default_factory=dict)
    removed_environment: tuple[str, ...] = ()
    runtime_class: str | None = None
    shm_bytes: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: int | None = None
    run_time_s: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority | None = None
    overrides: tuple[TraitValues, ...] = ()


def place(selection: Selection, catalog: Catalog) -> PodRequirements:
    """Return what the pod of a valid selection must contain.

    A pod without a GPU only prefers nodes without GPUs, so that it also starts if all nodes of the cluster have GPUs.

    :param selection: a selection that was validated against this catalog.
    :param catalog: what the user may choose from.
    """
    image, max_run_time_s = find_image(selection, catalog), find_max_run_time_s(selection.gpu, catalog)
    summary = summarize_selection(selection, catalog)
    gpu = catalog.gpus[selection.gpu] if selection.gpu is not None else None
    match: LabelMatch | None = merge_matches(gpu) if gpu is not None else {}
    exclusions = build_node_exclusions(image, gpu) if gpu is not None else ()
    run_time_s = find_lowest_limit(selection.run_time_s, max_run_time_s)
    selector = {key: values[0] for key, values in (match or {}).items() if len(values) == 1}
    expressions = _build_expressions({key: values for key, values in (match or {}).items() if len(values) != 1})
    queue = catalog.find_queue(gpu.slug) if gpu is not None else None
    own_shm, shm = selection.shared_memory_bytes, gpu.shm if gpu is not None and selection.memory_bytes else None
    overrides = tuple(filter(None, (image.overrides, {} if gpu is None else gpu.overrides)))
    return PodRequirements(
        **asdict(calculate_resources(selection, catalog)),
        image=image.image,
        node_selector=selector,
        required=(*expressions, *_require_architectures(image), *exclusions),
        # `match` is None if a combined type ("any of these GPU types") has members whose node labels cannot be merged
        # into one match. The node must then match the labels of one member.
        alternatives=tuple(map(_build_expressions, gpu.label_matches)) if gpu is not None and match is None else (),
        avoided=build_gpu_node_exclusion(catalog) if gpu is None else (),
        tolerations=gpu.tolerations if gpu is not None else (),
        environment=_build_environment(gpu),
        information=_describe_gpus(gpu, selection.gpu_count),
        removed_environment=_list_own_variables(gpu),
        runtime_class=gpu.runtime_class if gpu is not None else None,
        shm_bytes=_multiply_exactly(selection.memory_bytes, shm) if own_shm is None else own_shm,
        annotations=build_annotations(
            summary,
            gpu=selection.gpu,
            gpu_name="" if gpu is None else gpu.display_name,
            gpu_count=selection.gpu_count,
            image=selection.custom_image or selection.image,
        ),
        start_timeout_s=_find_start_timeout(gpu, queue, overrides=overrides),
        run_time_s=run_time_s,
        labels=queue.labels if queue is not None else {},
        priority=_find_priority(selection, catalog),
        overrides=overrides,
    )


def _find_priority(selection: Selection, catalog: Catalog) -> Priority | None:
    slug = selection.choices.get(PRIORITY.name)
    priority = None if slug is None else catalog.choices[PRIORITY.name][slug]
    return priority if isinstance(priority, Priority) else None


def calculate_resources(selection: Selection, catalog: Catalog) -> ContainerResources:
    """Return the CPU, memory and GPUs of a selection's pod, for callers that need no other result of :func:`place`."""
    gpu = catalog.gpus[selection.gpu] if selection.gpu is not None else None
    cpu_limit, cpu_request = _calculate_limit_and_request(selection.cpu_millis, CPU, catalog=catalog)
    memory_limit, memory_request = _calculate_limit_and_request(selection.memory_bytes, MEMORY, catalog=catalog)
    return ContainerResources(
        cpu_limit_millis=cpu_limit,
        cpu_request_millis=cpu_request,
        memory_limit_bytes=memory_limit,
        memory_request_bytes=memory_request,
        extended_resources={gpu.resource: selection.gpu_count} if gpu is not None else {},
    )


def _calculate_limit_and_request(
    amount: int | None, amount_field: AmountField, *, catalog: Catalog
) -> tuple[int | None, int | None]:
    """Return (limit, request) of CPU or memory in base units; None keeps KubeSpawner's value.

    :param amount: the limit that the selection contains.
    """
    bounds: Bounds | None = getattr(catalog, amount_field.name)
    if bounds is None:
        return amount, _multiply_exactly(amount, amount_field.guarantee)
    own = bounds.own
    if own is not None and amount == own.limit:
        return None, None
    if own is not None and own.guarantee is not None and amount is not None:
        return amount, min(own.guarantee, amount)
    return amount, _multiply_exactly(amount, bounds.guarantee)


@lru_cache(maxsize=4096)
def _multiply_exactly(whole: int | None, fraction: float | None) -> int | None:
    """Return the product, or None if a factor is None.

    The product is rounded up, without a floating-point error: ``Fraction(repr(0.1))`` is exactly 1/10.
    """
    if whole is None or fraction is None:
        return None
    return math.ceil(whole * Fraction(repr(fraction)))


def _find_start_timeout(
    gpu: GPUType | None, queue: KueueQueue | None, *, overrides: tuple[TraitValues, ...]
) -> int | None:
    """Return the seconds that the hub waits for the server, or None if KubeSpawner's configured value applies.

    The result is the longest time that the image, the GPU type or Kueue's queue sets.

    :param overrides: trait values of the image and of the GPU type.
    """
    declared = (gpu.start_timeout_s if gpu is not None else None, queue.timeout_s if queue is not None else None)
    return max((*_list_start_timeouts(overrides), *(each for each in declared if each is not None)), default=None)


def _list_start_timeouts(overrides: tuple[TraitValues, ...]) -> list[int]:
    return [value for each in overrides if type(value := each.get("start_timeout")) is int]


def _build_expressions(match: LabelMatch) -> tuple[MatchExpression, ...]:
    return tuple(
        MatchExpression(key=key, operator="In" if values else "DoesNotExist", values=tuple(values))
        for key, values in match.items()
    )


def _require_architectures(image: Image) -> tuple[MatchExpression, ...]:
    if not image.architectures:
        return ()
    return (MatchExpression(key=ARCHITECTURE_LABEL, operator="In", values=image.architectures),)


def list_shown_variables(resource: str, vendor: str | None = None) -> tuple[str, ...]:
    """Return the environment variables that a container with a device must not have, as they would hide the device.

    :param resource: extended resource of the device, such as ``nvidia.com/gpu``.
    :param vendor: vendor of the device; None if only the name of the resource tells it.
    """
    known = HIDING_VARIABLES.get(vendor or find_vendor(resource) or "", ("", ""))[0]
    named = next((name for name, pattern in _DEVICE_RESOURCES.items() if pattern.fullmatch(resource)), known)
    return (named,) if named else ()


def _list_own_variables(gpu: GPUType | None) -> tuple[str, ...]:
    return () if gpu is None else list_shown_variables(gpu.resource, gpu.vendor)


def _build_environment(gpu: GPUType | None) -> dict[str, str]:
    """Return the environment variables to set: those of the GPU type, and those that hide GPUs of all other vendors.

    Many images set ``NVIDIA_VISIBLE_DEVICES=all``: NVIDIA's runtime would then give a server without a GPU all GPUs of
    its node. The value ``void`` prevents this; the runtimes of AMD and Habana have such variables, too. A server with a
    GPU must not have the variable of the GPU's vendor in its pod, because kubelet lets a variable of the pod override
    the variable of the device plugin.
    """
    own = {} if gpu is None else gpu.environment
    kept = {name: value for name, value in own.items() if name not in GPU_HIDING_ENVIRONMENT}
    shown = _list_own_variables(gpu)
    return {**kept, **{name: value for name, value in GPU_HIDING_ENVIRONMENT.items() if name not in shown}}


def _describe_gpus(gpu: GPUType | None, count: int) -> dict[str, str]:
    values = () if gpu is None else (gpu.slug, gpu.display_name, str(count))
    return dict(zip(GPU_VARIABLES, values, strict=False))


def build_annotations(
    summary: str, *, gpu: str | None = None, gpu_name: str = "", gpu_count: int = 0, image: str | None = None
) -> dict[str, str]:
    """Return annotations of a server's pod that say what the user has chosen.

    :param summary: the choice in one line, in English.
    :param gpu: slug of the GPU type, empty if the type is unknown; None without a GPU.
    :param gpu_name: name of the GPU type for users.
    :param image: slug or reference of the image; None if the choice does not name one.
    """
    annotations = {} if image is None else {"image": image}
    annotations["summary"] = summary
    if gpu is not None:
        annotations |= {"gpu": gpu, "gpu-name": gpu_name, "gpu-count": str(gpu_count)}
    return {f"{ANNOTATION_PREFIX}{name}": value for name, value in annotations.items()}
