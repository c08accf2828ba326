"""Encodes the data of the form that form.js reads, for the page and for each refresh of an open form.

``templates/island.schema.json`` describes the data.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuspawner.core.form.views import (
    FormView,
    GPUTypeView,
    ImageView,
    NumberView,
    PolicyView,
    PresetView,
    ProfileView,
    VerdictView,
)
from gpuspawner.core.request.field_definitions import AMOUNT_FIELDS, RUN_TIME
from gpuspawner.core.request.fields import AmountField

_GPU_MEMBERS = (
    *("slug", "display_name", "memory_gib", "max_count", "total", "healthy", "free", "capacity_text", "details_text"),
    *("state", "reason", "scales", "new_nodes", "longest_text", "share"),
)
"""Attributes of :class:`GPUTypeView` that form.js reads as they are."""
_BYTES_PER_MIB = 1024**2


def encode_view(view: FormView) -> dict[str, object]:
    """Return the part of a view that form.js reads, as a value for ``json.dumps``.

    After a change that an older form.js cannot read, also change the default of :attr:`.FormView.version`: a page that
    was open during an upgrade keeps its form.js, and some admins serve their own copy.
    """
    return {
        "version": view.version,
        "images": [
            {"slug": image.slug, "display_name": image.display_name, "misfits": _encode_misfits(image)}
            for image in view.images
            if not image.denied
        ],
        "custom_image": view.custom_image
        and {"complaint": view.custom_image.complaint, "misfits": _encode_misfits(view.custom_image.card)},
        **{field.name: _encode_bounds(field, getattr(view, field.name)) for field in AMOUNT_FIELDS},
        "choices": [
            {"name": field.name, "entries": [_pick_attributes(entry, "slug", "phrase") for entry in field.entries]}
            for field in view.choices
        ],
        "gpus": [_encode_gpu(gpu) for vendor in view.vendors for gpu in vendor.types],
        "presets": [
            {"slug": preset.slug, "outlook": _encode_outlook(preset.outlook), **preset.values}
            for preset in view.presets
        ],
        "profiles": [_encode_profile(profile) for profile in view.profiles],
        "values": dict(view.values),
        "verdict": view.verdict and _encode_verdict(view.verdict),
        "capacity_notice": view.capacity_notice,
        "age_s": view.age_s,
        "link_prefix": view.link_prefix,
        "policy": view.policy and _encode_policy(view.policy, view.presets),
        "tag": view.tag,
    }


def _encode_gpu(gpu: GPUTypeView) -> dict[str, object]:
    return {
        **_pick_attributes(gpu, *_GPU_MEMBERS),
        "shapes": _encode_shapes(gpu.shapes),
        "largest_shapes": _encode_shapes(gpu.largest_shapes),
    }


def _encode_shapes(shapes: tuple[tuple[int, int, int], ...]) -> list[tuple[int, int, int]]:
    """Return shapes with the memory in whole MiB, which are half as many digits as bytes."""
    return [(cpu_millis, memory_bytes // _BYTES_PER_MIB, count) for cpu_millis, memory_bytes, count in shapes]


def _encode_misfits(image: ImageView) -> list[dict[str, object]]:
    return [_pick_attributes(misfit, "text", "gpus") for misfit in image.misfits]


def _encode_verdict(verdict: VerdictView) -> dict[str, object]:
    alternatives = [
        {"sentence": alternative.sentence, "values": dict(alternative.values)} for alternative in verdict.alternatives
    ]
    return {**_pick_attributes(verdict, "outcome", "sentence"), "alternatives": alternatives}


def _encode_outlook(outlook: VerdictView | None) -> dict[str, object] | None:
    return None if outlook is None else _pick_attributes(outlook, "outcome", "sentence")


def _encode_profile(profile: ProfileView) -> dict[str, object]:
    fields: dict[str, str] = {}
    for option in profile.options:
        if option.choices:
            fields[option.field] = option.picked
        if option.text_field:
            fields[option.text_field] = option.text
    outlook = _encode_outlook(profile.outlook)
    return {**_pick_attributes(profile, "slug", "is_denied", "summary"), "outlook": outlook, "fields": fields}


def _encode_policy(policy: PolicyView, presets: Iterable[PresetView]) -> dict[str, object]:
    return {
        **_pick_attributes(policy, "in_use", "blocked"),
        "times": [
            {"slug": time.slug, "longest": time.longest, "run_time": _encode_bounds(RUN_TIME, time.run_time)}
            for time in policy.times
        ],
        "presets": [preset.slug for preset in presets if preset.is_denied],
    }


def _encode_bounds(field: AmountField, bounds: NumberView | None) -> dict[str, object] | None:
    return None if bounds is None else _pick_attributes(bounds, *field.bounds_keys)


def _pick_attributes(value: object, *names: str) -> dict[str, object]:
    return {name: getattr(value, name) for name in names}
