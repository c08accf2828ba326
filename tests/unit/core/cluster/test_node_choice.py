from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Demands, Node, NodeTerm, Requirement
from gpuspawner.core.cluster.node_choice import admits, may_admit, will_admit
from gpuspawner.core.cluster.node_terms import matches_any

LABELS = {"product": ("T4", "T4-SHARED"), "slice": ()}


def term(key: str, operator: str, *values: str) -> NodeTerm:
    return NodeTerm(expressions=(Requirement(key=key, operator=operator, values=values),))


def demands(*terms: NodeTerm, **selector: str) -> Demands:
    return Demands(node_selector=selector, node_terms=terms or None)


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (demands(), True),
        (demands(product="T4"), True),
        (demands(product="A100"), False),
        (demands(term("zone", "In", "b"), term("product", "In", "T4")), True),
        (demands(term("zone", "In", "b")), False),
        (demands(term("zone", "In", "a"), product="A100"), False),
        (Demands(node_terms=()), False),
    ],
)
def test_selector_and_one_term_must_match(demanded: Demands, expected: bool):
    assert admits(Node(name="n", labels={"product": "T4", "zone": "a"}), demanded) is expected


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (demands(), True),
        (demands(product="T4-SHARED"), True),
        (demands(product="A100"), False),
        (demands(slice="1g"), False),
        (demands(zone="a"), True),
        (demands(term("product", "In", "A100", "T4")), True),
        (demands(term("product", "NotIn", "T4", "T4-SHARED")), False),
        (demands(term("slice", "DoesNotExist")), True),
        (demands(term("slice", "Exists")), False),
        (demands(term("zone", "In", "a")), True),
        (demands(term("product", "In", "A100"), term("zone", "Exists")), True),
        (demands(NodeTerm()), False),
        (Demands(node_terms=()), False),
    ],
)
def test_a_node_that_does_not_exist_may_have_any_other_label(demanded: Demands, expected: bool):
    assert may_admit(LABELS, demanded) is expected


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("value", ["T4", "A100"])
def test_a_node_that_is_admitted_may_be(operator: str, value: str):
    values: tuple[Any, ...] = (value,) if operator in ("In", "NotIn") else ()
    demanded = demands(term("product", operator, *values))
    if admits(Node(name="n", labels={"product": "T4"}), demanded):
        assert may_admit(LABELS, demanded)


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [
        (demands(), True),
        (demands(product="T4-SHARED"), True),
        (demands(product="A100"), False),
        (demands(zone="a"), False),
        (demands(term("zone", "NotIn", "a")), False),
        (demands(term("slice", "DoesNotExist")), True),
        (demands(term("slice", "NotIn", "1g")), True),
        (demands(term("slice", "Exists")), False),
        (demands(term("zone", "In", "a"), term("product", "In", "T4")), True),
        (demands(term("product", "In", "T4"), product="T4-SHARED"), False),
        (demands(NodeTerm()), False),
        (demands(term("product", "Near", "T4")), False),
        (Demands(node_terms=()), False),
        (Demands(volume_terms=((term("product", "In", "T4"),),)), True),
        (Demands(volume_terms=((term("zone", "In", "a"),),)), False),
        (Demands(node_selector={"product": "T4"}, volume_terms=((term("product", "In", "T4-SHARED"),),)), False),
    ],
)
def test_a_node_that_is_made_to_fit_has_the_values_it_needs(demanded: Demands, expected: bool):
    assert will_admit(LABELS, demanded) is expected


def test_a_name_is_nothing_that_can_be_picked():
    named = NodeTerm(
        expressions=(Requirement(key="product", operator="Exists"),),
        fields=(Requirement(key="metadata.name", operator="In", values=("n",)),),
    )
    assert not will_admit(LABELS, demands(named))


@pytest.mark.timeout(5)
@pytest.mark.parametrize(("operator", "expected"), [("In", False), ("NotIn", True)])
def test_many_values_are_compared_in_no_time(operator: str, expected: bool):
    labels = {"product": tuple(f"a{number}" for number in range(20_000))}
    demanded = demands(term("product", operator, *(f"b{number}" for number in range(20_000))))
    assert (may_admit(labels, demanded), will_admit(labels, demanded)) == (expected, expected)


requirements = st.builds(
    lambda key, operator, values: Requirement(
        key=key, operator=operator, values=values if operator in ("In", "NotIn") else ()
    ),
    st.sampled_from(["product", "slice", "zone"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sampled_from([("T4",), ("T4", "A100"), ("T4-SHARED",)]),
)
terms = st.lists(requirements, max_size=2).map(lambda found: NodeTerm(expressions=tuple(found)))
some_terms = st.lists(terms, min_size=1, max_size=2).map(tuple)


@given(
    st.sampled_from([{}, {"product": "T4"}, {"zone": "a"}]),
    st.none() | some_terms,
    st.lists(some_terms, max_size=2).map(tuple),
)
def test_what_will_be_admitted_is_admitted_for_some_values(
    selector: dict[str, str], node_terms: tuple[NodeTerm, ...] | None, volumes: tuple[tuple[NodeTerm, ...], ...]
):
    demanded = Demands(node_selector=selector, node_terms=node_terms, volume_terms=volumes)
    nodes = [Node(name="n", labels={"product": value}) for value in LABELS["product"]]
    admitted = [
        node
        for node in nodes
        if admits(node, demanded) and all(matches_any(node, each) for each in demanded.volume_terms)
    ]
    if will_admit(LABELS, demanded):
        assert admitted
        assert may_admit(LABELS, demanded)
