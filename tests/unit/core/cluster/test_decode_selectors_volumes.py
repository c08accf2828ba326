from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster.decode_selectors import decode_volume_terms
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.selectors import matches_any_term

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


def takes(raw: object, labels: dict[str, str]) -> bool:
    return all(matches_any_term(Node(name="n", labels=labels), terms) for terms in decode_volume_terms(raw))


def test_a_volume_can_be_used_where_its_affinity_says():
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["here"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    raw = {"spec": {"nodeAffinity": {"required": required}}}
    assert takes(raw, {"kubernetes.io/hostname": "here"})
    assert not takes(raw, {"kubernetes.io/hostname": "there"})


@pytest.mark.parametrize(
    ("on_volume", "on_node", "expected"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"topology.kubernetes.io/region": "r"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({"team": "a"}, {ZONE: "b"}, True),
        ({ZONE: ""}, {ZONE: "b"}, True),
        ({ZONE: "a__"}, {ZONE: "b"}, True),
    ],
)
def test_a_volume_stays_in_its_zone(on_volume: dict[str, str], on_node: dict[str, str], expected: bool):
    assert takes({"metadata": {"labels": on_volume}}, on_node) is expected


@pytest.mark.parametrize(
    "raw", [None, {}, {"spec": {"nodeAffinity": None}}, {"spec": {"nodeAffinity": {"required": 1}}}]
)
def test_a_volume_that_says_nothing_can_be_used_anywhere(raw: Any):
    assert decode_volume_terms(raw) == ()
