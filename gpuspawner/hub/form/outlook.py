"""What becomes of a choice if it is started now: the verdict for the pod that would be made, and what fits instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from gpuspawner.core.catalog.catalogue import Catalogue, GPUType
from gpuspawner.core.form.formview_live import Live
from gpuspawner.core.form.formview_restore import probe
from gpuspawner.core.request.placement import place
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.verdict.availability import Availability, availability
from gpuspawner.core.verdict.nearest import nearest, other_types
from gpuspawner.core.verdict.own_servers import held
from gpuspawner.core.verdict.shapes import Shape
from gpuspawner.core.verdict.verdict import Outcome, Verdict, starts_now, verdict
from gpuspawner.hub.admission.room import tolerations
from gpuspawner.hub.config.offers import Offer
from gpuspawner.hub.kubespawner.own_servers import pods_with
from gpuspawner.hub.pod.preview import Previews

_MOST_TYPES = 2
"""Other GPU types that are tried as alternatives at most: each needs a manifest of its own."""

_MOST_PRESETS = 8
"""Presets that a verdict is given on at most: each takes a survey of the cluster whenever a form is shown."""

_SETTLED = frozenset({Outcome.NOW, Outcome.UNKNOWN})
"""Outcomes that no other choice would improve, as far as is known."""


async def look(spawner: Any, offer: Offer, *, selection: Selection | None, reach: Catalogue | None = None) -> Live:
    """Return what there is of each GPU type, and what becomes of a selection.

    :param spawner: the person's; not changed.
    :param selection: a valid one of the offer's catalogue; None where what stands in the form is none.
    :param reach: what of that catalogue the person may have, all if not given: nothing else is advised.
    """
    counts = _counts(spawner, offer)
    previews = Previews(spawner, offer)
    reach = reach or offer.catalogue
    live = Live(availabilities=counts, presets=await _presets(previews, reach))
    if selection is None:
        return live
    await previews.prepare(selection)
    live = replace(live, verdict=(found := _verdict(selection, previews)))
    if found.outcome in _SETTLED:
        return live
    left = dict(zip(offer.catalogue.gpus, counts, strict=True))
    free = _free_types(selection, reach, left=left)
    return replace(live, alternatives=await _alternatives(selection, previews, reach=reach, types=free))


async def nearby(
    spawner: Any, offer: Offer, *, selection: Selection, reach: Catalogue | None = None
) -> tuple[Selection, ...]:
    """Return the choices nearest to one that does not start which start now.

    :param spawner: the person's; not changed.
    :param selection: a valid one of the offer's catalogue.
    :param reach: what of that catalogue the person may have, all if not given; none where the selection is not in it.
    """
    reach = reach or offer.catalogue
    if selection.gpu is not None and selection.gpu not in reach.gpus:
        return ()
    left = dict(zip(offer.catalogue.gpus, _counts(spawner, offer), strict=True))
    types = _free_types(selection, reach, left=left)
    return await _alternatives(selection, Previews(spawner, offer), reach=reach, types=types)


async def _presets(previews: Previews, reach: Catalogue) -> dict[str, Verdict]:
    """Return what becomes of the first presets if they are started as they are, as far as known, by slug."""
    found = {}
    for slug in islice(reach.presets, _MOST_PRESETS):
        selection = probe({"preset": slug}, reach)
        if selection is not None:
            await previews.prepare(selection)
            found[slug] = _verdict(selection, previews)
    # Why nothing is known stands in the form once.
    return {slug: each for slug, each in found.items() if each.outcome is not Outcome.UNKNOWN}


def _counts(spawner: Any, offer: Offer) -> tuple[Availability, ...]:
    """Return what there is of each GPU type; where others' pods are not known, what the hub's own servers hold."""
    gpus = tuple(offer.catalogue.gpus.values())
    counts = availability(gpus, offer.inventory, tolerations=tolerations(spawner._base["tolerations"]))
    if offer.inventory.occupancy is not None or offer.inventory.nodes is None:
        return counts
    own = pods_with({gpu.resource for gpu in gpus}, spawner)
    if own is None:
        return counts
    numbers = held(gpus, offer.inventory, pods=own)
    return tuple(replace(count, own=number) for count, number in zip(counts, numbers, strict=True))


async def _alternatives(
    selection: Selection, previews: Previews, *, reach: Catalogue, types: list[GPUType]
) -> tuple[Selection, ...]:
    """Return the nearest choices that start now."""
    await previews.prepare(selection, more_types=[gpu.slug for gpu in types])

    def fits(other: Selection) -> bool:
        pod = previews.pod(other)
        return pod is not None and starts_now(pod, previews.offer.inventory)

    return nearest(selection, reach, fits=fits, types=types)


def _verdict(selection: Selection, previews: Previews) -> Verdict:
    offer = previews.offer
    pod = previews.pod(selection)
    if pod is None:
        return Verdict(outcome=Outcome.UNKNOWN)
    gpu = None if selection.gpu is None else offer.catalogue.gpus[selection.gpu]
    return verdict(pod, offer.inventory, gpu=gpu)


def _free_types(selection: Selection, catalogue: Catalogue, *, left: Mapping[str, Availability]) -> list[GPUType]:
    """Return a few other GPU types of which something is free: first those with a node that has all that is wanted."""
    asked = place(selection, catalogue)
    wanted = Shape(selection.gpu_count, asked.cpu_request_millis or 0, asked.memory_request_bytes or 0)
    free = [gpu for gpu in other_types(selection, catalogue) if left[gpu.slug].largest]
    free.sort(key=lambda gpu: not any(shape.holds(wanted) for shape in left[gpu.slug].shapes or ()))
    return free[:_MOST_TYPES]
