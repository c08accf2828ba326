from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from gpuspawner.core.text.wording import find_closest_word

MANY = [f"gpu-{number}" for number in range(2000)]


def likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, other, one).ratio()


@pytest.mark.parametrize("words", [["gpu", "gpu_count"], [*MANY, "gpu", "gpu_count"]], ids=["few", "many"])
def test_the_nearest_word_is_found_among_few_and_many(words: list[str]):
    assert find_closest_word("gpu_cuont", words) == "gpu_count"


@pytest.mark.parametrize("number", [0, 7, 99, 100, 777, 1000, 1234, 1999])
@pytest.mark.parametrize("typo", ["gpx-{}", "gp-{}", "gpuu-{}", "gpu_{}", "gpu-{}x"])
def test_among_many_none_is_nearer(typo: str, number: int):
    word = typo.format(number)
    assert likeness(find_closest_word(word, MANY), word) == max(likeness(each, word) for each in MANY)


def test_only_the_first_3_000_words_are_compared():
    words = [f"gpu-{number}" for number in range(3_000)]
    assert find_closest_word("cuda-13", [*words[1:], "cuda-12"]) == "cuda-12"
    assert find_closest_word("cuda-13", [*words, "cuda-12"]) != "cuda-12"
