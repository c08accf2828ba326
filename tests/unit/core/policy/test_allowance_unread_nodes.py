"""While no node bounds CPU and memory, a person's limits still hold: none is known yet, or none may be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Bounds, OwnAmount, OwnResources
from gpuspawner.core.catalog.policy_model import UNLIMITED, AmountRange, Rule
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.form.build import build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.policy.admission import UnreadClusterError, admit
from gpuspawner.core.policy.allowance import Allowance
from tests.unit.core.policies import CATALOG, GIB, allowed

CAPPED = Rule(cpu=AmountRange(max=4000), memory=AmountRange(max=4 * GIB))


def unread(rule: Rule | None = None, **keys: Any) -> Allowance:
    return allowed(rule, **{"cpu": None, "memory": None, **keys})


def amounts(options: Any, limits: Allowance) -> dict[str, int | None]:
    found = admit(options, limits, unread_types=()).placement
    return {
        "limits.cpu": found.cpu_limit_millis,
        "requests.cpu": found.cpu_request_millis,
        "limits.memory": found.memory_limit_bytes,
        "requests.memory": found.memory_request_bytes,
    }


def refused(options: Any, limits: Allowance) -> tuple[type[SelectionError], list[str]]:
    with pytest.raises(SelectionError) as error:
        admit(options, limits, unread_types=())
    return type(error.value), sorted(each.code for each in error.value.problems)


@pytest.mark.parametrize(
    ("options", "millis", "gibs"),
    [({}, 2000, 4), ({"cpu": 4, "memory": "1G"}, 4000, 1), ({"preset": "plain"}, 1000, 4)],
    ids=["nothing", "amounts", "preset"],
)
def test_what_a_rule_caps_is_capped(options: Any, millis: int, gibs: int):
    assert amounts(options, unread(CAPPED)) == {
        "limits.cpu": millis,
        "requests.cpu": millis // 2,
        "limits.memory": gibs * GIB,
        "requests.memory": gibs * GIB,
    }


def test_a_rules_least_amount_holds_with_its_largest():
    rule = Rule(cpu=AmountRange(min=3000, max=4000))
    assert amounts({}, unread(rule))["limits.cpu"] == 3000


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"cpu": 8}, ["cpu_not_allowed"]),
        ({"memory": "8G"}, ["memory_not_allowed"]),
        ({"cpu": 8, "memory": "8G"}, ["cpu_not_allowed", "memory_not_allowed"]),
    ],
    ids=["CPU", "memory", "both"],
)
def test_amounts_above_the_cap_are_refused_by_the_policy(options: Any, codes: list[str]):
    assert refused(options, unread(CAPPED)) == (PolicyError, codes)


@pytest.mark.parametrize("rule", [Rule(), Rule(cpu=AmountRange(max=UNLIMITED)), Rule(cpu=AmountRange(min=4000))])
def test_an_amount_that_nothing_caps_cannot_be_judged(rule: Rule):
    assert refused({"cpu": 8}, unread(rule))[0] is UnreadClusterError
    assert amounts({}, unread(rule))["limits.cpu"] is None


def test_what_no_node_can_make_right_is_wrong():
    assert refused({"cpu": 1.3}, unread(CAPPED)) == (SelectionError, ["off_step"])


@pytest.mark.parametrize("left", [{}, {"limits.cpu": 100_000}], ids=["a rule", "a rule and a quota"])
def test_a_cap_below_the_smallest_amount_blocks_every_start(left: dict[str, int]):
    rule = Rule(cpu=AmountRange(max=200))
    assert refused({}, unread(rule, left=left or None)) == (PolicyError, ["cpu_not_allowed"])


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({"limits.cpu": 1700}, {"limits.cpu": 1500}),
        ({"requests.cpu": 600}, {"limits.cpu": 1000, "requests.cpu": 500}),
        ({"limits.memory": 3 * GIB + 1}, {"limits.memory": 3 * GIB}),
        ({"requests.memory": 64 * GIB}, {"limits.memory": 8 * GIB}),
    ],
    ids=["CPU limits", "CPU requests", "memory limits", "memory requests"],
)
def test_a_quota_of_the_namespace_holds(left: dict[str, int], expected: dict[str, int]):
    found = amounts({}, unread(left=left))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["limits.cpu", "requests.cpu", "limits.memory", "requests.memory"])
def test_a_used_up_quota_blocks_every_start(name: str):
    assert refused({}, unread(left={name: 0})) == (PolicyError, ["namespace_quota"])


def test_the_smaller_of_rule_and_quota_holds():
    assert amounts({}, unread(CAPPED, left={"limits.memory": 2 * GIB}))["limits.memory"] == 2 * GIB
    assert amounts({}, unread(CAPPED, left={"limits.memory": 9 * GIB}))["limits.memory"] == 4 * GIB


@pytest.mark.parametrize(
    ("limit", "guarantee", "expected"),
    [(1000, None, (None, None)), (1000, 250, (None, None)), (6000, 250, (4000, 250)), (None, 250, (2000, 250))],
    ids=["its limit", "its limit and guarantee", "a limit above the cap", "its guarantee"],
)
def test_kubespawners_own_amount_holds_up_to_the_cap(
    limit: int | None, guarantee: int | None, expected: tuple[int | None, int | None]
):
    """No amount from the hub leaves KubeSpawner's own in the pod."""
    found = amounts({}, unread(CAPPED, own=OwnResources(cpu=OwnAmount(limit=limit, guarantee=guarantee))))
    assert (found["limits.cpu"], found["requests.cpu"]) == expected


def test_a_quota_counts_what_kubespawner_guarantees():
    own = OwnResources(cpu=OwnAmount(limit=4000, guarantee=1000))
    assert amounts({}, unread(own=own, left={"requests.cpu": 1000}))["requests.cpu"] is None
    assert amounts({}, unread(own=own, left={"requests.cpu": 600}))["requests.cpu"] == 500


def test_bounds_of_the_settings_stay_what_they_are():
    own = Bounds(min=1000, max=32_000, step=1000, default=1000)
    assert amounts({"memory": None}, unread(CAPPED, cpu=own))["limits.cpu"] == 1000


def test_the_form_offers_what_the_gate_admits():
    limits = unread(CAPPED)
    view = build_view(
        limits.full_catalog, Inventory(), filled=fill_fields(limits.full_catalog, allowance=limits), allowance=limits
    )
    assert (view.cpu.min, view.cpu.max, view.memory.max) == ("0.5", "4", "4")
    assert (view.values["cpu"], view.values["memory"]) == ("2", "4")


def test_the_form_says_why_a_saved_amount_is_gone():
    limits = unread(CAPPED)
    filled = fill_fields(limits.full_catalog, options={"v": 1, "cpu": 8}, allowance=limits)
    assert filled.notices == {"cpu": "You may have 0.5 to 4 CPUs. 2 is filled in."}


def test_a_link_to_a_preset_fills_in_its_amounts():
    limits = unread(CAPPED)
    filled = fill_fields(limits.full_catalog, typed={"preset": "plain"}, is_link=True, allowance=limits)
    assert filled.values["cpu"] == "1"


def test_without_limits_the_catalog_is_the_one_of_all():
    limits = unread(replace(CAPPED, cpu=None, memory=None))
    assert limits.complete_catalog == limits.full_catalog
    known = allowed(CAPPED)
    assert known.complete_catalog.cpu is CATALOG.cpu
