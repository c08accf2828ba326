"""Sentences for people."""

from __future__ import annotations

import pytest

from gpuspawner.kube.watch.watch_loop import describe_failure, describe_missing_right


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "The Kubernetes API server cannot be reached."),
        (401, "Kubernetes refused the hub's credentials."),
        (403, "No."),
        (429, "The Kubernetes API server is overloaded."),
        (500, "The Kubernetes API server answered with an error (500)."),
        (599, "The Kubernetes API server answered with an error (599)."),
    ],
)
def test_a_failure_is_reported_in_one_sentence(status: int | None, reason: str):
    assert describe_failure(status, missing_right="No.") == reason


def test_a_missing_right_is_named():
    assert describe_missing_right("watch", what="the cluster's nodes") == "The hub may not watch the cluster's nodes."
