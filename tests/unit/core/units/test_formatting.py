from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.units.formatting import (
    format_age,
    format_exact_cpus,
    format_rough_duration,
    format_rounded_cpus,
    format_rounded_memory,
    format_vendor,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("millis", "text"), [(1000, "1 CPU"), (500, "0.5 CPU"), (96_000, "96 CPUs"), (1950, "2 CPUs"), (0, "0 CPUs")]
)
def test_cpus_are_shown_in_tenths(millis: int, text: str):
    assert format_rounded_cpus(millis) == text


@pytest.mark.parametrize(
    ("millis", "text"), [(1000, "1 CPU"), (250, "0.25 CPU"), (1001, "1.001 CPUs"), (64_000, "64 CPUs"), (0, "0 CPUs")]
)
def test_cpus_that_were_chosen_are_exact(millis: int, text: str):
    assert format_exact_cpus(millis) == text


def test_what_is_there_is_rounded_down():
    assert (
        format_rounded_cpus(63_770, round_up=False),
        format_rounded_memory(503 * GIB + GIB // 2 - 1, round_up=False),
    ) == ("63.7 CPUs", "503.4 GiB")


@pytest.mark.parametrize(
    ("size", "text"),
    [(16 * GIB, "16 GiB"), (GIB // 2, "512 MiB"), (1536 * GIB, "1.5 TiB"), (GIB + 1, "1.1 GiB"), (0, "0 B")],
)
def test_memory_is_shown_in_tenths(size: int, text: str):
    assert format_rounded_memory(size) == text


@given(st.integers(0, 2**45), st.integers(1, 2**40))
def test_what_is_needed_never_looks_like_what_is_there_and_less(has: int, more: int):
    assert format_rounded_memory(has + more) != format_rounded_memory(has, round_up=False)
    assert format_rounded_cpus(has + more) != format_rounded_cpus(has, round_up=False)


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
    ("vendor", "name"), [("nvidia", "NVIDIA"), ("amd", "AMD"), ("intel", "Intel"), ("acme", "acme"), ("", "Other")]
)
def test_a_vendor_is_named_as_it_writes_itself(vendor: str, name: str):
    assert format_vendor(vendor) == name
