"""Parse and format CPU and memory as exact whole numbers of millicores and bytes, never floats.

Messages show some amounts rounded to tenths: :func:`format_rounded_cpus`, :func:`format_rounded_memory`.

There are two notations. Users and settings follow JupyterHub's ``ByteSpecification``: ``16G`` is 16 × 1024^3 bytes
(:func:`parse_memory`). Kubernetes objects hold quantities: ``16G`` is 16 × 1000^3 bytes (:func:`parse_quantity`,
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from gpuspawner.core.text.decimals import LazyDecimals, show_decimals
from gpuspawner.core.text.i18n import gettext_lazy, ngettext

_MAX_LENGTH = 64
"""Largest number of characters of an amount. A longer text is rejected, because arithmetic with it would be slow."""
_UPPER_BOUND = 2**63
"""Smallest number that does not fit Kubernetes' signed 64-bit integers."""

_GIB = 1024**3
_MEMORY_UNITS = {"T": 1024**4, "G": _GIB, "M": 1024**2, "K": 1024, "B": 1}
_QUANTITY_UNITS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}

_NUMBER = r"(?P<number>\d+\.?\d*|\.\d+)"
_CPU = re.compile(rf"{_NUMBER}(?P<unit>m?)", re.ASCII)
# 16G, 16 GiB and 16gb are equal. A single lower-case m is not accepted: in Kubernetes m means thousandths.
_MEMORY = re.compile(rf"{_NUMBER} ?(?:(?P<unit>[KMGTkgt]|m(?=[iIbB]))[iI]?[bB]?|[bB])", re.ASCII)
_QUANTITY = re.compile(
    rf"\+?{_NUMBER}(?:(?P<unit>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?0*\d{{1,3}}))?", re.ASCII
)


class QuantityError(ValueError):
    """A value is not a valid amount. The message is the rest of a sentence that begins with the name of the amount.

    The message describes the valid form, and does not quote the value.
    """


class TooPreciseError(QuantityError):
    """An amount is more precise than allowed: CPUs must be multiples of 0.001, durations whole minutes."""


def parse_memory(value: object) -> int:
    """Return an amount of memory, which a user or admin wrote, in bytes.

    :param value: whole number of bytes, or text with a unit: ``16G`` = ``16Gi`` = ``16 GiB`` = 16 × 1024^3 bytes. In a
        text, a fraction of a byte is dropped. JupyterHub's ``ByteSpecification`` reads ``16G`` in the same way, but
        does not accept ``16Gi`` or ``16 GiB``.
    :raises QuantityError: for anything else, and for 2^63 bytes or more.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _check_range(Fraction(value))
    if isinstance(value, float) and value.is_integer():
        return _check_range(Fraction(value))
    return _parse_memory_text(_strip_text(value) if isinstance(value, str) else "")


def parse_cpu(value: object) -> int:
    """Return a number of CPUs, which a user or admin wrote, in millicores.

    :param value: number of CPUs (``2``, ``0.5``, ``"0.5"``) or text in millicores (``"500m"``).
    :raises QuantityError: for anything else, and for 2^63 millicores or more.
    :raises TooPreciseError: for a fraction of a millicore.
    """
    return _parse_cpu_text(_read_number_text(value))


def parse_quantity(value: object) -> Fraction:
    """Return a Kubernetes quantity as an exact number of CPUs, bytes or devices.

    Kubernetes rounds a quantity up to a multiple of 10^-9. This function does not round, because all callers round up
    the result.

    :param value: ``resource.Quantity`` as in JSON: text, rarely a number.
    :raises QuantityError: for anything else, for a negative quantity, and for 2^63 or more.
    """
    text = _read_number_text(value)
    match = None if text is None else _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(gettext_lazy("must be a Kubernetes quantity, such as 500m or 16Gi"))
    scale = Fraction(10) ** int(match["exponent"]) if match["exponent"] else _QUANTITY_UNITS[match["unit"] or ""]
    number = Fraction(match["number"]) * scale
    _check_range(number)
    return number


def parse_millis(value: object) -> int:
    """Return a Kubernetes quantity in thousandths, rounded up as Kubernetes' ``MilliValue`` does.

    :raises QuantityError: for a value that :func:`parse_quantity` does not accept.
    """
    return math.ceil(parse_quantity(value) * 1000)


def parse_whole_units(value: object) -> int:
    """Return a Kubernetes quantity in whole units (bytes, devices), rounded up as Kubernetes' ``Value`` does.

    :raises QuantityError: for a value that :func:`parse_quantity` does not accept.
    """
    return math.ceil(parse_quantity(value))


def format_memory(size_bytes: int) -> str:
    """Return an exact amount of memory for users: ``16 GiB``. In English, :func:`parse_memory` accepts it."""
    return show_decimals(_format_memory(size_bytes))


def format_memory_lazy(size_bytes: int) -> LazyDecimals:
    """Return :func:`format_memory`'s text for a message that is cached for several languages."""
    return LazyDecimals(_format_memory(size_bytes))


@lru_cache(maxsize=4096)
def _format_memory(size_bytes: int) -> str:
    for unit, factor in _MEMORY_UNITS.items():
        if size_bytes >= factor and size_bytes * 1000 % factor == 0:
            return f"{_format_decimal(Fraction(size_bytes, factor))} {unit if unit == 'B' else f'{unit}iB'}"
    return "0 B"


@lru_cache(maxsize=4096)
def format_cpu(millis: int) -> str:
    """Return CPUs as an exact decimal number without a unit, the same in all languages: ``2``, ``0.5``.

    :param millis: millicores.
    """
    return _format_decimal(Fraction(millis, 1000))


def format_bare_cpus(millis: int) -> str:
    """Return CPUs for users, exactly and without a unit: ``2``, ``0.5``; in German ``0,5``.

    :param millis: millicores.
    """
    return show_decimals(format_cpu(millis))


def format_memory_option(size_bytes: int) -> str:
    """Return an amount of memory as user options have it: ``16G``, in the largest unit that needs no decimals."""
    for unit, factor in _MEMORY_UNITS.items():
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return "0B"


@lru_cache(maxsize=4096)
def format_gib(size_bytes: int) -> str:
    """Return bytes as an exact decimal number of GiB for form fields: ``16``, ``0.5``."""
    return _format_decimal(Fraction(size_bytes, _GIB))


_TENTHS = 10
_MILLIS_PER_CPU = 1000
_MIN_ROUNDED_BYTES = 1 << 20
"""Memory below this many bytes is shown exactly, other memory rounded."""
_ROUNDED_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))


def format_rounded_cpus(millis: int, *, round_up: bool = True) -> str:
    """Return CPUs rounded to tenths, with the unit: ``4 CPUs``, ``0.5 CPU``.

    :param millis: millicores.
    :param round_up: True rounds up (for requested amounts), False rounds down (for available amounts).
    """
    return format_exact_cpus(round_cpu(millis, round_up=round_up))


def round_cpu(millis: int, *, round_up: bool = True) -> int:
    """Return millicores rounded to tenths of a CPU.

    :param millis: millicores.
    :param round_up: True rounds up (for requested amounts), False rounds down (for available amounts). A request that
        exceeds the available amount is therefore shown as the larger number.
    """
    tenth = _MILLIS_PER_CPU // _TENTHS
    return (-(-millis // tenth) if round_up else millis // tenth) * tenth


def format_exact_cpus(millis: int) -> str:
    """Return CPUs exactly, with the unit: ``4 CPUs``, ``0.25 CPU``.

    :param millis: millicores.
    """
    return ngettext(
        "{amount} CPU", "{amount} CPUs", number=-(-millis // _MILLIS_PER_CPU), amount=format_bare_cpus(millis)
    )


def format_rounded_memory(size_bytes: int, *, round_up: bool = True) -> str:
    """Return memory rounded to tenths of its largest unit: ``16 GiB``, ``503.4 GiB``; below 1 MiB, return it exactly.

    :param round_up: True rounds up (for requested amounts), False rounds down (for available amounts).
    """
    if size_bytes < _MIN_ROUNDED_BYTES:
        return format_memory(size_bytes)
    unit, factor = next((unit, factor) for unit, factor in _ROUNDED_UNITS if size_bytes >= factor)
    exact = Fraction(size_bytes * _TENTHS, factor)
    tenths = math.ceil(exact) if round_up else math.floor(exact)
    return show_decimals(f"{tenths // _TENTHS}{f'.{tenths % _TENTHS}' if tenths % _TENTHS else ''} {unit}")


def _strip_text(value: str) -> str:
    """Return a text without outer spaces; if it is too long, return an empty text, which no pattern matches."""
    return value.strip() if len(value) <= _MAX_LENGTH else ""


def _read_number_text(value: object) -> str | None:
    if isinstance(value, str):
        return _strip_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _UPPER_BOUND:
        return None
    return _format_number(value)


@lru_cache(maxsize=4096)
def _parse_memory_text(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise QuantityError(gettext_lazy("must be an amount of memory with a unit, such as 512M or 16G"))
    return _check_range(Fraction(match["number"]) * _MEMORY_UNITS[(match["unit"] or "B").upper()])


@lru_cache(maxsize=4096)
def _parse_cpu_text(text: str | None) -> int:
    match = None if text is None else _CPU.fullmatch(text)
    if match is None:
        raise QuantityError(gettext_lazy("must be a number of CPUs, such as 0.5 or 4"))
    millis = Fraction(match["number"]) * (1 if match["unit"] else 1000)
    if millis.denominator != 1:
        raise TooPreciseError(gettext_lazy("must be a multiple of 0.001 CPUs"))
    return _check_range(millis)


@lru_cache(maxsize=4096)  # 2 and 2.0 share a cache entry, which is right: both give the text "2".
def _format_number(number: float) -> str:
    # repr() is the shortest text that reads back as the same float: 0.1, not 0.1000000000000000055…
    return _format_decimal(Fraction(repr(number)))


def _check_range(number: Fraction) -> int:
    if not 0 <= number < _UPPER_BOUND:
        message = gettext_lazy("is too large") if number > 0 else gettext_lazy("must not be negative")
        raise QuantityError(message)
    return int(number)


@lru_cache(maxsize=4096)
def _format_decimal(number: Fraction) -> str:
    """Return a number as an exact decimal. For a number without a finite decimal form, such as 1/3, this never ends."""
    digits = 0
    while number * 10**digits % 1:
        digits += 1
    scaled = str(int(number * 10**digits)).rjust(digits + 1, "0")
    return scaled if digits == 0 else f"{scaled[:-digits]}.{scaled[-digits:]}"
