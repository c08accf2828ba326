"""What the form shows of limits: who may not have what, what is in use already, how long servers run at most.

What this person may never have is left out where the admin says so (``policy.hide``); what they may have another time
never is: their GPUs are in use, and the form has to say so.

The images of the form, with the GPU types that each cannot use, and the one that a person may name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE
from gpuspawner.core.catalog.model import Catalog, CustomImages, GPUType, Image, find_lowest_limit, narrow_bounds
from gpuspawner.core.catalog.policy_model import UNLIMITED
from gpuspawner.core.catalog.software import describe_vendors, explain_misfit
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.views import (
    CustomImageView,
    FormCache,
    GPUTypeState,
    GPUTypeView,
    ImageView,
    MisfitView,
    PolicyView,
    TimeView,
    build_number_view,
)
from gpuspawner.core.form.wording import format_details
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.denials import Denial
from gpuspawner.core.policy.rules import find_gpu_pools
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.field_definitions import POLICY_CHOICES
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_with_or
from gpuspawner.core.units.duration import format_duration, format_duration_option
from gpuspawner.core.verdict.availability import Availability


def build_image_views(catalog: Catalog, *, cache: FormCache | None = None) -> tuple[ImageView, ...]:
    """Return the images as the form shows them, in the catalog's order.

    :param cache: keeps the views for the next call; None to keep nothing.
    """
    return _build_image_views(catalog) if cache is None else cache.get_image_views(catalog, build=_build_image_views)


def _build_image_views(catalog: Catalog) -> tuple[ImageView, ...]:
    return tuple(_build_image_view(image, catalog) for image in catalog.images.values())


def build_custom_image_view(custom: CustomImages | None, written: str) -> CustomImageView | None:
    """Return the image that a person names as the form shows it, None where that is not allowed.

    :param written: what stands in its field.
    """
    if custom is None:
        return None
    needed = custom.description or gettext("Any image with JupyterHub's single-user server in it.")
    if custom.registries:
        help_text = gettext("Written as registry/name:tag, from {origins}.", origins=join_with_or(custom.registries))
    else:
        help_text = gettext("Written as registry/name:tag, such as {example}.", example=EXAMPLE_REFERENCE)
    return CustomImageView(
        card=ImageView(slug="", display_name=gettext("Another image"), description=needed),
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
    found: dict[str, list[str]] = {}
    for slug, gpu in catalog.gpus.items():
        if text := explain_misfit(image, gpu):
            found.setdefault(text, []).append(slug)
    return ImageView(
        slug=image.slug,
        display_name=image.display_name,
        description=image.description,
        made_for=describe_vendors(image.vendors),
        misfits=tuple(MisfitView(text=text, gpus=tuple(slugs)) for text, slugs in found.items()),
    )


_PERMANENT_CODES = frozenset(
    {
        *(each.denial_code for each in POLICY_CHOICES),
        denials.CUSTOM_IMAGE_NOT_ALLOWED,
        denials.GPU_NOT_ALLOWED,
        denials.CPU_NOT_ALLOWED,
        denials.MEMORY_NOT_ALLOWED,
        denials.RUN_TIME_NOT_ALLOWED,
    }
)
"""Codes of what no other server of anybody has to stop for."""


def is_hidden_by_policy(found: Iterable[Denial | None], allowance: Allowance) -> bool:
    """Tell whether what is denied for these reasons is not shown at all."""
    return _hides_denied(allowance) and any(_is_permanent(each) for each in found)


def list_shown_types(allowance: Allowance) -> list[str]:
    """Return the slugs of the GPU types that are in the form."""
    slugs = list(allowance.full_catalog.gpus)
    return (
        [slug for slug in slugs if not _is_permanent(find_gpu_denial(slug, allowance))]
        if _hides_denied(allowance)
        else slugs
    )


def apply_allowance_to_images(views: Iterable[ImageView], allowance: Allowance) -> tuple[ImageView, ...]:
    """Return the images that are shown: first those that may be used, each group in the order given."""
    if _is_unrestricted(allowance):
        return tuple(views)
    gone = set(allowance.full_catalog.gpus).difference(list_shown_types(allowance))
    found = []
    for view in views:
        denial = None if allowance.blocked else allowance.check_image(view.slug)
        if not is_hidden_by_policy([denial], allowance):
            found.append(_drop_hidden_gpus(replace(view, denied=denial.message) if denial else view, gone))
    return tuple(sorted(found, key=lambda view: view.denied != ""))


def find_gpu_denial(slug: str, allowance: Allowance) -> Denial | None:
    """Return why a GPU type is out of reach; None where it is not, and where nothing is, which is said once."""
    return None if allowance.blocked else allowance.check_gpu(slug)


def apply_allowance_to_gpu(
    view: GPUTypeView, gpu: GPUType, *, available: Availability, allowance: Allowance
) -> GPUTypeView:
    """Return a GPU type as it is for one person.

    :param view: as it is for everybody.
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


def build_policy_view(allowance: Allowance, values: Mapping[str, str]) -> PolicyView | None:
    """Return what there is to say besides what stands at single choices; None where there are no limits.

    :param values: what stands in the fields.
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
    """Tell whether servers end of which nobody said so."""
    return catalog.max_runtime_s is not None or any(gpu.max_runtime_s is not None for gpu in catalog.gpus.values())


def _drop_hidden_gpus(view: ImageView, gone: set[str]) -> ImageView:
    """Return an image that says nothing of GPU types which are not shown."""
    if not gone:
        return view
    left = (replace(each, gpus=tuple(slug for slug in each.gpus if slug not in gone)) for each in view.misfits)
    return replace(view, misfits=tuple(each for each in left if each.gpus))


def _format_max_run_time(slug: str, allowance: Allowance) -> str:
    """Return how long a server with a type runs at most, where that is shorter than without; else it says nothing."""
    longest, bounds = allowance.find_max_run_time_s(slug), allowance.catalog.run_time
    otherwise = find_lowest_limit(allowance.find_max_run_time_s(None), None if bounds is None else bounds.max)
    if longest is None or (otherwise is not None and otherwise <= longest):
        return ""
    return gettext("at most {length}", length=format_duration(longest))


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
    """Yield what is counted and concerns what may be had at all."""
    if own := allowance.describe_usage():
        yield own
    full = allowance.full_catalog
    mine = [gpu for gpu in full.gpus.values() if not _is_permanent(find_gpu_denial(gpu.slug, allowance))]
    yield from _list_pool_texts(mine, full, allowance=allowance)
    quota = allowance.usage.quota
    lefts = [] if quota is None else [(quota.left.get(f"requests.{gpu.resource}"), gpu.max_count) for gpu in mine]
    tighter = {left for left, most in lefts if left is not None and left < most}
    # One number for GPUs of different resources would be wrong for some of them: each type gives its own reason.
    if tighter and len({gpu.resource for gpu in mine}) == 1:
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
