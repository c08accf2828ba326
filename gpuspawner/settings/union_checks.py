"""What an entry that stands for several GPU types must mean together with the types it names."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import quote, suggest_name
from gpuspawner.settings.gpu_entries import GPUEntry
from gpuspawner.settings.models import SettingsModel

_MEMBER_KEYS = ("match", "memory", "scale_up")
_NAMED_MEMBER_KEYS = ("resource", "vendor", "unit", *_MEMBER_KEYS)
"""What the types say themselves; with ``min_memory``, the first three say which types are meant."""


def check_combined_type(slug: str, settings: SettingsModel) -> Iterator[Problem]:
    """Yield what is wrong with an entry with ``any_of`` or ``min_memory``."""
    path, entry = f"gpus.{slug}", settings.gpus[slug]
    if entry.any_of and entry.min_memory is not None:
        yield Problem(field=f"{path}.min_memory", code="conflict", message="must be left out with any_of")
    for key in _NAMED_MEMBER_KEYS if entry.any_of else _MEMBER_KEYS:
        if key in entry.model_fields_set:
            message = "must be left out: the types it stands for say it"
            yield Problem(field=f"{path}.{key}", code="conflict", message=message)
    for index, member in enumerate(entry.any_of):
        if reason := _describe_bad_member(member, settings):
            yield Problem(field=f"{path}.any_of.{index}", code="unknown_choice", message=reason)
    yield from _check_members_agree(path, entry, settings=settings)


def _describe_bad_member(slug: str, settings: SettingsModel) -> str:
    """Return why a slug names no GPU type, empty when it may."""
    entry = settings.gpus.get(slug)
    if entry is None:
        if settings.discover_gpus:
            return ""
        return f"there is no GPU type {quote(slug)}.{suggest_name(slug, settings.gpus)}".removesuffix(".")
    if not entry.enabled:
        return f"{quote(slug)} is taken out by enabled: false"
    return f"must be one GPU type: {quote(slug)} stands for several itself" if entry.is_union else ""


def _check_members_agree(path: str, entry: GPUEntry, *, settings: SettingsModel) -> Iterator[Problem]:
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
