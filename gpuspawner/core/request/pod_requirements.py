"""From a selection to what a pod must carry, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from gpuspawner.core.catalog.combined_types import LabelMatch, merge_matches
from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression, build_gpu_node_exclusion
from gpuspawner.core.catalog.kueue import KueueQueue
from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, find_lowest_limit
from gpuspawner.core.catalog.software import ARCHITECTURE_LABEL, build_node_exclusions
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES
from gpuspawner.core.request.fields import PodAdditions
from gpuspawner.core.request.selection import Selection, find_image, find_max_run_time_s, summarize_selection

ANNOTATION_PREFIX = "gpuspawner.jupyter.org/"

_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """How much of each resource the notebook's container of one selection gets.

    :param cpu_limit_millis: millicores, None = leave KubeSpawner's own; so for the other three.
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
    """What the pod of one selection must carry.

    :mod:`gpuspawner.hub.pod.trait_values` turns it into KubeSpawner traits.

    :param image: container image reference.
    :param node_selector: labels the node must carry with exactly this value.
    :param required: expressions to be merged into EVERY required node selector term (terms are ORed).
    :param alternatives: of these, all expressions of at least one must hold as well; empty = nothing more is required.
    :param avoided: expressions of one preferred term of weight 100 (keeps servers without a GPU off GPU nodes).
    :param environment: variables to set.
    :param tolerations: to be added to the admin's.
    :param removed_environment: variables that the pod must not have, also where the admin sets them.
    :param runtime_class: name of a RuntimeClass, None = KubeSpawner's own.
    :param shm_bytes: size limit of a memory-backed /dev/shm, None = no volume.
    :param annotations: of the pod.
    :param start_timeout_s: seconds that the hub waits for the server, None = KubeSpawner's own.
    :param run_time_s: seconds after which Kubernetes stops the pod, None = never.
    :param labels: of the pod.
    :param additions: what closed choices add.
    """

    image: str
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[MatchExpression, ...] = ()
    alternatives: tuple[tuple[MatchExpression, ...], ...] = ()
    avoided: tuple[MatchExpression, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    removed_environment: tuple[str, ...] = ()
    runtime_class: str | None = None
    shm_bytes: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: int | None = None
    run_time_s: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    additions: PodAdditions = field(default_factory=PodAdditions)


def place(selection: Selection, catalog: Catalog) -> PodRequirements:
    """Return what the pod of a valid selection must carry.

    A pod without a GPU only prefers nodes without GPUs, so that it also starts where every node has GPUs.

    :param selection: made from this very catalog, so every slug is in it.
    :param catalog: what is offered.
    """
    image, max_run_time_s = find_image(selection, catalog), find_max_run_time_s(selection.gpu, catalog)
    summary = summarize_selection(selection, catalog)
    gpu = catalog.gpus[selection.gpu] if selection.gpu is not None else None
    match: LabelMatch | None = merge_matches(gpu) if gpu is not None else {}
    exclusions = build_node_exclusions(image, gpu) if gpu is not None else ()
    run_time_s = find_lowest_limit(selection.run_time_s, max_run_time_s)
    selector = {key: values[0] for key, values in (match or {}).items() if len(values) == 1}
    expressions = _build_expressions({key: values for key, values in (match or {}).items() if len(values) != 1})
    queue = _find_queue(gpu, catalog)
    own_shm, shm = selection.shared_memory_bytes, gpu.shm if gpu is not None else None
    return PodRequirements(
        **asdict(calculate_resources(selection, catalog)),
        image=image.image,
        node_selector=selector,
        required=(*expressions, *_require_architectures(image), *exclusions),
        # No single match stands for all members of the type: the node must match one of them.
        alternatives=tuple(map(_build_expressions, gpu.label_matches)) if gpu is not None and match is None else (),
        avoided=build_gpu_node_exclusion(catalog) if gpu is None else (),
        tolerations=gpu.tolerations if gpu is not None else (),
        environment=_build_environment(gpu),
        removed_environment=(_VISIBLE_DEVICES,) if gpu is not None and gpu.vendor == "nvidia" else (),
        runtime_class=gpu.runtime_class if gpu is not None else None,
        shm_bytes=_multiply_exactly(selection.memory_bytes, shm) if own_shm is None else own_shm,
        annotations=_build_annotations(selection, summary),
        start_timeout_s=_find_start_timeout(gpu, queue),
        run_time_s=run_time_s,
        labels=queue.labels if queue is not None else {},
        additions=_merge_additions(selection, catalog),
    )


def _merge_additions(selection: Selection, catalog: Catalog) -> PodAdditions:
    """Return what all closed choices of a selection add to its pod."""
    merged = PodAdditions()
    for each in CLOSED_CHOICES:
        if each.name in selection.choices:
            own = each.build_pod_additions(catalog.choices[each.name][selection.choices[each.name]])
            merged = merged.merge(own)
    return merged


def exclude_gpu_nodes(placement: PodRequirements) -> PodRequirements:
    """Return the requirements of a pod without a GPU that must not run on GPU nodes."""
    return replace(placement, required=(*placement.avoided, *placement.required), avoided=())


def calculate_resources(selection: Selection, catalog: Catalog) -> ContainerResources:
    """Return only how much a valid selection takes: for questions about many that differ in nothing else."""
    gpu = catalog.gpus[selection.gpu] if selection.gpu is not None else None
    return ContainerResources(
        cpu_limit_millis=selection.cpu_millis,
        cpu_request_millis=_calculate_request(selection.cpu_millis, catalog.cpu),
        memory_limit_bytes=selection.memory_bytes,
        memory_request_bytes=_calculate_request(selection.memory_bytes, catalog.memory),
        extended_resources={gpu.resource: selection.gpu_count} if gpu is not None else {},
    )


def _calculate_request(limit: int | None, bounds: Bounds | None) -> int | None:
    """Return the request that goes with a limit; without bounds the limit is guaranteed in full."""
    return _multiply_exactly(limit, bounds.guarantee if bounds is not None else 1.0)


@lru_cache(maxsize=4096)
def _multiply_exactly(whole: int | None, fraction: float | None) -> int | None:
    """Return a part of an amount, rounded up, in exact arithmetic; None when either is not known."""
    if whole is None or fraction is None:
        return None
    return math.ceil(whole * Fraction(repr(fraction)))


def _find_queue(gpu: GPUType | None, catalog: Catalog) -> KueueQueue | None:
    """Return the queue that servers with a type go through, None where they go through none."""
    queue = catalog.queue
    return queue if gpu is not None and queue is not None and queue.accepts(gpu.slug) else None


def _find_start_timeout(gpu: GPUType | None, queue: KueueQueue | None) -> int | None:
    """Return how long to wait for a server in seconds: the longer one of its type's time and the queue's."""
    both = (gpu.start_timeout_s if gpu is not None else None, queue.timeout_s if queue is not None else None)
    return max((each for each in both if each is not None), default=None)


def _build_expressions(match: LabelMatch) -> tuple[MatchExpression, ...]:
    """Return a match as expressions; a label without values must be missing."""
    return tuple(
        MatchExpression(key=key, operator="In" if values else "DoesNotExist", values=tuple(values))
        for key, values in match.items()
    )


def _require_architectures(image: Image) -> tuple[MatchExpression, ...]:
    """Return what keeps an image off nodes it was not built for; elsewhere its first program could not even start."""
    if not image.architectures:
        return ()
    return (MatchExpression(key=ARCHITECTURE_LABEL, operator="In", values=image.architectures),)


def _build_environment(gpu: GPUType | None) -> dict[str, str]:
    """Return the variables to set.

    An image that carries ``NVIDIA_VISIBLE_DEVICES=all`` would show every NVIDIA GPU of its node to a server that asked
    for none of them; ``void`` makes NVIDIA's runtime leave it alone. On a server with such a GPU the variable would
    override what the device plugin says, because the kubelet puts a pod's own variables after the plugin's.
    """
    own = {} if gpu is None else {name: value for name, value in gpu.environment.items() if name != _VISIBLE_DEVICES}
    return own if gpu is not None and gpu.vendor == "nvidia" else {**own, _VISIBLE_DEVICES: "void"}


def _build_annotations(selection: Selection, summary: str) -> dict[str, str]:
    annotations = {"image": selection.custom_image or selection.image, "summary": summary}
    if selection.gpu is not None:
        annotations |= {"gpu": selection.gpu, "gpu-count": str(selection.gpu_count)}
    return {f"{ANNOTATION_PREFIX}{name}": value for name, value in annotations.items()}
