"""Amounts and names for people: numbers with their units, rounding that stays true."""

from __future__ import annotations

import math
from fractions import Fraction

from gpuspawner.core.text.i18n import gettext, gettext_lazy, ngettext
from gpuspawner.core.units.quantity import format_cpu, format_memory

_TENTHS = 10
_MILLIS_PER_CPU = 1000
_MIN_ROUNDED_BYTES = 1 << 20
"""Bytes from which on memory is shown in tenths of a unit."""
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))
_MINUTES_PER_HOUR = 60
_MIN_MINUTES_IN_HOURS = 90
"""Minutes from which on a duration is shown in hours."""


_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def format_vendor(vendor: str) -> str:
    """Return how a vendor writes itself; an unknown one as it is."""
    return _VENDOR_NAMES.get(vendor, vendor) or gettext_lazy("Other")


def format_rounded_cpus(millis: int, *, round_up: bool = True) -> str:
    """Return millicores for people in tenths of a CPU: ``4 CPUs``, ``0.5 CPU``.

    :param round_up: as for :func:`round_cpu`.
    """
    return format_exact_cpus(round_cpu(millis, round_up=round_up))


def round_cpu(millis: int, *, round_up: bool = True) -> int:
    """Return millicores in whole tenths of a CPU.

    :param round_up: round what is needed up and what is there down: never the other way, so that the two never look
        equal.
    """
    tenth = _MILLIS_PER_CPU // _TENTHS
    return (-(-millis // tenth) if round_up else millis // tenth) * tenth


def format_exact_cpus(millis: int) -> str:
    """Return millicores for people, exactly: ``4 CPUs``, ``0.25 CPU``."""
    return ngettext("{amount} CPU", "{amount} CPUs", number=-(-millis // _MILLIS_PER_CPU), amount=format_cpu(millis))


def format_rounded_memory(size_bytes: int, *, round_up: bool = True) -> str:
    """Return bytes for people in tenths of a unit: ``16 GiB``, ``503.4 GiB``.

    :param round_up: as for :func:`format_rounded_cpus`.
    """
    unit, factor = next(((unit, factor) for unit, factor in _UNITS if size_bytes >= factor), ("", 1))
    if size_bytes < _MIN_ROUNDED_BYTES:
        return format_memory(size_bytes)
    exact = Fraction(size_bytes * _TENTHS, factor)
    tenths = math.ceil(exact) if round_up else math.floor(exact)
    return f"{tenths // _TENTHS}{f'.{tenths % _TENTHS}' if tenths % _TENTHS else ''} {unit}"


def format_rough_duration(minutes: float) -> str:
    """Return a rough duration: ``less than a minute``, ``about 6 min``, ``about 2 h``."""
    if minutes < 1:
        return gettext("less than a minute")
    if minutes < _MIN_MINUTES_IN_HOURS:
        return gettext("about {minutes} min", minutes=round(minutes))
    return gettext("about {hours} h", hours=round(minutes / _MINUTES_PER_HOUR))


def format_age(seconds: float) -> str:
    """Return how long ago something was: ``as of 75 s ago``, ``as of 12 min ago``; never more than it is."""
    minutes = int(seconds) // 60
    if minutes < 2:  # noqa: PLR2004 - two minutes
        return gettext("as of {seconds} s ago", seconds=int(seconds))
    if minutes < _MIN_MINUTES_IN_HOURS:
        return gettext("as of {minutes} min ago", minutes=minutes)
    return gettext("as of {hours} h ago", hours=minutes // _MINUTES_PER_HOUR)
