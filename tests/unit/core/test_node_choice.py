from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.demands import Demands
from gpuspawner.core.inventory import Node
from gpuspawner.core.node_choice import admits, may_admit
from gpuspawner.core.node_terms import NodeTerm, Requirement

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
