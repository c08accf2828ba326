from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster.decode_selectors import (
    InvalidSelectorError,
    decode_node_terms,
    decode_pod_terms,
    decode_spread_constraints,
)
from gpuspawner.core.cluster.model import NodeSelectorTerm, PodAffinityTerm, SelectorRequirement, SpreadConstraint

APP = {"matchLabels": {"app": "web"}}
IS_WEB = SelectorRequirement(key="app", operator="In", values=("web",))


def terms(*found: dict[str, Any], created: bool = True) -> tuple[PodAffinityTerm, ...]:
    raw = {"requiredDuringSchedulingIgnoredDuringExecution": list(found)}
    return decode_pod_terms(raw, namespace="hub", labels={"hash": "1"}, created=created)


def term(**found: Any) -> PodAffinityTerm:
    (decoded,) = terms({"topologyKey": "zone", "labelSelector": APP, **found})
    return decoded


def test_node_terms_keep_expressions_and_fields():
    raw = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
            },
            {},
        ]
    }
    zone = SelectorRequirement(key="zone", operator="In", values=("a", "b"))
    name = SelectorRequirement(key="metadata.name", operator="In", values=("n",))
    assert decode_node_terms(raw) == (NodeSelectorTerm(expressions=(zone,), fields=(name,)), NodeSelectorTerm())


def test_no_node_selector_is_not_one_without_terms():
    assert decode_node_terms(None) is None
    assert decode_node_terms({}) == ()


def test_a_pod_term_that_names_no_namespace_means_the_pods_own():
    assert term() == PodAffinityTerm(topology_key="zone", selector=(IS_WEB,), namespaces=frozenset({"hub"}))


def test_a_pod_term_looks_where_it_says():
    assert term(namespaces=["a", "b"]).namespaces == {"a", "b"}
    everywhere = term(namespaceSelector={})
    assert (everywhere.namespaces, everywhere.namespace_selector) == (frozenset(), ())


def test_no_selector_is_not_an_empty_one():
    assert term(labelSelector=None).selector is None
    assert term(labelSelector={}).selector == ()


def test_label_keys_are_merged_as_the_api_server_will():
    raw = {"topologyKey": "zone", "labelSelector": APP, "matchLabelKeys": ["hash", "missing"]}
    same = SelectorRequirement(key="hash", operator="In", values=("1",))
    assert terms(raw, created=False)[0].selector == (IS_WEB, same)
    other = {"topologyKey": "zone", "labelSelector": APP, "mismatchLabelKeys": ["hash"]}
    assert terms(other, created=False)[0].selector == (
        IS_WEB,
        SelectorRequirement(key="hash", operator="NotIn", values=("1",)),
    )


def test_label_keys_of_a_pod_that_exists_are_merged_already():
    raw = {"topologyKey": "zone", "labelSelector": APP, "matchLabelKeys": ["hash"]}
    assert terms(raw, created=True)[0].selector == (IS_WEB,)


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "Gt", "values": ["1"]},
        {"key": "app", "operator": "In", "values": []},
        {"operator": "Exists"},
        "no expression",
    ],
)
def test_a_selector_of_pods_that_cannot_be_read_is_an_error(expression: Any):
    with pytest.raises(InvalidSelectorError):
        term(labelSelector={"matchExpressions": [expression]})


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param("app=web", id="text"),
        pytest.param([], id="list"),
        pytest.param({"matchLabels": ["app"]}, id="labels as a list"),
        pytest.param({"matchLabels": {"app": 1}}, id="number as a label"),
        pytest.param({"matchExpressions": {"key": "app", "operator": "Exists"}}, id="one expression without a list"),
    ],
)
def test_a_selector_of_the_wrong_type_is_an_error(selector: object):
    with pytest.raises(InvalidSelectorError):
        term(labelSelector=selector)


def test_spread_constraints_have_kubernetes_defaults():
    raw = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}]
    assert decode_spread_constraints(raw, labels={}) == (
        SpreadConstraint(
            max_skew=2, topology_key="zone", selector=(IS_WEB,), min_domains=1, honor_affinity=True, honor_taints=False
        ),
    )


def test_spread_constraints_keep_what_they_say():
    raw = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": APP,
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["hash"],
    }
    (found,) = decode_spread_constraints([raw], labels={"hash": "1"})
    assert found == SpreadConstraint(
        max_skew=1,
        topology_key="zone",
        selector=(IS_WEB, SelectorRequirement(key="hash", operator="In", values=("1",))),
        min_domains=3,
        honor_affinity=False,
        honor_taints=True,
    )


def test_a_wish_to_be_spread_is_no_constraint():
    raw = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": APP}]
    assert decode_spread_constraints(raw, labels={}) == ()
