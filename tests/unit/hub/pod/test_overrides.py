"""An admin's values for a pod's fields keep the placement in it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kubernetes_asyncio.client import (
    V1Affinity,
    V1EnvVar,
    V1NodeAffinity,
    V1NodeSelector,
    V1NodeSelectorRequirement,
    V1NodeSelectorTerm,
    V1PodAntiAffinity,
    V1ResourceRequirements,
)

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.fields import PodAdditions
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.hub.pod.overrides import (
    build_container_config,
    build_pod_config,
    find_container_mounts,
    serialize_models,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN = {"key": "pool", "operator": "Exists"}
WANTED = {"key": "product", "operator": "In", "values": ["a", "b"]}
EXPRESSIONS = (MatchExpression(key="product", operator="In", values=("a", "b")),)
PREFERENCE = {"weight": 100, "preference": {"matchExpressions": [WANTED]}}
SHM = {"name": "gpuspawner-shm"}


def placement(**changes: Any) -> PodRequirements:
    amounts = {"cpu_limit_millis": 1500, "cpu_request_millis": 750, "memory_limit_bytes": 8, "memory_request_bytes": 4}
    return PodRequirements(**{"image": "chosen", **amounts, **changes})


def pod(admins: dict[str, Any] | None, *, volumes: Any = (), **changes: Any) -> dict[str, Any]:
    return build_pod_config(admins, placement(**changes), volumes=list(volumes))


def container(admins: dict[str, Any] | None, *, mounts: Any = (), **changes: Any) -> dict[str, Any]:
    resources = frozenset({"example.com/gpu"})
    return build_container_config(admins, placement(**changes), mounts=list(mounts), resources=resources)


# -- the pod ---------------------------------------------------------------------------------------------------------


def test_fields_that_the_admin_does_not_write_over_are_not_added():
    found = pod(
        {"dnsPolicy": "None"},
        node_selector={"a": "b"},
        required=EXPRESSIONS,
        avoided=EXPRESSIONS,
        tolerations=(Toleration(key="gpu"),),
        volumes=[SHM],
    )
    assert found == {"dnsPolicy": "None"}


@pytest.mark.parametrize("name", ["nodeSelector", "node_selector"])
@pytest.mark.parametrize("own", [{"pool": "users", "product": "other"}, {}, None])
def test_the_placements_labels_win_in_a_node_selector(name: str, own: Any):
    assert pod({name: own}, node_selector={"product": "a"}) == {name: {**(own or {}), "product": "a"}}


def test_the_run_time_is_the_pods():
    assert pod({"dnsPolicy": "None"}, run_time_s=5400) == {"dnsPolicy": "None", "activeDeadlineSeconds": 5400}
    assert pod({}) == {}


@pytest.mark.parametrize("name", ["activeDeadlineSeconds", "active_deadline_seconds"])
@pytest.mark.parametrize(
    ("own", "run_time_s", "expected"),
    [
        (3600, 5400, 3600),
        (7200, 5400, 5400),
        (7200.0, 5400, 5400),
        (None, 5400, 5400),
        (3600, None, 3600),
        (None, None, None),
        ("for ever", 5400, "for ever"),
    ],
)
def test_of_two_run_times_the_shorter_one_counts(name: str, own: Any, run_time_s: int | None, expected: Any):
    assert pod({name: own}, run_time_s=run_time_s) == {name: expected}


@pytest.mark.parametrize("name", ["priorityClassName", "priority_class_name"])
def test_a_priority_that_was_picked_wins(name: str):
    low = PodAdditions(priority_class="site-low", priority=-10)
    assert pod({name: "own"}, additions=low) == {name: "site-low"}
    assert pod({name: "own"}) == {name: "own"}
    assert pod({}, additions=low) == {}


def test_tolerations_and_volumes_are_appended_once():
    gpu = {"key": "gpu", "operator": "Exists"}
    tolerations = (Toleration(key="gpu", operator="Exists"), Toleration(key="new", operator="Exists"))
    found = pod({"tolerations": [gpu], "volumes": [{"name": "x"}]}, tolerations=tolerations, volumes=[SHM])
    assert found == {"tolerations": [gpu, {"key": "new", "operator": "Exists"}], "volumes": [{"name": "x"}, SHM]}


@pytest.mark.parametrize(
    "own",
    [
        {"podAntiAffinity": {}},
        {"podAntiAffinity": {}, "nodeAffinity": None},
        V1Affinity(pod_anti_affinity=V1PodAntiAffinity()),
    ],
)
def test_an_affinity_without_one_for_nodes_gets_it(own: Any):
    assert pod({"affinity": own}, required=EXPRESSIONS) == {
        "affinity": {
            "podAntiAffinity": {},
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [WANTED]}]}},
        }
    }


def _affinity_model() -> V1Affinity:
    expression = V1NodeSelectorRequirement(key="pool", operator="Exists")
    terms = [V1NodeSelectorTerm(match_expressions=[expression])] * 2
    required = V1NodeSelector(node_selector_terms=terms)
    return V1Affinity(node_affinity=V1NodeAffinity(required_during_scheduling_ignored_during_execution=required))


AFFINITY = {
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OWN]}, {"matchExpressions": [OWN]}]}}
}


@pytest.mark.parametrize("own", [AFFINITY, _affinity_model()])
def test_every_required_term_of_an_affinity_gets_the_expressions(own: Any):
    (terms,) = pod({"affinity": own}, required=EXPRESSIONS)["affinity"]["nodeAffinity"].values()
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": [OWN, WANTED]}] * 2}


def test_a_preference_is_added_to_an_affinity():
    other = {"weight": 1, "preference": {"matchExpressions": [OWN]}}
    found = pod({"affinity": {"nodeAffinity": {PREFERRED: [other]}}}, avoided=EXPRESSIONS)
    assert found == {"affinity": {"nodeAffinity": {PREFERRED: [other, PREFERENCE]}}}


@pytest.mark.parametrize("own", [{"podAffinity": {}}, {}, None])
def test_an_affinity_stays_where_nothing_is_required_or_avoided(own: Any):
    assert pod({"affinity": own}) == {"affinity": own}


def test_the_runtime_class_is_added_without_one_of_the_admins():
    assert pod(None, runtime_class="nvidia") == {"runtimeClassName": "nvidia"}
    assert pod({"runtime_class_name": "kata"}, runtime_class="nvidia") == {"runtime_class_name": "kata"}


# -- the container ---------------------------------------------------------------------------------------------------


def test_fields_of_the_container_that_the_admin_does_not_write_over_are_not_added():
    found = container({"envFrom": []}, mounts=[SHM], environment={"A": "b"}, extended_resources={"nvidia.com/gpu": 1})
    assert found == {"envFrom": []}


@pytest.mark.parametrize(
    "own",
    [
        {"limits": {"cpu": "9", "nvidia.com/gpu": "4", "example.com/gpu": "1", "example.com/fpga": "1"}},
        V1ResourceRequirements(limits={"cpu": "9", "example.com/fpga": "1", "amd.com/gpu": "1"}),
    ],
)
def test_the_choice_wins_in_resources(own: Any):
    assert container({"resources": own}, extended_resources={"nvidia.com/gpu": 2})["resources"] == {
        "limits": {"cpu": 1.5, "memory": 8, "nvidia.com/gpu": "2", "example.com/fpga": "1"},
        "requests": {"cpu": 0.75, "memory": 4},
    }


def test_without_a_gpu_resources_have_none():
    own = {"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "4"}}
    assert container({"resources": own})["resources"] == {
        "limits": {"cpu": 1.5, "memory": 8},
        "requests": {"cpu": 0.75, "memory": 4},
    }


def test_an_amount_without_a_field_is_the_admins():
    unknown = dict.fromkeys(("cpu_limit_millis", "cpu_request_millis", "memory_limit_bytes", "memory_request_bytes"))
    own = {"limits": {"cpu": "9"}, "requests": {"cpu": "1"}, "claims": []}
    assert container({"resources": own}, **unknown)["resources"] == own


@pytest.mark.parametrize("name", ["volumeMounts", "volume_mounts"])
def test_mounts_are_appended_once(name: str):
    assert container({name: [{"name": "x"}]}, mounts=[SHM]) == {name: [{"name": "x"}, SHM]}
    assert container({name: [SHM]}, mounts=[SHM]) == {name: [SHM]}


@pytest.mark.parametrize("variable", [{"name": "SHOWN", "value": "all"}, V1EnvVar(name="SHOWN", value="all")])
def test_variables_are_taken_out_and_replaced(variable: Any):
    own = {"env": [{"name": "A", "value": "b"}, variable]}
    assert container(own, removed_environment=("SHOWN",)) == {"env": [{"name": "A", "value": "b"}]}
    assert container(own, environment={"SHOWN": "void"}) == {
        "env": [{"name": "A", "value": "b"}, {"name": "SHOWN", "value": "void"}]
    }


@pytest.mark.parametrize(
    ("admins", "expected"), [(None, "trait"), ({}, "trait"), ({"volume_mounts": []}, []), ({"volumeMounts": [1]}, [1])]
)
def test_the_containers_mounts_are_the_ones_written_over_it(admins: Any, expected: Any):
    assert find_container_mounts(admins, otherwise="trait") == expected


# -- both ------------------------------------------------------------------------------------------------------------


def test_the_admins_values_are_not_touched():
    pods = {"affinity": AFFINITY, "nodeSelector": {"a": "b"}, "tolerations": [], "volumes": []}
    containers = {"resources": {"limits": {"cpu": 1}}, "env": [{"name": "A"}], "volumeMounts": []}
    before = copy.deepcopy((pods, containers))
    pod(pods, required=EXPRESSIONS, node_selector={"c": "d"}, tolerations=(Toleration(key="gpu"),), volumes=[SHM])
    container(containers, environment={"A": "b"}, mounts=[SHM])
    assert (pods, containers) == before


def test_models_become_what_the_api_takes():
    assert serialize_models([_affinity_model(), 1]) == [AFFINITY, 1]
