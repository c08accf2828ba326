"""A choice's nodes are added to those that the admin demands, in traits and in ``extra_pod_config``."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_asyncio.client import (
    V1Affinity,
    V1NodeAffinity,
    V1NodeSelector,
    V1NodeSelectorRequirement,
    V1NodeSelectorTerm,
    V1PodAntiAffinity,
    V1Toleration,
)

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.hub.pod.patch import serialize_models
from tests.unit.hub.pod.pods import make_spec

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN = {"key": "pool", "operator": "Exists"}
WANTED = {"key": "product", "operator": "In", "values": ["a", "b"]}
EXPRESSIONS = (MatchExpression(key="product", operator="In", values=("a", "b")),)
PREFERENCE = {"weight": 100, "preference": {"matchExpressions": [WANTED]}}
OTHER_PREFERENCE = {"weight": 1, "preference": {"matchExpressions": [OWN]}}
A = (MatchExpression(key="a", operator="In", values=("1",)),)
B = (MatchExpression(key="b", operator="DoesNotExist"),)
WANTED_A, WANTED_B = {"key": "a", "operator": "In", "values": ["1"]}, {"key": "b", "operator": "DoesNotExist"}
HUB = {"key": "hub", "operator": "Exists"}
GPU = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
TOLERATED = (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)


@pytest.mark.parametrize(
    "own",
    [pytest.param({"pool": "users", "product": "other"}, id="labels"), pytest.param({}, id="empty"), None],
)
@pytest.mark.parametrize("name", ["nodeSelector", "node_selector"])
def test_the_labels_of_the_choice_win_in_a_node_selector_of_extra_pod_config(name: str, own: Any):
    spec = make_spec({"extra_pod_config": {name: own}, "node_selector": {"gone": "x"}}, node_selector={"product": "a"})
    assert spec["nodeSelector"] == {**(own or {}), "product": "a"}


def test_the_labels_of_the_choice_win_in_the_trait_node_selector():
    spec = make_spec({"node_selector": {"pool": "users", "product": "other"}}, node_selector={"product": "a"})
    assert spec["nodeSelector"] == {"pool": "users", "product": "a"}


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        pytest.param([], [{"matchExpressions": [WANTED]}], id="no term"),
        pytest.param(
            [{"matchExpressions": [OWN]}, {"match_expressions": [OWN]}],
            [{"matchExpressions": [OWN, WANTED]}] * 2,
            id="two terms",
        ),
        pytest.param([{"matchExpressions": [OWN, WANTED]}], [{"matchExpressions": [OWN, WANTED]}], id="there already"),
        pytest.param([{"matchFields": [OWN]}], [{"matchFields": [OWN], "matchExpressions": [WANTED]}], id="fields"),
        pytest.param([{}], [{}], id="empty term"),
        pytest.param([{"matchExpressions": []}], [{"matchExpressions": []}], id="no expression"),
        pytest.param(
            [V1NodeSelectorTerm(match_expressions=[V1NodeSelectorRequirement(key="pool", operator="Exists")])],
            [{"matchExpressions": [OWN, WANTED]}],
            id="model",
        ),
    ],
)
def test_every_required_term_gets_the_expressions(admins: Any, expected: Any):
    spec = make_spec({"node_affinity_required": admins}, required=EXPRESSIONS)
    assert spec["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": expected}}}


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        ([], [[WANTED_A], [WANTED_B]]),
        ([{"matchExpressions": [OWN]}], [[OWN, WANTED_A], [OWN, WANTED_B]]),
    ],
    ids=["no term", "list"],
)
def test_every_term_is_repeated_with_each_alternative(admins: Any, expected: Any):
    spec = make_spec({"node_affinity_required": admins}, alternatives=(A, B))
    terms = [{"matchExpressions": expressions} for expressions in expected]
    assert spec["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def test_every_alternative_has_what_is_required_in_any_case():
    (terms,) = make_spec(required=EXPRESSIONS, alternatives=(A, B))["affinity"]["nodeAffinity"].values()
    expected = [[WANTED, WANTED_A], [WANTED, WANTED_B]]
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in expected]}


def test_an_expression_without_values_has_no_list_of_them():
    (terms,) = make_spec(required=B)["affinity"]["nodeAffinity"].values()
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}]}


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        pytest.param({}, [PREFERENCE], id="none"),
        pytest.param({"node_affinity_preferred": [OTHER_PREFERENCE]}, [OTHER_PREFERENCE, PREFERENCE], id="list"),
        pytest.param({"node_affinity_preferred": [PREFERENCE]}, [PREFERENCE], id="there already"),
        pytest.param(
            {"extra_pod_config": {"affinity": {"nodeAffinity": {PREFERRED: [OTHER_PREFERENCE]}}}},
            [OTHER_PREFERENCE, PREFERENCE],
            id="extra_pod_config",
        ),
    ],
)
def test_avoided_nodes_become_one_preference(admins: dict[str, Any], expected: Any):
    assert make_spec(admins, avoided=EXPRESSIONS)["affinity"] == {"nodeAffinity": {PREFERRED: expected}}


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"podAntiAffinity": {}}, id="none"),
        pytest.param({"podAntiAffinity": {}, "nodeAffinity": None}, id="null"),
        pytest.param(V1Affinity(pod_anti_affinity=V1PodAntiAffinity()), id="model"),
    ],
)
def test_an_affinity_without_one_for_nodes_gets_it(own: Any):
    assert make_spec({"extra_pod_config": {"affinity": own}}, required=EXPRESSIONS)["affinity"] == {
        "podAntiAffinity": {},
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [WANTED]}]}},
    }


def make_affinity_model() -> V1Affinity:
    expression = V1NodeSelectorRequirement(key="pool", operator="Exists")
    terms = [V1NodeSelectorTerm(match_expressions=[expression])] * 2
    required = V1NodeSelector(node_selector_terms=terms)
    return V1Affinity(node_affinity=V1NodeAffinity(required_during_scheduling_ignored_during_execution=required))


AFFINITY = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OWN]}] * 2}}}


@pytest.mark.parametrize("own", [AFFINITY, make_affinity_model()], ids=["JSON", "model"])
def test_every_required_term_of_an_affinity_in_extra_pod_config_gets_the_expressions(own: Any):
    (terms,) = make_spec({"extra_pod_config": {"affinity": own}}, required=EXPRESSIONS)["affinity"][
        "nodeAffinity"
    ].values()
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": [OWN, WANTED]}] * 2}


@pytest.mark.parametrize("own", [{"podAffinity": {}}, {}, None, AFFINITY], ids=["pods", "empty", "null", "nodes"])
def test_an_affinity_stays_where_nothing_is_required_or_avoided(own: Any):
    assert make_spec({"extra_pod_config": {"affinity": own}}).get("affinity") == own


def test_a_model_of_a_term_is_not_changed_in_place():
    term = V1NodeSelectorTerm(match_expressions=[V1NodeSelectorRequirement(key="pool", operator="Exists")])
    make_spec({"node_affinity_required": [term]}, required=EXPRESSIONS)
    assert serialize_models(term) == {"matchExpressions": [OWN]}


def test_models_become_what_the_api_takes():
    assert serialize_models([make_affinity_model(), 1]) == [AFFINITY, 1]


# -- tolerations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        pytest.param({}, [GPU], id="none"),
        pytest.param({"tolerations": [HUB]}, [HUB, GPU], id="list"),
        pytest.param({"tolerations": [V1Toleration(key="hub", operator="Exists")]}, [HUB, GPU], id="model"),
        pytest.param({"tolerations": [GPU]}, [GPU], id="there already"),
        pytest.param({"extra_pod_config": {"tolerations": [HUB]}}, [HUB, GPU], id="extra_pod_config"),
        pytest.param({"extra_pod_config": {"tolerations": None}}, [GPU], id="null in extra_pod_config"),
        pytest.param({"extra_pod_config": {"tolerations": [GPU]}}, [GPU], id="there already in extra_pod_config"),
    ],
)
def test_a_toleration_is_appended_once(admins: dict[str, Any], expected: Any):
    assert make_spec(admins, tolerations=TOLERATED)["tolerations"] == expected


def test_empty_fields_of_a_toleration_are_left_out():
    wanted = (Toleration(key="gpu", operator="Exists"), Toleration(key="new", value="x"))
    assert make_spec(tolerations=wanted)["tolerations"] == [
        {"key": "gpu", "operator": "Exists"},
        {"key": "new", "operator": "Equal", "value": "x"},
    ]
