"""What becomes of a choice if it is started now: the verdict for the pod that would be made, and what fits instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.form.build import LiveState
from gpuspawner.core.form.fields import try_validate
from gpuspawner.core.request.pod_requirements import calculate_resources
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.verdict.alternatives import find_alternatives, list_other_types
from gpuspawner.core.verdict.availability import Availability, FreeShape, count_availability, count_held_units
from gpuspawner.core.verdict.verdict import Outcome, Verdict, predict_verdict, starts_now
from gpuspawner.hub.admission.admin_traits import parse_admin_tolerations
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.kubespawner.hub_pods import list_pods_with
from gpuspawner.hub.pod.preview import PodPreviews

_MAX_TYPES = 2
"""Other GPU types that are tried as alternatives at most: each needs a manifest of its own."""

_MAX_PRESETS = 8
"""Presets that a verdict is given on at most: each takes a survey of the cluster whenever a form is shown."""

_SETTLED = frozenset({Outcome.NOW, Outcome.UNKNOWN})
"""Outcomes that no other choice would improve, as far as is known."""


async def build_live(
    spawner: Any, offer: Offer, *, selection: Selection | None, reach: Catalog | None = None
) -> LiveState:
    """Return what there is of each GPU type, and what becomes of a selection.

    :param spawner: the person's; not changed.
    :param selection: a valid one of the offer's catalogue; None where what stands in the form is none.
    :param reach: what of that catalogue the person may have, all if not given: nothing else is advised.
    """
    counts = _count_available(spawner, offer)
    previews = PodPreviews(spawner, offer)
    reach = reach or offer.catalogue
    live = LiveState(availabilities=counts, presets=await _predict_presets(previews, reach))
    if selection is None:
        return live
    await previews.prepare(selection)
    live = replace(live, verdict=(found := _predict_verdict(selection, previews)))
    if found.outcome in _SETTLED:
        return live
    left = dict(zip(offer.catalogue.gpus, counts, strict=True))
    free = _list_free_types(selection, reach, left=left)
    return replace(live, alternatives=await _find_alternatives(selection, previews, reach=reach, types=free))


async def find_startable_alternatives(
    spawner: Any, offer: Offer, *, selection: Selection, reach: Catalog | None = None
) -> tuple[Selection, ...]:
    """Return the choices nearest to one that does not start which start now.

    :param spawner: the person's; not changed.
    :param selection: a valid one of the offer's catalogue.
    :param reach: what of that catalogue the person may have, all if not given; none where the selection is not in it.
    """
    reach = reach or offer.catalogue
    if selection.gpu is not None and selection.gpu not in reach.gpus:
        return ()
    left = dict(zip(offer.catalogue.gpus, _count_available(spawner, offer), strict=True))
    types = _list_free_types(selection, reach, left=left)
    return await _find_alternatives(selection, PodPreviews(spawner, offer), reach=reach, types=types)


async def _predict_presets(previews: PodPreviews, reach: Catalog) -> dict[str, Verdict]:
    """Return what becomes of the first presets if they are started as they are, as far as known, by slug."""
    found = {}
    for slug in islice(reach.presets, _MAX_PRESETS):
        selection = try_validate({"preset": slug}, reach)
        if selection is not None:
            await previews.prepare(selection)
            found[slug] = _predict_verdict(selection, previews)
    # Why nothing is known stands in the form once.
    return {slug: each for slug, each in found.items() if each.outcome is not Outcome.UNKNOWN}


def _count_available(spawner: Any, offer: Offer) -> tuple[Availability, ...]:
    """Return what there is of each GPU type; where others' pods are not known, what the hub's own servers hold."""
    gpus = tuple(offer.catalogue.gpus.values())
    counts = count_availability(
        gpus, offer.inventory, tolerations=parse_admin_tolerations(spawner._trait_overrides["tolerations"])
    )
    if offer.inventory.occupancy is not None or offer.inventory.nodes is None:
        return counts
    own = list_pods_with({gpu.resource for gpu in gpus}, spawner)
    if own is None:
        return counts
    numbers = count_held_units(gpus, offer.inventory, pods=own)
    return tuple(replace(count, own=number) for count, number in zip(counts, numbers, strict=True))


async def _find_alternatives(
    selection: Selection, previews: PodPreviews, *, reach: Catalog, types: list[GPUType]
) -> tuple[Selection, ...]:
    """Return the nearest choices that start now."""
    await previews.prepare(selection, more_types=[gpu.slug for gpu in types])

    def fits(other: Selection) -> bool:
        pod = previews.find_pod(other)
        return pod is not None and starts_now(pod, previews.offer.inventory)

    return find_alternatives(selection, reach, fits=fits, types=types)


def _predict_verdict(selection: Selection, previews: PodPreviews) -> Verdict:
    offer = previews.offer
    pod = previews.find_pod(selection)
    if pod is None:
        return Verdict(outcome=Outcome.UNKNOWN)
    gpu = None if selection.gpu is None else offer.catalogue.gpus[selection.gpu]
    return predict_verdict(pod, offer.inventory, gpu=gpu)


def _list_free_types(selection: Selection, catalogue: Catalog, *, left: Mapping[str, Availability]) -> list[GPUType]:
    """Return a few other GPU types of which something is free: first those with a node that has all that is wanted."""
    asked = calculate_resources(selection, catalogue)
    wanted = FreeShape(asked.cpu_request_millis or 0, asked.memory_request_bytes or 0, selection.gpu_count)
    free = [gpu for gpu in list_other_types(selection, catalogue) if left[gpu.slug].largest]
    free.sort(key=lambda gpu: not any(shape.covers(wanted) for shape in left[gpu.slug].shapes or ()))
    return free[:_MAX_TYPES]
