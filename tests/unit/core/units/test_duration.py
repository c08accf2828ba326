from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.units.duration import (
    format_age,
    format_clock,
    format_duration,
    format_duration_option,
    format_rough_duration,
    parse_duration,
)
from gpuspawner.core.units.quantity import QuantityError, TooPreciseError

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60
LENGTHS = st.integers(1, 10**7).map(lambda minutes: minutes * MINUTE)


@given(LENGTHS)
def test_a_duration_in_user_options_reads_back_as_the_same(length_s: int):
    assert parse_duration(format_duration_option(length_s)) == length_s


@given(LENGTHS)
def test_a_duration_for_users_reads_back_as_the_same(length_s: int):
    assert parse_duration(format_duration(length_s)) == length_s


@pytest.mark.parametrize(
    ("text", "length_s"),
    [
        ("30m", 30 * MINUTE),
        ("8h", 8 * HOUR),
        ("2d", 2 * DAY),
        ("2h30m", 150 * MINUTE),
        ("2h 30m", 150 * MINUTE),
        ("2d6h15m", 2 * DAY + 6 * HOUR + 15 * MINUTE),
        ("1d 15m", DAY + 15 * MINUTE),
        (" 1.5 h ", 90 * MINUTE),
        (".5d", 12 * HOUR),
        ("1.h", HOUR),
        ("90 min", 90 * MINUTE),
        ("1 Hour 1 Minute", HOUR + MINUTE),
        ("3 DAYS", 3 * DAY),
        ("0m", 0),
    ],
)
def test_a_duration_is_read_in_units(text: str, length_s: int):
    assert parse_duration(text) == length_s


@pytest.mark.parametrize(
    "junk",
    [
        *("", " ", "8", "h", ".h", "8 o'clock", "-8h", "+8h", "1,5h", "1e1h", "8s", "8:30", "PT8H", "30m8h", "8h8h"),
        *("2h30", "8  h", "8h  30m", "\u0668h", "8\u00a0h", "infd", "NaNh", "9" * 64 + "h", None, True, 8, 8.0, ["8h"]),
    ],
)
def test_text_that_is_no_duration_is_refused(junk: object):
    with pytest.raises(QuantityError, match=r"^must be a duration with a unit, such as 30m, 8h or 2d$"):
        parse_duration(junk)


@pytest.mark.parametrize("fine", ["0.5m", "0.01h", "0.001d"])
def test_a_part_of_a_minute_is_too_fine(fine: str):
    with pytest.raises(TooPreciseError):
        parse_duration(fine)


@pytest.mark.parametrize("text", ["9" * 63 + "d", "1" * 64, " ".join("1" * 32), "1.1.1.1.1.1.1.1.1.1.1.1h"])
def test_no_text_takes_long_to_read(text: str):
    began = time.process_time()
    for _ in range(1000):
        try:
            parse_duration(text)
        except QuantityError:
            continue
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("length_s", "option", "text"),
    [
        (MINUTE, "1m", "1 minute"),
        (45 * MINUTE, "45m", "45 minutes"),
        (HOUR, "1h", "1 hour"),
        (90 * MINUTE, "1h30m", "1 hour 30 minutes"),
        (DAY, "24h", "24 hours"),
        (47 * HOUR, "47h", "47 hours"),
        (2 * DAY, "2d", "2 days"),
        (2 * DAY + HOUR + MINUTE, "2d1h1m", "2 days 1 hour 1 minute"),
        (0, "0m", "0 minutes"),
    ],
)
def test_days_are_counted_from_the_second_one_on(length_s: int, option: str, text: str):
    assert (format_duration_option(length_s), format_duration(length_s)) == (option, text)


@pytest.mark.parametrize(
    ("minutes", "text"),
    [(0.5, "less than a minute"), (1, "about 1 min"), (6.4, "about 6 min"), (89, "about 89 min"), (120, "about 2 h")],
)
def test_a_duration_is_rough(minutes: float, text: str):
    assert format_rough_duration(minutes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(61.9, "61 s"), (119, "119 s"), (120, "2 min"), (5399, "89 min"), (7300, "2 h")]
)
def test_an_age_is_never_more_than_it_is(seconds: float, text: str):
    assert format_age(seconds) == f"as of {text} ago"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (130, "2 min 10 s"),
        (300, "5 min"),
        (3600, "1 h"),
        (5430, "1 h 30 min"),
    ],
    ids=str,
)
def test_a_timer_shows_a_time_as_the_script_does(seconds: float, text: str):
    """``tests/unit/js/waiting.test.mjs`` has the same table."""
    assert format_clock(seconds) == text
