from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict, format_verdict_label


@pytest.mark.parametrize(
    ("outcome", "facts", "sentence"),
    [
        ("now", {"places": 3}, "Starts now: room for 3 like this."),
        ("now", {"places": 1}, "Starts now: room for 1 like this."),
        ("now", {"places": 1, "places_exact": False}, "Starts now: room for at least 1 like this."),
        ("now", {}, "Starts now."),
        ("after-scale-up", {"minutes": 6, "ahead": 0}, "Starts after a new node is added, about 6 min."),
        ("after-scale-up", {}, "Starts after a new node is added."),
        (
            "after-scale-up",
            {"is_sure": False, "ahead": 2},
            "Starts after a new node is added, if a large enough one is available. 2 servers are ahead of yours.",
        ),
        (
            "after-scale-up",
            {"minutes": 0.5, "ahead": 1},
            "Starts after a new node is added, less than a minute. 1 server is ahead of yours.",
        ),
        (
            "waits",
            {"reason": "All 4 are in use.", "ahead": 2},
            "Will wait: all 4 are in use. 2 servers are ahead of yours.",
        ),
        (
            "waits",
            {"reason": "The only one is in use.", "ahead": 0},
            "Will wait: the only one is in use. You'd be next in line.",
        ),
        ("waits", {"reason": "All 4 are in use."}, "Will wait: all 4 are in use."),
        ("waits", {}, "Will wait."),
        ("unknown", {}, "Availability unknown."),
        ("unknown", {"age_s": 90.0}, "Availability unknown: last update 90 s ago."),
        (
            "never",
            {"reason": "No node with an A100 has 96 CPUs; the largest has 64."},
            "Can't start: no node with an A100 has 96 CPUs; the largest has 64.",
        ),
        (
            "unknown",
            {"reason": "The hub can't read what is free.", "age_s": 3.0},
            "Availability unknown: the hub can't read what is free.",
        ),
        (
            "unknown",
            {"reason": "The API server does not answer.", "age_s": 200.0},
            "Availability unknown: the API server does not answer (as of 3 min ago).",
        ),
    ],
)
def test_a_verdict_is_one_sentence(outcome: str, facts: dict[str, Any], sentence: str):
    assert format_verdict(Verdict(outcome=Outcome(outcome), **facts)) == sentence


@pytest.mark.parametrize(
    ("outcome", "facts", "label"),
    [
        ("now", {"places": 3}, "Starts now: room for 3"),
        ("now", {"places": 3, "places_exact": False}, "Starts now: room for 3+"),
        ("now", {}, "Starts now"),
        ("after-scale-up", {"minutes": 6, "is_sure": False, "ahead": 2}, "After a new node, about 6 min"),
        ("after-scale-up", {}, "After a new node"),
        ("waits", {"reason": "All 4 are in use.", "ahead": 2}, "Will wait: 2 ahead of you"),
        ("waits", {"reason": "All 4 are in use.", "ahead": 1}, "Will wait: 1 ahead of you"),
        ("waits", {"reason": "All 4 are in use.", "ahead": 0}, "Will wait: you'd be next"),
        ("waits", {"reason": "All 4 are in use."}, "Will wait"),
        ("never", {"reason": "No node has it."}, "Can't start"),
        ("unknown", {"reason": "It is not known."}, "Availability unknown"),
    ],
)
def test_a_label_says_the_outcome_in_one_line(outcome: str, facts: dict[str, Any], label: str):
    assert format_verdict_label(Verdict(outcome=Outcome(outcome), **facts)) == label
