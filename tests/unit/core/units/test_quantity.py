from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.units.quantity import (
    QuantityError,
    TooPreciseError,
    format_cpu,
    format_gib,
    format_memory,
    format_memory_option,
    parse_cpu,
    parse_memory,
    parse_millis,
    parse_quantity,
    parse_whole_units,
)

GIB = 1 << 30
AMOUNTS = st.integers(0, 2**63 - 1) | st.integers(0, 2**23 - 1).map(lambda number: number * GIB)
JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(1000),
    "E-2": Fraction(1, 100),
}


@given(AMOUNTS)
def test_memory_for_users_reads_back_as_the_same_bytes(size: int):
    assert parse_memory(format_memory(size)) == size


@given(AMOUNTS)
def test_memory_in_user_options_reads_back_as_the_same_bytes(size: int):
    assert parse_memory(format_memory_option(size)) == size


@given(AMOUNTS)
def test_memory_of_a_form_field_reads_back_as_the_same_bytes(size: int):
    assert parse_memory(f"{format_gib(size)}G") == size


@given(st.integers(0, 2**40))
def test_cpus_for_users_read_back_as_the_same_millicores(millis: int):
    assert parse_cpu(format_cpu(millis)) == millis


@given(st.integers(0, 2**40))
def test_a_json_number_of_cpus_is_read_exactly(millis: int):
    assert parse_cpu(millis / 1000) == millis


@given(AMOUNTS, AMOUNTS)
def test_reading_kubernetes_quantities_keeps_their_order(one: int, other: int):
    assert (parse_quantity(str(one)) < parse_quantity(str(other))) == (one < other)


@given(st.decimals(min_value=0, max_value=10**6, places=4), st.decimals(min_value=0, max_value=10**6, places=4))
def test_reading_memory_keeps_its_order(one: object, other: object):
    first, second = parse_memory(f"{one}G"), parse_memory(f"{other}G")
    assert (first <= second) or Fraction(str(one)) > Fraction(str(other))


@given(st.decimals(min_value=0, max_value=10**5, places=6), st.sampled_from(sorted(SUFFIXES)))
def test_kubernetes_quantities_agree_with_exact_fractions(number: object, suffix: str):
    expected = Fraction(str(number)) * SUFFIXES[suffix]
    assert parse_quantity(f"{number}{suffix}") == expected
    assert parse_whole_units(f"{number}{suffix}") == math.ceil(expected)
    assert parse_millis(f"{number}{suffix}") == math.ceil(expected * 1000)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16G", 16 * GIB),
        ("16Gi", 16 * GIB),
        ("16GiB", 16 * GIB),
        ("16 GiB", 16 * GIB),
        ("16 gb", 16 * GIB),
        ("512mb", GIB // 2),
        (" 1.5G ", 3 * GIB // 2),
        ("512M", GIB // 2),
        (".5K", 512),
        (1024, 1024),
        (1024.0, 1024),
        ("0.0001K", 0),
    ],
)
def test_memory_is_read_as_jupyterhub_reads_it(text: object, size: int):
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "16",
        "G",
        "1e3G",
        "-1G",
        "1,5G",
        "16 m",
        "16 GBit",
        "\u0661G",
        "NaN",
        "9" * 65 + "G",
        None,
        True,
        0.5,
        -1,
        [1],
    ],
)
def test_text_that_is_no_memory_is_refused(junk: object):
    with pytest.raises(QuantityError):
        parse_memory(junk)


@pytest.mark.parametrize(
    ("text", "millis"), [("2", 2000), ("0.5", 500), ("500m", 500), (2, 2000), (0.1, 100), ("1.", 1000)]
)
def test_cpus_are_read_in_millicores(text: object, millis: int):
    assert parse_cpu(text) == millis


@pytest.mark.parametrize(
    "junk", ["", "m", "2 CPUs", "1e3", "-1", "+1", "½", None, True, float("nan"), float("inf"), [2]]
)
def test_text_that_is_no_number_of_cpus_is_refused(junk: object):
    with pytest.raises(QuantityError):
        parse_cpu(junk)


@pytest.mark.parametrize("fine", ["0.0001", "0.5m", 0.0001])
def test_less_than_a_millicore_is_refused_as_too_fine(fine: object):
    with pytest.raises(TooPreciseError):
        parse_cpu(fine)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1G", 10**9),
        ("1Gi", 2**30),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e-1", Fraction(1, 10)),
        (8, 8),
        (0.5, Fraction(1, 2)),
    ],
)
def test_kubernetes_units_are_kubernetes_own(text: object, number: Fraction | int):
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "junk", ["", "1 G", "1g", "1KiB", "-1", "1e999", "1e9999999999", "9223372036854775808", "10E", None, True, {}]
)
def test_text_that_is_no_kubernetes_quantity_is_refused(junk: object):
    with pytest.raises(QuantityError):
        parse_quantity(junk)


@pytest.mark.parametrize(("text", "millis"), [("1500m", 1500), ("1n", 1), ("0", 0), ("1100u", 2)])
def test_millicores_are_rounded_up(text: str, millis: int):
    assert parse_millis(text) == millis


@pytest.mark.parametrize(("text", "units"), [("1500m", 2), ("8", 8), ("1k", 1000)])
def test_units_are_rounded_up(text: str, units: int):
    assert parse_whole_units(text) == units


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (16 * GIB, "16 GiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (GIB // 2, "512 MiB"),
        (1024 * GIB, "1 TiB"),
        (1, "1 B"),
        (1025 << 20, "1025 MiB"),
        (0, "0 B"),
    ],
)
def test_memory_is_shown_in_the_largest_unit_that_is_exact(size: int, text: str):
    assert format_memory(size) == text


@pytest.mark.parametrize(
    ("size", "text"), [(16 * GIB, "16G"), (3 * GIB // 2, "1536M"), (2048 * GIB, "2T"), (5, "5B"), (0, "0B")]
)
def test_memory_in_user_options_has_no_decimals(size: int, text: str):
    assert format_memory_option(size) == text


@given(JSON_SCALARS)
def test_any_value_is_an_amount_or_refused(value: object):
    for parse in (parse_memory, parse_cpu, parse_quantity):
        try:
            amount = parse(value)
        except QuantityError:
            continue
        assert 0 <= amount < 2**63
