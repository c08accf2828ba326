"""The facts are counted from the objects alone."""

from __future__ import annotations

from typing import Any

import pytest

from bench.truth import facts
from bench.truth.facts import View
from bench.truth.vocabulary import (
    GPU,
    PRIORITY_CLASSES,
    PRODUCT,
    TEAM_TAINT,
    USUAL_TAINT,
    node,
    pod,
)

T4 = {PRODUCT: "Tesla-T4"}


def gpu_node(name: str = "a", gpus: int = 2, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", GPU: str(gpus)}
    made = node(name, amounts, labels=T4, taints=spec.pop("taints", []))
    made["spec"].update(spec)
    return made


def gpu_pod(name: str = "new", gpus: int = 1, *, on: str = "", priority: str = "", **amounts: str) -> dict[str, Any]:
    asked = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {}), **amounts}
    made = pod(name, asked, product="Tesla-T4" if gpus else "", priority=priority)
    fields = PRIORITY_CLASSES.get(priority, {})
    made["spec"] |= {"priority": fields.get("value", 0)}
    if "preemptionPolicy" in fields:
        made["spec"]["preemptionPolicy"] = fields["preemptionPolicy"]
    if on:
        made["spec"]["nodeName"] = on
    return made


@pytest.mark.parametrize(
    ("there", "new", "startable"),
    [
        pytest.param((), gpu_pod(gpus=2), True, id="free"),
        pytest.param((), gpu_pod(gpus=3), False, id="too large"),
        pytest.param((), gpu_pod(cpu="9"), False, id="too many CPUs"),
        pytest.param((gpu_pod("x", 2, on="a"),), gpu_pod(), False, id="taken"),
        pytest.param((gpu_pod("x", 2),), gpu_pod(), True, id="others wait"),
        pytest.param((gpu_pod("x", 2, on="a", priority="placeholder"),), gpu_pod(), True, id="placeholder"),
        pytest.param((gpu_pod("x", 2, on="a"),), gpu_pod(priority="urgent"), True, id="urgent"),
        pytest.param((gpu_pod("x", 2, on="a"),), gpu_pod(priority="patient"), False, id="patient preempts none"),
    ],
)
def test_a_pod_is_startable_where_one_node_has_room(there: tuple[Any, ...], new: dict[str, Any], startable: bool):
    assert facts.is_startable(View([gpu_node()], there), new) is startable


@pytest.mark.parametrize(
    ("of_node", "may_use", "takes"),
    [
        pytest.param(gpu_node(), True, True, id="open"),
        pytest.param(gpu_node(unschedulable=True), True, False, id="cordoned"),
        pytest.param(gpu_node(taints=[USUAL_TAINT]), True, True, id="usual taint"),
        pytest.param(gpu_node(taints=[TEAM_TAINT]), False, False, id="of a team"),
        pytest.param(
            gpu_node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
            True,
            False,
            id="not ready",
        ),
    ],
)
def test_taints_tell_whether_a_node_is_for_a_pod_and_whether_it_takes_one_now(
    of_node: dict[str, Any], may_use: bool, takes: bool
):
    assert (facts.may_use(of_node, gpu_pod()), facts.takes_pods(of_node, gpu_pod())) == (may_use, takes)


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [
        ("In", ["Tesla-T4", "NVIDIA-L4"], True),
        ("In", ["NVIDIA-L4"], False),
        ("NotIn", ["Tesla-T4"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
    ],
    ids=["in", "in another", "not in", "exists", "does not exist"],
)
def test_required_node_affinity_selects_by_labels(operator: str, values: list[str] | None, selected: bool):
    new = gpu_pod()
    terms = [{"matchExpressions": [{"key": PRODUCT, "operator": operator, "values": values}]}]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    new["spec"] |= {"nodeSelector": {}, "affinity": required}
    assert facts.is_selected(T4, new) is selected


@pytest.mark.parametrize(
    ("waiting", "new", "ahead"),
    [
        pytest.param([gpu_pod("x"), gpu_pod("y", 2)], gpu_pod(), range(2, 3), id="both are older"),
        pytest.param([gpu_pod("x")], gpu_pod(priority="urgent"), range(1), id="of lower priority"),
        pytest.param([gpu_pod("x", priority="urgent")], gpu_pod(), range(1, 2), id="of higher priority"),
        pytest.param([gpu_pod("x", 0, cpu="8")], gpu_pod(), range(1), id="asks for no GPU"),
        pytest.param([gpu_pod("x", 3)], gpu_pod(), range(1), id="could never run there"),
        pytest.param([gpu_pod("x", 2, on="a")], gpu_pod(), range(1), id="runs"),
        pytest.param([gpu_pod("x", 0)], gpu_pod(gpus=0), range(1, 2), id="without GPUs"),
    ],
)
def test_ahead_are_the_waiting_pods_that_may_take_its_place(
    waiting: list[dict[str, Any]], new: dict[str, Any], ahead: range
):
    assert facts.count_ahead(View([gpu_node()], waiting), new) == ahead


def test_pods_that_compete_for_a_new_node_only_may_be_ahead():
    def pool(**spec: Any) -> dict[str, Any]:
        return {"spec": {"template": {"metadata": {"labels": T4}, "spec": spec}}}

    waiting = [gpu_pod("x", 3), gpu_pod("y", 1)]
    found = [
        facts.count_ahead(View([gpu_node()], waiting, [each]), gpu_pod())
        for each in (pool(), pool(taints=[TEAM_TAINT]))
    ]
    assert found == [range(1, 3), range(1, 2)]


def test_the_naive_rule_looks_at_the_sum_of_free_gpus():
    view = View([gpu_node("a"), gpu_node("b", unschedulable=True)], [gpu_pod("x", on="a")])
    assert [facts.is_enough_by_sum(view, T4, count=count) for count in (3, 4)] == [True, False]
    assert not facts.is_enough_by_sum(view, {PRODUCT: "NVIDIA-L4"}, count=1)
