"""Builds the views of images, GPU types, presets and limits for one user's form.

With the setting ``policy.hide``, the form leaves out choices that the user is never allowed to have. The form still
shows choices that are denied only for now (for example, because the user's other servers use GPUs), with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE
from gpuspawner.core.catalog.model import (
    Catalog,
    CustomImages,
    GPUType,
    Image,
    Preset,
    find_lowest_limit,
    narrow_bounds,
)
from gpuspawner.core.catalog.policy_model import UNLIMITED
from gpuspawner.core.catalog.software import describe_vendors, explain_misfit
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.fields import (
    FilledFields,
    format_field_values,
    try_validate,
)
from gpuspawner.core.form.views import (
    CustomImageView,
    GPUTypeState,
    GPUTypeView,
    ImageView,
    MisfitView,
    PolicyView,
    PresetView,
    TimeView,
    VerdictView,
    build_number_view,
)
from gpuspawner.core.form.wording import describe_selection, format_details
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.denials import Denial
from gpuspawner.core.policy.rules import find_gpu_pools
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences, join_with_or
from gpuspawner.core.units.duration import format_duration, format_duration_option
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict_label


def build_image_views(catalog: Catalog) -> tuple[ImageView, ...]:
    """Return the views of all images, in the catalog's order.

    :param catalog: what the hub offers, without any user's limits.
    """
    return tuple(_build_image_view(image, catalog) for image in catalog.images.values())


def build_custom_image_view(
    custom: CustomImages | None, written: str, *, gpus: Iterable[GPUType] = ()
) -> CustomImageView | None:
    """Return the view of the field in which the user can name an image by reference (a custom image).

    :param custom: which custom images the admin allows. If None, the admin allows none, and the result is None.
    :param written: the image reference in the field, may be empty.
    :param gpus: the GPU types that the form shows.
    """
    if custom is None:
        return None
    needed = custom.description or gettext("Any image that includes JupyterHub's single-user server.")
    if custom.registries:
        help_text = gettext("Format: registry/name:tag, from {origins}.", origins=join_with_or(custom.registries))
    else:
        help_text = gettext("Format: registry/name:tag, such as {example}.", example=EXAMPLE_REFERENCE)
    return CustomImageView(
        card=ImageView(
            slug="",
            display_name=gettext("Custom image"),
            description=needed,
            misfits=_list_misfits(custom.describe(written.strip()), gpus),
        ),
        help=help_text,
        complaint=_find_complaint(custom, written.strip()),
    )


def _find_complaint(custom: CustomImages, written: str) -> str:
    problems = Problems()
    problems.check_reference("custom_image", written, custom_images=custom)
    try:
        problems.raise_any()
    except SelectionError as error:
        return error.problems[0].message
    return ""


def _build_image_view(image: Image, catalog: Catalog) -> ImageView:
    return ImageView(
        slug=image.slug,
        display_name=image.display_name,
        description=image.description,
        made_for=describe_vendors(image.vendors),
        misfits=_list_misfits(image, catalog.gpus.values()),
    )


def _list_misfits(image: Image, gpus: Iterable[GPUType]) -> tuple[MisfitView, ...]:
    slugs: dict[str, list[str]] = {}
    for gpu in gpus:
        if text := explain_misfit(image, gpu):
            slugs.setdefault(text, []).append(gpu.slug)
    return tuple(MisfitView(text=text, gpus=tuple(unfit)) for text, unfit in slugs.items())


_PERMANENT_CODES = frozenset(
    {
        denials.IMAGE_NOT_ALLOWED,
        denials.CUSTOM_IMAGE_NOT_ALLOWED,
        denials.PRESET_NOT_ALLOWED,
        denials.GPU_NOT_ALLOWED,
        denials.CPU_NOT_ALLOWED,
        denials.MEMORY_NOT_ALLOWED,
        denials.RUN_TIME_NOT_ALLOWED,
    }
)
"""Codes of permanent denials, which depend neither on the GPUs in use nor on a ResourceQuota."""


def is_hidden_by_policy(found: Iterable[Denial | None], allowance: Allowance) -> bool:
    """Return whether the form leaves out an image, GPU type or preset: with ``policy.hide`` and a permanent denial.

    :param found: the reasons why the user may not have it; None stands for no reason.
    """
    return _hides_denied(allowance) and any(_is_permanent(each) for each in found)


def list_shown_types(allowance: Allowance) -> list[str]:
    """Return the slugs of the GPU types that the form shows, in the catalog's order."""
    slugs = list(allowance.full_catalog.gpus)
    return (
        [slug for slug in slugs if not _is_permanent(find_gpu_denial(slug, allowance))]
        if _hides_denied(allowance)
        else slugs
    )


def apply_allowance_to_images(views: Iterable[ImageView], allowance: Allowance) -> tuple[ImageView, ...]:
    """Return the images that the form shows: allowed images, then denied images, both in the order of ``views``.

    :param views: the images as they are before the limits of a user are applied.
    """
    if _is_unrestricted(allowance):
        return tuple(views)
    hidden = set(allowance.full_catalog.gpus).difference(list_shown_types(allowance))
    shown = []
    for view in views:
        denial = None if allowance.blocked else allowance.check_image(view.slug)
        if not is_hidden_by_policy([denial], allowance):
            shown.append(_drop_hidden_gpus(replace(view, denied=denial.message) if denial else view, hidden))
    return tuple(sorted(shown, key=lambda view: view.denied != ""))


def find_gpu_denial(slug: str, allowance: Allowance) -> Denial | None:
    """Return why the user may not have a GPU type, or None if the user may have the type.

    The result is also None for a user who may start no server at all: the form says this once, not at each GPU type.
    """
    return None if allowance.blocked else allowance.check_gpu(slug)


def apply_allowance_to_gpu(
    view: GPUTypeView, gpu: GPUType, *, available: Availability, allowance: Allowance
) -> GPUTypeView:
    """Return a GPU type's view with this user's limits: why it is denied, largest number of GPUs, longest run time.

    :param view: the type without any user's limits.
    """
    if _is_unrestricted(allowance) and gpu.max_runtime_s is None:
        return view
    view = replace(view, longest_text=_format_max_run_time(gpu.slug, allowance))
    if denial := find_gpu_denial(gpu.slug, allowance):
        return replace(view, state=GPUTypeState.DENIED, reason=denial.message)
    most = allowance.find_max_count(gpu.slug)
    if allowance.blocked or most == gpu.max_count:
        return view
    return replace(view, max_count=most, details_text=format_details(replace(gpu, max_count=most), available))


def build_preset_views(
    allowance: Allowance, filled: FilledFields, *, verdicts: Mapping[str, Verdict]
) -> tuple[PresetView, ...]:
    """Return the views of all presets except those that are invalid now or that the policy hides.

    A preset becomes invalid, for example, when the last node with its GPU type leaves the cluster.

    :param verdicts: slug of a preset → whether the preset can start; presets without a verdict are missing.
    """
    views = (
        _build_preset_view(preset, allowance, filled=filled, outlook=_build_outlook_view(verdicts.get(slug)))
        for slug, preset in allowance.complete_catalog.presets.items()
    )
    return tuple(view for view in views if view is not None)


def _build_outlook_view(verdict: Verdict | None) -> VerdictView | None:
    """Return what a preset's card says about whether a server can start; None without a verdict."""
    return (
        None if verdict is None else VerdictView(outcome=verdict.outcome.value, sentence=format_verdict_label(verdict))
    )


def _build_preset_view(
    preset: Preset, allowance: Allowance, *, filled: FilledFields, outlook: VerdictView | None
) -> PresetView | None:
    catalog, allowed = allowance.complete_catalog, allowance.catalog
    is_denied = preset.slug not in allowed.presets
    selection = try_validate({"preset": preset.slug}, catalog if is_denied else allowed)
    if selection is None:
        return None
    found = (
        *_list_preset_denials(preset.slug, allowance),
        *(allowance.check_selection(selection) if is_denied else ()),
    )
    if is_hidden_by_policy(found, allowance):
        return None
    values = format_field_values(selection)
    return PresetView(
        slug=preset.slug,
        display_name=preset.display_name,
        description=preset.description,
        summary=describe_selection(selection, catalog),
        values=values,
        outlook=_build_denied_outlook(join_sentences(*(denial.message for denial in found)), allowance)
        if is_denied
        else outlook,
        is_denied=is_denied,
        is_picked=not is_denied and values == filled.values,
    )


def _list_preset_denials(slug: str, allowance: Allowance) -> tuple[Denial, ...]:
    """Return the denial of a preset that only other users may choose; else empty.

    The result is also empty for a user who may start no server at all.
    """
    denied = None if slug in allowance.reachable_catalog.presets else allowance.check_preset(slug)
    return () if denied is None or allowance.blocked else (denied,)


def _build_denied_outlook(reason: str, allowance: Allowance) -> VerdictView | None:
    """Return the reason for a denied preset's card, or None without a reason.

    Also None for a user who may start no server: the form says this once, not at each preset.
    """
    return VerdictView(outcome=Outcome.NEVER.value, sentence=reason) if reason and not allowance.blocked else None


def build_policy_view(allowance: Allowance, values: Mapping[str, str]) -> PolicyView | None:
    """Return the user's limits for the whole form, such as run times and GPUs in use; None if the user has no limits.

    :param values: field name → text in the field.
    """
    if _is_unrestricted(allowance) and not _has_max_run_time(allowance.full_catalog):
        return None
    return PolicyView(
        in_use="\n".join(_list_usage_texts(allowance)),
        blocked=allowance.blocked.message if allowance.blocked else "",
        times=tuple(_build_time_views(allowance)),
        ending=_format_ending(values["gpu"], allowance),
        custom_image=_build_denied_custom_image(allowance),
    )


def _is_unrestricted(allowance: Allowance) -> bool:
    return allowance.catalog is allowance.full_catalog


def _hides_denied(allowance: Allowance) -> bool:
    policy = allowance.full_catalog.policy
    return policy is not None and policy.hide


def _has_max_run_time(catalog: Catalog) -> bool:
    return catalog.max_runtime_s is not None or any(gpu.max_runtime_s is not None for gpu in catalog.gpus.values())


def _drop_hidden_gpus(view: ImageView, hidden: set[str]) -> ImageView:
    if not hidden:
        return view
    left = (replace(misfit, gpus=tuple(gpu for gpu in misfit.gpus if gpu not in hidden)) for misfit in view.misfits)
    return replace(view, misfits=tuple(misfit for misfit in left if misfit.gpus))


def _format_max_run_time(slug: str, allowance: Allowance) -> str:
    longest, bounds = allowance.find_max_run_time_s(slug), allowance.catalog.run_time
    general_limit = find_lowest_limit(allowance.find_max_run_time_s(None), None if bounds is None else bounds.max)
    if longest is None or (general_limit is not None and general_limit <= longest):
        return ""
    return gettext("up to {length}", length=format_duration(longest))


def _build_time_views(allowance: Allowance) -> Iterator[TimeView]:
    bounds = allowance.catalog.run_time
    for slug in ("", *list_shown_types(allowance)):
        longest = allowance.find_max_run_time_s(slug or None)
        if longest is not None:
            narrower = narrow_bounds(bounds, most=longest)
            own = None if narrower == bounds else build_number_view(narrower, format_duration_option)
            yield TimeView(slug=slug, longest=format_duration_option(longest), run_time=own)


def _format_ending(slug: str, allowance: Allowance) -> str:
    longest = allowance.find_max_run_time_s(slug or None)
    if longest is None or allowance.catalog.run_time is not None:
        return ""
    return gettext("Your server is stopped after {length} at the latest.", length=format_duration(longest))


def _list_usage_texts(allowance: Allowance) -> Iterator[str]:
    if own := allowance.describe_usage():
        yield own
    full = allowance.full_catalog
    usable = [gpu for gpu in full.gpus.values() if not _is_permanent(find_gpu_denial(gpu.slug, allowance))]
    yield from _list_pool_texts(usable, full, allowance=allowance)
    quota = allowance.usage.quota
    remaining = [] if quota is None else [(quota.left.get(f"requests.{gpu.resource}"), gpu.max_count) for gpu in usable]
    tighter = {left for left, most in remaining if left is not None and left < most}
    # The text names no resource, so it is clear only if all GPUs have the same one, such as `nvidia.com/gpu`.
    if tighter and len({gpu.resource for gpu in usable}) == 1:
        yield denials.explain_namespace_quota(max(0, min(tighter)))


def _list_pool_texts(gpus: Iterable[GPUType], catalog: Catalog, *, allowance: Allowance) -> Iterator[str]:
    policy = catalog.policy
    if policy is None or not allowance.usage.known:
        return
    for slug in dict.fromkeys(slug for gpu in gpus for slug in find_gpu_pools(policy, allowance.person, gpu=gpu)):
        pool = policy.pools[slug]
        if pool.max_gpus >= UNLIMITED:
            continue
        yield denials.explain_pool_limit(pool.max_gpus, used=allowance.usage.pools.get(slug, 0), pool=pool.display_name)


def _is_permanent(denial: Denial | None) -> bool:
    return denial is not None and denial.code in _PERMANENT_CODES


def _build_denied_custom_image(allowance: Allowance) -> ImageView | None:
    denial = None if allowance.blocked else allowance.check_custom_image()
    offered = build_custom_image_view(allowance.full_catalog.custom_images, "")
    if denial is None or offered is None or is_hidden_by_policy([denial], allowance):
        return None
    return replace(offered.card, denied=denial.message)
