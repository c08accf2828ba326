from __future__ import annotations

import pytest

from gpuspawner.core.progress.images import (
    PulledImage,
    PullFailure,
    format_elapsed,
    format_pull_failure,
    format_pulled,
    format_pulling,
)


def test_an_image_that_is_being_fetched_is_named_where_it_is_one_s_own():
    assert format_pulling("quay.io/x:1") == "The image quay.io/x:1 is being fetched."
    assert format_pulling("") == "An image that the server needs is being fetched."


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
    assert format_elapsed(seconds) == sentence


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (PulledImage(was_present=True), "The image was on the node already."),
        (PulledImage(was_present=False), "The image has been fetched."),
        (PulledImage(was_present=False, seconds=0.2), "The image was fetched in 1 s."),
        (PulledImage(was_present=False, seconds=42.4, size_bytes=5 << 30), "The image was fetched in 42 s (5 GiB)."),
        (
            PulledImage(was_present=False, seconds=300, size_bytes=150 << 20),
            "The image was fetched in about 5 min (150 MiB).",
        ),
    ],
)
def test_an_image_that_was_fetched_is_mentioned_with_time_and_size(known: PulledImage, sentence: str):
    assert format_pulled(known) == sentence


@pytest.mark.parametrize("failure", PullFailure)
def test_every_failure_names_the_image_and_says_something_of_its_own(failure: PullFailure):
    sentence = format_pull_failure(failure, "quay.io/x:1")
    assert "he image quay.io/x:1" in sentence
    assert [each for each in PullFailure if format_pull_failure(each, "quay.io/x:1") == sentence] == [failure]
