"""Converts submitted forms and links to user options. :mod:`gpuspawner.core.request.selection` validates them.

The options that the setting ``extra_options`` names are for the admin's own hooks, which get the values unchanged.
:func:`split_options` describes the special case ``image``.

Forms and links contain only text, unlike JSON. A number without a unit means GiB for memory and hours for the run time,
as the labels in the form say. Counts are converted to numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, ValuesView
from typing import NamedTuple

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.request.checks import Problems, find_max_length
from gpuspawner.core.request.field_definitions import AMOUNT_FIELDS, CUSTOM_IMAGE, FIELDS, FORM_FIELDS, IMAGE
from gpuspawner.core.request.fields import MAX_TEXT_LENGTH
from gpuspawner.core.request.presets import PRESET_CHOICES
from gpuspawner.core.text.decimals import mark_unclear, read_decimals
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import quote, sanitize_name

LINK_FIELDS = ("v", "preset", PRESET_CHOICES, *FORM_FIELDS)
"""Names of the fields that a link may have."""
START_PRESET = "start_preset"
"""Name of the form's buttons that start a preset. The value of a button is the slug of its preset."""
_ENTRY_PREFIX, _IMAGE_PREFIX = "preset:", "preset-image:"
"""Prefixes of the names of form fields in a preset. ``preset:SLUG:LIST`` is one of the preset's lists (``choices``).
``preset-image:SLUG:LIST`` is the text field beside this list, in which the user names an image instead of picking an
entry. SLUG is the slug of the preset, which contains no colon, and LIST is the name of the list."""
_IGNORED_FIELDS = frozenset({"_xsrf", "_language"})
"""Form fields to ignore: JupyterHub's XSRF token, and :data:`gpuspawner.hub.request.languages.LANGUAGE_FIELD`."""
_QUERY_PREFIX = "opt-"
_IMAGE, _CUSTOM_IMAGE = IMAGE.name, CUSTOM_IMAGE.name

_AMOUNTS = frozenset(each.name for each in AMOUNT_FIELDS)
_BARE_NUMBER = re.compile(r"\d+\.?\d*|\.\d+", re.ASCII)
_COUNT_PATTERN = re.compile(r"\d{1,9}", re.ASCII)

MAX_FIELDS = 1_000
"""Maximum number of fields in a form or link.

Tornado has had the same limit since 6.5.8 (``ParseUrlencodedConfig.max_arguments``). zero-to-jupyterhub's hub images up
to 4.4.0 have older versions, which accept any number."""
_MAX_DEPTH = 32
"""Maximum number of nested levels in user options. Python cannot encode or decode JSON with 1,000 levels."""
_MAX_CHARACTERS = 60_000
"""Largest length of user options as JSON, in characters. The JSON must fit in the hub's database: in MySQL, the column
for user options holds 65,535 bytes."""


def parse_form(form: Mapping[str, object]) -> dict[str, object]:
    """Return the user options of a submitted form.

    If the user pressed a button ``start_preset``, the result names only the preset of this button and what the user
    picked in this preset's lists and text fields. Otherwise the result leaves out fields that the user's choice does
    not need: the number of GPUs without a GPU, and the custom image's reference beside an image of the list.

    :param form: field name → list of texts, as Tornado parses a form; untrusted. Amounts are plain, as
        :func:`read_typed_amounts` returns them; one that may have thousands (``1.000``) becomes unreadable.
    :raises SelectionError: a field is unknown, repeated with different values, too long or not a text; the form has too
        many fields; a custom image is selected without a reference; a preset has two custom images; or the user picked
        no preset in a form that has only presets.
    """
    problems = Problems()
    _check_number(form, problems=problems)
    in_presets = {name: value for name, value in form.items() if str(name).startswith((_ENTRY_PREFIX, _IMAGE_PREFIX))}
    others = {name: value for name, value in form.items() if name not in in_presets}
    texts = _read_texts(others, (*FORM_FIELDS, START_PRESET), problems=problems)
    problems.raise_any()
    if preset := texts.pop(START_PRESET, ""):
        return {"preset": preset, **_read_preset_choices(preset, in_presets, problems=problems)}
    if in_presets and not texts:  # All fields of the form are in presets, and the user pressed no preset's button.
        problems.add("preset", "missing", message=gettext("Pick one of the presets."))
        problems.raise_any()
    # Without JavaScript, the browser also sends unused fields: drop the GPU count if "No GPU" is selected, and the
    # reference of a custom image if an image of the list is selected.
    if texts.get("gpu") == "":
        texts.pop("gpu_count", None)
    if texts.get("image"):
        texts.pop("custom_image", None)
    elif texts.get("image") == texts.get("custom_image") == "":
        _refuse_empty_reference(problems)
    return _convert_types({name: mark_unclear(text) if name in _AMOUNTS else text for name, text in texts.items()})


def read_typed_amounts(form: Mapping[str, object]) -> Mapping[str, object]:
    """Return a submitted form with its amounts in plain notation, from the notation of the current language.

    A form with too many fields is returned unchanged: :func:`parse_form` refuses it.

    :param form: field name → list of texts, as Tornado parses a form; untrusted. Other values stay as they are.
    """
    if len(form) > MAX_FIELDS:
        return form
    return {
        name: [_read_typed(each) for each in value] if name in _AMOUNTS and isinstance(value, list) else value
        for name, value in form.items()
    }


def _read_typed(text: object) -> object:
    return read_decimals(text) if isinstance(text, str) and len(text) <= MAX_TEXT_LENGTH else text


def name_entry_field(preset: str, choice: str) -> str:
    """Return the name of the form field for a list in a preset, from the preset's slug and the list's name."""
    return f"{_ENTRY_PREFIX}{preset}:{choice}"


def name_image_field(preset: str, choice: str) -> str:
    """Return the name of the text field beside a list, in which the user names an image instead of picking an entry."""
    return f"{_IMAGE_PREFIX}{preset}:{choice}"


def get_max_length(name: str) -> int:
    """Return how many characters the text of a field of a form or link may have.

    :param name: name of the field, which may be a field in a preset.
    """
    is_long = name == PRESET_CHOICES or name.startswith(_IMAGE_PREFIX)
    return find_max_length(CUSTOM_IMAGE.name if is_long else name)


def _read_preset_choices(preset: str, fields: Mapping[str, object], *, problems: Problems) -> dict[str, object]:
    texts: dict[str, str] = {}
    for name, value in fields.items():
        kind, _, rest = name.partition(":")
        slug, _, choice = rest.partition(":")
        if slug == preset and (text := _read_text(CUSTOM_IMAGE.name, value, problems=problems)) is not None:
            texts[f"{kind}:{choice}"] = text
    problems.raise_any()
    entries = {name.removeprefix(_ENTRY_PREFIX): text for name, text in texts.items() if name.startswith(_ENTRY_PREFIX)}
    images = {name.removeprefix(_IMAGE_PREFIX): text for name, text in texts.items() if name.startswith(_IMAGE_PREFIX)}
    # Each text field stands beside a list. Ignore the text field if the user picked an image in the list. The
    # list's entry "Other…" has an empty value, and means that the user names the image in the text field.
    references = [text for name, text in images.items() if not entries.get(name)]
    if any(not text for text in references):
        _refuse_empty_reference(problems)
    if len(references) > 1:
        message = gettext("Only one image can be named in a preset.")
        problems.add(CUSTOM_IMAGE.name, "conflict", message=message)
        problems.raise_any()
    found: dict[str, object] = {}
    if chosen := {name: slug for name, slug in entries.items() if slug}:
        found[PRESET_CHOICES] = chosen
    if references:
        found[CUSTOM_IMAGE.name] = references[0]
    return found


def _refuse_empty_reference(problems: Problems) -> None:
    problems.add(
        CUSTOM_IMAGE.name,
        "not_a_reference",
        message=gettext("Enter an image, such as {example}.", example=EXAMPLE_REFERENCE),
    )
    problems.raise_any()


def parse_query(query: Mapping[str, object]) -> dict[str, object]:
    """Return the user options of a link.

    :param query: argument name, with or without JupyterHub's prefix ``opt-`` → list of texts; untrusted.
    :raises SelectionError: an argument is unknown, repeated with different values, too long or not a text, or occurs
        both with and without the prefix; or the link has too many arguments.
    """
    problems = Problems()
    _check_number(query, problems=problems)
    bare: dict[str, object] = {}
    for name, value in query.items():
        short = str(name).removeprefix(_QUERY_PREFIX)
        if short in bare:
            problems.add(
                sanitize_name(short), "conflict", message=gettext("The link gives {name} twice.", name=quote(short))
            )
        bare[short] = value
    texts = _read_texts(bare, LINK_FIELDS, problems=problems)
    problems.raise_any()
    return _convert_types(texts)


def _check_number(fields: Mapping[str, object], *, problems: Problems) -> None:
    if len(fields) > MAX_FIELDS:
        message = gettext("There are too many fields: at most {number} are accepted.", number=MAX_FIELDS)
        problems.add("", "too_large", message=message)
        problems.raise_any()


def split_query(query: Mapping[str, object]) -> tuple[Mapping[str, object], list[str]]:
    """Return a link's arguments that name a field, and the names of all others, without JupyterHub's prefix.

    A link with too many arguments is not split: all of them are in the first part, which :func:`parse_query` refuses.

    :param query: argument name, with or without JupyterHub's prefix ``opt-`` → list of texts; untrusted.
    """
    if len(query) > MAX_FIELDS:
        return query, []
    names = {name: str(name).removeprefix(_QUERY_PREFIX) for name in query}
    fields = {name: value for name, value in query.items() if names[name] in LINK_FIELDS}
    return fields, [short for name, short in names.items() if name not in fields and short not in _IGNORED_FIELDS]


def _read_texts(fields: Mapping[str, object], known: tuple[str, ...], *, problems: Problems) -> dict[str, str]:
    problems.refuse_unknown((name for name in fields if name not in known and name not in _IGNORED_FIELDS), known)
    texts = {name: _read_text(name, fields[name], problems=problems) for name in fields if name in known}
    return {name: text for name, text in texts.items() if text is not None}


def _read_text(name: str, value: object, *, problems: Problems) -> str | None:
    values = value if isinstance(value, list | tuple) else [value]
    texts = [text for text in values if isinstance(text, str)]
    if len(texts) < len(values):
        problems.add(name, "wrong_type", message=gettext("This field must be a text."))
    elif len(set(texts)) > 1:
        message = ngettext(
            "This field was sent {number} time with different values.",
            "This field was sent {number} times with different values.",
            number=len(texts),
        )
        problems.add(name, "conflict", message=message)
    elif texts and len(texts[0]) > (longest := get_max_length(name)):
        message = ngettext(
            "This field is longer than {number} character.",
            "This field is longer than {number} characters.",
            number=longest,
        )
        problems.add(name, "too_long", message=message)
    elif texts:
        return texts[0].strip()
    return None


def _convert_types(texts: Mapping[str, str]) -> dict[str, object]:
    """Return a form's or link's texts as user options; a malformed number stays text, so that validation refuses it."""
    options: dict[str, object] = dict(texts)
    for name in ("v", "gpu_count"):
        text = texts.get(name)
        if text == "":
            del options[name]
        elif text is not None and _COUNT_PATTERN.fullmatch(text):
            options[name] = int(text)
    for field in FIELDS:
        if field.bare_unit and _BARE_NUMBER.fullmatch(texts.get(field.name, "")):
            options[field.name] = f"{texts[field.name]}{field.bare_unit}"
    if texts.get("gpu") == "":
        options["gpu"] = None
    if texts.get(PRESET_CHOICES):
        options[PRESET_CHOICES] = parse_preset_choices(texts[PRESET_CHOICES])
    return options


def parse_preset_choices(text: str) -> object:
    """Return which entry a link picks in each list of a preset, from a text such as ``size:small,image:pytorch``.

    The result maps the name of a list to the slug of an entry. A malformed text is returned unchanged.

    :param text: value of the link's argument ``preset_choices``.
    """
    pairs = [each.partition(":") for each in text.split(",")]
    chosen = {name: slug for name, _, slug in pairs}
    return chosen if len(chosen) == len(pairs) and all(colon for _, colon, _ in pairs) else text


def is_too_large(options: object) -> bool:
    """Return whether user options have more nested levels or characters than the hub accepts.

    :param options: any JSON value, untrusted.
    """
    level, depth, number = [options], 0, 0
    while level:
        depth += 1
        number += len(level)
        if depth > _MAX_DEPTH or number > _MAX_CHARACTERS:
            return True
        containers = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [value for each in containers if isinstance(each, list | tuple | ValuesView) for value in each]
    try:
        return len(json.dumps(options, default=str, skipkeys=True)) > _MAX_CHARACTERS
    except ValueError:  # `json.dumps` fails for an integer with thousands of digits.
        return True


def check_size(options: object) -> None:
    """Refuse user options for which :func:`is_too_large` is true.

    :param options: any JSON value, untrusted.
    :raises SelectionError: the options are too large.
    """
    if not is_too_large(options):
        return
    problems = Problems()
    message = gettext(
        "The options are too large: at most {characters} characters of JSON and {levels} nested levels are accepted.",
        characters=_MAX_CHARACTERS,
        levels=_MAX_DEPTH,
    )
    problems.add("", "too_large", message=message)
    problems.raise_any()


class SplitOptions(NamedTuple):
    """User options, split into those for gpuspawner and those for the admin's own hooks (``extra_options``).

    :param own: the options for gpuspawner. User options that are not a mapping are returned here unchanged.
    :param extra: the options for the admin's hooks, unchanged. The values may be secrets.
    """

    own: object
    extra: dict[str, object]


def split_options(options: object, extra: Collection[str]) -> SplitOptions:
    """Return user options in two parts: those for gpuspawner, and those for the admin's own hooks.

    BinderHub sends an image reference as ``image``, so the admin may list ``image`` in ``extra_options``. In this case:

    - If ``image`` holds a reference with a slash, the hooks get ``image``, and gpuspawner gets the normalized reference
      as ``custom_image``.
    - If ``image`` holds anything else (a slug, for example), or ``custom_image`` holds a different reference,
      gpuspawner gets ``image`` and the hooks do not.

    :param options: any JSON value, untrusted.
    :param extra: names of the options for the admin's hooks, from the setting ``extra_options``.
    """
    if not extra or not isinstance(options, Mapping):
        return SplitOptions(options, {})
    names = frozenset(extra) - {_IMAGE}
    own = {name: value for name, value in options.items() if name not in names}
    found = {name: value for name, value in options.items() if name in names}
    reference = _normalize_reference(own.get(_IMAGE)) if _IMAGE in extra else None
    # Accept a `custom_image` that repeats the reference, because the hub stores choices with both fields.
    if reference and own.get(_CUSTOM_IMAGE) in (None, "", reference):
        found[_IMAGE] = own.pop(_IMAGE)
        own[_CUSTOM_IMAGE] = reference
    return SplitOptions(own, found)


def split_form(form: Mapping[str, object], extra: Collection[str]) -> tuple[Mapping[str, object], dict[str, object]]:
    """Return the fields of a form in two parts: the fields for gpuspawner, then user options for the admin's own hooks.

    The fields for gpuspawner stay lists of texts. Each field for the hooks becomes a user option: a list of one text
    becomes this text, and a longer list stays a list.

    A form with too many fields is not split: all of them are in the first part, which :func:`parse_form` refuses.

    :param form: field name → list of texts, as Tornado parses a form; untrusted.
    :param extra: names of the fields for the admin's hooks, from the setting ``extra_options``. The field ``image`` is
        always for gpuspawner.
    """
    if len(form) > MAX_FIELDS:
        return form, {}
    names = frozenset(extra) - {_IMAGE}
    found = {name: value for name, value in form.items() if name in names}
    one = {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in found.items()}
    return {name: value for name, value in form.items() if name not in names}, one


def _normalize_reference(value: object) -> str | None:
    reference = parse_reference(value) if isinstance(value, str) and "/" in value else None
    return reference.full if reference is not None else None
