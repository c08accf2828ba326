"""Parse and format exact durations, which users and admins choose in whole minutes; format rough ones for messages."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from gpuspawner.core.text.i18n import gettext, gettext_lazy, ngettext
from gpuspawner.core.units.quantity import QuantityError, TooPreciseError

_MAX_LENGTH = 64
"""Largest number of characters of a duration; a longer text is rejected before it is parsed."""

_MINUTE_S = 60
_UNITS = (("day", 24 * 60), ("hour", 60), ("minute", 1))
_MIN_MINUTES_IN_DAYS = 2 * 24 * 60
"""Durations below this number of minutes are shown in hours: ``30 hours``, not ``1 day 6 hours``."""

_NUMBER = r"(\d+\.?\d*|\.\d+)"
# The pattern accepts the short form (8h, 2h30m, 2d6h) and the long form (8 hours, 2 hours 30 minutes).
_DURATION = re.compile(
    rf"(?:{_NUMBER} ?d(?:ays?)?)? ?(?:{_NUMBER} ?h(?:ours?)?)? ?(?:{_NUMBER} ?m(?:in(?:utes?)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def parse_duration(value: object) -> int:
    """Parse a duration that a user or admin wrote; return seconds, a multiple of 60.

    :param value: text with units: ``30m``, ``8h``, ``1.5h``, ``2d``, ``2h30m``, ``2 hours 30 minutes``.
    :raises QuantityError: for anything else, including a number without a unit.
    :raises TooPreciseError: for a fraction of a minute.
    """
    return _parse_seconds(value.strip() if isinstance(value, str) and len(value) <= _MAX_LENGTH else "")


def format_duration_option(duration_s: int) -> str:
    """Return a duration in the notation of user options and form fields: ``30m``, ``8h``, ``2h30m``, ``2d``.

    :param duration_s: seconds; a fraction of a minute is dropped.
    """
    return "".join(f"{number}{unit[0]}" for unit, number in _split_units(duration_s)) or "0m"


def format_duration(duration_s: int) -> str:
    """Return a duration in words, for users: ``8 hours``, ``2 hours 30 minutes``.

    :param duration_s: seconds; a fraction of a minute is dropped.
    """
    text, *rest = [_format_unit(unit, number) for unit, number in _split_units(duration_s) or [("minute", 0)]]
    for each in rest:
        text = gettext("{longer} {shorter}", longer=text, shorter=each)
    return text


_MINUTES_PER_HOUR = 60
_MIN_MINUTES_IN_HOURS = 90
"""Rough durations below this many minutes are shown in minutes, others in hours."""


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


def format_clock(seconds: float) -> str:
    """Return a time for a timer, rounded down: ``9 s``, ``2 min 10 s``, ``5 min``, ``1 h 30 min``.

    ``templates/waiting.js`` formats times in the same way.

    :param seconds: 0 or more.
    """
    minutes, left_s = divmod(int(seconds), _MINUTE_S)
    if not minutes:
        return gettext("{seconds} s", seconds=left_s)
    if minutes < _MINUTES_PER_HOUR:
        if not left_s:
            return gettext("{minutes} min", minutes=minutes)
        return gettext("{minutes} min {seconds} s", minutes=minutes, seconds=left_s)
    hours, left = divmod(minutes, _MINUTES_PER_HOUR)
    return gettext("{hours} h {minutes} min", hours=hours, minutes=left) if left else gettext("{hours} h", hours=hours)


def format_last_update(seconds: float) -> str:
    """Return when data was last updated, as a clause: ``last update 75 s ago``."""
    minutes = int(seconds) // 60
    if minutes < 2:  # noqa: PLR2004 - two minutes
        return gettext("last update {seconds} s ago", seconds=int(seconds))
    if minutes < _MIN_MINUTES_IN_HOURS:
        return gettext("last update {minutes} min ago", minutes=minutes)
    return gettext("last update {hours} h ago", hours=minutes // _MINUTES_PER_HOUR)


@lru_cache(maxsize=4096)
def _parse_seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise QuantityError(gettext_lazy("must be a duration with a unit, such as 30m, 8h or 2d"))
    minutes = sum(Fraction(number or 0) * factor for number, (_, factor) in zip(found.groups(), _UNITS, strict=True))
    if minutes.denominator != 1:
        raise TooPreciseError(gettext_lazy("must be whole minutes"))
    return int(minutes) * _MINUTE_S


def _format_unit(unit: str, number: int) -> str:
    if unit == "day":
        return ngettext("{number} day", "{number} days", number=number)
    if unit == "hour":
        return ngettext("{number} hour", "{number} hours", number=number)
    return ngettext("{number} minute", "{number} minutes", number=number)


def _split_units(duration_s: int) -> list[tuple[str, int]]:
    left = duration_s // _MINUTE_S
    parts = []
    for unit, factor in _UNITS if left >= _MIN_MINUTES_IN_DAYS else _UNITS[1:]:
        number, left = divmod(left, factor)
        parts.append((unit, number))
    return [part for part in parts if part[1]]
