"""The sentences that say why a user may not have something."""

from __future__ import annotations

import pytest

from gpuspawner.core.policy import denials


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (denials.explain_per_server_limit(1), "You may have 1 GPU in one server."),
        (denials.explain_per_server_limit(2, gpu="A100"), "You may have 2 GPUs (A100) in one server."),
        (denials.explain_per_server_limit(0), "You don't have access to GPUs."),
        (denials.explain_per_server_limit(0, gpu="A100"), "You don't have access to A100."),
        (denials.explain_total_limit(4, used=0), "You may have 4 GPUs at a time."),
        (
            denials.explain_total_limit(4, used=1, held_by=("test",)),
            "You may have 4 GPUs at a time. 1 is in use by your server test.",
        ),
        (
            denials.explain_total_limit(1, used=3, held_by=("a", "b", "", "x\n" * 99), gpu="A100"),
            "You may have 1 GPU (A100) at a time. 3 are in use by your server a, your server b, your default server"
            " and 1 more. Stop one of them first.",
        ),
        (denials.explain_total_limit(0, used=3), "You don't have access to GPUs."),
        (denials.explain_server_limit(1, held_by=()), "You may have 1 server with a GPU at a time."),
        (
            denials.explain_server_limit(1, held_by=("",)),
            "You may have 1 server with a GPU at a time. 1 of your other servers has one: your default server."
            " Stop it first.",
        ),
        (
            denials.explain_server_limit(2, held_by=("", "a", "b")),
            "You may have 2 servers with a GPU at a time. 3 of your other servers have one:"
            " your default server, your server a, your server b. Stop one of them first.",
        ),
        (denials.explain_server_limit(0, held_by=()), "You don't have access to GPUs."),
        (
            denials.explain_pool_limit(4, used=4, pool="Physics"),
            "Physics: 4 GPUs for all members together. 4 are in use.",
        ),
        (denials.explain_pool_limit(1, used=0, pool="Physics"), "Physics: 1 GPU for all members together."),
        (denials.explain_namespace_quota(1), "The cluster's quota leaves 1 GPU for one more server."),
        (denials.explain_namespace_quota(0), "The cluster's quota leaves no GPU for one more server."),
    ],
)
def test_a_sentence_says_the_limit_and_what_is_in_use(sentence: str, expected: str):
    assert sentence == expected


def test_unknown_counts_and_groups_have_a_sentence():
    assert denials.explain_usage_unknown().startswith("It is not known at the moment how many")
    assert denials.explain_groups_unknown().startswith("What you may start depends on your groups")
