"""Builds the view of the form for one user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from gpuspawner.core.autoscaling.node_pools import may_add_gpu_type
from gpuspawner.core.catalog.model import Catalog, GPUType, ScaleUp, UnitKind
from gpuspawner.core.catalog.node_labels import format_vendor
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.cluster.model import ScalableNodePool
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.cache import FormCache
from gpuspawner.core.form.fields import (
    FilledFields,
    fill_fields,
    format_field_values,
    restore_fields,
)
from gpuspawner.core.form.grouping import order_by_card
from gpuspawner.core.form.policy import (
    apply_allowance_to_gpu,
    apply_allowance_to_images,
    build_custom_image_view,
    build_image_views,
    build_policy_view,
    build_preset_views,
    list_shown_types,
)
from gpuspawner.core.form.views import (
    AlternativeView,
    ChoiceFieldView,
    ChoiceView,
    FormView,
    GPUTypeState,
    GPUTypeView,
    PolicyView,
    ProfileView,
    VendorView,
    VerdictView,
    build_number_view,
)
from gpuspawner.core.form.wording import (
    BYTES_PER_GIB,
    describe_difference,
    describe_selection,
    describe_suggestion,
    format_capacity,
    format_caution,
    format_data_age,
    format_details,
    format_gpu_memory,
    list_badges,
)
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.field_definitions import (
    CLOSED_CHOICES,
    CPU,
    CUSTOM_IMAGE,
    FORM_FIELDS,
    GPU,
    GPU_COUNT,
    IMAGE,
    MEMORY,
    RUN_TIME,
    SHARED_MEMORY,
)
from gpuspawner.core.request.options import PROFILE, START_PRESET
from gpuspawner.core.request.selection import Selection
from gpuspawner.core.text.i18n import gettext, gettext_lazy, translate_now
from gpuspawner.core.text.wording import join_sentences, sanitize_name
from gpuspawner.core.units.duration import format_rough_duration
from gpuspawner.core.verdict.availability import Availability, count_availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """The cluster's current state for one form: counts of GPUs, and whether selections can start (verdicts).

    :param availabilities: for each GPU type, in the catalog's order, how many GPUs (or GPU slices) exist and are free;
        None = :func:`build_view` counts the inventory's GPUs.
    :param verdict: whether the selection in the fields can start; None if the fields hold no valid selection.
    :param alternatives: similar selections that can start now, the most similar first. Empty if the selection in the
        fields can start now.
    :param presets: slug of a preset → whether the preset can start; presets without a verdict are missing.
    :param cache: keeps parts of the view for later forms.
    """

    availabilities: tuple[Availability, ...] | None = None
    verdict: Verdict | None = None
    alternatives: tuple[Selection, ...] = ()
    presets: Mapping[str, Verdict] = field(default_factory=dict)
    cache: FormCache = field(default_factory=FormCache)


def find_type_state(
    gpu: GPUType, available: Availability, *, scalable_pools: Iterable[ScalableNodePool] | None = ()
) -> tuple[GPUTypeState, str]:
    """Return the state of a GPU type, and a sentence that says why no GPU of the type is free.

    The sentence is "" if a GPU is free, or if the hub does not know whether a GPU is free.

    :param scalable_pools: node pools that autoscalers may enlarge; None if unknown.
    """
    if available.total is None:
        return GPUTypeState.UNKNOWN, ""
    if available.total == 0:
        none_running = gettext("No node with this GPU is running.")
        if can_add_nodes(gpu, scalable_pools):
            return GPUTypeState.NONE, _append_new_node_time(none_running, gpu)
        if gpu.new_nodes:
            return GPUTypeState.NONE, join_sentences(none_running, gettext("One may be added."))
        return GPUTypeState.NEVER, gettext("The cluster has no node with this GPU.")
    if available.healthy == 0:
        is_one = available.total == 1
        return GPUTypeState.NONE, gettext("Out of order right now.") if is_one else gettext(
            "All are out of order right now."
        )
    if available.free is None:
        return GPUTypeState.UNKNOWN, ""
    if available.free:
        return GPUTypeState.FREE, ""
    # Say "not free" instead of "in use": a GPU on a cordoned node may be unused, but no new server can get it.
    reason = gettext("Not free right now.") if available.total == 1 else gettext("None is free right now.")
    return GPUTypeState.BUSY, _append_new_node_time(reason, gpu)


def build_verdict_view(live: LiveState, selection: Selection | None, *, catalog: Catalog) -> VerdictView | None:
    """Return the view of the verdict (whether the selection in the form can start); None without a verdict.

    :param live: contains the verdict, and the alternatives (similar selections that can start now).
    :param selection: the selection in the form. The text of an alternative says what differs from it. None = the fields
        are invalid, and the text describes the whole alternative.
    :param catalog: what the hub offers, without any user's limits.
    """
    if live.verdict is None:
        return None
    return VerdictView(
        outcome=live.verdict.outcome.value,
        sentence=format_verdict(live.verdict),
        alternatives=tuple(
            AlternativeView(
                sentence=describe_difference(other, selection, catalog=catalog), values=format_field_values(other)
            )
            for other in live.alternatives
        ),
    )


def can_add_nodes(gpu: GPUType, scalable_pools: Iterable[ScalableNodePool] | None = ()) -> bool:
    """Return whether an autoscaler may add nodes with a GPU type, as far as ``scale_up`` and NodePools tell.

    :param gpu: the GPU type. If the type, or a member of a combined type ("any of these GPU types"), has a ``scale_up``
        setting, the result is True.
    :param scalable_pools: node pools that autoscalers may enlarge. If they are unknown (None), the result is True.
    """
    return (
        _find_fastest_scale_up(gpu) is not None
        or scalable_pools is None
        or any(may_add_gpu_type(pool, gpu) for pool in scalable_pools)
    )


def _find_fastest_scale_up(gpu: GPUType) -> ScaleUp | None:
    known = [member.scale_up for member in (gpu, *gpu.members) if member.scale_up is not None]
    return min(known, key=lambda scale_up: scale_up.minutes, default=None)


def _append_new_node_time(reason: str, gpu: GPUType) -> str:
    scale_up = _find_fastest_scale_up(gpu)
    if scale_up is None:
        return reason
    return join_sentences(
        reason, gettext("A new node takes {duration}.", duration=format_rough_duration(scale_up.minutes))
    )


UNIT_TEXTS = {
    UnitKind.CARD: gettext_lazy("full GPU"),
    UnitKind.MIG: gettext_lazy("MIG slice"),
    UnitKind.SHARED: gettext_lazy("shared"),
}
"""Kind of GPU unit (whole card, MIG slice, shared card) → its name in the form."""
_SLICE_TEXT = gettext_lazy("GPU slice")
"""Name of a slice in the form if it is not NVIDIA's, such as a partition of AMD's."""

_CARD_FIELDS = frozenset({START_PRESET, "preset", PROFILE})
"""Fields of cards. An error or notice about any other field opens the form's fields outside cards."""
_READING_ORDER = (START_PRESET, GPU.name, GPU_COUNT.name, CPU.name, MEMORY.name, IMAGE.name, CUSTOM_IMAGE.name)
"""The first fields, in the order in which the form shows them; all others follow."""


def build_view(
    catalog: Catalog,
    inventory: Inventory,
    *,
    filled: FilledFields | None = None,
    problems: tuple[Problem, ...] = (),
    live: LiveState | None = None,
    allowance: Allowance | None = None,
) -> FormView:
    """Return the view of the form for one user.

    :param catalog: what the hub offers, without any user's limits.
    :param inventory: the cluster's state. Its GPUs are counted only if ``live`` has no counts (``availabilities``).
    :param filled: contents of the fields, for the same catalog and allowance; None for the defaults.
    :param problems: problems of a submitted form, shown at their fields.
    :param live: counts of GPUs, and verdicts (whether selections can start). None = count the inventory's GPUs, and
        show no verdicts.
    :param allowance: what the user may have of the catalog; None for all of it.
    """
    live = live or LiveState()
    allowance = allowance or Allowance(full_catalog=catalog, person=Person(name=""))
    filled = filled or fill_fields(catalog, allowance=allowance)
    common = FormView(
        presets=build_preset_views(allowance, filled, verdicts=live.presets),
        values=filled.values,
        errors=_group_by_field(problems),
        notices=filled.notices,
        capacity_notice=_format_capacity_notice(inventory),
        age_s=inventory.age_s,
        age_text=format_data_age(inventory.age_s),
        policy=build_policy_view(allowance, filled.values),
        is_fresh=filled.is_fresh,
    )
    return _add_fields(common, allowance, inventory=inventory, filled=filled, live=live)


def build_view_without_fields(inventory: Inventory, *, allowance: Allowance) -> FormView:
    """Return the view of a form that has only profiles, without the profiles."""
    values, refusal = dict.fromkeys(FORM_FIELDS, ""), allowance.refusal
    policy = build_policy_view(allowance, values)
    return FormView(
        values=values,
        capacity_notice=_format_capacity_notice(inventory),
        age_s=inventory.age_s,
        age_text=format_data_age(inventory.age_s),
        policy=policy and PolicyView(in_use=policy.in_use, blocked=refusal.message if refusal else ""),
        has_fields=False,
    )


def add_profiles(view: FormView, profiles: tuple[ProfileView, ...], *, problem: str) -> FormView:
    """Return the view of a form with the cards of KubeSpawner's profiles.

    :param problem: why the user can start no profile; "" otherwise.
    """
    errors = [profile.error for profile in profiles if profile.error]
    is_gone = bool(view.asked) and all(profile.slug != view.asked for profile in profiles)
    gone = gettext(
        "This link asks for a profile that this hub doesn't have ({value}). Pick another.",
        value=sanitize_name(view.asked or ""),
    )
    return replace(
        view,
        profiles=profiles,
        profiles_problem=problem,
        asked=None if is_gone else view.asked,
        notes=(*view.notes, gone) if is_gone else view.notes,
        errors=dict(view.errors) | ({PROFILE: errors[0]} if errors else {}),
    )


def _add_fields(
    common: FormView, allowance: Allowance, *, inventory: Inventory, filled: FilledFields, live: LiveState
) -> FormView:
    """Return a copy of the view ``common`` with the fields outside presets, such as image, CPU and GPU type."""
    catalog, values = allowance.full_catalog, filled.values
    allowed = catalog if allowance.blocked else allowance.catalog
    selection = None if common.errors else filled.selection
    standard_values = (restore_fields(None, allowed)[0], *(preset.values for preset in common.presets))
    changed = (common.errors.keys() | common.notices.keys()) - _CARD_FIELDS
    vendors = _build_vendor_views(allowance, inventory, live=live)
    types: dict[str | None, GPUTypeView] = {gpu.slug: gpu for vendor in vendors for gpu in vendor.types}
    return replace(
        common,
        images=apply_allowance_to_images(
            live.cache.get_view(catalog, build=partial(build_image_views, catalog)), allowance
        ),
        custom_image=build_custom_image_view(
            allowed.custom_images,
            values["custom_image"],
            gpus=[catalog.gpus[slug] for slug in list_shown_types(allowance)],
        ),
        cpu=build_number_view(allowed.cpu, CPU.format_input, is_left_by_quota=allowance.is_narrowed_by_quota(CPU)),
        memory=build_number_view(
            allowed.memory, MEMORY.format_input, is_left_by_quota=allowance.is_narrowed_by_quota(MEMORY)
        ),
        run_time=build_number_view(allowed.run_time, RUN_TIME.format_input),
        shared_memory=build_number_view(catalog.shared_memory, SHARED_MEMORY.format_input),
        choices=tuple(_build_choice_field_views(allowed)),
        vendors=vendors,
        suggestion=(selection and describe_suggestion(selection, types.get(selection.gpu), catalog=allowed)) or "",
        summary="" if selection is None else describe_selection(selection, catalog),
        verdict=_build_blocked_verdict(allowance) or build_verdict_view(live, selection, catalog=catalog),
        is_open=bool(changed) or values not in standard_values,
    )


def _group_by_field(problems: Iterable[Problem]) -> dict[str, str]:
    """Return field name → error message, in the order in which the form shows the fields."""
    messages: dict[str, list[str]] = {}
    for problem in problems:
        messages.setdefault(problem.field, []).append(problem.message)
    places = {name: place for place, name in enumerate(_READING_ORDER)}
    ordered = sorted(messages, key=lambda name: places.get(name, len(places)))
    return {name: join_sentences(*messages[name]) for name in ordered}


def _build_choice_field_views(catalog: Catalog) -> Iterator[ChoiceFieldView]:
    for each in CLOSED_CHOICES:
        if offered := catalog.choices.get(each.name):
            yield ChoiceFieldView(
                name=each.name,
                section=each.section,
                label=translate_now(each.label),
                title=translate_now(each.title),
                entries=tuple(
                    ChoiceView(
                        slug=entry.slug,
                        display_name=entry.display_name,
                        description=entry.description,
                        phrase=each.describe(entry.display_name),
                    )
                    for entry in offered.values()
                ),
            )


def _build_vendor_views(allowance: Allowance, inventory: Inventory, *, live: LiveState) -> tuple[VendorView, ...]:
    groups: dict[str, list[GPUTypeView]] = {}
    gpus = tuple(allowance.full_catalog.gpus.values())
    shown = set(list_shown_types(allowance))
    counts = live.availabilities
    if counts is None:
        counts = count_availability(gpus, inventory, cache=live.cache.availability)
    availability = dict(zip(allowance.full_catalog.gpus, counts, strict=True))
    scalable_pools = inventory.scalable_pools
    ordered = order_by_card([gpu for gpu in gpus if gpu.slug in shown])
    for gpu, card in ordered:
        available = availability[gpu.slug]
        build = partial(_build_gpu_type_view, gpu, available, scalable_pools=scalable_pools)
        view = live.cache.get_view(gpu, available, scalable_pools, build=build)
        own = apply_allowance_to_gpu(view, gpu, available=available, allowance=allowance)
        groups.setdefault(gpu.vendor, []).append(replace(own, card=card) if card else own)
    return tuple(
        VendorView(slug=vendor, display_name=translate_now(format_vendor(vendor)), types=tuple(types))
        for vendor, types in groups.items()
    )


def _name_unit(gpu: GPUType) -> str:
    return _SLICE_TEXT if gpu.unit is UnitKind.MIG and gpu.vendor != "nvidia" else UNIT_TEXTS[gpu.unit]


def _build_gpu_type_view(
    gpu: GPUType, available: Availability, *, scalable_pools: tuple[ScalableNodePool, ...] | None
) -> GPUTypeView:
    state, reason = find_type_state(gpu, available, scalable_pools=scalable_pools)
    return GPUTypeView(
        slug=gpu.slug,
        display_name=translate_now(gpu.display_name),
        vendor=gpu.vendor,
        memory_text=format_gpu_memory(gpu.memory_bytes),
        memory_gib=_convert_to_gib(gpu.memory_bytes),
        unit=gpu.unit.value,
        unit_text=translate_now(_name_unit(gpu)),
        max_count=gpu.max_count,
        total=available.total,
        healthy=available.healthy,
        free=available.free,
        largest=available.largest,
        waiting=available.waiting,
        capacity_text=format_capacity(available.total, available.free),
        details_text=format_details(gpu, available),
        state=state,
        reason=reason,
        shapes=available.shapes or (),
        largest_shapes=available.largest_shapes or (),
        scales=can_add_nodes(gpu, scalable_pools),
        new_nodes=gpu.new_nodes,
        share=available.share,
        badges=list_badges(gpu),
        caution=format_caution(gpu),
        description=translate_now(gpu.description),
        note=translate_now(gpu.note),
    )


def _convert_to_gib(size_bytes: int | None) -> float | None:
    """Return a size in GiB, or None if the size is None.

    A whole number of GiB is returned as an int, because an int is shorter than a float in JSON.
    """
    if size_bytes is None:
        return None
    return size_bytes / BYTES_PER_GIB if size_bytes % BYTES_PER_GIB else size_bytes // BYTES_PER_GIB


def _build_blocked_verdict(allowance: Allowance) -> VerdictView | None:
    blocked = allowance.blocked
    return None if blocked is None else VerdictView(outcome=Outcome.NEVER.value, sentence=blocked.message)


def _format_capacity_notice(inventory: Inventory) -> str:
    if inventory.occupancy is not None:
        return ""
    if inventory.nodes is None:
        known = gettext("GPU capacity is unknown right now.")
    else:
        known = gettext("How many GPUs are free is unknown.")
    return join_sentences(known, translate_now(inventory.reason))
