from __future__ import annotations

import pytest

from gpuspawner.core.cluster.model import Node, NodeSelectorTerm, SelectorRequirement
from gpuspawner.core.cluster.selectors import is_valid_requirement, matches_any_term, matches_term

NODE = Node(name="gpu-1", labels={"zone": "a", "gpus": "8", "empty": ""})


def requirement(key: str, operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("missing", "In", ["a"], False),
        ("empty", "In", [""], True),
        ("zone", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a"], False),
        ("missing", "NotIn", ["a"], True),
        ("zone", "Exists", [], True),
        ("missing", "Exists", [], False),
        ("missing", "DoesNotExist", [], True),
        ("zone", "DoesNotExist", [], False),
        ("gpus", "Gt", ["7"], True),
        ("gpus", "Gt", ["8"], False),
        ("gpus", "Lt", ["9"], True),
        ("gpus", "Lt", ["8"], False),
        ("gpus", "Gt", ["-1"], False),  # no label can have that value, so no requirement may
        ("zone", "Gt", ["1"], False),
        ("missing", "Lt", ["1"], False),
    ],
)
def test_operators_mean_what_kubernetes_says(key: str, operator: str, values: list[str], expected: bool):
    assert matches_term(NODE, NodeSelectorTerm(expressions=(requirement(key, operator, *values),))) is expected


@pytest.mark.parametrize(
    "malformed",
    [
        requirement("zone", "In"),
        requirement("zone", "NotIn"),
        requirement("zone", "Exists", "a"),
        requirement("missing", "DoesNotExist", "a"),
        requirement("gpus", "Gt", "7", "6"),
        requirement("gpus", "Gt", "many"),
        requirement("gpus", "Lt", "9" * 30),
        requirement("zone", "in", "a"),
        requirement("zone", "NotIn", "no label value!"),
        requirement("", "NotIn", "a"),
    ],
)
def test_a_term_with_a_malformed_requirement_matches_nothing(malformed: SelectorRequirement):
    assert not is_valid_requirement(malformed)
    assert not matches_term(NODE, NodeSelectorTerm(expressions=(malformed,)))


def test_all_requirements_of_a_term_must_hold():
    here, elsewhere = requirement("zone", "In", "a"), requirement("zone", "In", "b")
    assert not matches_term(NODE, NodeSelectorTerm(expressions=(here, elsewhere)))


def test_one_term_is_enough():
    terms = [NodeSelectorTerm(expressions=(requirement("zone", "In", zone),)) for zone in "ab"]
    assert matches_any_term(NODE, terms)
    assert not matches_any_term(NODE, terms[1:])


def test_no_terms_and_an_empty_term_match_nothing():
    assert not matches_any_term(NODE, ())
    assert not matches_any_term(NODE, (NodeSelectorTerm(),))


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("metadata.name", "In", ["gpu-1"], True),
        ("metadata.name", "In", ["gpu-2"], False),
        ("metadata.name", "NotIn", ["gpu-2"], True),
        ("metadata.name", "NotIn", ["gpu-1"], False),
        ("metadata.name", "In", ["gpu-1", "gpu-2"], False),
        ("metadata.name", "Exists", [], False),
        ("metadata.namespace", "In", ["gpu-1"], False),
    ],
)
def test_a_field_is_the_nodes_name(key: str, operator: str, values: list[str], expected: bool):
    assert matches_term(NODE, NodeSelectorTerm(fields=(requirement(key, operator, *values),))) is expected
