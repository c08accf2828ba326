from __future__ import annotations

import pytest

from gpuspawner.core.text.wording import (
    add_article,
    join_sentences,
    join_with_and,
    join_with_or,
    make_clause,
    make_sentence,
)


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
    assert add_article(name) == f"{article} {name}"


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        ("all 4 are in use", "All 4 are in use."),
        ("4 are free", "4 are free."),
        ("no A100 is there", "No A100 is there."),
    ],
)
def test_a_clause_becomes_a_sentence_and_back(clause: str, sentence: str):
    assert (make_sentence(clause), make_clause(sentence)) == (sentence, clause)


@pytest.mark.parametrize("sentence", ["RBAC is missing.", "A100 is missing."])
def test_a_name_keeps_its_capital(sentence: str):
    assert make_clause(sentence) == sentence.removesuffix(".")


def test_a_sentence_is_left_as_it_is():
    assert make_sentence("The hub may not list nodes.") == "The hub may not list nodes."


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["A100"], "A100"), (["A100", "L4"], "A100 or L4"), (["A", "B", "C"], "A, B or C")]
)
def test_names_are_listed(names: list[str], text: str):
    assert (join_with_or(names), join_with_and(names)) == (text, text.replace(" or ", " and "))


def test_sentences_stand_one_after_the_other():
    assert (join_sentences("One.", "", "Two.", "Three."), join_sentences("", "One."), join_sentences()) == (
        "One. Two. Three.",
        "One.",
        "",
    )
