"""The words and numbers of the form: pure wording, no decisions. form.js says the same in the browser."""

from __future__ import annotations

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, CPU, MEMORY, RUN_TIME, SHARED_MEMORY
from gpuspawner.core.request.selection import (
    Selection,
    describe_amounts,
    describe_choice,
    describe_unusual_choices,
    find_amount,
    find_image,
)
from gpuspawner.core.text.i18n import gettext, translate_now
from gpuspawner.core.text.wording import join_with_and
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.formatting import format_age
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S

BYTES_PER_GIB = 1 << 30


def format_gpu_memory(memory_bytes: int | None) -> str:
    """Return the memory of a GPU for people, to two decimals (``"4.75 GiB"``); empty when unknown."""
    if memory_bytes is None:
        return ""
    return f"{memory_bytes / BYTES_PER_GIB:.2f}".rstrip("0").rstrip(".") + " GiB"


def format_capacity(total: int | None, free: int | None) -> str:
    """Return how many there are and how many of them are free, as far as known."""
    if total is None:
        return gettext("capacity unknown")
    if total == 0:
        return gettext("none at the moment")
    if free is None:
        return gettext("{total} in total", total=total)
    return gettext("{free} of {total} free", free=free, total=total)


def list_badges(gpu: GPUType) -> tuple[str, ...]:
    """Return what a GPU type is besides its memory and unit, in a word each."""
    return tuple(filter(None, (gpu.interconnect, gettext("spot") if gpu.spot else "")))


def format_caution(gpu: GPUType) -> str:
    """Return what to know before picking a GPU type, a sentence; empty where there is nothing."""
    if not gpu.spot:
        return ""
    return gettext(
        "Spot: a cheaper node that the cloud can take back at any time; your server then stops, and what is not saved "
        "on its volume is lost."
    )


def format_data_age(age_s: float | None) -> str:
    """Return how old counts are in words (``"as of 2 min ago"``); empty while they are fresh and when nobody knows."""
    return "" if age_s is None or age_s <= MAX_DATA_AGE_S else format_age(age_s)


def describe_difference(other: Selection, selection: Selection | None, *, catalog: Catalog) -> str:
    """Return what another choice has that this one has not: "2 × A100 80 GB and 16 GiB"; all of it without this one."""
    if selection is None or other == selection:
        return describe_selection(other, catalog)
    parts = []
    if find_image(other, catalog) != find_image(selection, catalog):
        parts.append(find_image(other, catalog).display_name)
    if (other.gpu, other.gpu_count) != (selection.gpu, selection.gpu_count):
        parts.append(_format_gpus(other, catalog))
    for amount_field in (CPU, MEMORY, SHARED_MEMORY, RUN_TIME):
        if find_amount(other, amount_field) != find_amount(selection, amount_field):
            parts += describe_amounts(other, amount_field) or filter(None, [translate_now(amount_field.unset)])
    for each in CLOSED_CHOICES:
        if each.name in other.choices and other.choices[each.name] != selection.choices.get(each.name):
            parts.append(describe_choice(other, each, catalog=catalog))
    return join_with_and(parts)


def describe_selection(selection: Selection, catalog: Catalog) -> str:
    """Return a selection as one sentence part: "PyTorch with 4 CPUs, 16 GiB and 1 × A100 for at most 8 hours"."""
    parts = [*describe_amounts(selection, CPU, MEMORY, SHARED_MEMORY), _format_gpus(selection, catalog)]
    image = find_image(selection, catalog).display_name
    if selection.run_time_s is None:
        text = gettext("{image} with {amounts}", image=image, amounts=join_with_and(parts))
    else:
        length = format_duration(selection.run_time_s)
        text = gettext(
            "{image} with {amounts} for at most {length}", image=image, amounts=join_with_and(parts), length=length
        )
    for choice in describe_unusual_choices(selection, catalog):
        text = gettext("{choice}, {priority}", choice=text, priority=choice)
    return text


def _format_gpus(selection: Selection, catalog: Catalog) -> str:
    if selection.gpu is None:
        return gettext("no GPU")
    return gettext("{number} × {gpu}", number=selection.gpu_count, gpu=catalog.gpus[selection.gpu].display_name)


def format_details(gpu: GPUType, available: Availability) -> str:
    """Return what there is to say about the counts besides total and free, one thing a line."""
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
