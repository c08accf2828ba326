"""Warns about valid settings that are probably mistakes.

The mistakes are GPU types that no server can use or that nothing defines, images that no node could pull, and images
without a CUDA version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.cli.values.helm_values import HelmValues
from gpuspawner.cli.values.trait_sources import find_trait_source, has_profiles, list_pod_tolerations
from gpuspawner.core.catalog.accelerators import GKE_ACCELERATOR
from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.model import GPUType, Image
from gpuspawner.core.catalog.policy_model import ANY, Rule
from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.wording import format_list, quote, sanitize_name, suggest_name
from gpuspawner.settings import Settings
from gpuspawner.settings.accelerators import load_builtin_accelerators
from gpuspawner.settings.models import SettingsModel

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


def find_settings_warnings(values: HelmValues, settings: Settings) -> Iterator[Problem]:
    """Yield the problems of the settings, with paths below ``hub.config.GPUSpawner``."""
    configured = settings.configured
    yield from _check_cuda(configured.images, configured.gpus)
    yield from _check_types(values, configured)
    yield from find_unknown_slugs(settings.model)
    yield from find_unpullable_images(settings.model)


def _check_types(values: HelmValues, configured: ConfiguredCatalog) -> Iterator[Problem]:
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


def _check_cuda(images: Mapping[str, Image], gpus: Mapping[str, GPUType]) -> Iterator[Problem]:
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


_UNNAMED_TYPE_PREFIXES = ("nvidia-gpu", "amd-gpu", "intel-gpu", "nvidia-mig-")
"""Prefixes of the slugs that gpuspawner gives to GPU types of nodes whose labels don't name the GPU model."""


def find_unknown_slugs(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each slug that names neither a GPU type of the settings nor one that nodes may have."""
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

    If the labels name the GPU model, the slug is that of the model, perhaps with a suffix for MIG or sharing.
    Otherwise, the slug begins with one of :data:`_UNNAMED_TYPE_PREFIXES`.
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
            yield from ((f"pools.{slug}.gpus.{index}", gpu) for index, gpu in enumerate(pool.gpus))
    if model.policy is not None:
        yield from _list_rule_slugs("policy.default", model.policy.default)
        for section, rules in (("groups", model.policy.groups), ("users", model.policy.users)):
            for name, rule in rules.items():
                yield from _list_rule_slugs(f"policy.{section}.{sanitize_name(name)}", rule)


def _list_rule_slugs(path: str, rule: Rule) -> Iterator[tuple[str, str]]:
    yield from ((f"{path}.gpus.{sanitize_name(slug)}", slug) for slug in rule.gpus or ())


def find_unpullable_images(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each image whose reference no node could pull."""
    for slug, image in model.images.items():
        if image.enabled and image.image and parse_reference(image.image) is None:
            message = f"is no reference of an image that a node could pull, such as {EXAMPLE_REFERENCE}"
            yield Problem(field=f"images.{slug}.image", code="doubtful", message=message)
