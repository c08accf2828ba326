"""Checks settings against each other: bounds and defaults, presets, run times, combined GPU types, policy and pools.

Pydantic has already checked each value by itself, so only contradictions between values are left. A combined GPU type
(``any_of``, ``min_memory``) stands for several GPU types, any of which a server may get.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from gpuspawner.core.catalog.combined_types import combine_types, find_members
from gpuspawner.core.catalog.model import Catalog, Choice, GPUType, Image
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.policy_model import (
    ANY,
    UNLIMITED,
    AmountRange,
    GPUPool,
    GPUTypeRule,
    Rule,
    normalize_group,
)
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.errors import Problem
from gpuspawner.core.request.field_definitions import AMOUNT_FIELDS, CLOSED_CHOICES
from gpuspawner.core.request.fields import AmountField, ClosedChoiceField
from gpuspawner.core.request.pod_requirements import GPU_HIDING_ENVIRONMENT
from gpuspawner.core.request.selection import find_preset_errors
from gpuspawner.core.text.wording import quote, sanitize_name, suggest_name
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.core.value_types import select_enabled
from gpuspawner.settings import overrides
from gpuspawner.settings.models import (
    SLUG_SECTIONS,
    BoundsSetting,
    CPUSetting,
    MemorySetting,
    SettingsModel,
    SharedMemorySetting,
)

SLUG_PATTERN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_OWN_IMAGE = "default"
"""Slug of the image in ``c.KubeSpawner.image``. The form offers this image if the settings contain no images."""


class _KnownNames:
    """The slugs that policy rules may contain.

    :ivar images: slugs of the images on offer.
    :ivar gpus: slug → enabled GPU type.
    :ivar bare: result of :func:`_normalize_slug` → slug of the enabled GPU type, to suggest it for a misspelled slug.
    """

    def __init__(self, settings: SettingsModel) -> None:
        self.settings = settings
        self.images = list(select_enabled(settings.images)) or [_OWN_IMAGE]
        self.gpus = select_enabled(settings.gpus)
        self.bare: dict[str, str] = {}
        for slug in self.gpus:
            self.bare.setdefault(_normalize_slug(slug), slug)


def check_policy(settings: SettingsModel) -> Iterator[Problem]:
    """Yield the problems of the policy's rules and of the GPU pools."""
    policy, known = settings.policy, _KnownNames(settings)
    if policy is not None:
        if policy.default.deny:
            message = "must be left out: default is no cap. Write the limits of all users directly"
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


def _check_rule(path: str, rule: Rule, *, known: _KnownNames) -> Iterator[Problem]:
    settings = known.settings
    if rule.images == ():
        message = "must name at least one image: without one no server starts"
        yield Problem(field=f"{path}.images", code="out_of_range", message=message)
    for index, slug in enumerate(rule.images or ()):
        if slug not in known.images and slug != ANY:
            reason = _describe_unknown("image", slug, offered=known.images, entries=settings.images)
            yield Problem(field=f"{path}.images.{index}", code="unknown_choice", message=reason)
    for slug in rule.gpus or {}:
        if reason := _describe_bad_gpu(slug, known):
            yield Problem(field=f"{path}.gpus.{sanitize_name(slug)}", code="unknown_choice", message=reason)
    yield from _check_limits(path, rule)
    for slug, of_type in (rule.gpus or {}).items():
        yield from _check_limits(f"{path}.gpus.{sanitize_name(slug)}", of_type)
    yield from _check_range(f"{path}.cpu", rule.cpu, general=settings.cpu, show=format_cpu)
    yield from _check_range(f"{path}.memory", rule.memory, general=settings.memory, show=format_memory)


def _check_pool(path: str, pool: GPUPool, *, known: _KnownNames) -> Iterator[Problem]:
    if not pool.groups:
        yield Problem(field=f"{path}.groups", code="missing", message="is required: the groups that share the pool")
    if "max_gpus" not in pool.given:
        yield Problem(field=f"{path}.max_gpus", code="missing", message="is required")
    if not pool.gpus:
        message = "must name at least one GPU type; left out, all count"
        yield Problem(field=f"{path}.gpus", code="out_of_range", message=message)
    for index, slug in enumerate(pool.gpus):
        if reason := _describe_bad_gpu(slug, known):
            yield Problem(field=f"{path}.gpus.{index}", code="unknown_choice", message=reason)


def _describe_bad_gpu(slug: str, known: _KnownNames) -> str:
    """Return what is wrong with a GPU type's slug in a policy rule or GPU pool, or "" if nothing is wrong.

    With ``discover_gpus``, the hub may later add GPU types from nodes. The function then accepts any valid slug that
    the settings lack, unless it looks like the misspelled slug of an enabled GPU type.
    """
    if slug == ANY or slug in known.gpus:
        return ""
    if known.settings.discover_gpus and slug not in known.settings.gpus and SLUG_PATTERN.fullmatch(slug):
        meant = known.bare.get(_normalize_slug(slug))
        return f"there is no GPU type {quote(slug)}. Did you mean {quote(meant)}?" if meant else ""
    return _describe_unknown("GPU type", slug, offered=known.gpus, entries=known.settings.gpus)


def _normalize_slug(slug: str) -> str:
    """Return a GPU type's slug in lower case, without punctuation and without a final G, GB or GiB.

    ``A100-80GB`` and ``a100-80`` thus become equal.
    """
    return re.sub(r"g(i?b)?$", "", re.sub(r"[^a-z0-9]", "", slug.lower()))


def _describe_unknown(kind: str, slug: str, *, offered: Collection[str], entries: Collection[str]) -> str:
    if slug in entries:
        return f"{quote(slug)} is taken out by enabled: false"
    return f"there is no {kind} {quote(slug)}.{suggest_name(slug, offered)}".removesuffix(".")


def _check_duplicate_groups(path: str, names: Iterable[str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(normalize_group(name), name)
        if other != name:
            message = f"is the same group as {quote(other)}: upper and lower case do not count"
            yield Problem(field=f"{path}.{sanitize_name(name)}", code="conflict", message=message)


def _check_limits(path: str, limits: Rule | GPUTypeRule) -> Iterator[Problem]:
    total, per_server = limits.max_gpus, limits.max_gpus_per_server
    if total is not None and per_server is not None and total < per_server < UNLIMITED:
        message = f"must be at most max_gpus ({total}), which holds over all servers, not {per_server}"
        yield Problem(field=f"{path}.max_gpus_per_server", code="out_of_range", message=message)


def _check_against_default(
    path: str,
    own: AmountRange | None,
    *,
    default: AmountRange | None,
    show: Callable[[int], str],
) -> Iterator[Problem]:
    """Yield a problem if a rule sets only one bound, and this bound contradicts the other one in ``policy.default``.

    The bounds contradict each other if the rule's min is above the default's max, or its max below the default's min.
    """
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
    own: AmountRange | None,
    *,
    general: CPUSetting | MemorySetting | None,
    show: Callable[[int], str],
) -> Iterator[Problem]:
    if own is None:
        return
    section = path.rpartition(".")[2]
    if own.min is not None and own.max is not None and own.max < own.min:
        message = f"must be at least {path}.min ({show(own.min)}), not {show(own.max)}"
        yield Problem(field=f"{path}.max", code="out_of_range", message=message)
    elif general is not None and own.max is not None and own.max < general.min:
        message = f"must be at least {section}.min ({show(general.min)}), not {show(own.max)}"
        yield Problem(field=f"{path}.max", code="out_of_range", message=message)
    elif general is not None and own.min is not None and own.min > general.max:
        message = f"must be at most {section}.max ({show(general.max)}), not {show(own.min)}"
        yield Problem(field=f"{path}.min", code="out_of_range", message=message)


_Limit = tuple[str, int | None]
"""YAML path of a part of the settings that may contain ``max_runtime``, and this limit in seconds (None if not set)."""


def check_run_time_limits(settings: SettingsModel) -> Iterator[Problem]:
    """Yield a problem for each ``max_runtime`` below 1 second, or below the shortest run time that users may choose."""
    shortest_s = None if settings.run_time is None else settings.run_time.min
    for path, limit_s in _list_limits(settings):
        if limit_s is None:
            continue
        field = f"{path}.max_runtime"
        if limit_s <= 0:
            yield Problem(field=field, code="out_of_range", message="must be more than 0")
        elif shortest_s is not None and limit_s < shortest_s:
            message = f"must be at least run_time.min ({format_duration(shortest_s)}), not {format_duration(limit_s)}"
            yield Problem(field=field, code="out_of_range", message=message)


def _list_limits(settings: SettingsModel) -> Iterator[_Limit]:
    for slug, gpu in settings.gpus.items():
        if gpu.enabled:
            yield f"gpus.{slug}", gpu.max_runtime_s
    policy = settings.policy
    if policy is not None:
        yield from _list_rule_limits("policy.default", policy.default)
        for section, rules in (("groups", policy.groups), ("users", policy.users)):
            for name, rule in rules.items():
                if rule.enabled:
                    yield from _list_rule_limits(f"policy.{section}.{sanitize_name(name)}", rule)


def _list_rule_limits(path: str, rule: Rule) -> Iterator[_Limit]:
    yield path, rule.max_runtime_s
    for slug, of_type in (rule.gpus or {}).items():
        yield f"{path}.gpus.{sanitize_name(slug)}", of_type.max_runtime_s


_MEMBER_KEYS = ("match", "memory", "scale_up", "new_nodes")
_NAMED_MEMBER_KEYS = ("resource", "vendor", "unit", *_MEMBER_KEYS)
"""Keys that a GPU type with ``any_of`` must not have, because the types in ``any_of`` set them.

With ``min_memory``, only the keys in ``_MEMBER_KEYS`` are forbidden.
"""


def check_combined_type(slug: str, settings: SettingsModel) -> Iterator[Problem]:
    """Yield the problems of a GPU type that combines several types (``any_of`` or ``min_memory``).

    :param slug: key of the combined type in ``gpus``.
    """
    path, entry = f"gpus.{slug}", settings.gpus[slug]
    if entry.any_of and entry.min_memory_bytes is not None:
        yield Problem(field=f"{path}.min_memory", code="conflict", message="must be left out with any_of")
    for key in _NAMED_MEMBER_KEYS if entry.any_of else _MEMBER_KEYS:
        if key in entry.given:
            message = "must be left out: the types it stands for say it"
            yield Problem(field=f"{path}.{key}", code="conflict", message=message)
    for index, member in enumerate(entry.any_of):
        if reason := _describe_bad_member(member, settings):
            yield Problem(field=f"{path}.any_of.{index}", code="unknown_choice", message=reason)
    yield from _check_members_agree(path, entry, settings=settings)


def _describe_bad_member(slug: str, settings: SettingsModel) -> str:
    entry = settings.gpus.get(slug)
    if entry is None:
        if settings.discover_gpus:
            return ""
        return f"there is no GPU type {quote(slug)}.{suggest_name(slug, settings.gpus)}".removesuffix(".")
    if not entry.enabled:
        return f"{quote(slug)} is taken out by enabled: false"
    return f"must be one GPU type: {quote(slug)} stands for several itself" if entry.is_union else ""


def _check_members_agree(path: str, entry: GPUType, *, settings: SettingsModel) -> Iterator[Problem]:
    members = {slug: settings.gpus[slug] for slug in entry.any_of if slug in settings.gpus}
    resources = {slug: member.resource for slug, member in members.items() if member.resource}
    if len(set(resources.values())) > 1:
        found = ", ".join(f"{slug} has {resource}" for slug, resource in resources.items())
        message = f"must all have the same resource: {found}"
        yield Problem(field=f"{path}.any_of", code="conflict", message=message)
    classes = {member.runtime_class for member in members.values()}
    if len(classes) > 1 and entry.runtime_class is None:
        found = ", ".join(f"{slug} has {member.runtime_class or 'none'}" for slug, member in members.items())
        message = f"is required, because its types have different ones: {found}"
        yield Problem(field=f"{path}.runtime_class", code="missing", message=message)


def check_member_overrides(configured: ConfiguredCatalog) -> Iterator[Problem]:
    """Yield a problem for each combined GPU type that must have a ``kubespawner_override`` but has none.

    A combined GPU type must have one if the GPU types that it combines have different overrides. A type in ``any_of``
    that the settings lack counts as a type without an override.

    :param configured: the catalog of the settings, before the hub adds what it finds on nodes.
    """
    for slug, union in configured.unions.items():
        overrides = [gpu.overrides for gpu in find_members(union, configured.gpus)]
        if any(member not in configured.gpus for member in union.any_of):
            overrides.append({})
        if not union.overrides and any(each != overrides[0] for each in overrides):
            message = "is required, because its types have different ones"
            yield Problem(field=f"gpus.{slug}.kubespawner_override", code="missing", message=message)


_SLUG_RULE = "must be lower-case letters, digits, - and ., at most 63, with a letter or digit at both ends"


def check_settings(settings: SettingsModel, accelerators: frozenset[str]) -> list[Problem]:
    """Return the problems of settings that contradict each other, or that lack a required key.

    :param accelerators: slugs of the built-in GPU models. Other slugs under ``accelerators`` in the settings need a
        name, a vendor and labels.
    """
    problems = [
        *_check_slugs(settings),
        *(problem for each in AMOUNT_FIELDS for problem in _check_bounds(each, settings)),
        *_check_images(settings),
        *(problem for each in CLOSED_CHOICES for problem in _check_choice_entries(each, settings)),
        *_check_accelerators(settings, accelerators),
        *check_policy(settings),
        *check_run_time_limits(settings),
        *_check_queue(settings),
        *overrides.check_overrides(settings),
    ]
    for slug, entry in settings.gpus.items():
        if entry.enabled:
            problems += check_combined_type(slug, settings) if entry.is_union else []
            problems += _check_gpu(f"gpus.{slug}", entry)
    return problems


def _check_slugs(settings: SettingsModel) -> Iterator[Problem]:
    for section in SLUG_SECTIONS:
        for slug in getattr(settings, section):
            if not SLUG_PATTERN.fullmatch(slug):
                yield Problem(field=f"{section}.{slug}", code="bad_slug", message=f"{_SLUG_RULE}, not {quote(slug)}")


def _check_bounds(amount_field: AmountField, settings: SettingsModel) -> Iterator[Problem]:
    path, show = amount_field.name, amount_field.notation.format_bare
    setting: BoundsSetting | None = getattr(settings, path)
    if setting is None:
        return
    default = None if isinstance(setting, SharedMemorySetting) else setting.default
    if setting.step <= 0:
        yield Problem(field=f"{path}.step", code="out_of_range", message="must be more than 0")
    elif setting.min <= 0:
        yield Problem(field=f"{path}.min", code="out_of_range", message="must be more than 0")
    elif setting.max < setting.min:
        message = f"must be at least {path}.min ({show(setting.min)}), not {show(setting.max)}"
        yield Problem(field=f"{path}.max", code="out_of_range", message=message)
    elif default is not None and not setting.min <= default <= setting.max:
        message = f"must be {show(setting.min)} to {show(setting.max)}, not {show(default)}"
        yield Problem(field=f"{path}.default", code="out_of_range", message=message)
    elif default is not None and (default - setting.min) % setting.step:
        message = f"must be {path}.min ({show(setting.min)}) plus whole steps of {show(setting.step)}"
        yield Problem(field=f"{path}.default", code="off_step", message=message)


def _check_images(settings: SettingsModel) -> Iterator[Problem]:
    for slug, entry in settings.images.items():
        if entry.enabled and not entry.image:
            yield Problem(field=f"images.{slug}.image", code="missing", message="is required")
        for vendor, version in entry.toolkits.items():
            if vendor not in (entry.vendors or ()):
                key = {"nvidia": "cuda", "amd": "rocm"}[vendor]
                message = f"must include {vendor}, as {key}: {quote(version)} says; or leave out one of the two"
                yield Problem(field=f"images.{slug}.vendors", code="conflict", message=message)


def _check_choice_entries(choice_field: ClosedChoiceField, settings: SettingsModel) -> Iterator[Problem]:
    entries: dict[str, Choice] = getattr(settings, choice_field.section)
    for slug, entry in entries.items():
        for key in entry.required_keys:
            if entry.enabled and key not in entry.given:
                yield Problem(field=f"{choice_field.section}.{slug}.{key}", code="missing", message="is required")


def _check_queue(settings: SettingsModel) -> Iterator[Problem]:
    offered = [slug for slug, entry in settings.gpus.items() if entry.enabled]
    for index, slug in enumerate(settings.queue.gpus if settings.queue is not None else ()):
        if slug != "*" and slug not in offered and not settings.discover_gpus:
            message = f"there is no GPU type {quote(slug)}.{suggest_name(slug, offered)}"
            yield Problem(field=f"queue.gpus.{index}", code="unknown_choice", message=message)


def _check_gpu(path: str, entry: GPUType) -> Iterator[Problem]:
    if entry.any_of:
        pass  # The types in `any_of` set the resource and the vendor, so the combined type needs neither.
    elif not entry.resource:
        yield Problem(field=f"{path}.resource", code="missing", message="is required, such as nvidia.com/gpu")
    elif not entry.vendor and find_vendor(entry.resource) is None:
        message = f"is required: {quote(entry.resource)} does not tell whose GPU it is"
        yield Problem(field=f"{path}.vendor", code="missing", message=message)
    for name in filter(entry.environment.__contains__, GPU_HIDING_ENVIRONMENT):
        message = "must not be set: it would override which GPUs the device plugin gave the server"
        yield Problem(field=f"{path}.environment.{name}", code="conflict", message=message)
    for index, toleration in enumerate(entry.tolerations):
        yield from _check_toleration(f"{path}.tolerations.{index}", toleration)


def _check_toleration(path: str, toleration: Toleration) -> Iterator[Problem]:
    """Yield a problem for each reason for which the API server would reject a pod with this toleration."""
    if toleration.operator == "Exists" and toleration.value:
        yield Problem(field=f"{path}.value", code="conflict", message="must be left out with operator Exists")
    if toleration.operator == "Equal" and not toleration.key:
        yield Problem(field=f"{path}.key", code="missing", message="is required, unless operator is Exists")


def _check_accelerators(settings: SettingsModel, known: frozenset[str]) -> Iterator[Problem]:
    for slug, entry in settings.accelerators.items():
        if entry is None or slug in known:
            continue
        hint = suggest_name(slug, known)
        for key in ("name", "vendor", "labels"):
            if key not in entry.given:
                message = f"is required for a model that the built-in table does not have.{hint}"
                yield Problem(field=f"accelerators.{slug}.{key}", code="missing", message=message)


def check_presets(configured: ConfiguredCatalog) -> list[Problem]:
    """Return the problems of presets; each preset is validated like a user's choice.

    The result leaves out problems that the cluster's nodes may solve: an unknown GPU type that ``discover_gpus`` may
    add, and a GPU count whose maximum depends on the nodes.

    :param configured: the catalog of the settings, before the hub adds what it finds on nodes.
    """
    catalog = Catalog(
        images=configured.images or {_OWN_IMAGE: Image(slug=_OWN_IMAGE, display_name="", image="")},
        cpu=configured.cpu,
        memory=configured.memory,
        gpus={**configured.gpus, **_build_combined_types(configured)},
        run_time=configured.run_time,
        shared_memory=configured.shared_memory,
        choices=configured.choices,
    )
    return [
        replace(problem, field=f"presets.{slug}.{problem.field}")
        for slug, error in find_preset_errors(configured.presets, catalog).items()
        for problem in error.problems
        if not _depends_on_nodes(
            problem, gpu=str(configured.presets[slug].options.get("gpu") or ""), configured=configured
        )
    ]


def _build_combined_types(configured: ConfiguredCatalog) -> dict[str, GPUType]:
    return {slug: combine_types(union, configured.gpus) or union for slug, union in configured.unions.items()}


def _depends_on_nodes(problem: Problem, *, gpu: str, configured: ConfiguredCatalog) -> bool:
    if problem.field == "gpu" and problem.code == "unknown_choice":
        return configured.discover and gpu not in configured.hidden
    if gpu in configured.unions and configured.discover:
        return problem.field in ("gpu", "gpu_count")
    return problem.field == "gpu_count" and problem.code == "out_of_range" and _is_uncounted(gpu, configured)


def _is_uncounted(gpu: str, configured: ConfiguredCatalog) -> bool:
    if gpu in configured.unions:
        union = configured.unions[gpu]
        return union.max_count == 0 and not configured.uncounted.isdisjoint(union.any_of or configured.gpus)
    return gpu in configured.uncounted
