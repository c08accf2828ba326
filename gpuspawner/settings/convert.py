"""Completes checked settings to a catalog, which says what the form offers.

The hub later adds what depends on the cluster's nodes, such as GPU types from node labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT, AcceleratorMatch, AcceleratorTable
from gpuspawner.core.catalog.model import (
    Bounds,
    Choice,
    Choices,
    CustomImages,
    GPUType,
    Image,
    Preset,
    UnitKind,
)
from gpuspawner.core.catalog.node_labels import find_vendor, parse_amd_partition, parse_mig_profile
from gpuspawner.core.catalog.policy_model import ANY, Access, AccessKey, Policy, Rule, normalize_group
from gpuspawner.core.catalog.software import index_images
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.discovery.discover import build_conventional_tolerations
from gpuspawner.core.request.field_definitions import (
    AMOUNT_FIELDS,
    CLOSED_CHOICES,
    CPU,
    MEMORY,
    POLICY_CHOICES,
    RUN_TIME,
    SHARED_MEMORY,
)
from gpuspawner.core.request.fields import AmountField
from gpuspawner.core.value_types import Entry, RestrictedEntry
from gpuspawner.settings.models import (
    AmountSetting,
    BoundsSetting,
    PresetEntry,
    SettingsModel,
    SharedMemorySetting,
)

EntryT = TypeVar("EntryT", bound=Entry)
RuleT = TypeVar("RuleT", bound=Rule)


def convert_settings(settings: SettingsModel, table: AcceleratorTable) -> ConfiguredCatalog:
    """Return the catalog that the settings describe.

    :param settings: checked settings.
    :param table: known GPU models, which provide the names and memory that GPU types omit.
    """
    may_add = settings.new_nodes == "possible"
    described = {
        slug: _complete_gpu(slug, gpu, table=table, may_add=may_add)
        for slug, gpu in sort_entries(settings.gpus).items()
    }
    gpus = {slug: gpu for slug, gpu in described.items() if not gpu.is_union}
    images = {slug: _complete_image(slug, image) for slug, image in sort_entries(settings.images).items()}
    return ConfiguredCatalog(
        images=images,
        custom_images=_complete_custom_images(settings.custom_images, images.values()),
        cpu=convert_bounds(CPU, settings.cpu),
        memory=convert_bounds(MEMORY, settings.memory),
        run_time=convert_bounds(RUN_TIME, settings.run_time),
        shared_memory=convert_bounds(SHARED_MEMORY, settings.shared_memory),
        choices=_complete_choices(settings),
        gpus=gpus,
        uncounted=frozenset(
            slug
            for slug, gpu in described.items()
            if "max_count" not in gpu.given and (gpu.is_union or gpu.unit is not UnitKind.SHARED)
        ),
        guessed=frozenset(slug for slug, gpu in gpus.items() if "unit" not in gpu.given),
        unions={slug: gpu for slug, gpu in described.items() if gpu.is_union},
        hidden=frozenset(slug for slug, gpu in settings.gpus.items() if not gpu.enabled),
        hidden_gpus=tuple(
            _complete_gpu(slug, gpu, table=table, may_add=True)
            for slug, gpu in settings.gpus.items()
            if not gpu.enabled and gpu.resource and not gpu.is_union
        ),
        presets={slug: _convert_preset(slug, entry) for slug, entry in sort_entries(settings.presets).items()},
        discover=settings.discover_gpus,
        policy=_complete_policy(settings),
        queue=settings.queue,
        new_nodes=may_add,
    )


def sort_entries(entries: Mapping[str, EntryT]) -> dict[str, EntryT]:
    """Return the enabled entries, sorted by ``order``; those without ``order`` come last, as in the settings.

    :param entries: slug → entry of a section of the settings, such as ``images``.
    """
    enabled = {slug: entry for slug, entry in entries.items() if entry.enabled}
    return dict(sorted(enabled.items(), key=lambda item: (item[1].order is None, item[1].order or 0)))


def _complete_entry(slug: str, entry: EntryT) -> EntryT:
    """Return an entry of the settings with its slug, which is also its name if the settings have none.

    :param slug: key of the entry.
    """
    return replace(entry, slug=slug, display_name=entry.display_name or slug)


def convert_bounds(amount_field: AmountField, setting: BoundsSetting | None) -> Bounds | None:
    """Return the bounds of an amount in whole base units (millicores, bytes, seconds), or None if they are not set.

    :param amount_field: the form field of the amount. Its default and guarantee apply if the setting has none.
    :param setting: the bounds in the settings, or None.
    """
    if setting is None:
        return None
    own = setting.guarantee if isinstance(setting, AmountSetting) else None
    chosen = None if isinstance(setting, SharedMemorySetting) else setting.default
    if chosen is None:
        default = setting.min if amount_field.default is None else amount_field.default
        inside = min(max(default, setting.min), setting.max)
        chosen = inside - (inside - setting.min) % setting.step
    return Bounds(
        min=setting.min,
        max=setting.max,
        step=setting.step,
        default=chosen,
        guarantee=amount_field.guarantee if own is None else own,
    )


def _complete_choices(settings: SettingsModel) -> Choices:
    sections: dict[str, dict[str, Choice]] = {
        each.name: sort_entries(getattr(settings, each.section)) for each in CLOSED_CHOICES
    }
    return {
        name: {slug: _complete_entry(slug, entry) for slug, entry in entries.items()}
        for name, entries in sections.items()
        if entries
    }


def _complete_image(slug: str, image: Image) -> Image:
    vendors = tuple(vendor for vendor, version in image.toolkits.items() if version is not None) or None
    return replace(_complete_entry(slug, image), vendors=vendors if image.vendors is None else image.vendors)


def _complete_custom_images(custom: CustomImages, images: Iterable[Image]) -> CustomImages | None:
    return replace(custom, listed=index_images(images)) if custom.allowed else None


def _complete_gpu(slug: str, gpu: GPUType, *, table: AcceleratorTable, may_add: bool) -> GPUType:
    """Return a GPU type with what its settings omit, as far as the resource, labels and known models tell it.

    For a combined type, the types that it combines tell its name and the number of GPUs (``max_count`` 0).

    :param slug: key of the type in the settings.
    :param gpu: the type as the settings describe it.
    :param table: the known GPU models.
    :param may_add: whether nodes of the type may be added if its settings do not say it.
    """
    unit = gpu.unit if "unit" in gpu.given else _guess_unit(gpu)
    model = _find_known_model(gpu, table)
    completed = replace(
        gpu,
        slug=slug,
        vendor=gpu.vendor or find_vendor(gpu.resource) or "",
        unit=unit,
        new_nodes=gpu.new_nodes if "new_nodes" in gpu.given else may_add,
    )
    if gpu.is_union:
        return replace(completed, max_count=gpu.max_count if "max_count" in gpu.given else 0)
    memory = gpu.memory_bytes
    if memory is None and model is not None and unit is not UnitKind.MIG:
        memory = model.memory_bytes
    return replace(
        completed,
        display_name=gpu.display_name or (model.accelerator.name if model and unit is UnitKind.CARD else slug),
        memory_bytes=memory,
        tolerations=gpu.tolerations if "tolerations" in gpu.given else build_conventional_tolerations(gpu.resource),
    )


def _guess_unit(gpu: GPUType) -> UnitKind:
    products = gpu.match.get(GFD_PRODUCT, ())
    if gpu.resource.endswith(".shared") or any(product.endswith("-SHARED") for product in products):
        return UnitKind.SHARED
    sliced = (
        parse_mig_profile(gpu.resource)
        or parse_amd_partition(gpu.resource)
        or any("-MIG-" in product for product in products)
    )
    return UnitKind.MIG if sliced else UnitKind.CARD


def _find_known_model(gpu: GPUType, table: AcceleratorTable) -> AcceleratorMatch | None:
    matches = [table.find(key, value) for key, values in gpu.match.items() for value in values]
    models = {known.accelerator.slug: known for known in matches if known is not None}
    return next(iter(models.values())) if len(models) == 1 else None


def _convert_preset(slug: str, entry: PresetEntry) -> Preset:
    options: dict[str, object] = {} if entry.image is None else {"image": entry.image}
    for amount_field in AMOUNT_FIELDS:
        amount = getattr(entry, amount_field.name)
        if amount is not None:
            options[amount_field.name] = amount_field.format_option(amount)
    if entry.gpu is not None:
        options["gpu"] = entry.gpu or None
    if entry.gpu_count is not None:
        options["gpu_count"] = entry.gpu_count
    chosen = {choice_field.name: getattr(entry, choice_field.name) for choice_field in CLOSED_CHOICES}
    options |= {name: choice for name, choice in chosen.items() if choice is not None}
    name = entry.display_name or slug
    return Preset(slug=slug, display_name=name, description=entry.description, options=options)


def _complete_policy(settings: SettingsModel) -> Policy | None:
    """Return the policy, or None if there is no section ``policy``, no pool, and nothing that only some may choose."""
    pools, restricted = sort_entries(settings.pools), _list_restricted(settings)
    if settings.policy is None and not pools and not restricted:
        return None
    policy = settings.policy or Policy()
    rules = {name: rule for name, rule in policy.groups.items() if rule.enabled}
    lists = (*(pool.groups for pool in pools.values()), *(entry.allowed_groups for entry in restricted.values()))
    users = {name: rule for name, rule in policy.users.items() if rule.enabled}
    named = [
        *(rule.gpus or () for rule in (policy.default, *rules.values(), *users.values())),
        *(pool.gpus for pool in pools.values()),
        [slug for kind, slug in restricted if kind == "gpu"],
    ]
    return replace(
        policy,
        default=_complete_rule(policy.default),
        groups={normalize_group(name): _complete_rule(rule) for name, rule in rules.items()},
        users={name: _complete_rule(rule) for name, rule in users.items()},
        pools={
            slug: replace(_complete_entry(slug, pool), groups=tuple(normalize_group(group) for group in pool.groups))
            for slug, pool in pools.items()
        },
        access={
            key: Access(
                groups=frozenset(normalize_group(group) for group in entry.allowed_groups or ()),
                users=frozenset(entry.allowed_users or ()),
            )
            for key, entry in restricted.items()
        },
        group_names=frozenset(rules).union(*filter(None, lists)),
        gpu_names=frozenset().union(*named) - {ANY},
    )


def _complete_rule(rule: RuleT) -> RuleT:
    """Return a rule with its :attr:`Rule.choices`.

    A custom image is one that the user names by its reference. A rule without ``custom_images`` forbids them if its
    ``images`` is a list of slugs instead of ``*``.
    """
    lists_images = rule.images is not None and ANY not in rule.images
    return replace(
        rule,
        choices={
            choice.name: frozenset(slugs)
            for choice in POLICY_CHOICES
            if (slugs := getattr(rule, choice.section)) is not None
        },
        custom_images=False if rule.custom_images is None and lists_images else rule.custom_images,
    )


def _list_restricted(settings: SettingsModel) -> dict[AccessKey, RestrictedEntry]:
    """Return each image, GPU type and preset that only some users may choose."""
    keyed: list[tuple[AccessKey, RestrictedEntry]] = [
        *((("image", slug), entry) for slug, entry in sort_entries(settings.images).items()),
        *((("gpu", slug), entry) for slug, entry in sort_entries(settings.gpus).items()),
        *((("preset", slug), entry) for slug, entry in sort_entries(settings.presets).items()),
    ]
    return {key: entry for key, entry in keyed if (entry.allowed_groups, entry.allowed_users) != (None, None)}
