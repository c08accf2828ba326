"""Checks policy rules and pools against the rest of the settings: unknown slugs and limits that cannot be met."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from gpuspawner.core.catalog.policy_model import ANY, UNLIMITED, normalize_group
from gpuspawner.core.errors import Problem
from gpuspawner.core.request.field_definitions import IMAGE, POLICY_CHOICES
from gpuspawner.core.request.fields import ChoiceField
from gpuspawner.core.text.wording import quote, sanitize_name, suggest_name
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.settings.models import CPUSetting, MemorySetting, SettingsModel
from gpuspawner.settings.policy import CPURange, MemoryRange, PoolEntry, RuleEntry, TypeLimits
from gpuspawner.settings.value_types import Entry

EntryT = TypeVar("EntryT", bound=Entry)
SLUG_PATTERN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_OWN_IMAGE = "default"
"""Slug of KubeSpawner's own image, offered if no image is configured."""


class _KnownNames:
    """The slugs that rules may contain, collected once for thousands of rules.

    :ivar choices: field that rules may restrict → offered slugs.
    :ivar gpus: enabled GPU types by slug.
    :ivar bare: normalized slug → first GPU type with it, to suggest a correction.
    """

    def __init__(self, settings: SettingsModel) -> None:
        self.settings = settings
        self.choices = {each.name: list(_list_enabled(getattr(settings, each.section))) for each in POLICY_CHOICES}
        self.choices[IMAGE.name] = self.choices[IMAGE.name] or [_OWN_IMAGE]
        self.gpus = _list_enabled(settings.gpus)
        self.bare: dict[str, str] = {}
        for slug in self.gpus:
            self.bare.setdefault(_normalize_slug(slug), slug)


def _list_enabled(entries: Mapping[str, EntryT]) -> dict[str, EntryT]:
    return {slug: entry for slug, entry in entries.items() if entry.enabled}


def check_policy(settings: SettingsModel) -> Iterator[Problem]:
    """Yield the problems of rules and pools.

    :param settings: settings whose single values are valid.
    """
    policy, known = settings.policy, _KnownNames(settings)
    if policy is not None:
        if policy.default.deny:
            message = "must be left out: what holds for everybody is not capped but said as it is"
            yield Problem(field="policy.default.deny", code="conflict", message=message)
        yield from _check_rule("policy.default", policy.default, known=known)
        yield from _check_duplicate_groups(
            "policy.groups", [name for name, rule in policy.groups.items() if rule.enabled]
        )
        for section, rules in (("groups", policy.groups), ("users", policy.users)):
            for name, rule in rules.items():
                if not rule.enabled:
                    continue
                path = f"policy.{section}.{sanitize_name(name)}"
                yield from _check_rule(path, rule, known=known)
                if not rule.deny:
                    yield from _check_against_default(
                        f"{path}.cpu", rule.cpu, default=policy.default.cpu, show=format_cpu
                    )
                    own, default = rule.memory, policy.default.memory
                    yield from _check_against_default(f"{path}.memory", own, default=default, show=format_memory)
    for slug, pool in settings.pools.items():
        if pool.enabled:
            yield from _check_pool(f"pools.{slug}", pool, known=known)


def _check_rule(path: str, rule: RuleEntry, *, known: _KnownNames) -> Iterator[Problem]:
    settings = known.settings
    if rule.images == []:
        message = "must name at least one image: without one no server starts"
        yield Problem(field=f"{path}.images", code="out_of_range", message=message)
    for each in POLICY_CHOICES:
        yield from _check_choice(f"{path}.{each.section}", each, rule=rule, known=known)
    for slug in rule.gpus or {}:
        if reason := _describe_bad_gpu(slug, known):
            yield Problem(field=f"{path}.gpus.{sanitize_name(slug)}", code="unknown_choice", message=reason)
    yield from _check_limits(path, rule)
    for slug, of_type in (rule.gpus or {}).items():
        yield from _check_limits(f"{path}.gpus.{sanitize_name(slug)}", of_type)
    yield from _check_range(f"{path}.cpu", rule.cpu, everybody=settings.cpu, show=format_cpu)
    yield from _check_range(f"{path}.memory", rule.memory, everybody=settings.memory, show=format_memory)


def _check_choice(path: str, choice_field: ChoiceField, *, rule: RuleEntry, known: _KnownNames) -> Iterator[Problem]:
    offered, entries = known.choices[choice_field.name], getattr(known.settings, choice_field.section)
    for index, slug in enumerate(getattr(rule, choice_field.section) or ()):
        if slug not in offered and slug != ANY:
            reason = _describe_unknown(choice_field.title, slug, offered=offered, entries=entries)
            yield Problem(field=f"{path}.{index}", code="unknown_choice", message=reason)


def _check_pool(path: str, pool: PoolEntry, *, known: _KnownNames) -> Iterator[Problem]:
    if not pool.groups:
        yield Problem(field=f"{path}.groups", code="missing", message="is required: the groups that share the pool")
    if pool.max_gpus is None:
        yield Problem(field=f"{path}.max_gpus", code="missing", message="is required")
    if not pool.gpus:
        message = "must name at least one GPU type; left out, all count"
        yield Problem(field=f"{path}.gpus", code="out_of_range", message=message)
    for index, slug in enumerate(pool.gpus):
        if reason := _describe_bad_gpu(slug, known):
            yield Problem(field=f"{path}.gpus.{index}", code="unknown_choice", message=reason)


def _describe_bad_gpu(slug: str, known: _KnownNames) -> str:
    """Return why a slug names no GPU type, or an empty text.

    With discovery, nodes may add any slug that the settings do not disable, so only a likely misspelling is reported.
    """
    if slug == ANY or slug in known.gpus:
        return ""
    if known.settings.discover_gpus and slug not in known.settings.gpus and SLUG_PATTERN.fullmatch(slug):
        meant = known.bare.get(_normalize_slug(slug))
        return f"there is no GPU type {quote(slug)}. Did you mean {quote(meant)}?" if meant else ""
    return _describe_unknown("GPU type", slug, offered=known.gpus, entries=known.settings.gpus)


def _normalize_slug(slug: str) -> str:
    """Return a slug without punctuation and unit, so that spellings of one type match; l40 and l40s stay different."""
    return re.sub(r"g(i?b)?$", "", re.sub(r"[^a-z0-9]", "", slug.lower()))


def _describe_unknown(kind: str, slug: str, *, offered: Collection[str], entries: Collection[str]) -> str:
    if slug in entries:
        return f"{quote(slug)} is taken out by enabled: false"
    return f"there is no {kind} {quote(slug)}.{suggest_name(slug, offered)}".removesuffix(".")


def _check_duplicate_groups(path: str, names: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem for each name that differs from an earlier one only by case."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(normalize_group(name), name)
        if other != name:
            message = f"is the same group as {quote(other)}: upper and lower case do not count"
            yield Problem(field=f"{path}.{sanitize_name(name)}", code="conflict", message=message)


def _check_limits(path: str, limits: RuleEntry | TypeLimits) -> Iterator[Problem]:
    total, per_server = limits.max_gpus, limits.max_gpus_per_server
    if total is not None and per_server is not None and total < per_server < UNLIMITED:
        message = f"must be at most max_gpus ({total}), which holds over all servers, not {per_server}"
        yield Problem(field=f"{path}.max_gpus_per_server", code="out_of_range", message=message)


def _check_against_default(
    path: str,
    own: CPURange | MemoryRange | None,
    *,
    default: CPURange | MemoryRange | None,
    show: Callable[[int], str],
) -> Iterator[Problem]:
    """Yield a problem if a rule sets one bound and contradicts the other bound, which comes from ``policy.default``."""
    if own is None or default is None:
        return
    base = f"policy.default.{path.rpartition('.')[2]}"
    if own.min is not None and own.max is None and default.max is not None and own.min > default.max:
        message = f"must be at most {base}.max ({show(default.max)}), not {show(own.min)}; or say max here as well"
        yield Problem(field=f"{path}.min", code="out_of_range", message=message)
    if own.max is not None and own.min is None and default.min is not None and own.max < default.min:
        message = f"must be at least {base}.min ({show(default.min)}), not {show(own.max)}; or say min here as well"
        yield Problem(field=f"{path}.max", code="out_of_range", message=message)


def _check_range(
    path: str,
    own: CPURange | MemoryRange | None,
    *,
    everybody: CPUSetting | MemorySetting | None,
    show: Callable[[int], str],
) -> Iterator[Problem]:
    """Yield the problems of a range, which must lie inside the general range of the same key."""
    if own is None:
        return
    section = path.rpartition(".")[2]
    if own.min is not None and own.max is not None and own.max < own.min:
        message = f"must be at least {path}.min ({show(own.min)}), not {show(own.max)}"
        yield Problem(field=f"{path}.max", code="out_of_range", message=message)
    elif everybody is not None and own.max is not None and own.max < everybody.min:
        message = f"must be at least {section}.min ({show(everybody.min)}), not {show(own.max)}"
        yield Problem(field=f"{path}.max", code="out_of_range", message=message)
    elif everybody is not None and own.min is not None and own.min > everybody.max:
        message = f"must be at most {section}.max ({show(everybody.max)}), not {show(own.min)}"
        yield Problem(field=f"{path}.min", code="out_of_range", message=message)
