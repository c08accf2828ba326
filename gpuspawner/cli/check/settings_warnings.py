"""Warns about valid settings that are probably mistakes: unknown GPU types, and images that no node could pull."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.policy_model import ANY, Rule
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.wording import quote, sanitize_name, suggest_name
from gpuspawner.settings.accelerators import load_builtin_accelerators
from gpuspawner.settings.models import PresetEntry, SettingsModel

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
    yield from ((f"{path}.gpu", values.gpu) for path, values in _list_presets(model) if values.gpu)
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


def _list_rule_slugs(path: str, rule: Rule) -> Iterator[tuple[str, str]]:
    yield from ((f"{path}.gpus.{sanitize_name(slug)}", slug) for slug in rule.gpus or ())


def find_unpullable_images(model: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each image whose reference no node could pull."""
    for slug, image in model.images.items():
        if image.enabled and image.image and parse_reference(image.image) is None:
            message = f"is no reference of an image that a node could pull, such as {EXAMPLE_REFERENCE}"
            yield Problem(field=f"images.{slug}.image", code="doubtful", message=message)


def _list_presets(model: SettingsModel) -> Iterator[tuple[str, PresetEntry]]:
    """Yield the YAML path and the values of each enabled preset."""
    yield from ((f"presets.{slug}", preset) for slug, preset in model.presets.items() if preset.enabled)
