"""What becomes of a choice if it is started now: the verdict for the pod that would be made, and what fits instead."""

from __future__ import annotations

from typing import Any

from gpuspawner.core.availability import Availability, availability
from gpuspawner.core.catalogue import Catalogue
from gpuspawner.core.formview import Live
from gpuspawner.core.nearest import nearest
from gpuspawner.core.selection import Selection
from gpuspawner.core.shapes import Shape
from gpuspawner.core.verdict import Outcome, Verdict, starts_now, verdict
from gpuspawner.hub.offers import Offer
from gpuspawner.hub.preview import Previews
from gpuspawner.hub.room import tolerations

_MOST_TYPES = 3
"""Other GPU types that are tried as alternatives, as many as are shown: each needs a manifest and surveys."""

_SETTLED = frozenset({Outcome.NOW, Outcome.UNKNOWN})
"""Outcomes that no other choice would improve, as far as is known."""


async def look(spawner: Any, offer: Offer, *, selection: Selection | None) -> Live:
    """Return what there is of each GPU type, and what becomes of a selection.

    :param spawner: the person's; not changed.
    :param selection: a valid one of the offer's catalogue; None where what stands in the form is none.
    """
    catalogue = offer.catalogue
    counts = availability(
        catalogue.gpus.values(), offer.inventory, tolerations=tolerations(spawner._base["tolerations"])
    )
    if selection is None:
        return Live(availabilities=counts)
    previews = Previews(spawner, offer)
    await previews.prepare(selection)
    found = _verdict(selection, previews)
    if found.outcome in _SETTLED:
        return Live(availabilities=counts, verdict=found)
    await previews.prepare(selection, more_types=_free_types(selection, catalogue, counts=counts))

    def fits(other: Selection) -> bool:
        pod = previews.pod(other)
        return pod is not None and starts_now(pod, offer.inventory)

    return Live(availabilities=counts, verdict=found, alternatives=nearest(selection, catalogue, fits=fits))


def _verdict(selection: Selection, previews: Previews) -> Verdict:
    offer = previews.offer
    pod = previews.pod(selection)
    if pod is None:
        return Verdict(outcome=Outcome.UNKNOWN)
    gpu = None if selection.gpu is None else offer.catalogue.gpus[selection.gpu]
    return verdict(pod, offer.inventory, gpu=gpu)


def _free_types(selection: Selection, catalogue: Catalogue, *, counts: tuple[Availability, ...]) -> list[str]:
    """Return other GPU types of which something is free, a few: first those with a node that has all that is wanted."""
    if selection.gpu is None:
        return []
    wanted = Shape(selection.gpu_count, selection.cpu_millis or 0, selection.memory_bytes or 0)
    free = [
        (slug, count)
        for slug, count in zip(catalogue.gpus, counts, strict=True)
        if count.largest and slug != selection.gpu
    ]
    free.sort(key=lambda each: not any(shape.holds(wanted) for shape in each[1].shapes or ()))
    return [slug for slug, _ in free[:_MOST_TYPES]]
