from __future__ import annotations

import pytest

from gpuspawner.core.cluster.model import LabelSelector, PodAffinityTerm, SelectorRequirement
from gpuspawner.core.cluster.selectors import (
    covers_namespace,
    may_cover_namespace,
    may_select_pod,
    merge_label_keys,
    selects_labels,
    selects_pod,
)

APP = (SelectorRequirement(key="app", operator="In", values=("web",)),)


def term(*namespaces: str, by_labels: LabelSelector = None, selector: LabelSelector = APP) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key="zone", selector=selector, namespaces=frozenset(namespaces), namespace_selector=by_labels
    )


def in_namespace(operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key="kubernetes.io/metadata.name", operator=operator, values=values)


TEAM = SelectorRequirement(key="team", operator="Exists")


def test_no_selector_selects_nothing_and_an_empty_one_all():
    assert not selects_labels(None, {"app": "web"})
    assert selects_labels((), {"app": "web"})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (term("hub"), True),
        (term("other"), False),
        (term(by_labels=()), True),
        (term("hub", by_labels=(TEAM,)), True),
        (term("other", by_labels=(TEAM,)), None),
        (term(by_labels=(in_namespace("In", "hub", "other"),)), True),
        (term(by_labels=(in_namespace("NotIn", "hub"),)), False),
        (term(by_labels=(TEAM, in_namespace("In", "other"))), False),
        (term(by_labels=(TEAM, in_namespace("In", "hub"))), None),
    ],
)
def test_a_term_looks_in_namespaces_it_names_or_that_carry_labels(found: PodAffinityTerm, expected: bool | None):
    assert covers_namespace(found, "hub") is expected


def test_a_waiting_pods_term_may_look_everywhere_where_versions_differ():
    unlike = term(by_labels=(in_namespace("NotIn", "hub"),))
    assert (may_cover_namespace(unlike, "hub"), may_cover_namespace(unlike, "other")) == (None, True)
    assert may_cover_namespace(term(by_labels=(in_namespace("In", "other"),)), "hub") is False
    assert may_cover_namespace(term("other"), "hub") is False
    assert may_select_pod(unlike, "hub", labels={"app": "web"}) is None
    assert may_select_pod(unlike, "hub", labels={"app": "db"}) is False


def test_a_term_concerns_pods_it_selects_where_it_looks():
    assert selects_pod(term("hub"), "hub", labels={"app": "web"}) is True
    assert selects_pod(term("hub"), "hub", labels={"app": "db"}) is False
    assert selects_pod(term("other"), "hub", labels={"app": "web"}) is False
    assert selects_pod(term(by_labels=(TEAM,)), "hub", labels={"app": "web"}) is None
    assert selects_pod(term(by_labels=(TEAM,)), "hub", labels={"app": "db"}) is False


def test_label_keys_change_nothing_where_nothing_is_selected():
    assert merge_label_keys(None, ("hash",), labels={"hash": "1"}, same=True) is None
