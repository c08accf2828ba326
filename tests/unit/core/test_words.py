from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.words import (
    age,
    as_clause,
    as_sentence,
    counted,
    cpus,
    duration,
    listed,
    memory,
    vendor_name,
    with_article,
)

GIB = 1 << 30


@pytest.mark.parametrize(("number", "text"), [(0, "0 places"), (1, "1 place"), (2, "2 places")])
def test_a_noun_agrees_with_its_number(number: int, text: str):
    assert counted(number, "place") == text


@pytest.mark.parametrize(
    ("name", "article"),
    [
        ("A100 80 GB", "an"),
        ("H100", "an"),
        ("L4", "an"),
        ("MI300X", "an"),
        ("RTX 4090", "an"),
        ("NVIDIA GPU", "an"),
        ("Intel Arc", "an"),
        ("Instinct", "an"),
        ("T4", "a"),
        ("V100", "a"),
        ("GB200", "a"),
        ("Tesla", "a"),
        ("free A100", "a"),
    ],
)
def test_the_article_is_as_the_name_is_read(name: str, article: str):
    assert with_article(name) == f"{article} {name}"


@pytest.mark.parametrize(
    ("millis", "text"), [(1000, "1 CPU"), (500, "0.5 CPU"), (96_000, "96 CPUs"), (1950, "2 CPUs"), (0, "0 CPUs")]
)
def test_cpus_are_shown_in_tenths(millis: int, text: str):
    assert cpus(millis) == text


def test_what_is_there_is_rounded_down():
    assert (cpus(63_770, up=False), memory(503 * GIB + GIB // 2 - 1, up=False)) == ("63.7 CPUs", "503.4 GiB")


@pytest.mark.parametrize(
    ("size", "text"),
    [(16 * GIB, "16 GiB"), (GIB // 2, "512 MiB"), (1536 * GIB, "1.5 TiB"), (GIB + 1, "1.1 GiB"), (0, "0 B")],
)
def test_memory_is_shown_in_tenths(size: int, text: str):
    assert memory(size) == text


@given(st.integers(0, 2**45), st.integers(1, 2**40))
def test_what_is_needed_never_looks_like_what_is_there_and_less(has: int, more: int):
    assert memory(has + more) != memory(has, up=False)
    assert cpus(has + more) != cpus(has, up=False)


@pytest.mark.parametrize(
    ("minutes", "text"),
    [(0.5, "less than a minute"), (1, "about 1 min"), (6.4, "about 6 min"), (89, "about 89 min"), (120, "about 2 h")],
)
def test_a_duration_is_rough(minutes: float, text: str):
    assert duration(minutes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(61.9, "61 s"), (119, "119 s"), (120, "2 min"), (5399, "89 min"), (7300, "2 h")]
)
def test_an_age_is_never_more_than_it_is(seconds: float, text: str):
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        ("all 4 are in use", "All 4 are in use."),
        ("4 are free", "4 are free."),
        ("no A100 is there", "No A100 is there."),
    ],
)
def test_a_clause_becomes_a_sentence_and_back(clause: str, sentence: str):
    assert (as_sentence(clause), as_clause(sentence)) == (sentence, clause)


@pytest.mark.parametrize("sentence", ["RBAC is missing.", "A100 is missing."])
def test_a_name_keeps_its_capital(sentence: str):
    assert as_clause(sentence) == sentence.removesuffix(".")


def test_a_sentence_is_left_as_it_is():
    assert as_sentence("The hub may not list nodes.") == "The hub may not list nodes."


@pytest.mark.parametrize(
    ("vendor", "name"), [("nvidia", "NVIDIA"), ("amd", "AMD"), ("intel", "Intel"), ("acme", "acme"), ("", "Other")]
)
def test_a_vendor_is_named_as_it_writes_itself(vendor: str, name: str):
    assert vendor_name(vendor) == name


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["A100"], "A100"), (["A100", "L4"], "A100 or L4"), (["A", "B", "C"], "A, B or C")]
)
def test_names_are_listed(names: list[str], text: str):
    assert listed(names, last="or") == text
