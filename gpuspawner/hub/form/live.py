"""Builds the view of a user's form: the cards of profiles, the fields, or both.

Whether a choice of fields would start now is read from the pod that KubeSpawner would create for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.form.build import LiveState, add_profiles, build_view, build_view_without_fields
from gpuspawner.core.form.fields import fill_fields, try_validate
from gpuspawner.core.form.views import FormView
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.options import split_options
from gpuspawner.core.request.pod_requirements import calculate_resources
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences, quote
from gpuspawner.core.verdict.alternatives import (
    choose_gpu_count,
    find_alternatives,
    has_little_memory,
    list_other_types,
)
from gpuspawner.core.verdict.availability import Availability, FreeShape, count_availability, count_held_units
from gpuspawner.core.verdict.verdict import Outcome, Verdict, starts_now
from gpuspawner.hub.admission.profiles import LoadedProfiles, ProfileSupport, names_profile
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.form.links import check_link, describe_links, list_fixable_problems
from gpuspawner.hub.form.profiles import CardRequest
from gpuspawner.hub.kubespawner.hub_pods import list_pods_with
from gpuspawner.hub.pod.admin_values import parse_admin_tolerations
from gpuspawner.hub.pod.preview import PodPreviews
from gpuspawner.hub.request.context import FormDraft, FormRequest
from gpuspawner.hub.spawner_protocol import HubSpawner

_MAX_TYPES = 2
"""Maximum number of other GPU types that the hub tries if the selection cannot start now.

The limit saves time, because the hub builds a pod for each type."""

_MAX_PRESETS = 8
"""Maximum number of presets with a prediction.

The limit saves time, because the hub compares the pod of each preset with all nodes."""


async def build_page(
    spawner: ProfileSupport, loaded: LoadedProfiles, *, offer: Offer, allowance: Allowance, request: FormRequest
) -> FormView:
    """Return the view of a user's form.

    :param spawner: the user's spawner, with the values of ``group_overrides``; it stays unchanged.
    """
    draft = request.draft
    options = split_options(spawner.user_options, spawner.extra_options).own
    is_profile = names_profile(options)
    await check_link(draft, spawner, offer=offer, allowance=allowance, admission=spawner.admission)
    picked = CardRequest(
        saved=as_dict(options) if is_profile else {},
        typed=request.typed,
        problems=draft.problems if draft is not None and (draft.profile or not spawner.has_fields) else (),
        picks_default=not spawner.has_fields,
    )
    cards = await spawner.cards.build(spawner, loaded, offer=offer, allowance=allowance, request=picked)
    if spawner.has_fields:
        saved = None if is_profile else options
        view = await build_form(spawner, offer, allowance=allowance, options=saved, draft=draft, header=request.header)
    else:
        view = build_view_without_fields(offer.inventory, allowance=allowance)
    unshown = () if any(card.error for card in cards) else (problem.message for problem in picked.problems)
    problem = join_sentences(loaded.problem, *unshown)
    if not problem and loaded.profiles and not cards and not spawner.has_fields and allowance.refusal is None:
        problem = gettext("There is no profile that you can start. Ask an admin.")
    return add_profiles(view, cards, problem=problem)


async def build_form(
    spawner: HubSpawner,
    offer: Offer,
    *,
    allowance: Allowance,
    options: object,
    draft: FormDraft | None = None,
    header: Mapping[str, str] | None = None,
) -> FormView:
    """Return the view of a form with fields, without profiles.

    :param spawner: the user's spawner with the setting ``links``; it stays unchanged.
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
        live=await build_live(spawner, offer, selection=filled.selection, reach=allowance.catalog),
        allowance=allowance,
    )
    return replace(view, **describe_links(spawner.links, draft, filled=filled, allowance=allowance))


async def build_live(
    spawner: HubSpawner,
    offer: Offer,
    *,
    selection: Selection | None,
    reach: Catalog | None = None,
) -> LiveState:
    """Return which GPU types are available, and whether presets and the selection can start now.

    If the selection cannot start now, the result also has similar selections that can.

    :param spawner: the user's spawner; it stays unchanged.
    :param selection: a valid selection in the offer's catalog, or None if the form's values are invalid.
    :param reach: the part of the catalog that policy allows the user, or None for the whole catalog. The result has no
        presets and no similar selections outside this part.
    """
    previews = PodPreviews(spawner, offer)
    counts = _count_available(previews, await previews.find_priority(selection))
    reach = reach or offer.catalog
    selections = ((slug, try_validate({"preset": slug}, reach)) for slug in reach.presets)
    presets = await _predict_presets(previews, ((slug, found) for slug, found in selections if found is not None))
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
    :param selection: a valid selection in the offer's catalog that cannot start now.
    :param reach: the part of the catalog that policy allows the user, or None for all of the catalog. If this part
        lacks the selection's GPU type, the result is empty.
    """
    reach = reach or offer.catalog
    if selection.gpu is not None and selection.gpu not in reach.gpus:
        return ()
    previews = PodPreviews(spawner, offer)
    counts = _count_available(previews, await previews.find_priority(selection))
    availability = dict(zip(offer.catalog.gpus, counts, strict=True))
    types = _list_free_types(selection, reach, availability=availability)
    return await _find_alternatives(selection, previews, reach=reach, types=types)


async def _predict_presets(previews: PodPreviews, selections: Iterable[tuple[str, Selection]]) -> dict[str, Verdict]:
    found = {}
    for slug, selection in islice(selections, _MAX_PRESETS):
        try:
            await previews.prepare(selection)
            found[slug] = await _predict_verdict(selection, previews)
        except Exception:  # log any exception: the form must also open if the pod of one preset cannot be built
            previews.spawner.log.exception("Cannot predict whether the preset %s starts", quote(slug))
    # Drop presets with an unknown outcome, so that the form does not repeat the reason for "unknown" at each preset.
    # That no node of a preset's kind is running concerns only this preset, so keep it.
    return {slug: each for slug, each in found.items() if each.outcome is not Outcome.UNKNOWN or each.may_add_node}


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
        cache=offer.cache.availability,
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
