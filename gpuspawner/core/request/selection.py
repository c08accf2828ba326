"""Checks user options against the catalog, and converts them to a selection (a valid choice) and back to user options.

``user_options`` are untrusted: the hub saves them unchecked, its REST API accepts any JSON, and saved options may be
years old. For any input, :func:`validate` returns a :class:`Selection` or raises a
:class:`~gpuspawner.core.errors.SelectionError` with one problem for each wrong field. It never clamps a value.

Codes of the problems: ``unknown_field``, ``unknown_choice``, ``not_a_number``, ``not_a_reference``, ``out_of_range``,
``off_step``, ``wrong_type``, ``conflict``, ``unsupported_version``, ``too_long``, ``missing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice, product
from typing import Generic, TypeVar

from gpuspawner.core.catalog.model import (
    NO_LIMIT,
    Catalog,
    CustomImages,
    GPUType,
    Image,
    OwnResources,
    Preset,
    PresetChoice,
    PresetOptions,
    find_lowest_limit,
    narrow_bounds,
)
from gpuspawner.core.catalog.software import explain_misfit
from gpuspawner.core.errors import Problem, SelectionError
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
from gpuspawner.core.request.presets import (
    PRESET_CHOICES,
    ChosenEntries,
    build_variant,
    index_images,
    open_bounds,
    pick_default_entries,
    resolve_preset,
    translate_profile,
)
from gpuspawner.core.text.i18n import ENGLISH, gettext, gettext_lazy, use_language
from gpuspawner.core.text.wording import join_sentences

OPTIONS_VERSION = 1
"""Version of the user options written by :func:`build_options`."""

OPTION_FIELDS = ("v", "preset", PRESET_CHOICES, *FORM_FIELDS, "profile")
"""Names of the user options. :func:`validate` ignores ``profile``, a summary for admins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a user chose for a server, validated: the catalog has every slug, and every number is within its bounds.

    :param image: slug of an image in the catalog, empty for a custom image; :func:`find_image` returns the image.
    :param custom_image: full reference of a custom image, None for an image in the catalog. With a fixed preset,
        the reference stays as the user wrote it: the preset's pattern must match it again later.
    :param cpu_millis: CPU limit in millicores, None = as KubeSpawner is configured.
    :param memory_bytes: memory limit in bytes, None = as KubeSpawner is configured.
    :param gpu: slug of the GPU type, None = no GPU.
    :param gpu_count: number of GPUs; 0 if ``gpu`` is None, else at least 1.
    :param run_time_s: the run time in seconds, None = only the limit of :func:`find_max_run_time_s` applies, if any.
    :param shared_memory_bytes: size of /dev/shm, no more than the memory; None = as the GPU type sets it.
    :param choices: field name → slug of the chosen entry, for fields such as the priority.
    :param preset: slug of a preset whose values users cannot change (a fixed preset), else None. With a fixed preset,
        ``cpu_millis`` and ``memory_bytes`` may be ``NO_LIMIT``.
    :param preset_choices: name of a choice of the preset → slug of the chosen entry. A choice with a custom image
        instead of an entry is missing.
    :param cpu_request_millis: CPU request in millicores, if the fixed preset sets a request. None = the hub computes
        the request from the limit, or the pod gets the guarantee that is set for KubeSpawner.
    :param memory_request_bytes: memory request in bytes; None means the same as for ``cpu_request_millis``.
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
    preset: str | None = None
    preset_choices: Mapping[str, str] = field(default_factory=dict, hash=False)
    cpu_request_millis: int | None = None
    memory_request_bytes: int | None = None


def validate(options: object, catalog: Catalog) -> Selection:
    """Return the selection that user options describe.

    A missing field gets the value of the preset or, without a preset, the field's default. If users cannot change the
    preset's values (a fixed preset), the options may set only these fields:

    - ``preset_choices``
    - ``custom_image``, if one of the preset's choices accepts an image

    :param options: any JSON value; None = no options.
    :param catalog: what the user may choose from.
    :raises SelectionError: with one problem for each wrong field.
    """
    problems = Problems()
    given = _select_known_fields(translate_profile(options, catalog), problems)
    _check_version(given, problems)
    preset = problems.check_choice("preset", given.get("preset"), title=_PRESET, offered=catalog.presets)
    if preset is None and "preset" not in problems:
        preset = catalog.default_preset
    if preset is not None and catalog.is_fixed(preset):
        selection = _validate_fixed(given, catalog.presets[preset], catalog=catalog, problems=problems)
    else:
        _refuse_missing_preset(given, catalog=catalog, problems=problems)
        own = catalog.presets[preset].options if preset is not None else {}
        selection = _validate_fields(given, own, catalog=catalog, problems=problems)
    problems.raise_any()
    return selection


def _validate_fixed(given: Mapping[str, object], preset: Preset, *, catalog: Catalog, problems: Problems) -> Selection:
    fixed = resolve_preset(given, preset, problems=problems)
    opened = open_bounds(catalog, fixed.options)
    if catalog.preset_images:
        opened = replace(opened, images={**catalog.images, **catalog.preset_images})
    selection = _validate_fields(fixed.options, {}, catalog=opened, problems=problems)
    own_image = None if selection.custom_image is None else str(fixed.options["custom_image"])
    selection = replace(
        selection,
        custom_image=own_image,
        preset=preset.slug,
        preset_choices=fixed.choices,
        cpu_request_millis=fixed.requests.get(CPU.name),
        memory_request_bytes=fixed.requests.get(MEMORY.name),
    )
    _check_requests(selection, catalog.own, problems=problems)
    return selection


def _validate_fields(
    given: Mapping[str, object], preset: PresetOptions, *, catalog: Catalog, problems: Problems
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
    most_shared = None if memory == NO_LIMIT else memory
    shared = problems.check_shared_memory(merged.get("shared_memory"), most_shared, bounds=catalog.shared_memory)
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


def _check_requests(selection: Selection, own: OwnResources, *, problems: Problems) -> None:
    """Add a problem if a fixed preset requests more CPU or memory than its limit: the API server would refuse the pod.

    :param selection: a selection with a fixed preset.
    :param own: KubeSpawner's configured limits, which apply if the selection has no limit.
    """
    for each, request, base in (
        (CPU, selection.cpu_request_millis or 0, own.cpu.limit),
        (MEMORY, selection.memory_request_bytes or 0, own.memory.limit),
    ):
        amount = find_amount(selection, each)
        limit = base if amount is None else amount
        if limit and request > limit and each.name not in problems:
            message = gettext(
                "{subject}: the preset reserves {request}, more than its limit of {limit}.",
                subject=each.notation.title,
                request=each.notation.show(request),
                limit=each.notation.show(limit),
            )
            problems.add(each.name, "out_of_range", message=message)


def _refuse_missing_preset(given: Mapping[str, object], *, catalog: Catalog, problems: Problems) -> None:
    if "preset" in problems:
        return
    if catalog.only_presets:
        problems.add("preset", "missing", message=gettext("Pick one of the presets."))
    elif given.get(PRESET_CHOICES):
        message = gettext("Only a preset with choices takes {field}.", field=PRESET_CHOICES)
        problems.add(PRESET_CHOICES, "conflict", message=message)


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
        return catalog.preset_images[slug] if slug in catalog.preset_images else catalog.images[slug]
    return (catalog.custom_images or CustomImages(listed=index_images(catalog.images.values()))).describe(custom_image)


def build_options(selection: Selection, catalog: Catalog) -> dict[str, object]:
    """Return the user options that describe a selection; :func:`validate` converts them to the same selection.

    The options name a preset only if it is fixed (users cannot change its values). For any other preset, the options
    contain the preset's values instead of its name, so that they stay valid when the admin removes the preset.

    :param selection: a selection that is valid in this catalog.
    :param catalog: the catalog; it has the display names for the option ``profile``.
    """
    with use_language(ENGLISH):  # The summary is English, because admins and programs read it.
        summary = summarize_selection(selection, catalog)
    options: dict[str, object] = {"v": OPTIONS_VERSION}
    if selection.preset is not None:
        options["preset"] = selection.preset
        if selection.preset_choices:
            options[PRESET_CHOICES] = dict(selection.preset_choices)
        if selection.custom_image is not None:
            options["custom_image"] = selection.custom_image
        return {**options, "profile": summary}
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
    preset = None if selection.preset is None else catalog.presets.get(selection.preset)
    parts = [] if preset is None else [preset.display_name]
    parts += [find_image(selection, catalog).display_name]
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
    return [each.describe(amount) for each, amount in amounts if amount is not None and amount != NO_LIMIT]


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


SlugT = TypeVar("SlugT", bound=str | None)


class CombinationSearch(Generic[SlugT]):
    """Lists combinations of one entry for each choice of a preset, until the caller finds a valid combination.

    The default entries come first, then all combinations with one other entry, then those with two, and so on.

    :param preset: the preset.
    :param entries: name of a choice → slugs of the entries to combine, the default first.
    :param limit: maximum number of combinations with two or more entries that are not defaults.
    """

    def __init__(self, preset: Preset, entries: Mapping[str, Sequence[SlugT]], *, limit: int) -> None:
        self._preset = preset
        self._entries = entries
        self._limit = limit
        self._invalid: set[frozenset[tuple[str, SlugT]]] = set()

    def __iter__(self) -> Iterator[dict[str, SlugT]]:
        if not all(self._entries.values()):
            return
        near, far = self._list_changed((0, 1)), self._list_changed(range(2, len(self._entries) + 1))
        for chosen in chain(near, islice(far, self._limit)):
            if frozenset() in self._invalid:
                return
            if not any(each <= chosen.items() for each in self._invalid):
                yield chosen

    def exclude(self, chosen: Mapping[str, SlugT], problems: Iterable[Problem]) -> None:
        """Make the search skip combinations that would be invalid for the same reason as the given one.

        :param chosen: the invalid combination: name of a choice → slug of the entry.
        :param problems: why the combination is invalid.
        """
        for problem in problems:
            # Exclude nothing for a conflict: two fields cause it, so a different entry in any list may resolve it.
            if problem.code != "conflict" and (options := _DECIDING_OPTIONS.get(problem.field)):
                choices = self._preset.choices.items()
                decisive = [name for name, choice in choices if _sets_any(choice, options)]
                self._invalid.add(frozenset((name, chosen[name]) for name in decisive))

    def _list_changed(self, numbers: Iterable[int]) -> Iterator[dict[str, SlugT]]:
        defaults = {name: slugs[0] for name, slugs in self._entries.items()}
        for number in numbers:
            for names in combinations(self._entries, number):
                for others in product(*(self._entries[name][1:] for name in names)):
                    yield {**defaults, **dict(zip(names, others, strict=True))}


_DECIDING_OPTIONS = {
    "image": frozenset({"image", "custom_image"}),
    "gpu": frozenset({"gpu"}),
    "gpu_count": frozenset({"gpu", "gpu_count"}),
    "cpu": frozenset({"cpu", "cpu_guarantee"}),
    "memory": frozenset({"memory", "memory_guarantee"}),
}
"""Field → the only options of a preset that can cause a problem in this field.

Fields that depend on most options, such as the run time, are missing."""


def _sets_any(choice: PresetChoice, options: Set[str]) -> bool:
    names_image = choice.custom_image is not None and "custom_image" in options
    return names_image or any(options & entry.options.keys() for entry in choice.entries.values())


def select_usable_presets(
    presets: Mapping[str, Preset],
    catalog: Catalog,
    *,
    find_denials: Callable[[Selection], Sequence[Problem]] = lambda selection: (),
) -> dict[str, Preset]:
    """Return the presets that are valid, each with the valid entries of its choices.

    An entry is valid if the combination of this entry and the default entries of the preset's other choices is valid.
    If the default entries are not valid together, the most similar valid combination replaces them. A preset without a
    valid combination is missing.

    :param presets: the presets to check, from the settings.
    :param catalog: what the presets may contain; its own presets do not matter.
    :param find_denials: function that takes a valid selection and returns further problems, such as denials by the
        policy. A selection with such a problem counts as invalid.
    """

    def find_problems(preset: Preset, chosen: ChosenEntries) -> Sequence[Problem]:
        variant, options = build_variant(preset, chosen)
        try:
            return find_denials(validate(options, replace(catalog, presets={preset.slug: variant})))
        except SelectionError as error:
            return error.problems

    found = {slug: _select_usable_entries(preset, find_problems) for slug, preset in presets.items()}
    return {slug: preset for slug, preset in found.items() if preset is not None}


_MAX_COMBINATIONS = 256
"""The search for valid entries of a preset tries at most this many combinations with several non-default entries."""


def _select_usable_entries(
    preset: Preset, find_problems: Callable[[Preset, ChosenEntries], Sequence[Problem]]
) -> Preset | None:
    slugs: dict[str, list[str | None]] = {
        name: [*choice.entries, *([] if choice.custom_image is None else [None])]
        for name, choice in preset.choices.items()
    }
    search = CombinationSearch(preset, slugs, limit=_MAX_COMBINATIONS)
    for first in search:
        if not (problems := find_problems(preset, first)):
            break
        search.exclude(first, problems)
    else:
        return None
    choices: dict[str, PresetChoice] = {}
    for name, choice in preset.choices.items():
        usable = [
            slug for slug in slugs[name] if slug == first[name] or not find_problems(preset, {**first, name: slug})
        ]
        choices[name] = replace(
            choice,
            entries={slug: choice.entries[slug] for slug in usable if slug is not None},
            custom_image=choice.custom_image if None in usable else None,
        )
    return replace(preset, choices=choices) if choices else preset


def find_invalid_presets(presets: Mapping[str, Preset], catalog: Catalog) -> dict[str, SelectionError]:
    """Return slug → error for each preset for which no valid combination of entries was found.

    The error says why the combination of the default entries is invalid.

    :param presets: the presets to check, from the settings.
    :param catalog: what the presets may contain; its own presets do not matter.
    """
    usable = select_usable_presets(presets, catalog)
    invalid = ((slug, preset) for slug, preset in presets.items() if slug not in usable)
    errors = {slug: find_error(preset, pick_default_entries(preset), catalog=catalog) for slug, preset in invalid}
    return {slug: error for slug, error in errors.items() if error is not None}


def find_error(preset: Preset, chosen: ChosenEntries, *, catalog: Catalog) -> SelectionError | None:
    """Return why a preset is invalid with the given entries of its choices, or None if it is valid.

    :param preset: the preset, from the settings.
    :param chosen: name of each choice of the preset → slug of an entry, or None if the user names a custom image.
    :param catalog: what the preset may contain; the catalog's own presets do not matter.
    """
    variant, options = build_variant(preset, chosen)
    try:
        validate(options, replace(catalog, presets={preset.slug: variant}))
    except SelectionError as error:
        return error
    return None
