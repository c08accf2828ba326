"""Warns about valid settings that are probably mistakes: impossible limits, unknown GPU types and misspelled names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    strip_product_suffix,
)
from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.model import Bounds, GPUType, UnitKind
from gpuspawner.core.catalog.policy_model import ANY, UNLIMITED
from gpuspawner.core.catalog.software import PLATFORM_LABELS
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.discovery.node_facts import SPOT_LABELS
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.wording import quote, sanitize_name, suggest_name
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.settings.gpu import GPUEntry, load_builtin_accelerators
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.policy import RuleEntry

# A setting above these maxima is probably a mistake. Each maximum is at least the largest existing value: a machine has
# up to 1,920 CPUs, 32 TiB of memory and 16 GPUs; a GPU has up to 288 GB; Kubernetes supports up to 5,000 nodes
# (https://kubernetes.io/docs/setup/best-practices/cluster-large/).
_MOST_CPU_MILLIS = 2048 * 1000
_MOST_MEMORY_BYTES = 64 * 1024**4
_MOST_GPU_MEMORY_BYTES = 2 * 1024**4
_MOST_CARDS = 16
_MOST_NODES = 15_000
_LONGEST_S = 366 * 24 * 60 * 60
_LONGEST_MINUTES = 24 * 60


def find_oversized_limits(model: SettingsModel, configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield a problem for each limit that no existing machine, GPU or cluster can reach.

    The problems' paths start below ``hub.config.GPUSpawner``.

    :param model: the settings as written.
    :param configured: the catalog that the settings describe.
    """
    yield from _check_bounds("cpu", configured.cpu, most=_MOST_CPU_MILLIS, show=format_cpu)
    yield from _check_bounds("memory", configured.memory, most=_MOST_MEMORY_BYTES, show=format_memory)
    yield from _check_bounds("run_time", configured.run_time, most=_LONGEST_S, show=format_duration)
    most = configured.memory.max if configured.memory is not None else _MOST_MEMORY_BYTES
    yield from _check_bounds("shared_memory", configured.shared_memory, most=most, show=format_memory)
    for slug, gpu in configured.gpus.items():
        yield from _check_gpu_limits(f"gpus.{slug}", gpu)
    for slug, union in configured.unions.items():
        if (union.min_memory_bytes or 0) > _MOST_GPU_MEMORY_BYTES:
            yield _make_too_large(
                f"gpus.{slug}.min_memory", "any GPU has", shown=format_memory(union.min_memory_bytes or 0)
            )
    for slug, entry in model.accelerators.items():
        if entry is not None and (entry.memory or 0) > _MOST_GPU_MEMORY_BYTES:
            yield _make_too_large(f"accelerators.{slug}.memory", "any GPU has", shown=format_memory(entry.memory or 0))
    for path, rule in _list_rules(model):
        yield from _check_rule(path, rule)


def _check_bounds(path: str, bounds: Bounds | None, *, most: int, show: Callable[[int], str]) -> Iterator[Problem]:
    if bounds is None:
        return
    if bounds.max > most:
        yield _make_too_large(f"{path}.max", f"there can be at most ({show(most)})", shown=show(bounds.max))
    if bounds.min < bounds.max < bounds.min + bounds.step:
        message = (
            f"is more than there is between {path}.min and {path}.max: nothing but {show(bounds.min)} can be picked"
        )
        yield Problem(field=f"{path}.step", code="too_large", message=message)


def _check_gpu_limits(path: str, gpu: GPUType) -> Iterator[Problem]:
    if (gpu.memory_bytes or 0) > _MOST_GPU_MEMORY_BYTES:
        yield _make_too_large(f"{path}.memory", "any GPU has", shown=format_memory(gpu.memory_bytes or 0))
    if gpu.unit is UnitKind.CARD and gpu.max_count > _MOST_CARDS:
        yield _make_too_large(f"{path}.max_count", "any machine has", shown=f"{gpu.max_count} GPUs in one server")
    scale_up = gpu.scale_up
    if scale_up is None:
        return
    if gpu.unit is UnitKind.CARD and scale_up.gpus_per_node > _MOST_CARDS:
        shown = f"{scale_up.gpus_per_node} GPUs on one node"
        yield _make_too_large(f"{path}.scale_up.gpus_per_node", "any machine has", shown=shown)
    if scale_up.max_nodes > _MOST_NODES:
        yield _make_too_large(f"{path}.scale_up.max_nodes", "any cluster has", shown=f"{scale_up.max_nodes} nodes")
    if scale_up.minutes > _LONGEST_MINUTES:
        message = f"is more than a day until a new node is ready: {scale_up.minutes:g} minutes"
        yield Problem(field=f"{path}.scale_up.minutes", code="too_large", message=message)


def _list_rules(model: SettingsModel) -> Iterator[tuple[str, RuleEntry]]:
    if model.policy is None:
        return
    yield "policy.default", model.policy.default
    for section, rules in (("groups", model.policy.groups), ("users", model.policy.users)):
        yield from ((f"policy.{section}.{sanitize_name(name)}", rule) for name, rule in rules.items())


def _check_rule(path: str, rule: RuleEntry) -> Iterator[Problem]:
    for name, limit, most, show in (
        ("cpu", rule.cpu, _MOST_CPU_MILLIS, format_cpu),
        ("memory", rule.memory, _MOST_MEMORY_BYTES, format_memory),
    ):
        if limit is not None and limit.max is not None and most < limit.max < UNLIMITED:
            yield _make_too_large(f"{path}.{name}.max", "any machine has", shown=show(limit.max))
    times = [(path, rule.max_runtime)]
    times += [(f"{path}.gpus.{sanitize_name(slug)}", limits.max_runtime) for slug, limits in (rule.gpus or {}).items()]
    for place, longest in times:
        if longest is not None and _LONGEST_S < longest < UNLIMITED:
            yield _make_too_large(f"{place}.max_runtime", "a year", shown=format_duration(longest))


def _make_too_large(field: str, than: str, *, shown: str) -> Problem:
    return Problem(field=field, code="too_large", message=f"is more than {than}: {shown}")


_UNNAMED_TYPE_PREFIXES = ("nvidia-gpu", "amd-gpu", "intel-gpu", "nvidia-mig-")
"""Prefixes of the slugs that gpuspawner gives to GPU types of nodes whose labels don't name the GPU model."""


def find_unknown_slugs(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each slug that names neither a GPU type of the settings nor one that nodes may have.

    :param model: the settings as written.
    """
    known = {*model.gpus, ANY}
    models = {*load_builtin_accelerators(), *model.accelerators}
    for field, slug in _list_named_slugs(model):
        if slug not in known and not _may_be_found(slug, models):
            message = (
                f"there is no GPU type {quote(slug)} in the settings, nor a model of which nodes could bring it."
                f"{suggest_name(slug, [*model.gpus, *models])}"
            )
            yield Problem(field=field, code="unknown_slug", message=message)


def _may_be_found(slug: str, models: set[str]) -> bool:
    """Return whether gpuspawner may derive a GPU type with the slug from node labels.

    Such a slug is the slug of a GPU model, perhaps with a suffix for MIG or sharing, or begins with one of the prefixes
    for unknown models.
    """
    return slug.startswith(_UNNAMED_TYPE_PREFIXES) or any(
        slug == model or slug.startswith(f"{model}-") for model in models
    )


def _list_named_slugs(model: SettingsModel) -> Iterator[tuple[str, str]]:
    for slug, entry in model.gpus.items():
        yield from ((f"gpus.{slug}.any_of.{index}", member) for index, member in enumerate(entry.any_of))
    for slug, preset in model.presets.items():
        if preset.enabled and preset.gpu:
            yield f"presets.{slug}.gpu", preset.gpu
    if model.queue is not None:
        yield from ((f"queue.gpus.{index}", slug) for index, slug in enumerate(model.queue.gpus))
    for slug, pool in model.pools.items():
        if pool.enabled:
            yield from ((f"pools.{slug}.gpus.{index}", each) for index, each in enumerate(pool.gpus))
    if model.policy is not None:
        yield from _list_rule_slugs("policy.default", model.policy.default)
        for section, rules in (("groups", model.policy.groups), ("users", model.policy.users)):
            for name, rule in rules.items():
                yield from _list_rule_slugs(f"policy.{section}.{sanitize_name(name)}", rule)


def _list_rule_slugs(path: str, rule: RuleEntry) -> Iterator[tuple[str, str]]:
    yield from ((f"{path}.gpus.{sanitize_name(slug)}", slug) for slug in rule.gpus or ())


_NEAR = 0.85
KNOWN_LABELS = frozenset(
    {
        *(GFD_PRODUCT, GKE_ACCELERATOR, AMD_PRODUCT, INTEL_PRODUCT),
        *SPOT_LABELS,
        *PLATFORM_LABELS,
        *(f"{prefix}instance-{what}" for prefix in KARPENTER_PREFIXES for what in ("family", "category", "size")),
        *(f"{prefix}instance-gpu-{what}" for prefix in KARPENTER_PREFIXES for what in ("name", "count", "memory")),
        *(f"nvidia.com/gpu.{what}" for what in ("count", "family", "memory", "present", "replicas")),
        *("nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy", "nvidia.com/mig.config"),
        *(f"cloud.google.com/gke-{what}" for what in ("gpu-sharing-strategy", "gpu-partition-size", "nodepool")),
        "cloud.google.com/gke-max-shared-clients-per-gpu",
        *("kubernetes.azure.com/accelerator", "kubernetes.azure.com/agentpool", "k8s.amazonaws.com/accelerator"),
        *("kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "node.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "eks.amazonaws.com/nodegroup"),
        *("karpenter.sh/nodepool", "hub.jupyter.org/node-purpose", "amd.com/gpu.compute-memory-partition"),
    }
)
"""Labels that vendors and clouds set on GPU nodes; a setting with a similar label is probably misspelled."""
_TAINTS = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "kubernetes.azure.com/scalesetpriority"}
    | {"kubernetes.io/arch", "hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated", "sku"}
)
_RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
_ARCHITECTURES = ("amd64", "arm64", "arm", "ppc64le", "riscv64", "s390x", "386")


def find_misspelled_names(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each probably misspelled label, model, taint, runtime class, image reference or architecture.

    :param model: the settings as written.
    """
    for slug, gpu in model.gpus.items():
        if gpu.enabled:
            yield from _check_gpu_names(f"gpus.{slug}", gpu)
    for slug, image in model.images.items():
        if image.enabled and image.image and parse_reference(image.image) is None:
            message = f"is no reference of an image that a node could pull, such as {EXAMPLE_REFERENCE}"
            yield Problem(field=f"images.{slug}.image", code="doubtful", message=message)
        for index, architecture in enumerate(image.architectures):
            if architecture not in _ARCHITECTURES:
                message = (
                    f"is no architecture that nodes have: they are called {', '.join(_ARCHITECTURES[:2])} and so on"
                )
                yield Problem(field=f"images.{slug}.architectures.{index}", code="doubtful", message=message)


def _check_gpu_names(path: str, gpu: GPUEntry) -> Iterator[Problem]:
    for key, labels in gpu.match.items():
        yield from _check_name(f"{path}.match.{key}", key, known=KNOWN_LABELS)
        for index, value in enumerate(labels):
            product = strip_product_suffix(value) if key == GFD_PRODUCT else value
            field = f"{path}.match.{key}.{index}" if len(labels) > 1 else f"{path}.match.{key}"
            yield from _check_name(field, product, known=_list_model_values(key))
    for index, toleration in enumerate(gpu.tolerations or ()):
        yield from _check_name(f"{path}.tolerations.{index}.key", toleration.key, known=_TAINTS | {gpu.resource or ""})
    if gpu.runtime_class:
        yield from _check_name(f"{path}.runtime_class", gpu.runtime_class, known=_RUNTIME_CLASSES)


def _check_name(field: str, name: str, *, known: Iterable[str]) -> Iterator[Problem]:
    known = frozenset(known)
    near = [] if name in known else get_close_matches(name, known, n=1, cutoff=_NEAR)
    if near:
        message = f"may be written wrongly: {quote(name)} is not well known. Did you mean {quote(near[0])}?"
        yield Problem(field=field, code="doubtful", message=message)


def _list_model_values(key: str) -> frozenset[str]:
    sources = {GFD_PRODUCT: "gfd", GKE_ACCELERATOR: "gke", AMD_PRODUCT: "amd", INTEL_PRODUCT: "intel"}
    sources |= {f"{prefix}instance-gpu-name": "karpenter" for prefix in KARPENTER_PREFIXES}
    models = load_builtin_accelerators().values()
    return frozenset(name for model in models for name in model.labels.get(sources.get(key, ""), ()))
