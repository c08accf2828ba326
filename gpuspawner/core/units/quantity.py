"""Amounts of CPU and memory as exact whole numbers: millicores and bytes, never floats.

Two notations meet here and are kept apart. What people and settings write follows JupyterHub's ``ByteSpecification``,
where ``16G`` is 16 × 1024^3 bytes; what Kubernetes objects hold follows its own arithmetic, where ``16G`` is
16 × 1000^3 bytes (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from gpuspawner.core.text.language import later

_LONGEST = 64
"""Characters: the longest text worth reading; nobody types more, and arithmetic on it would cost time."""
_LARGEST = 2**63
"""First number that Kubernetes cannot hold (it counts in signed 64 bits)."""

_GIB = 1024**3
_MEMORY_UNITS = {"T": 1024**4, "G": _GIB, "M": 1024**2, "K": 1024, "B": 1}
_KUBERNETES_UNITS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}

_NUMBER = r"(?P<number>\d+\.?\d*|\.\d+)"
_CPU = re.compile(rf"{_NUMBER}(?P<unit>m?)", re.ASCII)
# People write 16G, 16 GiB and 16gb: all the same here. A lone small m is no unit: in Kubernetes it means thousandths.
_MEMORY = re.compile(rf"{_NUMBER} ?(?:(?P<unit>[KMGTkgt]|m(?=[iIbB]))[iI]?[bB]?|[bB])", re.ASCII)
_KUBERNETES = re.compile(
    rf"\+?{_NUMBER}(?:(?P<unit>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d{{1,3}}))?", re.ASCII
)


class QuantityError(ValueError):
    """A text or value is not an amount; the message says what would be, without quoting the value."""


class TooFineError(QuantityError):
    """An amount is finer than what Kubernetes can grant (one thousandth of a CPU)."""


def parse_memory(value: object) -> int:
    """Return the bytes a person or a setting means.

    :param value: whole number of bytes, or a text with a unit: ``16G`` = ``16Gi`` = ``16 GiB`` = 16 × 1024^3 bytes, as
        JupyterHub's ``ByteSpecification`` reads it. Parts of a byte are dropped, as there.
    :raises QuantityError: anything else, and amounts of 2^63 bytes or more.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(Fraction(value))
    if isinstance(value, float) and value.is_integer():
        return _bounded(Fraction(value))
    return _memory_bytes(_text(value) if isinstance(value, str) else "")


def parse_cpu(value: object) -> int:
    """Return the millicores a person or a setting means.

    :param value: number of CPUs (``2``, ``0.5``, ``"0.5"``) or a text in millicores (``"500m"``).
    :raises QuantityError: anything else, and 2^63 millicores or more.
    :raises TooFineError: a part of a millicore.
    """
    return _cpu_millis(_number_text(value))


def parse_kubernetes(value: object) -> Fraction:
    """Return a Kubernetes quantity, exactly: CPUs, bytes or a count.

    Finer parts than 10^-9 are kept; Kubernetes rounds them up, which no rounding up that follows can tell apart.

    :param value: ``resource.Quantity`` as JSON holds it: a text, rarely a number.
    :raises QuantityError: no quantity, a negative one (no amount here can be), or 2^63 and more.
    """
    text = _number_text(value)
    match = None if text is None else _KUBERNETES.fullmatch(text)
    if match is None:
        raise QuantityError(later("must be a Kubernetes quantity, such as 500m or 16Gi"))
    scale = Fraction(10) ** int(match["exponent"]) if match["exponent"] else _KUBERNETES_UNITS[match["unit"] or ""]
    number = Fraction(match["number"]) * scale
    _bounded(number)
    return number


def to_millis(value: object) -> int:
    """Return a Kubernetes quantity in thousandths, rounded up as Kubernetes' ``MilliValue`` does.

    :raises QuantityError: as :func:`parse_kubernetes`.
    """
    return math.ceil(parse_kubernetes(value) * 1000)


def to_units(value: object) -> int:
    """Return a Kubernetes quantity in whole units (bytes, devices), rounded up as Kubernetes' ``Value`` does.

    :raises QuantityError: as :func:`parse_kubernetes`.
    """
    return math.ceil(parse_kubernetes(value))


@lru_cache(maxsize=4096)
def format_memory(size_bytes: int) -> str:
    """Return bytes for people: ``16 GiB``, ``1.5 GiB``, ``512 MiB``; always exact, so :func:`parse_memory` reads it."""
    for unit, factor in _MEMORY_UNITS.items():
        if size_bytes >= factor and size_bytes * 1000 % factor == 0:
            return f"{_decimal(Fraction(size_bytes, factor))} {unit if unit == 'B' else f'{unit}iB'}"
    return "0 B"


@lru_cache(maxsize=4096)
def format_cpu(millis: int) -> str:
    """Return millicores as a number of CPUs for people and form fields: ``2``, ``0.5``."""
    return _decimal(Fraction(millis, 1000))


def memory_option(size_bytes: int) -> str:
    """Return bytes as user options hold them: ``16G``, in the largest unit that needs no decimals."""
    for unit, factor in _MEMORY_UNITS.items():
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return "0B"


@lru_cache(maxsize=4096)
def gib(size_bytes: int) -> str:
    """Return bytes as an exact decimal number of GiB for form fields: ``16``, ``0.5``."""
    return _decimal(Fraction(size_bytes, _GIB))


def _text(value: str) -> str:
    """Return a text without the spaces around it; one that is too long becomes one that nothing matches."""
    return value.strip() if len(value) <= _LONGEST else ""


def _number_text(value: object) -> str | None:
    """Return a number or text as text, None for everything else (bool is an int in Python, and no amount)."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return _written_out(value)


# Everybody asks for the same few amounts, and each is looked at several times on its way into a pod.
@lru_cache(maxsize=4096)
def _memory_bytes(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise QuantityError(later("must be an amount of memory with a unit, such as 512M or 16G"))
    return _bounded(Fraction(match["number"]) * _MEMORY_UNITS[(match["unit"] or "B").upper()])


@lru_cache(maxsize=4096)
def _cpu_millis(text: str | None) -> int:
    match = None if text is None else _CPU.fullmatch(text)
    if match is None:
        raise QuantityError(later("must be a number of CPUs, such as 0.5 or 4"))
    millis = Fraction(match["number"]) * (1 if match["unit"] else 1000)
    if millis.denominator != 1:
        raise TooFineError(later("must be a multiple of 0.001 CPUs"))
    return _bounded(millis)


# Whole or not, equal numbers are written the same.
@lru_cache(maxsize=4096)
def _written_out(number: float) -> str:
    """Return a number as decimal text.

    repr of a float is the shortest text that means it (0.1, not 0.1000000000000000055…), at most with an exponent.
    """
    return _decimal(Fraction(repr(number)))


def _bounded(number: Fraction) -> int:
    if not 0 <= number < _LARGEST:
        raise QuantityError(later("is too large") if number > 0 else later("must not be negative"))
    return int(number)


# A form shows the same few bounds and sizes to everybody, several times a page.
@lru_cache(maxsize=4096)
def _decimal(number: Fraction) -> str:
    """Return a fraction whose denominator has no prime factors but 2 and 5 as decimal text."""
    digits = 0
    while number * 10**digits % 1:
        digits += 1
    scaled = str(int(number * 10**digits)).rjust(digits + 1, "0")
    return scaled if digits == 0 else f"{scaled[:-digits]}.{scaled[-digits:]}"
