"""Checks user options against the catalog, and converts them to a selection (a valid choice) and back to user options.

``user_options`` are untrusted: the hub saves them unchecked, its REST API accepts any JSON, and saved options may be
years old. For any input, :func:`validate` returns a :class:`Selection` or raises a
:class:`~gpuspawner.core.errors.SelectionError` with one problem for each wrong field. It never clamps a value.

Codes of the problems: ``unknown_field``, ``unknown_choice``, ``not_a_number``, ``not_a_reference``, ``out_of_range``,
``off_step``, ``wrong_type``, ``conflict``, ``unsupported_version``, ``too_long``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuspawner.core.catalog.model import (
    Catalog,
    CustomImages,
    GPUType,
    Image,
    Preset,
    find_lowest_limit,
    narrow_bounds,
)
from gpuspawner.core.catalog.software import explain_misfit, index_images
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.field_definitions import (
    CLOSED_CHOICES,
    CPU,
    FIELDS_BY_NAME,
    FORM_FIELDS,
    GPU,
    IMAGE,
    MEMORY,
    RUN_TIME,
    SHARED_MEMORY,
)
from gpuspawner.core.request.fields import AmountField, ClosedChoiceField
from gpuspawner.core.text.i18n import ENGLISH, gettext, gettext_lazy, use_language
from gpuspawner.core.text.wording import join_sentences

OPTIONS_VERSION = 1
"""Version of the user options written by :func:`build_options`."""

OPTION_FIELDS = ("v", "preset", *FORM_FIELDS, "profile")
"""Names of the user options. :func:`validate` ignores ``profile``, a summary for admins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a user chose for a server, validated: the catalog has every slug, and every number is within its bounds.

    :param image: slug of an image in the catalog, empty for a custom image; :func:`find_image` returns the image.
    :param custom_image: full reference of a custom image, None for an image in the catalog.
    :param cpu_millis: CPU limit in millicores, None = as KubeSpawner is configured.
    :param memory_bytes: memory limit in bytes, None = as KubeSpawner is configured.
    :param gpu: slug of the GPU type, None = no GPU.
    :param gpu_count: number of GPUs; 0 if ``gpu`` is None, else at least 1.
    :param run_time_s: the run time in seconds, None = only the limit of :func:`find_max_run_time_s` applies, if any.
    :param shared_memory_bytes: size of /dev/shm, no more than the memory; None = as the GPU type sets it.
    :param choices: field name → slug of the chosen entry, for fields such as the priority.
    """

    image: str
    cpu_millis: int | None
    memory_bytes: int | None
    gpu: str | None = None
    gpu_count: int = 0
    custom_image: str | None = None
    run_time_s: int | None = None
    shared_memory_bytes: int | None = None
    choices: Mapping[str, str] = field(default_factory=dict, hash=False)


def validate(options: object, catalog: Catalog) -> Selection:
    """Return the selection that user options describe.

    A missing field gets the value of the preset or, without a preset, the field's default.

    :param options: any JSON value; None = no options.
    :param catalog: what the user may choose from.
    :raises SelectionError: with one problem for each wrong field.
    """
    problems = Problems()
    given = _select_known_fields(options, problems)
    _check_version(given, problems)
    preset = problems.check_choice("preset", given.get("preset"), title=_PRESET, offered=catalog.presets)
    own = catalog.presets[preset].options if preset is not None else {}
    selection = _validate_fields(given, own, catalog=catalog, problems=problems)
    problems.raise_any()
    return selection


def _validate_fields(
    given: Mapping[str, object], preset: Mapping[str, object], *, catalog: Catalog, problems: Problems
) -> Selection:
    """Return the selection that fields describe.

    If a field is wrong, add a problem to ``problems``; the selection's value for that field is then meaningless.

    :param given: name of a field → any JSON value.
    :param preset: the values of the user's preset, for fields that are not in ``given``; empty without a preset.
    """
    merged = _merge_with_preset(given, preset, catalog=catalog)
    image, custom_image = _check_image(given, merged, catalog=catalog, problems=problems)
    cpu = problems.check_amount(CPU, merged.get("cpu"), bounds=catalog.cpu)
    memory = problems.check_amount(MEMORY, merged.get("memory"), bounds=catalog.memory)
    chosen = _look_up_image(image, custom_image, catalog=catalog) if image or custom_image else None
    if "gpu" not in merged and merged.get("gpu_count") != 0:
        merged = {**_find_default_gpu(catalog, image=chosen), **merged}
    gpu = problems.check_choice("gpu", merged.get("gpu"), title=GPU.title, offered=catalog.gpus)
    count = problems.check_gpu_count(merged.get("gpu_count"), catalog.gpus[gpu] if gpu else None)
    if gpu and chosen is not None:
        _check_image_fits_gpu(chosen, catalog.gpus[gpu], problems=problems)
    longest = find_max_run_time_s(gpu, catalog)
    run_time_bounds = narrow_bounds(catalog.run_time, most=longest)
    run_time = problems.check_amount(RUN_TIME, merged.get("run_time"), bounds=run_time_bounds)
    shared = problems.check_shared_memory(merged.get("shared_memory"), memory, bounds=catalog.shared_memory)
    return Selection(
        image=image,
        custom_image=custom_image,
        cpu_millis=cpu,
        memory_bytes=memory,
        gpu=gpu,
        gpu_count=count,
        run_time_s=run_time,
        shared_memory_bytes=shared,
        choices=_check_closed_choices(merged, catalog=catalog, problems=problems),
    )


def _find_default_gpu(catalog: Catalog, *, image: Image | None) -> dict[str, object]:
    for slug, number in catalog.default_gpus:
        gpu = catalog.gpus.get(slug)
        if gpu is not None and number <= gpu.max_count and (image is None or not explain_misfit(image, gpu)):
            return {"gpu": slug, "gpu_count": number}
    return {}


def find_max_run_time_s(gpu: str | None, catalog: Catalog) -> int | None:
    """Return the longest run time that a server may have, in seconds, or None if there is no limit.

    The limit also applies if the user chooses no run time.

    :param gpu: slug of the server's GPU type, None without a GPU.
    """
    return find_lowest_limit(catalog.max_runtime_s, catalog.gpus[gpu].max_runtime_s if gpu else None)


def find_image(selection: Selection, catalog: Catalog) -> Image:
    """Return the image of a selection; a custom image has its reference as display name and no slug."""
    return _look_up_image(selection.image, selection.custom_image, catalog=catalog)


def _look_up_image(slug: str, custom_image: str | None, *, catalog: Catalog) -> Image:
    if custom_image is None:
        return catalog.images[slug]
    return (catalog.custom_images or CustomImages(listed=index_images(catalog.images.values()))).describe(custom_image)


def build_options(selection: Selection, catalog: Catalog) -> dict[str, object]:
    """Return the user options that describe a selection; :func:`validate` converts them to the same selection.

    The options contain a preset's values instead of its name, so that they stay valid when the admin removes it.

    :param selection: a selection that is valid in this catalog.
    :param catalog: the catalog; it has the display names for the option ``profile``.
    """
    with use_language(ENGLISH):  # The summary is English, because admins and programs read it.
        summary = summarize_selection(selection, catalog)
    options: dict[str, object] = {"v": OPTIONS_VERSION}
    if selection.custom_image is None:
        options["image"] = selection.image
    else:
        options["custom_image"] = selection.custom_image
    options |= _format_amounts(selection, *_list_chosen_amounts(selection, catalog))
    options["gpu"] = selection.gpu
    options["gpu_count"] = selection.gpu_count
    options |= _format_amounts(selection, RUN_TIME, SHARED_MEMORY)
    options |= selection.choices
    options["profile"] = summary
    return options


def summarize_selection(selection: Selection, catalog: Catalog) -> str:
    """Return a selection as text in the current language: ``PyTorch · 4 CPUs · 16 GiB · 1 × A100 80 GB``.

    :param selection: a selection that is valid in this catalog.
    :param catalog: the catalog; it has the display names of images, GPU types and priorities.
    """
    parts = [find_image(selection, catalog).display_name]
    parts += describe_amounts(selection, CPU, MEMORY, SHARED_MEMORY)
    if selection.gpu is not None:
        name = catalog.gpus[selection.gpu].display_name
        parts.append(gettext("{number} × {gpu}", number=selection.gpu_count, gpu=name))
    parts += describe_amounts(selection, RUN_TIME)
    parts += describe_unusual_choices(selection, catalog)
    return " · ".join(parts)


def find_amount(selection: Selection, amount_field: AmountField) -> int | None:
    """Return the amount that a selection has for a field such as CPU, or None if it has no amount for this field.

    The value is in base units (millicores, bytes or seconds).
    """
    amount: int | None = getattr(selection, amount_field.attribute)
    return amount


def describe_amounts(selection: Selection, *fields: AmountField) -> list[str]:
    """Return the amounts of the given fields as phrases ("4 CPUs"); fields without an amount are left out."""
    amounts = ((each, find_amount(selection, each)) for each in fields)
    return [each.describe(amount) for each, amount in amounts if amount is not None]


def describe_choice(selection: Selection, choice_field: ClosedChoiceField, *, catalog: Catalog) -> str:
    """Return the entry that the user picked in a field such as the priority, as part of a sentence ("priority Low")."""
    slug = selection.choices[choice_field.name]
    return choice_field.describe(catalog.choices[choice_field.name][slug].display_name)


def describe_unusual_choices(selection: Selection, catalog: Catalog) -> list[str]:
    """Return phrases such as "priority Low" for the chosen entries, such as a priority, that are not the default."""
    return [
        describe_choice(selection, each, catalog=catalog)
        for each in CLOSED_CHOICES
        if selection.choices.get(each.name) not in (None, catalog.find_default_choice(each.name))
    ]


def is_given(name: str, value: object) -> bool:
    """Return whether the user chose a value for a user option.

    - For ``gpu``, the result is always True: null means no GPU and replaces the GPU of a preset.
    - For any other field, the result is False for null, and for an empty text if the field may be empty. The value of
      the preset or the default then applies.
    """
    declared = FIELDS_BY_NAME.get(name)
    is_empty = value is None or (declared is not None and declared.may_be_empty and value == "")
    return name == "gpu" or not is_empty


def _select_known_fields(options: object, problems: Problems) -> dict[str, object]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        message = gettext("The options must be a JSON object with fields such as image and gpu.")
        problems.add("", "wrong_type", message=message)
        return {}
    problems.refuse_unknown((name for name in options if name not in OPTION_FIELDS), OPTION_FIELDS[:-1])
    return {name: value for name, value in options.items() if name in OPTION_FIELDS}


def _check_version(given: Mapping[str, object], problems: Problems) -> None:
    version = given.get("v", OPTIONS_VERSION)
    if isinstance(version, bool) or version != OPTIONS_VERSION:
        problems.refuse(
            "v", "unsupported_version", value=version, message=_UNSUPPORTED_VERSION, version=str(OPTIONS_VERSION)
        )


def _merge_with_preset(
    given: Mapping[str, object], preset: Mapping[str, object], *, catalog: Catalog
) -> dict[str, object]:
    merged = dict(preset)
    if catalog.cpu is None:
        merged.pop("cpu", None)
    if catalog.memory is None:
        merged.pop("memory", None)
    # If the user replaces the preset's GPU type, drop the preset's GPU count, which was chosen for that type.
    if "gpu" in given and given["gpu"] != preset.get("gpu"):
        merged.pop("gpu_count", None)
    return merged | {name: value for name, value in given.items() if is_given(name, value)}


def _check_image(
    given: Mapping[str, object], merged: Mapping[str, object], *, catalog: Catalog, problems: Problems
) -> tuple[str, str | None]:
    """Return the image as a pair: ``(slug, None)`` for a listed image, ``("", reference)`` for a custom image."""
    slug = problems.check_choice("image", merged.get("image"), title=IMAGE.title, offered=catalog.images)
    named = given.get("custom_image")
    custom = problems.check_reference("custom_image", named, custom_images=catalog.custom_images)
    if not is_given("custom_image", named):
        return slug or catalog.default_image, None
    if is_given("image", given.get("image")):
        message = gettext("Only one of image and custom_image can be given.")
        problems.add("custom_image", "conflict", message=message)
    return "", custom


def _check_closed_choices(merged: Mapping[str, object], *, catalog: Catalog, problems: Problems) -> dict[str, str]:
    choices = {}
    for each in CLOSED_CHOICES:
        offered = catalog.choices.get(each.name, {})
        slug = problems.check_choice(each.name, merged.get(each.name), title=each.title, offered=offered)
        if chosen := slug or catalog.find_default_choice(each.name):
            choices[each.name] = chosen
    return choices


def _list_chosen_amounts(selection: Selection, catalog: Catalog) -> Iterator[AmountField]:
    """Yield CPU and memory, but only those whose amounts :func:`build_options` must write into the user options.

    The options omit an amount that is KubeSpawner's own limit, because a hook may change this limit for one start.
    """
    for each, bounds in ((CPU, catalog.cpu), (MEMORY, catalog.memory)):
        if bounds is None or bounds.own is None or find_amount(selection, each) != bounds.own.limit:
            yield each


def _format_amounts(selection: Selection, *fields: AmountField) -> dict[str, object]:
    amounts = ((each, find_amount(selection, each)) for each in fields)
    return {each.name: each.format_option(amount) for each, amount in amounts if amount is not None}


def _check_image_fits_gpu(image: Image, gpu: GPUType, *, problems: Problems) -> None:
    why = "" if "image" in problems or "custom_image" in problems else explain_misfit(image, gpu)
    if why:
        other = gettext("Choose another image, or a GPU other than {gpu}.", gpu=gpu.display_name)
        problems.add("gpu", "conflict", message=join_sentences(why, other))


_UNSUPPORTED_VERSION = gettext_lazy("The version of the options must be {version}, not {value}.")
_PRESET = gettext_lazy("preset")


def find_preset_errors(presets: Mapping[str, Preset], catalog: Catalog) -> dict[str, SelectionError]:
    """Return slug → error for each preset that is invalid.

    :param catalog: what the presets may contain; its own presets do not matter.
    """
    offered, errors = replace(catalog, presets=presets), {}
    for slug in presets:
        try:
            validate({"preset": slug}, offered)
        except SelectionError as error:
            errors[slug] = error
    return errors
