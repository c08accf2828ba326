from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.decode import decode_bound_constraints, decode_constraints
from gpuspawner.core.cluster.model import (
    NO_CONSTRAINTS,
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodConstraints,
    SelectorRequirement,
    Toleration,
)

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
UNREADABLE = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Gt"}]}}
IS_WEB = SelectorRequirement(key="app", operator="In", values=("web",))
NEAR_WEB = PodAffinityTerm(topology_key="zone", selector=(IS_WEB,), namespaces=frozenset({"hub"}))


def of(created: bool = True, requests: tuple[str, ...] = (), **spec: Any) -> PodConstraints:
    return decode_constraints(spec, namespace="hub", labels={}, requests=requests, created=created)


def required(kind: str, found: object) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": found}}


def test_a_pod_without_demands_shares_them():
    assert of(containers=[{"name": "main"}]) is NO_CONSTRAINTS


def test_replicas_choose_the_same_nodes_whatever_else_is_their_own():
    def replica(name: str, zone: str = "a") -> PodConstraints:
        volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": f"claim-{name}"}}]
        term = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["x", "y"]}]}
        affinity = required("nodeAffinity", {"nodeSelectorTerms": [term]})
        return of(nodeSelector={"zone": zone}, affinity=affinity, volumes=volumes)

    one, other, elsewhere = replica("ada"), replica("bob"), replica("ada", zone="b")
    assert (
        one == other,
        one.node_affinity_key == other.node_affinity_key,
        one.node_affinity_key == elsewhere.node_affinity_key,
    ) == (False, True, False)


@pytest.mark.parametrize("number", [10, 10_000])
def test_demands_of_any_size_are_read_whole(number: int):
    values = [str(each) for each in range(number)]
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": values}]}]
    found = of(affinity=required("nodeAffinity", {"nodeSelectorTerms": terms}), nodeSelector=dict.fromkeys(values, "x"))
    assert (found.node_terms[0].expressions[0].values, found.node_selector) == (
        tuple(values),
        dict.fromkeys(values, "x"),
    )


def test_node_selector_affinity_and_tolerations_are_read():
    exists = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    found = of(
        nodeSelector={"zone": "a"},
        affinity=required("nodeAffinity", {"nodeSelectorTerms": [exists]}),
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "value": "v"}],
    )
    assert found == PodConstraints(
        node_selector={"zone": "a"},
        node_terms=(NodeSelectorTerm(expressions=(SelectorRequirement(key="gpu", operator="Exists"),)),),
        tolerations=(
            Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
            Toleration(key="k", operator="Equal", value="v"),
        ),
    )


def test_required_rules_about_other_pods_are_read_and_wishes_are_not():
    affinity = {
        **required("podAffinity", [TERM]),
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": TERM}]},
    }
    assert of(affinity=affinity) == PodConstraints(affinity=(NEAR_WEB,))


def test_a_rule_about_other_pods_that_cannot_be_read_is_undecided():
    found = of(affinity=required("podAffinity", [UNREADABLE]))
    assert found.undecided == ("a rule about other pods that cannot be read",)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("40960", (), id="integer"),
        pytest.param("9223372036854775808", ("a preference for nodes that cannot be read",), id="above int64"),
        pytest.param("40Gi", ("a preference for nodes that cannot be read",), id="no integer"),
    ],
)
def test_a_preference_for_nodes_that_cannot_be_read_is_undecided(value: str, expected: tuple[str, ...]):
    """kube-scheduler fails when it scores nodes by it, so the pod is bound only where one node is left."""
    expression = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [value]}
    preferred = [{"weight": 5, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert of(affinity=affinity).undecided == expected


def test_ports_of_the_host_are_those_of_containers_that_run_on():
    ports = [{"hostPort": 80}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"containerPort": 8080}]
    init = [{"ports": [{"hostPort": 1}]}, {"ports": [{"hostPort": 2}], "restartPolicy": "Always"}]
    assert of(containers=[{"ports": ports}], initContainers=init).host_ports == {
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 53),
        HostPort("0.0.0.0", "TCP", 2),
    }


def test_on_the_hosts_network_every_port_is_the_hosts():
    found = of(hostNetwork=True, containers=[{"ports": [{"containerPort": 8080}]}])
    assert found.host_ports == {HostPort("0.0.0.0", "TCP", 8080)}


def test_a_manifest_tolerates_what_the_api_server_will_add():
    tolerated = [(each.key, each.effect) for each in of(created=False).tolerations]
    assert tolerated == [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]


def test_the_api_server_adds_no_toleration_that_is_there():
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    assert [each.key for each in of(created=False, tolerations=[own]).tolerations] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert of(created=False, tolerations=[{"operator": "Exists"}]).tolerations == (Toleration(operator="Exists"),)


def test_gates_and_claims_are_read():
    found = of(schedulingGates=[{"name": "quota"}], volumes=[{"persistentVolumeClaim": {"claimName": "home"}}])
    assert found == PodConstraints(is_gated=True, unread_claims=("home",))


def test_what_a_runtime_class_will_add_to_a_manifest_is_undecided_and_any_taint_may_be_tolerated():
    found = of(created=False, runtimeClassName="nvidia")
    assert found == replace(
        of(created=False, tolerations=[{"operator": "Exists"}]),
        undecided=("what the cluster adds for its runtime class",),
        tolerations=(Toleration(operator="Exists"), *of(created=False).tolerations),
    )
    assert of(created=False, runtimeClassName=3) == of(created=False)


def test_a_pod_that_exists_has_what_its_runtime_class_adds():
    assert of(runtimeClassName="nvidia") is NO_CONSTRAINTS


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_only_the_api_server_knows_whether_tolerations_may_compare_numbers(operator: str):
    """It refuses a pod with such a toleration while the feature gate is off (validateTolerations)."""
    spec = {"tolerations": [{"key": "nodes/failures", "operator": operator, "value": "3"}]}
    assert of(created=False, **spec).undecided == ("a toleration that compares numbers",)
    assert of(created=True, **spec).undecided == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "gpu"}]},
        {"requests": ("deviceclass.resource.kubernetes.io/gpu",)},
        {"schedulingGroup": {"podGroupName": "g"}},
        {"volumes": [{"ephemeral": {}}]},
        {"volumes": [{"rbd": {}}]},
        {"hostNetwork": True, "hostUsers": False},
        {"containers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
    ],
)
def test_undecided_demands_are_named(spec: dict[str, Any]):
    assert len(of(**spec).undecided) == 1


def test_usual_volumes_demand_nothing():
    assert of(volumes=[{"emptyDir": {}}, {"configMap": {"name": "c"}}, {"csi": {"driver": "d"}}]) is NO_CONSTRAINTS


def test_a_bound_pods_anti_affinity_still_matters():
    found = decode_bound_constraints({"affinity": required("podAntiAffinity", [TERM])}, namespace="hub", labels={})
    assert found == PodConstraints(anti_affinity=(NEAR_WEB,))


def test_a_bound_pods_unreadable_anti_affinity_does_not():
    spec = {"affinity": required("podAntiAffinity", [UNREADABLE]), "nodeSelector": {"zone": "a"}}
    assert decode_bound_constraints(spec, namespace="hub", labels={}) is NO_CONSTRAINTS
