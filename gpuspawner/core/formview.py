"""Builds the form view: what is offered, what stands in the fields, what is wrong with them.

Total over whatever was saved or typed: a choice that is no longer offered falls back to the default with a notice at
its field. Knows no HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpuspawner.core.catalogue import Bounds, Catalogue, GPUType, Image, Toleration, Unit
from gpuspawner.core.counting import Count, count_each
from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.formview_restore import FIELDS, probe, restore, values_of
from gpuspawner.core.formview_text import (
    BYTES_PER_GIB,
    capacity_sentence,
    gpu_memory_text,
    made_for,
    sentence,
    vendor_name,
)
from gpuspawner.core.formview_types import (
    FORM_LEVEL,
    FormView,
    GPUTypeView,
    ImageView,
    NumberView,
    PresetView,
    VendorView,
)
from gpuspawner.core.inventory import Inventory
from gpuspawner.core.options import from_form
from gpuspawner.core.quantity import format_cpu, gib

__all__ = ["FORM_LEVEL", "FormView", "as_json", "build_view"]

UNIT_TEXTS = {Unit.CARD: "card", Unit.MIG: "MIG slice", Unit.SHARED: "shared"}
"""What one unit of a GPU type is, in people's words."""


def build_view(
    catalogue: Catalogue,
    inventory: Inventory,
    *,
    options: Mapping[str, object] | None = None,
    typed: Mapping[str, str] | None = None,
    problems: tuple[Problem, ...] = (),
    tolerations: tuple[Toleration, ...] = (),
) -> FormView:
    """Build the form for one person.

    :param options: user options saved by an earlier start; hostile input, restored field by field.
    :param typed: the form as it came back, shown as it is; wins over ``options``.
    :param problems: what was wrong with it.
    :param tolerations: what every server tolerates besides its GPU type's own (KubeSpawner's); more nodes count then.
    """
    values, notices = restore(options, catalogue)
    if typed is not None:
        values, notices = _over(values, typed, catalogue=catalogue), {}
    errors = _by_field(problems)
    return FormView(
        images=tuple(_image(image) for image in catalogue.images.values()),
        cpu=_number(catalogue.cpu, format_cpu),
        memory=_number(catalogue.memory, gib),
        vendors=_vendors(catalogue, inventory, tolerations=tolerations),
        presets=tuple(_presets(catalogue)),
        values=values,
        errors=errors,
        notices=notices,
        capacity_notice=_capacity_notice(inventory),
        summary="" if errors else _summary(values, catalogue),
    )


def _over(values: Mapping[str, str], typed: Mapping[str, str], *, catalogue: Catalogue) -> dict[str, str]:
    """Return what was typed, exactly, over what stands in the fields otherwise."""
    if "preset" in typed:  # from a link: it fills in the fields the link does not name
        preset = probe({"preset": typed["preset"]}, catalogue)
        values = values if preset is None else values_of(preset)
    merged = {name: typed.get(name, values[name]) for name in FIELDS}
    if "gpu_count" not in typed and merged["gpu"] != values["gpu"]:
        merged["gpu_count"] = ""  # that number belonged to another GPU type
    return merged


def as_json(view: FormView) -> dict[str, object]:
    """Return the part of a view that form.js reads, as a value ``json.dumps`` takes.

    ``version`` counts the changes of this shape that an older form.js (a site's own copy) could not read.
    """
    return {
        "version": view.version,
        "images": [_pick(image, "slug", "display_name", "vendors", "made_for") for image in view.images],
        "cpu": view.cpu and _pick(view.cpu, "min", "max", "step", "default"),
        "memory": view.memory and _pick(view.memory, "min", "max", "step", "default"),
        "gpus": [
            _pick(gpu, "slug", "display_name", "vendor", "memory_gib", "max_count", "total", "free")
            for vendor in view.vendors
            for gpu in vendor.types
        ],
        "presets": [{"slug": preset.slug, "values": dict(preset.values)} for preset in view.presets],
    }


def _pick(value: object, *names: str) -> dict[str, object]:
    return {name: getattr(value, name) for name in names}


def _by_field(problems: Iterable[Problem]) -> dict[str, str]:
    """Join the messages of each field."""
    messages: dict[str, list[str]] = {}
    for problem in problems:
        messages.setdefault(problem.field, []).append(problem.message)
    return {name: " ".join(texts) for name, texts in messages.items()}


def _image(image: Image) -> ImageView:
    return ImageView(
        slug=image.slug,
        display_name=image.display_name,
        description=image.description,
        vendors=image.vendors,
        made_for=made_for(image.vendors),
    )


def _number(bounds: Bounds | None, notation: Callable[[int], str]) -> NumberView | None:
    if bounds is None:
        return None
    return NumberView(
        min=notation(bounds.min),
        max=notation(bounds.max),
        step=notation(bounds.step),
        default=notation(bounds.default),
    )


def _vendors(
    catalogue: Catalogue, inventory: Inventory, *, tolerations: tuple[Toleration, ...]
) -> tuple[VendorView, ...]:
    """Group the GPU types by vendor, vendors and types in the catalogue's order."""
    groups: dict[str, list[GPUTypeView]] = {}
    gpus = catalogue.gpus.values()
    for gpu, counted in zip(gpus, count_each(gpus, inventory, tolerations=tolerations), strict=True):
        groups.setdefault(gpu.vendor, []).append(_gpu_type(gpu, counted))
    return tuple(
        VendorView(slug=vendor, display_name=vendor_name(vendor), types=tuple(types))
        for vendor, types in groups.items()
    )


def _gpu_type(gpu: GPUType, counted: Count) -> GPUTypeView:
    return GPUTypeView(
        slug=gpu.slug,
        display_name=gpu.display_name,
        vendor=gpu.vendor,
        memory_text=gpu_memory_text(gpu.memory_bytes),
        memory_gib=None if gpu.memory_bytes is None else gpu.memory_bytes / BYTES_PER_GIB,
        unit=gpu.unit.value,
        unit_text=UNIT_TEXTS[gpu.unit],
        max_count=gpu.max_count,
        total=counted.total,
        free=counted.free,
        capacity_text=capacity_sentence(counted.total, counted.free),
        description=gpu.description,
        note=gpu.note,
    )


def _presets(catalogue: Catalogue) -> Iterable[PresetView]:
    """Yield the presets that can be started; one whose GPU type left the cluster cannot."""
    for preset in catalogue.presets.values():
        selection = probe({"preset": preset.slug}, catalogue)
        if selection is not None:
            yield PresetView(
                slug=preset.slug,
                display_name=preset.display_name,
                description=preset.description,
                summary=sentence(selection, catalogue),
                values=values_of(selection),
            )


def _capacity_notice(inventory: Inventory) -> str:
    if inventory.nodes is None:
        known = "GPU capacity is unknown right now."
    elif inventory.pods is None:
        known = "How many GPUs are free is unknown."
    else:
        return ""
    return f"{known} {inventory.reason}".rstrip()


def _summary(values: Mapping[str, str], catalogue: Catalogue) -> str:
    """Return the sentence for what stands in the fields, empty where that is no valid choice."""
    hidden = {name for name, bounds in (("cpu", catalogue.cpu), ("memory", catalogue.memory)) if bounds is None}
    try:
        options = from_form({name: [text] for name, text in values.items() if name not in hidden})
    except SelectionError:
        return ""
    selection = probe(options, catalogue)
    return "" if selection is None else sentence(selection, catalogue)
