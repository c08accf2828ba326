"""Builds the form view: what is offered, what stands in the fields, what is wrong with them.

Total over whatever was saved or typed: a choice that is no longer offered falls back to the default with a notice at
its field. Knows no HTML.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from gpuspawner.core.catalog.catalogue import Catalogue, GPUType, Priority, Unit
from gpuspawner.core.catalog.policy_rules import Person
from gpuspawner.core.cluster.model import Growth
from gpuspawner.core.cluster.occupancy import Inventory
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.formview_filled import Filled, fill
from gpuspawner.core.form.formview_image_types import ImageView
from gpuspawner.core.form.formview_images import custom_image_view, image_views
from gpuspawner.core.form.formview_live import Live, outlook_view, scales, state_of, verdict_view
from gpuspawner.core.form.formview_numbers import number_view
from gpuspawner.core.form.formview_policy import gpu_within, images_within, is_left_out, policy_view, shown_types
from gpuspawner.core.form.formview_policy_types import PolicyView, TimeView
from gpuspawner.core.form.formview_restore import FIELDS, probe, restore, values_of
from gpuspawner.core.form.formview_text import (
    BYTES_PER_GIB,
    age_text,
    badges,
    capacity_sentence,
    caution,
    details_text,
    gpu_memory_text,
    sentence,
)
from gpuspawner.core.form.formview_types import (
    FormView,
    GPUTypeView,
    PresetView,
    PriorityView,
    VendorView,
    VerdictView,
)
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.denials import Denial
from gpuspawner.core.text.language import gettext, later, said, spoken
from gpuspawner.core.text.sentences import paragraph
from gpuspawner.core.units.duration import duration_option
from gpuspawner.core.units.quantity import format_cpu, gib
from gpuspawner.core.units.words import vendor_name
from gpuspawner.core.verdict.availability import Availability, availability
from gpuspawner.core.verdict.shapes import Shape
from gpuspawner.core.verdict.verdict import Outcome

UNIT_TEXTS = {Unit.CARD: later("card"), Unit.MIG: later("MIG slice"), Unit.SHARED: later("shared")}
"""What one unit of a GPU type is, in people's words."""

_RANGE = ("min", "max", "step")
_NUMBER = (*_RANGE, "default", "guarantee")
GPU_COLUMNS = (
    *("slug", "display_name", "memory_gib", "max_count", "total", "free"),
    *("state", "reason", "shapes", "largest_shapes", "scales"),
)
"""What the form's script gets of a GPU type, in the order of :func:`gpu_as_json`."""
_IMAGE = ("slug", "display_name", "misfits")
_PRESET = ("slug", "outlook", *FIELDS)
_gpu_values = attrgetter(*GPU_COLUMNS)


def build_view(
    catalogue: Catalogue,
    inventory: Inventory,
    *,
    filled: Filled | None = None,
    problems: tuple[Problem, ...] = (),
    live: Live | None = None,
    allowance: Allowance | None = None,
) -> FormView:
    """Build the form for one person.

    :param inventory: says what is not known and how old the rest is; counted if ``live`` holds no counts.
    :param catalogue: what holds for everybody.
    :param filled: what stands in the fields, made of this very catalogue and allowance; the defaults if not given.
    :param problems: what was wrong with a form that came back.
    :param live: what each GPU type has, and the verdict on what stands in the fields.
    :param allowance: what the person may have of it; all if not given.
    """
    live = live or Live()
    allowance = allowance or Allowance(everything=catalogue, person=Person(name=""))
    reach = catalogue if allowance.blocked else allowance.catalogue
    filled = filled or fill(catalogue, allowance=allowance)
    values = filled.values
    errors = _by_field(problems)
    selection = None if errors else filled.selection
    presets = tuple(_presets(allowance, live))
    usual = (restore(None, reach)[0], *(preset.values for preset in presets))
    return FormView(
        images=images_within(image_views(catalogue), allowance),
        custom_image=custom_image_view(reach.custom_images, values["custom_image"]),
        cpu=number_view(reach.cpu, format_cpu),
        memory=number_view(reach.memory, gib),
        run_time=number_view(reach.run_time, duration_option),
        shared_memory=number_view(catalogue.shared_memory, gib),
        priorities=tuple(map(_priority, catalogue.priorities.values())),
        vendors=_vendors(allowance, inventory, counts=live.availabilities),
        presets=presets,
        values=values,
        errors=errors,
        notices=filled.notices,
        capacity_notice=_capacity_notice(inventory),
        summary="" if selection is None else sentence(selection, catalogue),
        verdict=_blocked(allowance) or verdict_view(live, selection, catalogue=catalogue),
        age_s=inventory.age_s,
        age_text=age_text(inventory.age_s),
        is_open=bool(errors or filled.notices) or values not in usual,
        policy=policy_view(allowance, values),
    )


def as_json(view: FormView) -> dict[str, object]:
    """Return the part of a view that the form's script reads, as a value ``json.dumps`` takes.

    ``version`` counts the changes of this shape that an older script (a site's own copy, or that of a page that was
    open while the hub was upgraded) could not read. ``values`` is what the verdict is about. Of things alike there may
    be many, and pages ask for them again and again: they are a table, in which names stand once.
    """
    gpus = [gpu_as_json(gpu) for vendor in view.vendors for gpu in vendor.types]
    return {**without_gpus_as_json(view), "gpus": _table(GPU_COLUMNS, gpus)}


def gpu_as_json(gpu: GPUTypeView) -> tuple[object, ...]:
    """Return a row of ``gpus`` in :func:`as_json`."""
    return tuple(_gpu_values(gpu))


def without_gpus_as_json(view: FormView) -> dict[str, object]:
    """Return all of :func:`as_json` but ``gpus``."""
    return {
        "version": view.version,
        "images": _table(_IMAGE, [_image_as_json(image) for image in view.images if not image.denied]),
        "custom_image": view.custom_image and _pick(view.custom_image, "complaint"),
        "cpu": view.cpu and _pick(view.cpu, *_NUMBER),
        "memory": view.memory and _pick(view.memory, *_NUMBER),
        "run_time": view.run_time and _pick(view.run_time, *_RANGE, "default"),
        "shared_memory": view.shared_memory and _pick(view.shared_memory, *_RANGE),
        "priorities": [_pick(each, "slug", "display_name") for each in view.priorities],
        "presets": _table(_PRESET, [_preset_as_json(preset) for preset in view.presets]),
        "values": dict(view.values),
        "verdict": view.verdict and _verdict_as_json(view.verdict),
        "capacity_notice": view.capacity_notice,
        "age_s": view.age_s,
        "link_prefix": view.link_prefix,
        "policy": view.policy and _policy_as_json(view.policy, view.presets),
    }


def _table(names: Iterable[str], rows: Iterable[tuple[object, ...]]) -> dict[str, object]:
    return {"names": list(names), "rows": list(rows)}


def _image_as_json(image: ImageView) -> tuple[object, ...]:
    return image.slug, image.display_name, [_pick(each, "text", "gpus") for each in image.misfits]


def _verdict_as_json(verdict: VerdictView) -> dict[str, object]:
    alternatives = [{"sentence": each.sentence, "values": dict(each.values)} for each in verdict.alternatives]
    return {**_pick(verdict, "outcome", "sentence"), "alternatives": alternatives}


def _preset_as_json(preset: PresetView) -> tuple[object, ...]:
    outlook = preset.outlook and _pick(preset.outlook, "outcome", "sentence")
    return preset.slug, outlook, *(preset.values[name] for name in FIELDS)


def _policy_as_json(policy: PolicyView, presets: Iterable[PresetView]) -> dict[str, object]:
    return {
        **_pick(policy, "in_use", "blocked"),
        "times": [_time_as_json(each) for each in policy.times],
        "presets": [preset.slug for preset in presets if preset.is_denied],
    }


def _time_as_json(time: TimeView) -> dict[str, object]:
    return {**_pick(time, "slug", "longest"), "run_time": time.run_time and _pick(time.run_time, *_RANGE, "default")}


def _pick(value: object, *names: str) -> dict[str, object]:
    return {name: getattr(value, name) for name in names}


def _by_field(problems: Iterable[Problem]) -> dict[str, str]:
    """Join the messages of each field."""
    messages: dict[str, list[str]] = {}
    for problem in problems:
        messages.setdefault(problem.field, []).append(problem.message)
    return {name: paragraph(*texts) for name, texts in messages.items()}


def _priority(priority: Priority) -> PriorityView:
    return PriorityView(slug=priority.slug, display_name=priority.display_name, description=priority.description)


def _vendors(
    allowance: Allowance, inventory: Inventory, *, counts: tuple[Availability, ...] | None
) -> tuple[VendorView, ...]:
    """Group the GPU types by vendor, vendors and types in the catalogue's order."""
    groups: dict[str, list[GPUTypeView]] = {}
    gpus = tuple(allowance.everything.gpus.values())
    shown = set(shown_types(allowance))
    for gpu, available in zip(gpus, availability(gpus, inventory) if counts is None else counts, strict=True):
        if gpu.slug in shown:
            view = _gpu_type(gpu, available, growths=inventory.growths)
            own = gpu_within(view, gpu, available=available, allowance=allowance)
            groups.setdefault(gpu.vendor, []).append(own)
    return tuple(
        VendorView(slug=vendor, display_name=said(vendor_name(vendor)), types=tuple(types))
        for vendor, types in groups.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A GPU type as it was shown last, and what that was made from."""

    gpu: GPUType
    available: Availability
    growths: tuple[Growth, ...] | None
    view: GPUTypeView


_ROWS: OrderedDict[tuple[int, str], _Row] = OrderedDict()
"""By the identity of the GPU type, which is kept here, and the language's tag: a cluster changes by a type or two
between two forms."""
_MOST_ROWS = 1024


def _gpu_type(gpu: GPUType, available: Availability, *, growths: tuple[Growth, ...] | None) -> GPUTypeView:
    """Return a GPU type as the form shows it; the same object as long as nothing about it changes."""
    key = id(gpu), spoken().tag
    row = _ROWS.get(key)
    if row is None or row.available is not available or row.growths != growths:
        view = _new_gpu_type(gpu, available, growths=growths)
        row = _ROWS[key] = _Row(gpu=gpu, available=available, growths=growths, view=view)
        if len(_ROWS) > _MOST_ROWS:
            _ROWS.popitem(last=False)
    return row.view


def _new_gpu_type(gpu: GPUType, available: Availability, *, growths: tuple[Growth, ...] | None) -> GPUTypeView:
    state, reason = state_of(gpu, available, growths=growths)
    return GPUTypeView(
        slug=gpu.slug,
        display_name=said(gpu.display_name),
        vendor=gpu.vendor,
        memory_text=gpu_memory_text(gpu.memory_bytes),
        memory_gib=_in_gib(gpu.memory_bytes),
        unit=gpu.unit.value,
        unit_text=said(UNIT_TEXTS[gpu.unit]),
        max_count=gpu.max_count,
        total=available.total,
        healthy=available.healthy,
        free=available.free,
        largest=available.largest,
        waiting=available.waiting,
        capacity_text=capacity_sentence(available.total, available.free),
        details_text=details_text(gpu, available),
        state=state,
        reason=reason,
        shapes=_triples(available.shapes),
        largest_shapes=_triples(available.largest_shapes),
        scales=scales(gpu, growths),
        badges=badges(gpu),
        caution=caution(gpu),
        description=said(gpu.description),
        note=said(gpu.note),
    )


def _in_gib(size_bytes: int | None) -> float | None:
    """Return bytes as GiB, a whole number as such: it is shorter."""
    if size_bytes is None:
        return None
    return size_bytes / BYTES_PER_GIB if size_bytes % BYTES_PER_GIB else size_bytes // BYTES_PER_GIB


def _triples(shapes: Iterable[Shape] | None) -> tuple[tuple[int, int, int], ...]:
    return tuple((shape.cpu_millis, shape.memory_bytes, shape.count) for shape in shapes or ())


def _presets(allowance: Allowance, live: Live) -> Iterable[PresetView]:
    """Yield the presets that can be started; one whose GPU type left the cluster cannot."""
    catalogue, reach = allowance.everything, allowance.catalogue
    for preset in catalogue.presets.values():
        is_denied = preset.slug not in reach.presets
        selection = probe({"preset": preset.slug}, catalogue if is_denied else reach)
        denials = allowance.rule_on(selection) if selection is not None and is_denied else ()
        if selection is not None and not is_left_out(denials, allowance):
            yield PresetView(
                slug=preset.slug,
                display_name=preset.display_name,
                description=preset.description,
                summary=sentence(selection, catalogue),
                values=values_of(selection),
                outlook=_denied(denials, allowance) if is_denied else outlook_view(live.presets.get(preset.slug)),
                is_denied=is_denied,
            )


def _denied(denials: Iterable[Denial], allowance: Allowance) -> VerdictView | None:
    """Return why a preset is out of reach; None where everything is, which is said once."""
    reason = "" if allowance.blocked else paragraph(*(each.message for each in denials))
    return VerdictView(outcome=Outcome.NEVER.value, sentence=reason) if reason else None


def _blocked(allowance: Allowance) -> VerdictView | None:
    """Return what becomes of every choice while nothing at all may be started."""
    blocked = allowance.blocked
    return None if blocked is None else VerdictView(outcome=Outcome.NEVER.value, sentence=blocked.message)


def _capacity_notice(inventory: Inventory) -> str:
    if inventory.occupancy is not None:
        return ""
    if inventory.nodes is None:
        known = gettext("GPU capacity is unknown right now.")
    elif inventory.pods is None:
        known = gettext("How many GPUs are free is unknown.")
    else:
        return ""
    return paragraph(known, said(inventory.reason))
