"""What an entry that stands for several GPU types must mean together with the types it names."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import quote, suggest
from gpuspawner.settings.gpu_entries import GPUEntry
from gpuspawner.settings.models import SettingsModel

_OF_TYPES = ("match", "memory", "scale_up")
_OF_NAMED_TYPES = ("resource", "vendor", "unit", *_OF_TYPES)
"""What the types say themselves; with ``min_memory``, the first three say which types are meant."""


def union_problems(slug: str, settings: SettingsModel) -> Iterator[Problem]:
    """Yield what is wrong with an entry with ``any_of`` or ``min_memory``."""
    path, entry = f"gpus.{slug}", settings.gpus[slug]
    if entry.any_of and entry.min_memory is not None:
        yield Problem(field=f"{path}.min_memory", code="conflict", message="must be left out with any_of")
    for key in _OF_NAMED_TYPES if entry.any_of else _OF_TYPES:
        if key in entry.model_fields_set:
            message = "must be left out: the types it stands for say it"
            yield Problem(field=f"{path}.{key}", code="conflict", message=message)
    for index, member in enumerate(entry.any_of):
        if reason := _wrong(member, settings):
            yield Problem(field=f"{path}.any_of.{index}", code="unknown_choice", message=reason)
    yield from _disagreements(path, entry, settings=settings)


def _wrong(slug: str, settings: SettingsModel) -> str:
    """Return why a slug names no GPU type, empty when it may."""
    entry = settings.gpus.get(slug)
    if entry is None:
        if settings.discover_gpus:
            return ""
        return f"there is no GPU type {quote(slug)}.{suggest(slug, settings.gpus)}".removesuffix(".")
    if not entry.enabled:
        return f"{quote(slug)} is taken out by enabled: false"
    return f"must be one GPU type: {quote(slug)} stands for several itself" if entry.is_union else ""


def _disagreements(path: str, entry: GPUEntry, *, settings: SettingsModel) -> Iterator[Problem]:
    """Yield what the types that are described do not agree on, and one pod cannot have both ways."""
    members = {slug: settings.gpus[slug] for slug in entry.any_of if slug in settings.gpus}
    resources = {slug: member.resource for slug, member in members.items() if member.resource is not None}
    if len(set(resources.values())) > 1:
        found = ", ".join(f"{slug} has {resource}" for slug, resource in resources.items())
        message = f"must all have the same resource: {found}"
        yield Problem(field=f"{path}.any_of", code="conflict", message=message)
    classes = {member.runtime_class for member in members.values()}
    if len(classes) > 1 and entry.runtime_class is None:
        found = ", ".join(f"{slug} has {member.runtime_class or 'none'}" for slug, member in members.items())
        message = f"is required, because its types have different ones: {found}"
        yield Problem(field=f"{path}.runtime_class", code="missing", message=message)
