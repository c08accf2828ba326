"""From checked settings to the core's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT, AcceleratorTable, Known
from gpuspawner.core.catalog.catalogue import Bounds, CustomImages, GPUType, Image, Preset, Priority, ScaleUp, Unit
from gpuspawner.core.catalog.kueue import Queue
from gpuspawner.core.catalog.node_gpus import mig_profile, vendor_of
from gpuspawner.core.catalog.unions import Union
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.discovery.assemble import Configured
from gpuspawner.core.discovery.discovery import conventional_tolerations
from gpuspawner.core.units.duration import duration_option
from gpuspawner.core.units.quantity import format_cpu, memory_option
from gpuspawner.settings.gpu_entries import GPUEntry
from gpuspawner.settings.models import (
    Amount,
    CPUSetting,
    CustomImagesSetting,
    ImageEntry,
    MemorySetting,
    PresetEntry,
    PriorityEntry,
    RunTimeSetting,
    SettingsModel,
    SharedMemorySetting,
)
from gpuspawner.settings.policy_conversion import to_policy
from gpuspawner.settings.queue_setting import QueueSetting
from gpuspawner.settings.values import Entry

_DEFAULT_CPU_MILLIS = 2000
_DEFAULT_MEMORY_BYTES = 8 * 1024**3
_DEFAULT_RUN_TIME_S = 8 * 60 * 60
_CPU_GUARANTEE = 0.5
"""Servers idle most of the time, and a CPU that is not used can be lent; memory cannot."""

E = TypeVar("E", bound=Entry)


def to_configured(settings: SettingsModel, table: AcceleratorTable) -> Configured:
    """Return what the settings say; GPU types take what they leave out from the table."""
    entries = in_order(settings.gpus)
    unions = {slug: _union(slug, entry, table=table) for slug, entry in entries.items() if entry.is_union}
    gpus = {slug: _gpu(slug, entry, table=table) for slug, entry in entries.items() if not entry.is_union}
    return Configured(
        images={slug: _image(slug, entry) for slug, entry in in_order(settings.images).items()},
        custom_images=_custom_images(settings.custom_images),
        cpu=bounds_of(settings.cpu, default=_DEFAULT_CPU_MILLIS, guarantee=_CPU_GUARANTEE) if settings.cpu else None,
        memory=bounds_of(settings.memory, default=_DEFAULT_MEMORY_BYTES, guarantee=1.0) if settings.memory else None,
        run_time=bounds_of(settings.run_time, default=_DEFAULT_RUN_TIME_S) if settings.run_time else None,
        shared_memory=_shared_memory(settings.shared_memory),
        priorities={slug: _priority(slug, entry) for slug, entry in in_order(settings.priorities).items()},
        gpus=gpus,
        uncounted=frozenset(
            slug
            for slug, entry in entries.items()
            if entry.max_count is None and (slug in unions or gpus[slug].unit is not Unit.SHARED)
        ),
        unions=unions,
        hidden=frozenset(slug for slug, entry in settings.gpus.items() if not entry.enabled),
        hidden_gpus=tuple(
            _gpu(slug, entry, table=table)
            for slug, entry in settings.gpus.items()
            if not entry.enabled and entry.resource is not None and not entry.is_union
        ),
        presets={slug: _preset(slug, entry) for slug, entry in in_order(settings.presets).items()},
        discover=settings.discover_gpus,
        policy=to_policy(settings.policy, pools=in_order(settings.pools)),
        queue=_queue(settings.queue),
    )


def in_order(entries: Mapping[str, E]) -> dict[str, E]:
    """Return the enabled entries as they are shown."""
    enabled = {slug: entry for slug, entry in entries.items() if entry.enabled}
    return dict(sorted(enabled.items(), key=lambda item: (item[1].order is None, item[1].order or 0)))


def bounds_of(setting: CPUSetting | MemorySetting | RunTimeSetting, *, default: int, guarantee: float = 1.0) -> Bounds:
    """Return bounds in base units.

    :param default: taken when the setting has none, moved to the nearest amount that its range and steps allow.
    :param guarantee: taken when the setting has none.
    """
    own = setting.guarantee if isinstance(setting, Amount) else None
    chosen = setting.default
    if chosen is None:
        inside = min(max(default, setting.min), setting.max)
        chosen = inside - (inside - setting.min) % setting.step
    return Bounds(
        min=setting.min,
        max=setting.max,
        step=setting.step,
        default=chosen,
        guarantee=guarantee if own is None else own,
    )


def _queue(setting: QueueSetting | None) -> Queue | None:
    if setting is None:
        return None
    return Queue(
        local_queue=setting.local_queue,
        priority_class=setting.priority_class or "",
        timeout_s=setting.timeout,
        gpus=None if "*" in setting.gpus else frozenset(setting.gpus),
    )


def _shared_memory(setting: SharedMemorySetting | None) -> Bounds | None:
    # No size is one of the choices, and the default; whoever wants some begins with the least.
    return None if setting is None else Bounds(**setting.model_dump(), default=setting.min)


def _priority(slug: str, entry: PriorityEntry) -> Priority:
    return Priority(
        slug=slug,
        display_name=entry.display_name or slug,
        description=entry.description,
        priority_class=entry.priority_class or "",
        value=entry.value or 0,
    )


def _image(slug: str, entry: ImageEntry) -> Image:
    return Image(
        slug=slug,
        display_name=entry.display_name or slug,
        image=entry.image or "",
        description=entry.description,
        cuda=entry.cuda,
        vendors=_vendors(entry),
        architectures=tuple(entry.architectures),
    )


def _vendors(entry: ImageEntry) -> tuple[str, ...] | None:
    """Return whose GPUs an image can use, None when nothing says so."""
    if entry.vendors is not None:
        return tuple(entry.vendors)
    return tuple(vendor for vendor, version in entry.toolkits.items() if version is not None) or None


def _custom_images(setting: CustomImagesSetting) -> CustomImages | None:
    if not setting.allowed:
        return None
    return CustomImages(registries=tuple(setting.registries), description=setting.description)


def _gpu(slug: str, entry: GPUEntry, *, table: AcceleratorTable) -> GPUType:
    resource = entry.resource or ""
    unit = Unit(entry.unit) if entry.unit else _unit_of(entry)
    known = _known(entry, table)
    memory = entry.memory
    if memory is None and known is not None and unit is not Unit.MIG:
        memory = known.memory_bytes
    return GPUType(
        slug=slug,
        display_name=entry.display_name or (known.accelerator.name if known and unit is Unit.CARD else slug),
        resource=resource,
        vendor=entry.vendor or vendor_of(resource) or "",
        unit=unit,
        match={key: tuple(values) for key, values in entry.match.items()},
        max_count=entry.max_count or 1,
        memory_bytes=memory,
        description=entry.description,
        note=entry.note,
        spot=entry.spot,
        interconnect=entry.interconnect,
        tolerations=_tolerations(entry),
        environment=dict(entry.environment),
        runtime_class=entry.runtime_class,
        shm=entry.shm,
        start_timeout_s=entry.start_timeout,
        max_runtime_s=entry.max_runtime,
        scale_up=ScaleUp(**entry.scale_up.model_dump()) if entry.scale_up else None,
    )


def _tolerations(entry: GPUEntry) -> tuple[Toleration, ...]:
    if entry.tolerations is None:
        # What stands for several types tolerates what they do.
        return () if entry.is_union else conventional_tolerations(entry.resource or "")
    return tuple(
        Toleration(key=item.key, operator=item.operator, value=item.value, effect=item.effect or "")
        for item in entry.tolerations
    )


def _union(slug: str, entry: GPUEntry, *, table: AcceleratorTable) -> Union:
    gpu = _gpu(slug, entry, table=table)
    return Union(
        gpu=replace(gpu, display_name=entry.display_name or "", max_count=entry.max_count or 0),
        any_of=tuple(entry.any_of),
        min_memory_bytes=entry.min_memory,
    )


def _unit_of(entry: GPUEntry) -> Unit:
    """Return what a unit is when the admin does not say: resource and product names tell."""
    products = entry.match.get(GFD_PRODUCT, [])
    if (entry.resource or "").endswith(".shared") or any(product.endswith("-SHARED") for product in products):
        return Unit.SHARED
    sliced = mig_profile(entry.resource or "") or any("-MIG-" in product for product in products)
    return Unit.MIG if sliced else Unit.CARD


def _known(entry: GPUEntry, table: AcceleratorTable) -> Known | None:
    """Return the model that all label values of a match name, None when they name several or none."""
    found = [table.find(key, value) for key, values in entry.match.items() for value in values]
    models = {known.accelerator.slug: known for known in found if known is not None}
    return next(iter(models.values())) if len(models) == 1 else None


def _preset(slug: str, entry: PresetEntry) -> Preset:
    return Preset(
        slug=slug, display_name=entry.display_name or slug, description=entry.description, options=preset_options(entry)
    )


def preset_options(entry: PresetEntry) -> dict[str, object]:
    """Return the user options that a preset stands for."""
    options: dict[str, object] = {}
    if entry.image is not None:
        options["image"] = entry.image
    if entry.cpu is not None:
        options["cpu"] = format_cpu(entry.cpu)
    if entry.memory is not None:
        options["memory"] = memory_option(entry.memory)
    if entry.gpu:
        options["gpu"] = entry.gpu
    if entry.gpu_count is not None:
        options["gpu_count"] = entry.gpu_count
    if entry.run_time is not None:
        options["run_time"] = duration_option(entry.run_time)
    if entry.shared_memory is not None:
        options["shared_memory"] = memory_option(entry.shared_memory)
    if entry.priority is not None:
        options["priority"] = entry.priority
    return options
