"""Predicts whether a server would start now, from the pod that KubeSpawner would create for the user's selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import FilledFields, fill_fields, try_validate
from gpuspawner.core.form.views import FormView
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.pod_requirements import calculate_resources
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.text.wording import quote
from gpuspawner.core.verdict.alternatives import (
    MAX_ALTERNATIVES,
    choose_gpu_count,
    find_alternatives,
    has_little_memory,
    list_other_types,
    list_preset_variants,
)
from gpuspawner.core.verdict.availability import Availability, FreeShape, count_availability, count_held_units
from gpuspawner.core.verdict.verdict import Outcome, Verdict, starts_now
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.form.links import describe_links, list_fixable_problems
from gpuspawner.hub.kubespawner.hub_pods import list_pods_with
from gpuspawner.hub.pod.admin_values import parse_admin_tolerations
from gpuspawner.hub.pod.preview import PodPreviews
from gpuspawner.hub.request.context import FormDraft
from gpuspawner.hub.spawner_protocol import HubSpawner

_MAX_TYPES = 2
"""Maximum number of other GPU types that the hub tries if the selection cannot start now.

The limit saves time, because the hub builds a pod for each type."""

_MAX_PRESETS = 8
"""Maximum number of presets with a prediction.

The limit saves time, because the hub compares the pod of each preset with all nodes."""


async def build_form(
    spawner: HubSpawner,
    offer: Offer,
    *,
    allowance: Allowance,
    options: object,
    draft: FormDraft | None = None,
    header: Mapping[str, str] | None = None,
) -> FormView:
    """Return the view of a user's form.

    :param spawner: the user's spawner with the setting ``links``; it stays unchanged.
    :param offer: what the hub offers now.
    :param allowance: what the user may have of the offer's catalog.
    :param options: user options of an earlier start, untrusted; any JSON value.
    :param draft: the values that the request sent as a form or in a link, and the problems in these values.
    :param header: field name → text in an open form that refreshes itself; None for another request.
    """
    filled = fill_fields(
        offer.catalog,
        options=options if isinstance(options, Mapping) else None,
        typed=header if draft is None else draft.typed or None,
        is_link=draft is not None and draft.is_link,
        allowance=allowance,
    )
    view = build_view(
        offer.catalog,
        offer.inventory,
        filled=filled,
        problems=list_fixable_problems(draft, filled=filled, allowance=allowance),
        live=await build_live(spawner, offer, selection=filled.selection, reach=allowance.catalog, filled=filled),
        allowance=allowance,
    )
    return replace(view, **describe_links(spawner.links, draft, filled=filled, allowance=allowance))


async def build_live(
    spawner: HubSpawner,
    offer: Offer,
    *,
    selection: Selection | None,
    reach: Catalog | None = None,
    filled: FilledFields | None = None,
) -> LiveState:
    """Return which GPU types are available, and whether presets and the selection can start now.

    If the selection cannot start now, the result also has similar selections that can.

    :param spawner: the user's spawner; it stays unchanged.
    :param offer: what the hub offers now.
    :param selection: a valid selection in the offer's catalog, or None if the form's values are invalid.
    :param reach: the part of the catalog that policy allows the user, or None for the whole catalog. The result has no
        presets and no similar selections outside this part.
    :param filled: contents of the form's fields; None if there are no fixed presets. In a fixed preset, users can
        change nothing except ``choices``.
    """
    previews = PodPreviews(spawner, offer)
    counts = _count_available(previews, await previews.find_priority(selection))
    reach = reach or offer.catalog
    picked = "" if filled is None else filled.picked_preset
    presets = await _predict_presets(previews, _list_preset_selections(reach, filled), picked=picked)
    live = LiveState(availabilities=counts, presets=presets, cache=offer.cache)
    if selection is None:
        return live
    await previews.prepare(selection)
    live = replace(live, verdict=(found := await _predict_verdict(selection, previews)))
    if not found.needs_alternatives:
        return live
    availability = dict(zip(offer.catalog.gpus, counts, strict=True))
    free = _list_free_types(selection, reach, availability=availability)
    return replace(live, alternatives=await _find_alternatives(selection, previews, reach=reach, types=free))


async def find_startable_alternatives(
    spawner: HubSpawner, offer: Offer, *, selection: Selection, reach: Catalog | None = None
) -> tuple[Selection, ...]:
    """Return selections that can start now and are similar to a given selection, smallest change first.

    :param spawner: the user's spawner; it stays unchanged.
    :param offer: what the hub offers now.
    :param selection: a valid selection in the offer's catalog that cannot start now.
    :param reach: the part of the catalog that policy allows the user, or None for all of the catalog. If this part
        lacks the selection's GPU type, the result is empty.
    """
    reach = reach or offer.catalog
    if selection.gpu is not None and selection.gpu not in reach.gpus:
        return ()
    previews = PodPreviews(spawner, offer)
    if selection.preset is not None:
        return await _find_preset_variants(selection, previews, reach=reach)
    counts = _count_available(previews, await previews.find_priority(selection))
    availability = dict(zip(offer.catalog.gpus, counts, strict=True))
    types = _list_free_types(selection, reach, availability=availability)
    return await _find_alternatives(selection, previews, reach=reach, types=types)


def _list_preset_selections(reach: Catalog, filled: FilledFields | None) -> Iterator[tuple[str, Selection]]:
    """Yield slug and selection of each preset that the user may start.

    If the form shows a fixed preset as selected, this preset comes first, because the hub makes predictions only for
    the first :data:`_MAX_PRESETS` presets. In a fixed preset, users can change nothing except ``choices``.
    """
    fixed = {} if filled is None else filled.presets
    picked = "" if filled is None else filled.picked_preset
    slugs = dict.fromkeys((*([picked] if picked in fixed else ()), *reach.presets, *fixed))
    for slug in slugs:
        if slug in fixed:
            selection = None if fixed[slug].refusal else fixed[slug].selection
        else:
            selection = try_validate({"preset": slug}, reach)
        if selection is not None:
            yield slug, selection


async def _predict_presets(
    previews: PodPreviews, selections: Iterable[tuple[str, Selection]], *, picked: str
) -> dict[str, Verdict]:
    found = {}
    for slug, selection in islice(selections, _MAX_PRESETS):
        try:
            await previews.prepare(selection)
            found[slug] = await _predict_verdict(selection, previews)
        except Exception:  # log any exception: the form must also open if the pod of one preset cannot be built
            previews.spawner.log.exception("Cannot predict whether the preset %s starts", quote(slug))
    # Drop presets with an unknown outcome, except the selected one, so that the form does not repeat the reason for
    # "unknown" at each preset. That no node of a preset's kind is running concerns only this preset, so keep it.
    return {
        slug: each
        for slug, each in found.items()
        if each.outcome is not Outcome.UNKNOWN or each.may_add_node or slug == picked
    }


def _count_available(previews: PodPreviews, priority: int | None) -> tuple[Availability, ...]:
    """Return the availability of each GPU type, such as the number of free GPUs.

    If the hub can read the cluster's nodes but not its pods, the number of free GPUs is unknown. The result then has
    the number of GPUs that this hub's servers use, if KubeSpawner's reflector has listed their pods.
    """
    spawner, offer = previews.spawner, previews.offer
    gpus = tuple(offer.catalog.gpus.values())
    counts = count_availability(
        gpus,
        offer.inventory,
        tolerations=parse_admin_tolerations(spawner.trait_overrides["tolerations"]),
        priority=priority,
        cache=offer.cache.availability if offer.cache else None,
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
    await previews.prepare(selection, more_types=[gpu.slug for gpu in types])

    def fits(other: Selection) -> bool:
        pod = previews.find_pod(other)
        return pod is not None and starts_now(pod, previews.offer.inventory, queue=previews.find_queue(other))

    return find_alternatives(selection, reach, fits=fits, types=types)


async def _find_preset_variants(
    selection: Selection, previews: PodPreviews, *, reach: Catalog
) -> tuple[Selection, ...]:
    found = []
    for other in islice(list_preset_variants(selection, reach), _MAX_PRESETS):
        await previews.prepare(other)
        if (await _predict_verdict(other, previews)).outcome is Outcome.NOW:
            found.append(other)
    return tuple(found[:MAX_ALTERNATIVES])


async def _predict_verdict(selection: Selection, previews: PodPreviews) -> Verdict:
    offer = previews.offer
    pod = previews.find_pod(selection)
    if pod is None:
        return Verdict(outcome=Outcome.UNKNOWN)
    gpu = None if selection.gpu is None else offer.catalog.gpus[selection.gpu]
    timeout_s = previews.find_start_timeout(selection)
    found = offer.predict_verdict(pod, gpu=gpu, queue=previews.find_queue(selection), start_timeout_s=timeout_s)
    return await offer.add_node_growth(found, gpu=gpu)


def _list_free_types(
    selection: Selection, catalog: Catalog, *, availability: Mapping[str, Availability]
) -> list[GPUType]:
    required = calculate_resources(selection, catalog)
    cpu_millis, memory_bytes = required.cpu_request_millis or 0, required.memory_request_bytes or 0

    def has_room(gpu: GPUType) -> bool:
        needed = FreeShape(cpu_millis, memory_bytes, choose_gpu_count(gpu, selection, catalog=catalog))
        return any(shape.covers(needed) for shape in availability[gpu.slug].shapes or ())

    free = [gpu for gpu in list_other_types(selection, catalog) if availability[gpu.slug].largest]
    free.sort(key=lambda gpu: (has_little_memory(gpu, selection, catalog=catalog), not has_room(gpu)))
    return free[:_MAX_TYPES]
