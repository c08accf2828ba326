"""Formats the form's texts and numbers. form.js writes the same texts in the browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpuspawner.core.catalog.image_reference import parse_reference
from gpuspawner.core.catalog.model import NO_LIMIT, Catalog, GPUType
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.catalog.software import index_images
from gpuspawner.core.form.views import FactView, GPUTypeView
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, CPU, MEMORY, RUN_TIME, SHARED_MEMORY
from gpuspawner.core.request.fields import AmountField
from gpuspawner.core.request.selection import (
    Selection,
    describe_amounts,
    describe_choice,
    describe_unusual_choices,
    find_amount,
    find_image,
    find_max_run_time_s,
)
from gpuspawner.core.text.decimals import show_decimals
from gpuspawner.core.text.i18n import gettext, translate_now
from gpuspawner.core.text.wording import join_with_and, join_with_or
from gpuspawner.core.units.duration import format_age
from gpuspawner.core.verdict.availability import Availability, suggest_amount
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S

BYTES_PER_GIB = 1 << 30
_RESOURCES = {"nvidia.com/gpu": "NVIDIA GPU", "amd.com/gpu": "AMD GPU"}
"""Extended resource → its name for users; others have the names of the resources."""
_MAX_NAMED_TYPES = 3
"""Maximum number of GPU types that the text of a profile names, if its pod may get any of several types."""


def format_gpu_memory(memory_bytes: int | None) -> str:
    """Return the memory of a GPU with at most two decimals (``"4.75 GiB"``), or "" if unknown.

    :param memory_bytes: memory of one GPU; None if unknown.
    """
    if memory_bytes is None:
        return ""
    return show_decimals(f"{memory_bytes / BYTES_PER_GIB:.2f}".rstrip("0").rstrip(".") + " GiB")


def format_capacity(total: int | None, free: int | None) -> str:
    """Return how many GPUs (or GPU slices) of a type are free, as text (``"3 of 4 free"``, ``"capacity unknown"``).

    :param total: number of all GPUs (or slices) of the type; None if unknown.
    :param free: number of those that a new server could get; None if unknown.
    """
    if total is None:
        return gettext("capacity unknown")
    if total == 0:
        return gettext("none at the moment")
    if free is None:
        return gettext("{total} in total", total=total)
    return gettext("{free} of {total} free", free=free, total=total)


def list_badges(gpu: GPUType) -> tuple[str, ...]:
    """Return short labels of a GPU type: its interconnect, and "spot" for spot nodes."""
    return tuple(filter(None, (gpu.interconnect, gettext("spot") if gpu.spot else "")))


def format_caution(gpu: GPUType) -> str:
    """Return a warning for a GPU type on spot nodes, or "" for other types."""
    if not gpu.spot:
        return ""
    return gettext(
        "Spot: a cheaper node that the cloud can take back at any time; your server then stops, and what is not saved "
        "on its volume is lost."
    )


def format_data_age(age_s: float | None) -> str:
    """Return the age of stale data about the cluster as text (``"as of 2 min ago"``).

    The result is "" if the data is fresh or its age is unknown.

    :param age_s: age of the data in seconds; None if unknown.
    """
    return "" if age_s is None or age_s <= MAX_DATA_AGE_S else format_age(age_s)


def describe_difference(other: Selection, selection: Selection | None, *, catalog: Catalog) -> str:
    """Return the values of ``other`` that differ from those of ``selection``, as text: "2 × A100 (160 GiB) and 8 CPUs".

    :param selection: the selection to compare with; if it is None or equals ``other``, all of ``other`` is described.
    :param catalog: what the hub offers, without any user's limits.
    """
    if selection is None or other == selection:
        return describe_selection(other, catalog)
    parts = []
    if find_image(other, catalog) != find_image(selection, catalog):
        parts.append(find_image(other, catalog).display_name)
    if (other.gpu, other.gpu_count) != (selection.gpu, selection.gpu_count):
        parts.append(_format_gpus_and_memory(other, catalog))
    for amount_field in (CPU, MEMORY, SHARED_MEMORY, RUN_TIME):
        if find_amount(other, amount_field) != find_amount(selection, amount_field):
            parts += describe_amounts(other, amount_field) or filter(None, [translate_now(amount_field.unset)])
    for each in CLOSED_CHOICES:
        if each.name in other.choices and other.choices[each.name] != selection.choices.get(each.name):
            parts.append(describe_choice(other, each, catalog=catalog))
    return join_with_and(parts)


def describe_selection(selection: Selection, catalog: Catalog) -> str:
    """Return a selection as text: "PyTorch · 4 CPUs · 16 GiB RAM · 1 × A100 · up to 8 hours".

    :param catalog: what the hub offers, without any user's limits.
    """
    parts = [
        *describe_amounts(selection, CPU),
        *(gettext("{memory} RAM", memory=memory) for memory in describe_amounts(selection, MEMORY)),
        *describe_amounts(selection, SHARED_MEMORY),
        _format_gpus(selection, catalog),
        *describe_amounts(selection, RUN_TIME),
        *describe_unusual_choices(selection, catalog),
    ]
    return _join_parts([find_image(selection, catalog).display_name, *parts])


def _join_parts(parts: Sequence[str]) -> str:
    text = parts[0] if parts else ""
    for part in parts[1:]:
        text = gettext("{choice} · {part}", choice=text, part=part)
    return text


def list_facts(selection: Selection, allowance: Allowance) -> tuple[FactView, ...]:
    """Return a selection line by line, for the question whether to start it."""
    catalog = allowance.full_catalog
    memory = [gettext("{memory} RAM", memory=memory) for memory in describe_amounts(selection, MEMORY)]
    longest = find_max_run_time_s(selection.gpu, allowance.catalog) if selection.run_time_s is None else None
    run_time = describe_amounts(replace(selection, run_time_s=longest) if longest else selection, RUN_TIME)
    more = [*describe_amounts(selection, SHARED_MEMORY), *describe_unusual_choices(selection, catalog)]
    return (
        FactView(
            name="image",
            label=gettext("Image"),
            text=find_image(selection, catalog).display_name,
            is_foreign=is_foreign(selection, catalog),
        ),
        FactView(
            name="gpu",
            label=gettext("GPU"),
            text=gettext("No GPU") if selection.gpu is None else _format_gpus(selection, catalog),
        ),
        FactView(
            name="amounts",
            label=gettext("CPU and memory"),
            text=_join_parts([*describe_amounts(selection, CPU), *memory]),
        ),
        FactView(name="run_time", label=gettext("Run time"), text=_join_parts(run_time)),
        FactView(name="more", label=gettext("More"), text=_join_parts(more)),
    )


def is_foreign(selection: Selection, catalog: Catalog) -> bool:
    """Return whether the image of a selection is not one of the hub's own, however its reference is written.

    :param catalog: what the hub offers, without any user's limits.
    """
    if selection.custom_image is None:
        return False
    reference = parse_reference(selection.custom_image)
    return reference is None or reference.pulled not in index_images(catalog.images.values())


def describe_candidate(candidate: Candidate, catalog: Catalog) -> str:
    """Return what a profile's pod asks for, as text: "1 × A100 80 GB · 8 CPUs · at least 32 GiB".

    :param catalog: the catalog without any user's limits.
    """
    parts = [_describe_gpus(candidate.gpus, catalog)]
    for amount_field, (limit, request) in ((CPU, candidate.cpu), (MEMORY, candidate.memory)):
        if limit != NO_LIMIT:
            parts.append(amount_field.describe(limit))
        elif request != NO_LIMIT:
            parts.append(gettext("at least {amount}", amount=amount_field.describe(request)))
    return " · ".join(parts)


def _describe_gpus(gpus: PodGPUs, catalog: Catalog) -> str:
    if not gpus.count:
        return gettext("No GPU")
    known = {gpu.slug: gpu for gpu in (*catalog.hidden, *catalog.gpus.values())}
    slugs = [slug for slug in ((gpus.gpu,) if gpus.gpu else gpus.types) if slug in known and not gpus.names_new]
    if 0 < len(slugs) <= _MAX_NAMED_TYPES:
        name = join_with_or([translate_now(known[slug].display_name) for slug in slugs])
    else:
        resource = ", ".join(_RESOURCES.get(name, name) for name in sorted(gpus.counts))
        if slugs:
            name = gettext("{resource} of any type", resource=resource)
        else:
            name = gettext("{resource} of unknown type", resource=resource)
    return gettext("{number} × {gpu}", number=gpus.count, gpu=name)


def describe_suggestion(selection: Selection, gpu: GPUTypeView | None, *, catalog: Catalog) -> str:
    """Return the suggestion as text: "Suggested for 2 × A100: 24 CPUs · 180 GiB RAM (share of the node)".

    It leaves out an amount that is less than the default, or no more than that of the selection. The result is "" if
    no amount is left, if the share of the node is unknown, and if the form has fields for neither CPU nor memory.

    :param gpu: view of the selection's GPU type; None for a selection without a GPU.
    :param catalog: what the user may choose from.
    """
    if gpu is None or gpu.share is None:
        return ""
    suggested: dict[AmountField, int] = {}
    for each, bounds, share in zip((CPU, MEMORY), (catalog.cpu, catalog.memory), gpu.share, strict=True):
        amount = None if bounds is None else suggest_amount(share, selection.gpu_count, bounds=bounds)
        held = find_amount(selection, each)  # None = no limit
        if (
            bounds is not None
            and amount is not None
            and held is not None
            and amount >= bounds.default
            and amount > held
        ):
            suggested[each] = amount
    if not suggested:
        return ""
    parts = [
        gettext("{memory} RAM", memory=each.describe(amount)) if each is MEMORY else each.describe(amount)
        for each, amount in suggested.items()
    ]
    gpus = gettext("{number} × {gpu}", number=selection.gpu_count, gpu=gpu.display_name)
    return gettext("Suggested for {gpus}: {amounts} (share of the node)", gpus=gpus, amounts=_join_parts(parts))


def _format_gpus(selection: Selection, catalog: Catalog) -> str:
    if selection.gpu is None:
        return gettext("no GPU")
    return gettext("{number} × {gpu}", number=selection.gpu_count, gpu=catalog.gpus[selection.gpu].display_name)


def _format_gpus_and_memory(selection: Selection, catalog: Catalog) -> str:
    gpus = _format_gpus(selection, catalog)
    memory_bytes = None if selection.gpu is None else catalog.gpus[selection.gpu].memory_bytes
    if memory_bytes is None:
        return gpus
    # Do not repeat the memory if the name contains it, such as "A100 80 GB".
    if selection.gpu_count == 1 and re.search(rf"\b{round(memory_bytes / BYTES_PER_GIB)} ?G", gpus, re.IGNORECASE):
        return gpus
    total = format_gpu_memory(memory_bytes * selection.gpu_count)
    return gettext("{gpus} ({memory})", gpus=gpus, memory=total)


def format_details(gpu: GPUType, available: Availability) -> str:
    """Return further texts about a GPU type, one per line.

    The texts contain numbers of GPUs (or GPU slices) of the type: how many are broken, how many one server can get at
    once, how many the hub's servers use, and how many the pending pods request.
    """
    total, healthy, free, largest = available.total, available.healthy, available.free, available.largest
    details = []
    if total and healthy is not None and healthy < total:
        details.append(gettext("{broken} of {total} broken", broken=total - healthy, total=total))
    if free and largest is not None and 0 < largest < min(free, gpu.max_count):
        details.append(gettext("up to {number} at once", number=largest))
    if available.own:
        details.append(gettext("{number} in use by servers of this hub", number=available.own))
    elif available.own is not None:
        details.append(gettext("none in use by servers of this hub"))
    if available.waiting:
        details.append(gettext("{number} waited for", number=available.waiting))
    return ",\n".join(details)
