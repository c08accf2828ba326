"""GPU types that settings name and do not describe: nodes may bring them, or somebody wrote a slug wrongly."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpuspawner.core.catalog.policy_rules import ANY
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import quote, sanitize_name, suggest_name
from gpuspawner.settings.accelerators import load_builtin_accelerators
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.policy_entries import RuleEntry

_UNNAMED_TYPE_PREFIXES = ("nvidia-gpu", "amd-gpu", "intel-gpu", "nvidia-mig-")
"""What types are called whose nodes do not say which model they have."""


def find_unknown_slugs(model: SettingsModel, *, taken_out: Collection[str] = ()) -> Iterator[Problem]:
    """Yield the slugs that neither the settings describe nor nodes with a model that is known would bring.

    :param taken_out: slugs that a file has set to null, so that the types are not described any more.
    """
    known = {*model.gpus, ANY}
    models = {*load_builtin_accelerators(), *model.accelerators}
    for field, slug in _list_named_slugs(model):
        if slug in taken_out:
            message = (
                f"names {quote(slug)}, which gpus.{sanitize_name(slug)}: null takes out: take this out as well, "
                "unless there are nodes whose labels bring such a type"
            )
            yield Problem(field=field, code="taken_out", message=message)
        elif slug not in known and not _may_be_found(slug, models):
            message = (
                f"there is no GPU type {quote(slug)} in the settings, nor a model of which nodes could bring it."
                f"{suggest_name(slug, [*model.gpus, *models])}"
            )
            yield Problem(field=field, code="unknown_slug", message=message)


def _may_be_found(slug: str, models: set[str]) -> bool:
    """Tell whether node labels could make such a type: a model, perhaps with what is special about its units."""
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
