"""Numbers are read as users write them in their language, and are never taken for a thousand times as much."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.request.options import parse_form, read_typed_amounts
from gpuspawner.core.text.decimals import read_decimals, show_decimals
from gpuspawner.core.text.i18n import ENGLISH, Language, use_language
from gpuspawner.core.units.quantity import (
    QuantityError,
    format_cpu,
    format_exact_cpus,
    format_gib,
    format_memory,
    format_rounded_memory,
    parse_cpu,
    parse_memory,
)
from gpuspawner.hub.request.languages import load_languages

GIB = 1 << 30
GERMAN = load_languages()["de"]
every_language = pytest.mark.parametrize("language", load_languages().values(), ids=lambda language: language.tag)


def sent(name: str, typed: str) -> object:
    """Return the user option that a form becomes."""
    return parse_form(read_typed_amounts({name: [typed]}))[name]


@every_language
@given(millis=st.integers(1, 2**40))
def test_cpus_that_a_field_shows_are_read_back(language: Language, millis: int):
    with use_language(language):
        assert parse_cpu(sent("cpu", show_decimals(format_cpu(millis)))) == millis


@every_language
@given(size=st.integers(1, 2**44).map(lambda number: number * 1024))
def test_memory_that_a_field_shows_is_read_back(language: Language, size: int):
    with use_language(language):
        assert parse_memory(sent("memory", show_decimals(format_gib(size)))) == size


@every_language
@given(text=st.text("0123456789.,Ghm ", max_size=12))
def test_a_typed_number_is_shown_again_as_a_text_with_the_same_meaning(language: Language, text: str):
    with use_language(language):
        plain = read_decimals(text)
        assert read_decimals(show_decimals(plain)) == plain


@every_language
@given(
    whole=st.integers(1, 999),
    thousands=st.lists(st.integers(0, 999), min_size=1, max_size=2),
    mark=st.sampled_from(",."),
)
def test_thousands_are_never_read_as_a_thousandth_or_as_a_thousand_times(
    language: Language, whole: int, thousands: list[int], mark: str
):
    """Where a text with groups of three digits is read at all, it is with the language's own decimal mark."""
    typed = f"{whole}{''.join(f'{mark}{each:03}' for each in thousands)}"
    with use_language(language):
        try:
            read = parse_cpu(sent("cpu", typed))
        except QuantityError:
            return
        assert (len(thousands), mark) == (1, show_decimals("0.5")[1])
        assert show_decimals(format_cpu(read)) == typed


@pytest.mark.parametrize(
    ("language", "typed", "millis"),
    [
        pytest.param(GERMAN, "0,5", 500, id="German, comma"),
        pytest.param(GERMAN, "0.5", 500, id="German, point"),
        pytest.param(GERMAN, ",5", 500, id="German, no zero"),
        pytest.param(GERMAN, "0,125", 125, id="German, three decimals"),
        pytest.param(GERMAN, "0.125", 125, id="German, three decimals with a point"),
        pytest.param(GERMAN, "1,125", 1125, id="German, more than one"),
        pytest.param(GERMAN, "1000", 1_000_000, id="German, a thousand"),
        pytest.param(ENGLISH, "0.5", 500, id="English"),
        pytest.param(ENGLISH, "1.125", 1125, id="English, three decimals"),
    ],
)
def test_numbers_with_these_marks_are_read(language: Language, typed: str, millis: int):
    with use_language(language):
        assert parse_cpu(sent("cpu", typed)) == millis


@pytest.mark.parametrize(
    ("language", "typed"),
    [
        *(pytest.param(GERMAN, each, id=f"German {each}") for each in ("1.000", "1,000", "1.125", "1.000,5", "1.5.5")),
        *(pytest.param(ENGLISH, each, id=f"English {each}") for each in ("0,5", "1,000", "1.000", "1,000.5", "1,125")),
        pytest.param(load_languages()["zh-cn"], "0,5", id="Chinese 0,5"),
    ],
)
def test_numbers_with_these_marks_are_refused(language: Language, typed: str):
    with use_language(language), pytest.raises(QuantityError):
        parse_cpu(sent("cpu", typed))


def test_amounts_are_shown_as_the_language_writes_them():
    with use_language(GERMAN):
        shown = format_memory(3 * GIB // 2), format_exact_cpus(250), format_rounded_memory(GIB * 5 // 4)
        assert (*shown, show_decimals("2h30m")) == ("1,5 GiB", "0,25 CPU", "1,3 GiB", "2h30m")
    assert format_memory(3 * GIB // 2) == "1.5 GiB"


@given(number=st.fractions(0, 10**6))
def test_only_forms_know_of_commas(number: Fraction):
    text = f"{float(number):f}".rstrip("0").rstrip(".").replace(".", ",")
    with use_language(GERMAN):
        if "," in text:
            with pytest.raises(QuantityError):
                parse_cpu(text)
