"""Says what to enter instead of a wrong number, in few words for the place beside the field.

``complaintOf`` in ``templates/choice.js`` writes the same sentences while the user fills in the form. Messages for REST
clients, logs and admins are longer and name the field: :mod:`gpuspawner.core.request.checks` writes these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from gpuspawner.core.catalog.model import Bounds
from gpuspawner.core.request.field_definitions import CPU, RUN_TIME, SHARED_MEMORY
from gpuspawner.core.request.fields import MAX_TEXT_LENGTH, AmountField
from gpuspawner.core.text.decimals import show_decimals
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.units.quantity import QuantityError

_RUN = re.compile(r"(?<![\d.,])[.,]*\d[\d.,]*", re.ASCII)
_UNCLEAR = re.compile(r"([1-9]\d{0,2}),(\d{3})", re.ASCII)
"""Matches a number that has thousands or decimals: ``1,000``."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
_DECIMALS = re.compile(r"\d*,\d+", re.ASCII)
_NUMBER = re.compile(r"\d+\.?\d*|\.\d+", re.ASCII)


def explain_amount(amount_field: AmountField, value: object, *, bounds: Bounds, amount: Fraction | int | None) -> str:
    """Return what to enter in the field of a wrong amount, such as ``Enter 0.5 to 4 cores.`` in one or two sentences.

    :param amount_field: the field.
    :param value: the user option, any JSON value; a text from a form is plain (:mod:`gpuspawner.core.text.decimals`).
    :param bounds: allowed amounts, in base units; ``max`` may be below ``min`` for shared memory, a part of the memory.
    :param amount: the amount in base units; None if the value is no amount.
    """
    least, most, step = (_show(amount_field, each) for each in (bounds.min, bounds.max, bounds.step))
    unit = f" {gettext('cores')}" if amount_field is CPU else "" if amount_field is RUN_TIME else " GiB"
    if amount is None:
        example = _show(amount_field, bounds.min if amount_field is SHARED_MEMORY else bounds.default)
        return _explain_unreadable(
            value,
            example=example if amount_field is RUN_TIME else f"{example}{amount_field.bare_unit}",
            is_duration=amount_field is RUN_TIME,
            is_readable=lambda text: _is_amount(text, amount_field),
        )
    if bounds.max < bounds.min:
        return gettext("Needs at least {least} of memory.", least=f"{least}{unit}")
    if not bounds.min <= amount <= bounds.max:
        return _explain_range(least, f"{most}{unit}", is_one=bounds.min == bounds.max)
    if bounds.min % bounds.step == 0:
        return gettext("Use a multiple of {step}.", step=f"{step}{unit}")
    return gettext("Use {least} plus a multiple of {step}.", least=least, step=f"{step}{unit}")


def explain_count(value: object, *, most: int) -> str:
    """Return what to enter as the number of GPUs, such as ``Enter 1 to 4.`` in one or two sentences.

    :param value: the user option, any JSON value.
    :param most: largest number of GPUs of the chosen type in one server.
    """
    if isinstance(value, str):
        text = value.strip()[:MAX_TEXT_LENGTH]
        number: float | Fraction | None = Fraction(text) if _NUMBER.fullmatch(text) else None
    else:
        text, number = "", value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is None:
        return _explain_unreadable(
            text, example="1", is_duration=False, is_readable=lambda other: bool(_NUMBER.fullmatch(other))
        )
    if not 1 <= number <= most:
        return _explain_range("1", str(most), is_one=most == 1)
    return gettext("Enter a whole number.")


def _explain_range(least: str, most: str, *, is_one: bool) -> str:
    if is_one:
        return gettext("Enter {most}.", most=most)
    return gettext("Enter {least} to {most}.", least=least, most=most)


def _explain_unreadable(value: object, *, example: str, is_duration: bool, is_readable: Callable[[str], bool]) -> str:
    text = value.strip()[:MAX_TEXT_LENGTH] if isinstance(value, str) else ""
    numbers = [each for each in _list_readings(text) if is_readable(each)]
    if len(numbers) > 1:
        whole, decimal = map(show_decimals, numbers)
        return gettext("This could mean {whole} or {decimal}. Enter the one you mean.", whole=whole, decimal=decimal)
    if numbers:
        return gettext("Enter it as {number}.", number=show_decimals(numbers[0]))
    if is_duration:
        return gettext("Enter a duration, such as {example}.", example=example)
    return gettext("Enter a number, such as {example}.", example=example)


def _list_readings(text: str) -> list[str]:
    """Return what a text with commas may mean: as a number with thousands, and as one with decimals."""
    found = _RUN.search(text)
    if found is None:
        return []
    run = found[0]
    if unclear := _UNCLEAR.fullmatch(run):
        meanings = [f"{unclear[1]}{unclear[2]}", f"{unclear[1]}.{unclear[2]}".rstrip("0").rstrip(".")]
    elif _GROUPED.fullmatch(run):
        meanings = [run.replace(",", "")]
    else:
        meanings = [run.replace(",", ".")] if _DECIMALS.fullmatch(run) else []
    return [f"{text[: found.start()]}{each}{text[found.end() :]}" for each in meanings]


def _is_amount(text: str, amount_field: AmountField) -> bool:
    bare = f"{text}{amount_field.bare_unit}" if _NUMBER.fullmatch(text) else text
    try:
        amount_field.notation.parse(bare)
    except QuantityError as error:
        return error.amount is not None
    return True


def _show(amount_field: AmountField, amount: int) -> str:
    return show_decimals(amount_field.format_input(amount))
