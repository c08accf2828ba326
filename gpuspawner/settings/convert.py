"""Converts checked settings to a catalog, which says what the form offers.

The hub later adds what depends on the cluster's nodes, such as GPU types from node labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT, AcceleratorMatch, AcceleratorTable
from gpuspawner.core.catalog.combined_types import CombinedType
from gpuspawner.core.catalog.model import (
    NO_LIMIT,
    UNLIMITED_AMOUNT,
    Bounds,
    Choices,
    CustomImages,
    GPUType,
    Image,
    ImageInput,
    KueueQueue,
    Preset,
    PresetChoice,
    PresetVariant,
    ScaleUp,
    UnitKind,
)
from gpuspawner.core.catalog.node_labels import find_vendor, parse_amd_partition, parse_mig_profile
from gpuspawner.core.catalog.policy_model import AccessKey
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.core.discovery.discover import build_conventional_tolerations
from gpuspawner.core.request.field_definitions import (
    AMOUNT_FIELDS,
    CLOSED_CHOICES,
    CPU,
    MEMORY,
    RUN_TIME,
    SHARED_MEMORY,
)
from gpuspawner.core.request.fields import AmountField
from gpuspawner.core.request.presets import index_images
from gpuspawner.settings.gpu import GPUEntry
from gpuspawner.settings.models import (
    AmountSetting,
    BoundsSetting,
    ChoiceEntry,
    CustomImagesSetting,
    ImageEntry,
    PresetChoiceSetting,
    PresetEntry,
    PresetValues,
    QueueSetting,
    SettingsModel,
    SharedMemorySetting,
)
from gpuspawner.settings.policy import convert_policy
from gpuspawner.settings.value_types import NO_NODES, POSSIBLE, Entry, RestrictedEntry

EntryT = TypeVar("EntryT", bound=Entry)


def convert_settings(settings: SettingsModel, table: AcceleratorTable) -> ConfiguredCatalog:
    """Return the catalog that the settings describe.

    :param settings: checked settings.
    :param table: known GPU models, which provide the names and memory that GPU types omit.
    """
    entries = sort_entries(settings.gpus)
    unions = {
        slug: _convert_combined_type(slug, entry, table=table) for slug, entry in entries.items() if entry.is_union
    }
    may_add = settings.new_nodes == POSSIBLE
    gpus = {
        slug: replace(gpu, new_nodes=may_add) if entry.new_nodes is None else gpu
        for slug, entry in entries.items()
        if not entry.is_union
        for gpu in [_convert_gpu(slug, entry, table=table)]
    }
    images = {slug: _convert_image(slug, entry) for slug, entry in sort_entries(settings.images).items()}
    return ConfiguredCatalog(
        images=images,
        custom_images=_convert_custom_images(settings.custom_images, images.values()),
        cpu=convert_bounds(CPU, settings.cpu),
        memory=convert_bounds(MEMORY, settings.memory),
        run_time=convert_bounds(RUN_TIME, settings.run_time),
        shared_memory=convert_bounds(SHARED_MEMORY, settings.shared_memory),
        choices=_convert_choices(settings),
        gpus=gpus,
        uncounted=frozenset(
            slug
            for slug, entry in entries.items()
            if entry.max_count is None and (slug in unions or gpus[slug].unit is not UnitKind.SHARED)
        ),
        guessed=frozenset(slug for slug, entry in entries.items() if entry.unit is None and slug in gpus),
        unions=unions,
        hidden=frozenset(slug for slug, entry in settings.gpus.items() if not entry.enabled),
        hidden_gpus=tuple(
            _convert_gpu(slug, entry, table=table)
            for slug, entry in settings.gpus.items()
            if not entry.enabled and entry.resource is not None and not entry.is_union
        ),
        presets={slug: _convert_preset(slug, entry) for slug, entry in sort_entries(settings.presets).items()},
        discover=settings.discover_gpus,
        policy=convert_policy(
            settings.policy, pools=sort_entries(settings.pools), restricted=_list_restricted(settings)
        ),
        only_presets=settings.only_presets,
        queue=_convert_queue(settings.queue),
        new_nodes=may_add,
    )


def sort_entries(entries: Mapping[str, EntryT]) -> dict[str, EntryT]:
    """Return the enabled entries, sorted by ``order``; those without ``order`` come last, as in the settings.

    :param entries: slug → entry of a section of the settings, such as ``images``.
    """
    enabled = {slug: entry for slug, entry in entries.items() if entry.enabled}
    return dict(sorted(enabled.items(), key=lambda item: (item[1].order is None, item[1].order or 0)))


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


def _convert_queue(setting: QueueSetting | None) -> KueueQueue | None:
    if setting is None:
        return None
    return KueueQueue(
        local_queue=setting.local_queue,
        priority_class=setting.priority_class or "",
        timeout_s=setting.timeout,
        gpus=None if "*" in setting.gpus else frozenset(setting.gpus),
    )


def _convert_choices(settings: SettingsModel) -> Choices:
    sections: dict[str, dict[str, ChoiceEntry]] = {
        each.name: sort_entries(getattr(settings, each.section)) for each in CLOSED_CHOICES
    }
    return {
        name: {slug: entry.convert(slug) for slug, entry in entries.items()}
        for name, entries in sections.items()
        if entries
    }


def _convert_image(slug: str, entry: ImageEntry) -> Image:
    return Image(
        slug=slug,
        display_name=entry.display_name or slug,
        image=entry.image or "",
        description=entry.description,
        cuda=entry.cuda,
        vendors=_find_vendors(entry),
        architectures=tuple(entry.architectures),
        overrides=entry.kubespawner_override,
    )


def _find_vendors(entry: ImageEntry) -> tuple[str, ...] | None:
    if entry.vendors is not None:
        return tuple(entry.vendors)
    return tuple(vendor for vendor, version in entry.toolkits.items() if version is not None) or None


def _convert_custom_images(setting: CustomImagesSetting, images: Iterable[Image]) -> CustomImages | None:
    if not setting.allowed:
        return None
    return CustomImages(
        registries=tuple(setting.registries),
        description=setting.description,
        listed=index_images(images),
    )


def _convert_gpu(slug: str, entry: GPUEntry, *, table: AcceleratorTable) -> GPUType:
    resource = entry.resource or ""
    unit = UnitKind(entry.unit) if entry.unit else _guess_unit(entry)
    known = _find_known_model(entry, table)
    memory = entry.memory
    if memory is None and known is not None and unit is not UnitKind.MIG:
        memory = known.memory_bytes
    return GPUType(
        slug=slug,
        display_name=entry.display_name or (known.accelerator.name if known and unit is UnitKind.CARD else slug),
        resource=resource,
        vendor=entry.vendor or find_vendor(resource) or "",
        unit=unit,
        match={key: tuple(values) for key, values in entry.match.items()},
        max_count=entry.max_count or 1,
        memory_bytes=memory,
        description=entry.description,
        note=entry.note,
        spot=entry.spot,
        interconnect=entry.interconnect,
        tolerations=_convert_tolerations(entry),
        environment=dict(entry.environment),
        runtime_class=entry.runtime_class,
        shm=entry.shm,
        start_timeout_s=entry.start_timeout,
        max_runtime_s=entry.max_runtime,
        scale_up=ScaleUp(**entry.scale_up.model_dump()) if entry.scale_up else None,
        new_nodes=entry.new_nodes != NO_NODES,
        overrides=entry.kubespawner_override,
    )


def _convert_tolerations(entry: GPUEntry) -> tuple[Toleration, ...]:
    if entry.tolerations is None:
        # A combined GPU type (``any_of``) gets its tolerations later, from the GPU types that it combines.
        return () if entry.is_union else build_conventional_tolerations(entry.resource or "")
    return tuple(
        Toleration(key=item.key, operator=item.operator, value=item.value, effect=item.effect or "")
        for item in entry.tolerations
    )


def _convert_combined_type(slug: str, entry: GPUEntry, *, table: AcceleratorTable) -> CombinedType:
    gpu = _convert_gpu(slug, entry, table=table)
    return CombinedType(
        gpu=replace(gpu, display_name=entry.display_name or "", max_count=entry.max_count or 0),
        any_of=tuple(entry.any_of),
        min_memory_bytes=entry.min_memory,
    )


def _guess_unit(entry: GPUEntry) -> UnitKind:
    products = entry.match.get(GFD_PRODUCT, [])
    if (entry.resource or "").endswith(".shared") or any(product.endswith("-SHARED") for product in products):
        return UnitKind.SHARED
    resource = entry.resource or ""
    sliced = (
        parse_mig_profile(resource) or parse_amd_partition(resource) or any("-MIG-" in product for product in products)
    )
    return UnitKind.MIG if sliced else UnitKind.CARD


def _find_known_model(entry: GPUEntry, table: AcceleratorTable) -> AcceleratorMatch | None:
    found = [table.find(key, value) for key, values in entry.match.items() for value in values]
    models = {known.accelerator.slug: known for known in found if known is not None}
    return next(iter(models.values())) if len(models) == 1 else None


def _convert_preset(slug: str, entry: PresetEntry) -> Preset:
    return Preset(
        slug=slug,
        display_name=entry.display_name or slug,
        description=entry.description,
        options=build_preset_options(entry),
        overrides=entry.kubespawner_override,
        choices={name: _convert_preset_choice(name, each) for name, each in sort_entries(entry.choices).items()},
        is_default=entry.default,
    )


def _convert_preset_choice(name: str, setting: PresetChoiceSetting) -> PresetChoice:
    entries = sort_entries(setting.entries)
    first_default = next((slug for slug, each in entries.items() if each.default), None)
    field = setting.custom_image
    return PresetChoice(
        name=name,
        display_name=setting.display_name or name,
        # Put the default entry first: :class:`PresetChoice` treats the first entry as the default.
        entries={
            slug: PresetVariant(
                slug=slug,
                display_name=entries[slug].display_name or slug,
                description=entries[slug].description,
                options=build_preset_options(entries[slug]),
                overrides=entries[slug].kubespawner_override,
            )
            for slug in sorted(entries, key=lambda each: each != first_default)
        },
        custom_image=None
        if field is None
        else ImageInput(
            label=field.display_name or "",
            pattern=field.pattern,
            message=field.message,
            overrides=field.kubespawner_override,
        ),
    )


def build_preset_options(entry: PresetValues) -> dict[str, object]:
    """Return the values of form fields that a preset, or an entry in one of its lists (``choices``), sets.

    The result omits fields for which the settings set no value.

    :param entry: the preset or the entry in the settings.
    """
    options: dict[str, object] = {}
    if entry.image is not None:
        options["image"] = entry.image
    for amount_field in AMOUNT_FIELDS:
        amount = getattr(entry, amount_field.name)
        if amount is not None:
            is_unlimited = amount == NO_LIMIT and amount_field in (CPU, MEMORY)
            options[amount_field.name] = UNLIMITED_AMOUNT if is_unlimited else amount_field.format_option(amount)
    for key, amount_field in (("cpu_guarantee", CPU), ("memory_guarantee", MEMORY)):
        amount = getattr(entry, key)
        if amount is not None:
            options[key] = amount_field.format_option(amount)
    if entry.gpu is not None:
        options["gpu"] = entry.gpu or None
    if entry.gpu_count is not None:
        options["gpu_count"] = entry.gpu_count
    for choice_field in CLOSED_CHOICES:
        slug = getattr(entry, choice_field.name)
        if slug is not None:
            options[choice_field.name] = slug
    return options


def _list_restricted(settings: SettingsModel) -> dict[AccessKey, RestrictedEntry]:
    """Return each image, GPU type, preset and entry of a preset's list: the settings may restrict who may choose it."""
    presets = sort_entries(settings.presets)
    keyed: list[tuple[AccessKey, RestrictedEntry]] = [
        *((("image", slug), entry) for slug, entry in sort_entries(settings.images).items()),
        *((("gpu", slug), entry) for slug, entry in sort_entries(settings.gpus).items()),
        *((("preset", slug), entry) for slug, entry in presets.items()),
        *(
            (("preset", slug, name, key), entry)
            for slug, preset in presets.items()
            for name, choice in sort_entries(preset.choices).items()
            for key, entry in sort_entries(choice.entries).items()
        ),
    ]
    return dict(keyed)
