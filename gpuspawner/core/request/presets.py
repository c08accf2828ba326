"""Resolves a fixed preset: checks what the user picked in its lists, and merges the values of the picked entries.

A preset is fixed if it sets more than the form's fields can, such as a ``kubespawner_override``, or if the settings
offer only presets. A fixed preset may have choices: in each of them, the user picks an entry of a list, or names an
image instead. The user can change nothing else in a fixed preset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, MAX_REFERENCE_LENGTH, parse_reference
from gpuspawner.core.catalog.model import (
    GUARANTEES,
    NO_LIMIT,
    Bounds,
    Catalog,
    CustomImages,
    Image,
    ImageInput,
    Preset,
    TraitValues,
)
from gpuspawner.core.catalog.policy_model import UNLIMITED
from gpuspawner.core.json_access import as_dict
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.field_definitions import CPU, CUSTOM_IMAGE, FORM_FIELDS, GPU, GPU_COUNT, MEMORY
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import format_list, join_sentences, quote, sanitize_name, suggest_name
from gpuspawner.core.value_types import UNLIMITED_AMOUNT

PRESET_CHOICES = "preset_choices"
"""User option with the entries that a user picked in a preset's lists: name of the list → slug of the entry."""

_UNLISTED = "--unlisted-choice"
"""Suffix of KubeSpawner's user options for free text: ``image--unlisted-choice`` is a text for the list ``image``."""

ChosenEntries = Mapping[str, str | None]
"""Name of a preset's choice → slug of the chosen entry; None if the user names an image instead."""

_AMOUNTS = {each.name: each for each in (CPU, MEMORY)}
_ANY_AMOUNT = Bounds(min=NO_LIMIT, max=UNLIMITED, step=1, default=NO_LIMIT)
"""Bounds that allow every amount of CPU or memory, because a preset may set amounts that the form does not offer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPreset:
    """The values of a fixed preset, merged with the values of the entries that the user picked in its lists.

    In a fixed preset, users can pick entries of lists or name an image, and change nothing else.

    :param options: the merged values, as user options: name of a form field → value.
    :param choices: name of a list → slug of the picked entry; a list is missing if the user named an image instead.
    :param requests: ``cpu`` → millicores and ``memory`` → bytes that the pod requests; a key is missing if neither the
        preset nor an entry sets the request.
    """

    options: Mapping[str, object]
    choices: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)


def resolve_preset(given: Mapping[str, object], preset: Preset, *, problems: Problems) -> FixedPreset:
    """Return the values of a fixed preset, merged with the values of the entries that the user picked in its lists.

    :param given: the user options; ``preset_choices`` and ``custom_image`` may be any JSON values. A value for another
        field of the form is a problem, because the preset sets that field.
    :param preset: the preset that the user options name.
    :param problems: collects the problems of the user options.
    """
    _refuse_other_fields(given, preset, problems=problems)
    asked = _read_choices(given.get(PRESET_CHOICES), preset, problems=problems)
    reference = given.get(CUSTOM_IMAGE.name)
    reference = None if reference == "" else reference
    options, choices = dict(preset.options), {}
    for name, choice in preset.choices.items():
        if reference is not None and choice.custom_image is not None and name not in asked:
            _check_pattern(reference, choice.custom_image, problems=problems)
            options[CUSTOM_IMAGE.name], reference = reference, None
        elif (slug := asked.get(name) or next(iter(choice.entries), None)) is None:
            message = gettext("{choice}: name an image.", choice=choice.display_name)
            problems.add(CUSTOM_IMAGE.name, "not_a_reference", message=message)
        else:
            _apply_entry(choice.entries[slug].options, options)
            choices[name] = slug
    if reference is not None:
        _refuse(CUSTOM_IMAGE.name, preset, problems=problems)
    # A null or empty GPU type asks for a server without GPUs: refuse it if the preset has a GPU. In any other field,
    # null or an empty text sets nothing.
    if GPU.name in given and options.get(GPU.name) is not None:
        _refuse(GPU.name, preset, problems=problems)
    if CUSTOM_IMAGE.name in options:
        options.pop("image", None)
    return FixedPreset(options=_convert_amounts(options), choices=choices, requests=_parse_requests(options))


def open_bounds(catalog: Catalog, options: Mapping[str, object]) -> Catalog:
    """Return a catalog against which the values of a fixed preset can be validated.

    The form's bounds do not apply to what an admin sets in a preset. The returned catalog therefore

    - allows every amount of CPU or memory if ``options`` set it,
    - allows every image reference if ``options`` have one,
    - has no default GPU type: options without a GPU type get no GPU.

    :param catalog: what the user may choose from.
    :param options: the values of the preset and of the picked entries, from :func:`resolve_preset`.
    """
    return replace(
        catalog,
        cpu=_ANY_AMOUNT if options.get(CPU.name) is not None else catalog.cpu,
        memory=_ANY_AMOUNT if options.get(MEMORY.name) is not None else catalog.memory,
        custom_images=CustomImages(listed=index_images(catalog.images.values()))
        if CUSTOM_IMAGE.name in options
        else catalog.custom_images,
        default_gpus=(),
    )


def index_images(images: Iterable[Image]) -> dict[str, Image]:
    """Return a mapping for :attr:`.CustomImages.listed`: image reference → image.

    Images whose reference cannot be parsed are missing. Of several images with one reference, the first one counts,
    without what another one declares differently: what the image contains is then unknown, and nothing is overridden.

    :param images: images of the settings or of a catalog.
    """
    listed: dict[str, Image] = {}
    for image in images:
        reference = parse_reference(image.image)
        if reference is not None:
            first = listed.get(reference.pulled, image)
            listed[reference.pulled] = replace(
                first,
                cuda=first.cuda if first.cuda == image.cuda else None,
                vendors=first.vendors if first.vendors == image.vendors else None,
                architectures=first.architectures if first.architectures == image.architectures else (),
                overrides=first.overrides if first.overrides == image.overrides else {},
            )
    return listed


def translate_profile(options: object, catalog: Catalog) -> object:
    """Return user options that name a KubeSpawner profile, converted to options for the preset with the same slug.

    JupyterHub's database has such options, for example ``{"profile": "t4", "image": "pytorch"}``, if users started
    servers before ``gpuspawner convert`` converted the profiles to presets. Options with ``v`` (a version number) or
    ``preset`` are for gpuspawner already, so they stay unchanged. All options stay unchanged if the catalog offers more
    than presets: its settings are then not the result of ``gpuspawner convert``.

    :param options: any JSON value.
    :param catalog: what the user may choose from.
    """
    if not catalog.only_presets or not isinstance(options, Mapping) or not {"v", "preset"}.isdisjoint(options):
        return options
    slug = options.get("profile")
    if slug is None:
        return options
    preset = catalog.presets.get(slug) if isinstance(slug, str) else None
    found: dict[str, object] = {"preset": slug}
    for name in preset.choices if preset is not None else ():
        if reference := options.get(f"{name}{_UNLISTED}"):
            found[CUSTOM_IMAGE.name] = reference
        elif name in options:
            found[PRESET_CHOICES] = {**as_dict(found.get(PRESET_CHOICES)), name: options[name]}
    return found


def list_overrides(preset: Preset, choices: Mapping[str, str]) -> Iterator[TraitValues]:
    """Yield mappings of KubeSpawner's traits to values: first that of a preset, then those of the user's choices.

    If several mappings contain a trait, the last one wins.

    :param preset: the preset.
    :param choices: name of a choice → slug of the chosen entry; a choice is missing if the user named an image instead.
    """
    layers = [preset.overrides]
    for name, choice in preset.choices.items():
        if name in choices:
            layers.append(choice.entries[choices[name]].overrides)
        elif choice.custom_image is not None:
            layers.append(choice.custom_image.overrides)
    yield from filter(None, layers)


def pick_default_entries(preset: Preset) -> dict[str, str | None]:
    """Return the default entries of a preset's choices: name of a choice → slug of the first entry in its list.

    The slug is None for a choice in which the user can only name an image.

    :param preset: the preset.
    """
    return {name: next(iter(choice.entries), None) for name, choice in preset.choices.items()}


def build_variant(preset: Preset, chosen: ChosenEntries) -> tuple[Preset, dict[str, object]]:
    """Return a preset, and user options that pick an entry of each of its lists.

    If ``chosen`` has no entry for a list (None), the options contain the reference of an example image instead, and the
    returned preset is a copy in which this list accepts every image.

    :param preset: the preset.
    :param chosen: name of each list (``choices`` of the preset) → slug of the entry to pick, or None for an image that
        the user names.
    """
    options: dict[str, object] = {"preset": preset.slug}
    entries = {name: slug for name, slug in chosen.items() if slug is not None}
    if entries:
        options[PRESET_CHOICES] = entries
    if len(entries) == len(chosen):
        return preset, options
    options[CUSTOM_IMAGE.name] = EXAMPLE_REFERENCE
    open_choices = {
        name: choice if name in entries else replace(choice, entries={}, custom_image=_accept_any(choice.custom_image))
        for name, choice in preset.choices.items()
    }
    return replace(preset, choices=open_choices), options


def _accept_any(field: ImageInput | None) -> ImageInput:
    return ImageInput() if field is None else replace(field, pattern="")


def _apply_entry(entry: Mapping[str, object], options: dict[str, object]) -> None:
    # If the entry replaces the GPU type, drop the GPU count, which is for the replaced type: 8 T4 do not mean 8 A100.
    if GPU.name in entry and entry[GPU.name] != options.get(GPU.name):
        options.pop(GPU_COUNT.name, None)
    options |= entry


def _refuse_other_fields(given: Mapping[str, object], preset: Preset, *, problems: Problems) -> None:
    for name, value in given.items():
        if name in FORM_FIELDS and name != CUSTOM_IMAGE.name and value is not None and value != "":
            _refuse(name, preset, problems=problems)


def _refuse(name: str, preset: Preset, *, problems: Problems) -> None:
    message = gettext("The preset {preset} sets {field} itself.", preset=quote(preset.display_name), field=name)
    problems.add(name, "conflict", message=message)


def _read_choices(asked: object, preset: Preset, *, problems: Problems) -> dict[str, str]:
    if asked is None or asked == "":
        return {}
    if not isinstance(asked, Mapping):
        message = gettext(
            "The choices in a preset must be a JSON object, such as {example}.", example='{"size": "small"}'
        )
        problems.add(PRESET_CHOICES, "wrong_type", message=message)
        return {}
    read: dict[str, str] = {}
    for name, slug in asked.items():
        if PRESET_CHOICES in problems:
            break  # Stop at the first problem: each field reports only one, and the user may send a million names.
        choice = preset.choices.get(name) if isinstance(name, str) else None
        if choice is None:
            message = gettext("The preset {preset} has no choice {name}.", preset=preset.display_name, name=quote(name))
            offered = gettext("Offered: {choices}.", choices=format_list(preset.choices)) if preset.choices else ""
            problems.add(PRESET_CHOICES, "unknown_field", message=join_sentences(message, offered))
        elif slug is None or slug == "":
            continue
        elif not isinstance(slug, str) or slug not in choice.entries:
            message = gettext("{choice}: there is no entry {value}.", choice=choice.display_name, value=quote(slug))
            hint = suggest_name(slug, choice.entries).strip()
            offered = gettext("Offered: {choices}.", choices=format_list(choice.entries)) if choice.entries else ""
            problems.add(PRESET_CHOICES, "unknown_choice", message=join_sentences(message, hint, offered))
        else:
            read[name] = slug
    return {name: read[name] for name in preset.choices if name in read}


def _check_pattern(reference: object, image_input: ImageInput, *, problems: Problems) -> None:
    pattern = image_input.pattern
    # Do not check a value that is not a text or is too long: `validate` refuses it later.
    if not isinstance(reference, str) or len(reference) > MAX_REFERENCE_LENGTH or re.match(pattern, reference):
        return
    message = image_input.message or gettext("The image must match {pattern}.", pattern=sanitize_name(pattern))
    problems.add(CUSTOM_IMAGE.name, "not_a_reference", message=message)


def _convert_amounts(options: Mapping[str, object]) -> dict[str, object]:
    """Return a preset's values as user options: ``NO_LIMIT`` for "unlimited", and no guarantees of CPU and memory."""
    return {
        name: NO_LIMIT if name in _AMOUNTS and value == UNLIMITED_AMOUNT else value
        for name, value in options.items()
        if name not in GUARANTEES
    }


def _parse_requests(options: Mapping[str, object]) -> dict[str, int]:
    return {name: _AMOUNTS[name].notation.parse(options[key]) for key, name in GUARANTEES.items() if key in options}
