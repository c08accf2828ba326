"""A placement becomes trait values: appended to the admin's, in the admin's shape, never in place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kubernetes_asyncio.client import V1NodeSelectorRequirement, V1NodeSelectorTerm

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.fields import PodAdditions
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.hub.pod.trait_values import PodChoice, build_trait_values

EMPTY: dict[str, Any] = {
    "image": "base",
    "cpu_limit": None,
    "cpu_guarantee": None,
    "mem_limit": None,
    "mem_guarantee": None,
    "extra_resource_limits": {},
    "extra_resource_guarantees": {},
    "node_selector": {},
    "node_affinity_required": [],
    "node_affinity_preferred": [],
    "tolerations": [],
    "environment": {},
    "extra_annotations": {},
    "extra_labels": {},
    "extra_pod_config": {},
    "extra_container_config": {},
    "extra_containers": [],
    "init_containers": [],
    "volumes": [],
    "volume_mounts": [],
    "priority_class_name": "",
}
WANTED = {"key": "product", "operator": "In", "values": ["a", "b"]}
REQUIRED = (MatchExpression(key="product", operator="In", values=("a", "b")),)
OWN = {"key": "pool", "operator": "Exists"}


def placement(**changes: Any) -> PodRequirements:
    amounts = {"cpu_limit_millis": 1500, "cpu_request_millis": 750, "memory_limit_bytes": 8, "memory_request_bytes": 4}
    return PodRequirements(**{"image": "chosen", **amounts, **changes})


def values(admins: dict[str, Any] | None = None, *, resources: frozenset[str] = frozenset(), **changes: Any) -> Any:
    return build_trait_values(
        PodChoice(placement=placement(**changes), resources=resources), {**EMPTY, **(admins or {})}
    )


def test_amounts_are_cores_and_bytes():
    found = values()
    assert [found[name] for name in ("cpu_limit", "cpu_guarantee", "mem_limit", "mem_guarantee")] == [1.5, 0.75, 8, 4]


def test_an_amount_that_was_not_chosen_is_the_admins():
    found = values({"cpu_limit": 3.0, "mem_limit": 99}, cpu_limit_millis=None, memory_limit_bytes=None)
    assert (found["cpu_limit"], found["mem_limit"]) == (3.0, 99)


def test_the_number_of_an_offered_resource_is_the_users_choice_alone():
    admins = {
        "extra_resource_limits": {"nvidia.com/gpu": "8", "example.com/fpga": "1"},
        "extra_resource_guarantees": {"nvidia.com/gpu": "8"},
    }
    found = values(admins, resources=frozenset({"nvidia.com/gpu"}), extended_resources={"nvidia.com/gpu": 2})
    assert found["extra_resource_limits"] == {"example.com/fpga": "1", "nvidia.com/gpu": "2"}
    assert found["extra_resource_guarantees"] == {}


def test_gpus_that_are_not_offered_are_no_admins_gift_either():
    admins = {"extra_resource_limits": {"nvidia.com/gpu": "8"}, "extra_resource_guarantees": {"amd.com/gpu": "1"}}
    found = values(admins, resources=frozenset({"nvidia.com/mig-1g.5gb"}))
    assert (found["extra_resource_limits"], found["extra_resource_guarantees"]) == ({}, {})


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        ([], [{"matchExpressions": [WANTED]}]),
        ({}, [{"matchExpressions": [WANTED]}]),
        (
            [{"matchExpressions": [OWN]}, {"match_expressions": [OWN]}],
            [{"matchExpressions": [OWN, WANTED]}, {"match_expressions": [OWN, WANTED]}],
        ),
        ([{"matchExpressions": [OWN, WANTED]}], [{"matchExpressions": [OWN, WANTED]}]),
        ({"a": {"matchExpressions": [OWN]}}, {"a": {"matchExpressions": [OWN, WANTED]}}),
        ([{"matchFields": [OWN]}], [{"matchFields": [OWN], "matchExpressions": [WANTED]}]),
        ([{}], [{}]),
        ([{"matchExpressions": []}], [{"matchExpressions": []}]),
    ],
)
def test_every_required_term_gets_the_expressions(admins: Any, expected: Any):
    assert values({"node_affinity_required": admins}, required=REQUIRED)["node_affinity_required"] == expected


def test_a_required_term_that_is_a_model_gets_the_expressions_too():
    own = V1NodeSelectorRequirement(key="pool", operator="Exists")
    term = V1NodeSelectorTerm(match_expressions=[own])
    (found,) = values({"node_affinity_required": [term]}, required=REQUIRED)["node_affinity_required"]
    assert found == {"matchExpressions": [own, WANTED], "matchFields": None}
    assert term.match_expressions == [own]


def test_an_expression_without_values_has_no_list_of_them():
    expressions = (MatchExpression(key="shared", operator="DoesNotExist"),)
    (term,) = values(required=expressions)["node_affinity_required"]
    assert term == {"matchExpressions": [{"key": "shared", "operator": "DoesNotExist"}]}


def test_avoided_nodes_become_one_preference():
    found = values({"node_affinity_preferred": [{"weight": 1, "preference": {}}]}, avoided=REQUIRED)
    assert found["node_affinity_preferred"] == [
        {"weight": 1, "preference": {}},
        {"weight": 100, "preference": {"matchExpressions": [WANTED]}},
    ]


def test_tolerations_are_appended_once():
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    wanted = (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), Toleration(key="new", value="x"))
    found = values({"tolerations": [gpu]}, tolerations=wanted)
    assert found["tolerations"] == [gpu, {"key": "new", "operator": "Equal", "value": "x"}]


def test_an_admins_dict_stays_a_dict():
    found = values({"tolerations": {"01": {"key": "hub"}}}, tolerations=(Toleration(key="gpu", operator="Exists"),))
    assert list(found["tolerations"].values()) == [{"key": "hub"}, {"key": "gpu", "operator": "Exists"}]


def test_variables_that_must_not_be_there_are_taken_out_of_the_admins():
    admins = {"environment": {"NVIDIA_VISIBLE_DEVICES": "all", "A": "1"}}
    found = values(admins, removed_environment=("NVIDIA_VISIBLE_DEVICES",), environment={"B": "2"})
    assert found["environment"] == {"A": "1", "B": "2"}


def test_an_admins_runtime_class_stays():
    admins = {"extra_pod_config": {"runtime_class_name": "kata"}}
    assert values(admins, runtime_class="nvidia")["extra_pod_config"] == {"runtime_class_name": "kata"}


def test_an_admins_shared_memory_stays_the_only_one():
    admins = {"volumes": [{"name": "shm"}], "volume_mounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    found = values(admins, shm_bytes=1024)
    assert (found["volumes"], found["volume_mounts"]) == (admins["volumes"], admins["volume_mounts"])


def test_shared_memory_mounted_by_the_containers_own_configuration_stays_the_only_one():
    own = [{"name": "shm", "mountPath": "/dev/shm"}]
    found = values({"extra_container_config": {"volumeMounts": own}, "extra_pod_config": {"volumes": []}}, shm_bytes=5)
    assert found["extra_container_config"]["volumeMounts"] == own
    assert found["extra_pod_config"]["volumes"] == []


def test_shared_memory_reaches_a_pod_whose_volumes_and_mounts_are_replaced():
    admins = {"extra_pod_config": {"volumes": [{"name": "x"}]}, "extra_container_config": {"volume_mounts": None}}
    found = values(admins, shm_bytes=5)
    volume = {"name": "gpuspawner-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "5"}}
    assert found["extra_pod_config"]["volumes"] == [{"name": "x"}, volume]
    assert found["extra_container_config"]["volume_mounts"] == [{"name": "gpuspawner-shm", "mountPath": "/dev/shm"}]


def test_the_timeout_is_not_among_the_values_of_a_start():
    assert "start_timeout" not in values(start_timeout_s=900)


def test_applying_twice_adds_nothing():
    choice = PodChoice(
        placement=placement(
            required=REQUIRED,
            avoided=REQUIRED,
            tolerations=(Toleration(key="gpu", operator="Exists"),),
            shm_bytes=5,
            runtime_class="nvidia",
            node_selector={"a": "b"},
        )
    )
    once = build_trait_values(choice, EMPTY)
    assert build_trait_values(choice, once) == once


def test_the_admins_values_are_not_touched():
    admins = {**EMPTY, "node_affinity_required": [{"matchExpressions": [OWN]}], "tolerations": [{"key": "hub"}]}
    before = copy.deepcopy(admins)
    build_trait_values(PodChoice(placement=placement(required=REQUIRED, shm_bytes=5)), admins)
    assert admins == before


def test_a_priority_that_was_not_picked_is_the_admins():
    low = PodAdditions(priority_class="site-low", priority=-10)
    assert values({"priority_class_name": "own"})["priority_class_name"] == "own"
    assert values({"priority_class_name": "own"}, additions=low)["priority_class_name"] == "site-low"


def test_labels_of_a_queue_are_added_and_the_admins_own_stay():
    own = {"team": "{username}", "kueue.x-k8s.io/queue-name": "mine"}
    queued = placement(labels={"kueue.x-k8s.io/queue-name": "gpu-queue", "kueue.x-k8s.io/priority-class": "a{b}"})
    assert build_trait_values(PodChoice(placement=queued), {**EMPTY, "extra_labels": own})["extra_labels"] == {
        **own,
        "kueue.x-k8s.io/priority-class": "a{{b}}",
    }
    assert own == {"team": "{username}", "kueue.x-k8s.io/queue-name": "mine"}
