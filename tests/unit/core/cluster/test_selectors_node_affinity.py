from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Node, NodeSelectorTerm, PodConstraints, SelectorRequirement
from gpuspawner.core.cluster.selectors import (
    guarantees_node_affinity,
    matches_any_term,
    matches_node_affinity,
    may_match_node_affinity,
)

LABELS = {"product": ("T4", "T4-SHARED"), "slice": ()}


def term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(expressions=(SelectorRequirement(key=key, operator=operator, values=values),))


def constraints(*terms: NodeSelectorTerm, **selector: str) -> PodConstraints:
    return PodConstraints(node_selector=selector, node_terms=terms or None)


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (constraints(), True),
        (constraints(product="T4"), True),
        (constraints(product="A100"), False),
        (constraints(term("zone", "In", "b"), term("product", "In", "T4")), True),
        (constraints(term("zone", "In", "b")), False),
        (constraints(term("zone", "In", "a"), product="A100"), False),
        (PodConstraints(node_terms=()), False),
    ],
)
def test_selector_and_one_term_must_match(demanded: PodConstraints, expected: bool):
    assert matches_node_affinity(Node(name="n", labels={"product": "T4", "zone": "a"}), demanded) is expected


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (constraints(), True),
        (constraints(product="T4-SHARED"), True),
        (constraints(product="A100"), False),
        (constraints(slice="1g"), False),
        (constraints(zone="a"), True),
        (constraints(term("product", "In", "A100", "T4")), True),
        (constraints(term("product", "NotIn", "T4", "T4-SHARED")), False),
        (constraints(term("slice", "DoesNotExist")), True),
        (constraints(term("slice", "Exists")), False),
        (constraints(term("zone", "In", "a")), True),
        (constraints(term("product", "In", "A100"), term("zone", "Exists")), True),
        (constraints(NodeSelectorTerm()), False),
        (PodConstraints(node_terms=()), False),
    ],
)
def test_a_node_that_does_not_exist_may_have_any_other_label(demanded: PodConstraints, expected: bool):
    assert may_match_node_affinity(LABELS, demanded) is expected


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("value", ["T4", "A100"])
def test_a_node_that_is_admitted_may_be(operator: str, value: str):
    values: tuple[Any, ...] = (value,) if operator in ("In", "NotIn") else ()
    demanded = constraints(term("product", operator, *values))
    if matches_node_affinity(Node(name="n", labels={"product": "T4"}), demanded):
        assert may_match_node_affinity(LABELS, demanded)


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (constraints(), True),
        (constraints(product="T4-SHARED"), True),
        (constraints(product="A100"), False),
        (constraints(zone="a"), False),
        (constraints(term("zone", "NotIn", "a")), False),
        (constraints(term("slice", "DoesNotExist")), True),
        (constraints(term("slice", "NotIn", "1g")), True),
        (constraints(term("slice", "Exists")), False),
        (constraints(term("zone", "In", "a"), term("product", "In", "T4")), True),
        (constraints(term("product", "In", "T4"), product="T4-SHARED"), False),
        (constraints(NodeSelectorTerm()), False),
        (constraints(term("product", "Near", "T4")), False),
        (PodConstraints(node_terms=()), False),
        (PodConstraints(volume_terms=((term("product", "In", "T4"),),)), True),
        (PodConstraints(volume_terms=((term("zone", "In", "a"),),)), False),
        (PodConstraints(node_selector={"product": "T4"}, volume_terms=((term("product", "In", "T4-SHARED"),),)), False),
    ],
)
def test_a_node_that_is_made_to_fit_has_the_values_it_needs(demanded: PodConstraints, expected: bool):
    assert guarantees_node_affinity(LABELS, demanded) is expected


def test_a_name_is_nothing_that_can_be_picked():
    named = NodeSelectorTerm(
        expressions=(SelectorRequirement(key="product", operator="Exists"),),
        fields=(SelectorRequirement(key="metadata.name", operator="In", values=("n",)),),
    )
    assert not guarantees_node_affinity(LABELS, constraints(named))


@pytest.mark.timeout(5)
@pytest.mark.parametrize(("operator", "expected"), [("In", False), ("NotIn", True)])
def test_many_values_are_compared_in_no_time(operator: str, expected: bool):
    labels = {"product": tuple(f"a{number}" for number in range(20_000))}
    demanded = constraints(term("product", operator, *(f"b{number}" for number in range(20_000))))
    assert (may_match_node_affinity(labels, demanded), guarantees_node_affinity(labels, demanded)) == (
        expected,
        expected,
    )


requirements = st.builds(
    lambda key, operator, values: SelectorRequirement(
        key=key, operator=operator, values=values if operator in ("In", "NotIn") else ()
    ),
    st.sampled_from(["product", "slice", "zone"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sampled_from([("T4",), ("T4", "A100"), ("T4-SHARED",)]),
)
terms = st.lists(requirements, max_size=2).map(lambda found: NodeSelectorTerm(expressions=tuple(found)))
some_terms = st.lists(terms, min_size=1, max_size=2).map(tuple)


@given(
    st.sampled_from([{}, {"product": "T4"}, {"zone": "a"}]),
    st.none() | some_terms,
    st.lists(some_terms, max_size=2).map(tuple),
)
def test_what_will_be_admitted_is_admitted_for_some_values(
    selector: dict[str, str],
    node_terms: tuple[NodeSelectorTerm, ...] | None,
    volumes: tuple[tuple[NodeSelectorTerm, ...], ...],
):
    demanded = PodConstraints(node_selector=selector, node_terms=node_terms, volume_terms=volumes)
    nodes = [Node(name="n", labels={"product": value}) for value in LABELS["product"]]
    admitted = [
        node
        for node in nodes
        if matches_node_affinity(node, demanded) and all(matches_any_term(node, each) for each in demanded.volume_terms)
    ]
    if guarantees_node_affinity(LABELS, demanded):
        assert admitted
        assert may_match_node_affinity(LABELS, demanded)
