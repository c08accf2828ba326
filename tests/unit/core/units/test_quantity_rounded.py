from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.units.quantity import format_exact_cpus, format_rounded_cpus, format_rounded_memory

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


def test_available_amounts_are_rounded_down():
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
def test_a_larger_request_never_looks_like_the_smaller_available_amount(has: int, more: int):
    assert format_rounded_memory(has + more) != format_rounded_memory(has, round_up=False)
    assert format_rounded_cpus(has + more) != format_rounded_cpus(has, round_up=False)
