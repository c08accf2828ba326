from __future__ import annotations

import pytest

from gpuspawner.core.progress.pull_text import failure_sentence, pulled_sentence, pulling_sentence, so_far
from gpuspawner.core.progress.pulls import Pulled, PullFailure


def test_an_image_that_is_being_fetched_is_named_where_it_is_one_s_own():
    assert pulling_sentence("quay.io/x:1") == "The image quay.io/x:1 is being fetched."
    assert pulling_sentence("") == "An image that the server needs is being fetched."


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (0, ""),
        (29, ""),
        (30, "That has taken 30 s so far."),
        (89, "That has taken 89 s so far."),
        (200, "That has taken about 3 min so far."),
    ],
)
def test_how_long_it_has_taken_is_said_after_half_a_minute(seconds: float, sentence: str):
    assert so_far(seconds) == sentence


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (Pulled(was_there=True), "The image was on the node already."),
        (Pulled(was_there=False), "The image has been fetched."),
        (Pulled(was_there=False, seconds=0.2), "The image was fetched in 1 s."),
        (Pulled(was_there=False, seconds=42.4, size_bytes=5 << 30), "The image was fetched in 42 s (5 GiB)."),
        (Pulled(was_there=False, seconds=300, size_bytes=150 << 20), "The image was fetched in about 5 min (150 MiB)."),
    ],
)
def test_an_image_that_was_fetched_is_told_with_time_and_size(known: Pulled, sentence: str):
    assert pulled_sentence(known) == sentence


@pytest.mark.parametrize("failure", PullFailure)
def test_every_failure_names_the_image_and_says_something_of_its_own(failure: PullFailure):
    sentence = failure_sentence(failure, "quay.io/x:1")
    assert "he image quay.io/x:1" in sentence
    assert [each for each in PullFailure if failure_sentence(each, "quay.io/x:1") == sentence] == [failure]
