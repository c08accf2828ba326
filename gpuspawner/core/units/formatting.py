"""Format CPU, memory, rough durations and vendor names as users read them."""

from __future__ import annotations

import math
from fractions import Fraction

from gpuspawner.core.text.i18n import gettext, gettext_lazy, ngettext
from gpuspawner.core.units.quantity import format_cpu, format_memory

_TENTHS = 10
_MILLIS_PER_CPU = 1000
_MIN_ROUNDED_BYTES = 1 << 20
"""Memory below this many bytes is shown exactly, other memory rounded."""
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))
_MINUTES_PER_HOUR = 60
_MIN_MINUTES_IN_HOURS = 90
"""Durations below this many minutes are shown in minutes, others in hours."""


_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def format_vendor(vendor: str) -> str:
    """Return a vendor's name in the vendor's spelling (``NVIDIA``).

    Return an unknown name unchanged, and "Other" for an empty name.
    """
    return _VENDOR_NAMES.get(vendor, vendor) or gettext_lazy("Other")


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
    return ngettext("{amount} CPU", "{amount} CPUs", number=-(-millis // _MILLIS_PER_CPU), amount=format_cpu(millis))


def format_rounded_memory(size_bytes: int, *, round_up: bool = True) -> str:
    """Return memory rounded to tenths of its largest unit: ``16 GiB``, ``503.4 GiB``; below 1 MiB, return it exactly.

    :param size_bytes: bytes.
    :param round_up: True rounds up (for requested amounts), False rounds down (for available amounts).
    """
    if size_bytes < _MIN_ROUNDED_BYTES:
        return format_memory(size_bytes)
    unit, factor = next((unit, factor) for unit, factor in _UNITS if size_bytes >= factor)
    exact = Fraction(size_bytes * _TENTHS, factor)
    tenths = math.ceil(exact) if round_up else math.floor(exact)
    return f"{tenths // _TENTHS}{f'.{tenths % _TENTHS}' if tenths % _TENTHS else ''} {unit}"


def format_rough_duration(minutes: float) -> str:
    """Return a rough duration: ``less than a minute``, ``about 6 min``, ``about 2 h``.

    :param minutes: 0 or more.
    """
    if minutes < 1:
        return gettext("less than a minute")
    if minutes < _MIN_MINUTES_IN_HOURS:
        return gettext("about {minutes} min", minutes=round(minutes))
    return gettext("about {hours} h", hours=round(minutes / _MINUTES_PER_HOUR))


def format_age(seconds: float) -> str:
    """Return the age of data, rounded down: ``as of 75 s ago``, ``as of 12 min ago``."""
    minutes = int(seconds) // 60
    if minutes < 2:  # noqa: PLR2004 - two minutes
        return gettext("as of {seconds} s ago", seconds=int(seconds))
    if minutes < _MIN_MINUTES_IN_HOURS:
        return gettext("as of {minutes} min ago", minutes=minutes)
    return gettext("as of {hours} h ago", hours=minutes // _MINUTES_PER_HOUR)
