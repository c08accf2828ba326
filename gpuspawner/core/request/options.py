"""From what a browser sends (form fields, query arguments) to user options; what they mean is checked elsewhere.

A form is text, JSON is typed, so some things are read differently here: a bare memory number means GiB (so the fields
are labelled), a bare run time hours (so its field says), and a count arrives as digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE
from gpuspawner.core.request.checks import Problems, find_max_length
from gpuspawner.core.request.field_definitions import FIELDS, FORM_FIELDS
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import describe_unknown_field, quote, sanitize_name

_QUERY_FIELDS = ("v", "preset", *FORM_FIELDS)
_START_PRESET = "start_preset"
_IGNORED_FIELDS = frozenset({"_xsrf", "_language"})
"""What a form says of itself: JupyterHub's own, and :data:`gpuspawner.hub.request.languages.LANGUAGE_FIELD`."""
_QUERY_PREFIX = "opt-"

_BARE_NUMBER = re.compile(r"\d+\.?\d*|\.\d+", re.ASCII)
_COUNT_PATTERN = re.compile(r"\d{1,9}", re.ASCII)


def parse_form(form: Mapping[str, object]) -> dict[str, object]:
    """Return the user options that a posted form stands for.

    The button ``start_preset`` stands for its preset alone: what the other fields hold is ignored. So is the count
    where "No GPU" is chosen, and the reference of an image where another one is.

    :param form: field name → list of texts, as tornado reads a form; anything else is refused, not trusted.
    :raises SelectionError: an unknown or repeated field, a value that is no text, or an image of one's own without one.
    """
    problems = Problems()
    texts = _read_texts(form, (*FORM_FIELDS, _START_PRESET), problems=problems)
    problems.raise_any()
    if preset := texts.pop(_START_PRESET, ""):
        return {"preset": preset}
    # Without JavaScript what was written for the last choice still stands beside another one, where it means nothing.
    if texts.get("gpu") == "":
        texts.pop("gpu_count", None)
    if texts.get("image"):
        texts.pop("custom_image", None)
    elif texts.get("image") == texts.get("custom_image") == "":
        problems.add(
            "custom_image",
            "not_a_reference",
            message=gettext("Write which image, such as {example}.", example=EXAMPLE_REFERENCE),
        )
        problems.raise_any()
    return _convert_types(texts)


def parse_query(query: Mapping[str, object]) -> dict[str, object]:
    """Return the user options that the arguments of a link stand for, named bare or with JupyterHub's ``opt-`` prefix.

    :param query: argument name → list of texts.
    :raises SelectionError: as :func:`parse_form`; a name given both ways is a repeated one.
    """
    problems = Problems()
    bare: dict[str, object] = {}
    for name, value in query.items():
        short = str(name).removeprefix(_QUERY_PREFIX)
        if short in bare:
            problems.add(
                sanitize_name(short), "conflict", message=gettext("The link gives {name} twice.", name=quote(short))
            )
        bare[short] = value
    texts = _read_texts(bare, _QUERY_FIELDS, problems=problems)
    problems.raise_any()
    return _convert_types(texts)


def _read_texts(fields: Mapping[str, object], known: tuple[str, ...], *, problems: Problems) -> dict[str, str]:
    """Return the one text each known field holds."""
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if name in known:
            text = _read_text(name, value, problems=problems)
            if text is not None:
                texts[name] = text
        elif name not in _IGNORED_FIELDS:
            problems.add(sanitize_name(name), "unknown_field", message=describe_unknown_field(name, known))
    return texts


def _read_text(name: str, value: object, *, problems: Problems) -> str | None:
    """Return the one text that was sent under a name, None when there is none or after noting a problem."""
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
    elif texts and len(texts[0]) > (longest := find_max_length(name)):
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
    """Return texts as user options; what cannot be converted stays as it is, for the validation to report."""
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
