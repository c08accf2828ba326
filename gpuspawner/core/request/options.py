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
from gpuspawner.core.text.decimals import mark_unclear, read_decimals
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import quote, sanitize_name

LINK_FIELDS = ("v", "preset", *FORM_FIELDS)
"""Names of the fields that a link may have."""
START_PRESET = "start_preset"
"""Name of the form's buttons that start a preset. The value of a button is the slug of its preset."""
PROFILE = "profile"
"""Form field and user option with the slug of KubeSpawner's profile. All user options beside it are KubeSpawner's."""
UNLISTED = "--unlisted-choice"
"""Suffix of KubeSpawner's name for the free text of an option: ``image--unlisted-choice`` for the option ``image``."""
_OPTION_PREFIX = "profile-option-"
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

    If the user pressed a button ``start_preset``, the result names only the preset of this button. Otherwise the result
    leaves out fields that the user's choice does not need: the number of GPUs without a GPU, and the custom image's
    reference beside an image of the list.

    :param form: field name → list of texts, as Tornado parses a form; untrusted. Amounts are plain, as
        :func:`read_typed_amounts` returns them; one that may have thousands (``1.000``) becomes unreadable.
    :raises SelectionError: a field is unknown, repeated with different values, too long or not a text; the form has too
        many fields; or a custom image is selected without a reference.
    """
    problems = Problems()
    _check_number(form, problems=problems)
    texts = _read_texts(form, (*FORM_FIELDS, START_PRESET), problems=problems)
    problems.raise_any()
    if preset := texts.pop(START_PRESET, ""):
        return {"preset": preset}
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


def name_option_field(profile: str, option: str) -> str:
    """Return the name of the form field for an option of a profile, as KubeSpawner's form names it.

    :param profile: slug of the profile.
    :param option: name of the option, or of its free text with :data:`UNLISTED`.
    """
    return f"{_OPTION_PREFIX}{profile}--{option}"


def split_profile_fields(form: Mapping[str, object]) -> tuple[dict[str, list[str]], dict[str, object]]:
    """Return the fields of a form or link in two parts: those of the profile that it names, and all others.

    The first part is empty if the form names no profile. The other part never has fields of profiles: without
    JavaScript, the browser also sends those of the cards whose button was not pressed. An option's text field counts
    only if no choice is picked in the list beside it.

    :param form: field name, in a link perhaps with JupyterHub's prefix ``opt-`` → list of texts, as Tornado parses a
        form; untrusted.
    :raises SelectionError: a field is repeated with different values, too long or not a text; or there are too many.
    """
    problems = Problems()
    _check_number(form, problems=problems)
    named = {name: value for name, value in form.items() if _is_profile_field(name)}
    others = {name: value for name, value in form.items() if name not in named}
    named = {str(name).removeprefix(_QUERY_PREFIX): value for name, value in named.items()}
    slug = _read_text(PROFILE, named.get(PROFILE, ""), problems=problems)
    if not slug:
        problems.raise_any()
        return {}, others
    prefix = name_option_field(slug, "")
    texts = {
        name: _read_text(name, value, problems=problems) for name, value in named.items() if name.startswith(prefix)
    }
    problems.raise_any()
    fields = {
        name: [text]
        for name, text in texts.items()
        if text and not (name.endswith(UNLISTED) and texts.get(name.removesuffix(UNLISTED)))
    }
    return {PROFILE: [slug], **fields}, others


def _is_profile_field(name: object) -> bool:
    short = str(name).removeprefix(_QUERY_PREFIX)
    return short == PROFILE or short.startswith(_OPTION_PREFIX)


def get_max_length(name: str) -> int:
    """Return how many characters the text of a field of a form or link may have.

    :param name: name of the field, which may be about an option of a profile.
    """
    return find_max_length(CUSTOM_IMAGE.name if name.startswith(_OPTION_PREFIX) else name)


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


def split_query(query: Mapping[str, object], *, has_profiles: bool = False) -> tuple[Mapping[str, object], list[str]]:
    """Return a link's arguments that name a field, and the names of all others, without JupyterHub's prefix.

    A link with too many arguments is not split: all of them are in the first part, which :func:`parse_query` refuses.

    :param query: argument name, with or without JupyterHub's prefix ``opt-`` → list of texts; untrusted.
    :param has_profiles: whether fields of KubeSpawner's profiles are fields of the form.
    """
    if len(query) > MAX_FIELDS:
        return query, []
    names = {name: str(name).removeprefix(_QUERY_PREFIX) for name in query}
    profile = next((value for name, value in query.items() if names[name] == PROFILE), None)
    names_profile = has_profiles and profile not in (None, "", [""])
    fields = {
        name: value
        for name, value in query.items()
        if names[name] in LINK_FIELDS or (names_profile and _is_profile_field(name))
    }
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
    return options


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
