from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.decode import (
    apply_priority_class,
    decode_pod,
    decode_priority_class,
    find_new_priority,
    find_preempting_priority,
)
from gpuspawner.core.cluster.model import (
    HostPort,
    Node,
    Pod,
    PodConstraints,
    PriorityClass,
    Taint,
)
from tests.unit.hostile import JSON

GIB = 1 << 30
SELECTOR = JSON | st.fixed_dictionaries({"matchLabels": JSON, "matchExpressions": JSON | st.lists(JSON)})
SPREAD = st.fixed_dictionaries(
    {"whenUnsatisfiable": st.just("DoNotSchedule"), "labelSelector": SELECTOR, "maxSkew": JSON}
)
TERMS = JSON | st.lists(
    st.fixed_dictionaries(
        {"labelSelector": SELECTOR, "namespaces": JSON, "namespaceSelector": SELECTOR, "topologyKey": JSON}
    )
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = st.fixed_dictionaries(
    {
        "podAffinity": JSON | st.fixed_dictionaries({REQUIRED: TERMS}),
        "podAntiAffinity": JSON | st.fixed_dictionaries({REQUIRED: TERMS}),
        "nodeAffinity": JSON
        | st.fixed_dictionaries({REQUIRED: JSON | st.fixed_dictionaries({"nodeSelectorTerms": JSON})}),
    }
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": JSON | st.fixed_dictionaries({"name": JSON, "labels": JSON}),
        "spec": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "taints": JSON,
                "nodeName": JSON,
                "containers": JSON | st.lists(st.fixed_dictionaries({"resources": JSON})),
                "initContainers": JSON,
                "overhead": JSON,
                "resources": JSON,
                "tolerations": JSON | st.lists(st.fixed_dictionaries({"key": JSON, "operator": JSON})),
                "nodeSelector": JSON,
                "affinity": JSON | AFFINITY,
                "topologySpreadConstraints": JSON | st.lists(SPREAD),
                "volumes": JSON,
                "schedulingGates": JSON,
            },
        ),
        "status": JSON | st.fixed_dictionaries({"allocatable": JSON, "conditions": JSON, "phase": JSON}),
    },
)
READY = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]


def container(cpu: str, **extra: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **extra}


def test_a_node_keeps_what_matters():
    raw = {
        "metadata": {"name": "gpu-1", "labels": {"zone": "a"}, "annotations": {"dropped": "yes"}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "7910m", "memory": "16Gi", "nvidia.com/gpu": "3", "broken": "many"},
            "capacity": {"cpu": "8", "nvidia.com/gpu": "4"},
            "conditions": READY,
        },
    }
    assert decode.decode_node(raw) == Node(
        name="gpu-1",
        labels={"zone": "a"},
        taints=(Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
        allocatable={"cpu": 7910, "memory": 16 * GIB, "nvidia.com/gpu": 3},
        capacity={"cpu": 8000, "nvidia.com/gpu": 4},
        unschedulable=False,
        ready=True,
    )


@pytest.mark.parametrize(
    ("spec", "conditions"),
    [
        ({"unschedulable": True}, READY),
        ({}, [{"type": "Ready", "status": "False"}]),
        ({}, [{"type": "Ready", "status": "Unknown"}]),
        ({}, []),
        ({}, None),
    ],
)
def test_a_cordoned_or_unready_node_takes_no_pods(spec: dict[str, Any], conditions: Any):
    node = decode.decode_node({"spec": spec, "status": {"conditions": conditions}})
    assert (node.ready and not node.unschedulable) is False


def test_a_pod_keeps_where_it_is_and_what_it_requests():
    raw = {
        "metadata": {"name": "jupyter-ada", "namespace": "hub"},
        "spec": {"nodeName": "gpu-1", "containers": [container("500m"), container("1")]},
        "status": {"phase": "Running"},
    }
    assert decode.decode_pod(raw) == Pod(name="jupyter-ada", namespace="hub", node="gpu-1", requests={"cpu": 1500})


def test_what_a_spec_requests_is_what_its_pod_requests():
    container = {"name": "c", "resources": {"requests": {"cpu": "1500m"}, "limits": {"nvidia.com/gpu": "2"}}}
    spec = {"containers": [container], "initContainers": [{"name": "i", "resources": {"requests": {"memory": "1Gi"}}}]}
    pod = decode.decode_pod({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    assert decode.decode_requests(spec) == pod.requests == {"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 2}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str):
    assert decode.decode_pod({"status": {"phase": phase}}) is None


def test_a_pod_that_exists_keeps_what_others_and_the_queue_need():
    raw = {
        "metadata": {
            "name": "p",
            "namespace": "hub",
            "uid": "1",
            "labels": {"app": "web", "broken": 1},
            "creationTimestamp": "2026-11-21T12:00:00Z",
            "deletionTimestamp": "2026-11-21T13:00:00Z",
        },
        "spec": {"priority": 100, "containers": [container("1")], "nodeSelector": {"zone": "a"}},
        "status": {"phase": "Pending", "nominatedNodeName": "gpu-1"},
    }
    assert decode.decode_pod(raw) == Pod(
        name="p",
        namespace="hub",
        node=None,
        requests={"cpu": 1000},
        labels={"app": "web"},
        terminating=True,
        priority=100,
        created="2026-11-21T12:00:00Z",
        constraints=PodConstraints(node_selector={"zone": "a"}),
        nominated_node="gpu-1",
    )


def test_a_bound_pod_demands_only_what_keeps_others_away():
    port = {"hostPort": 80}
    spec = {"nodeName": "a", "nodeSelector": {"zone": "a"}, "containers": [{"ports": [port]}]}
    pod = decode.decode_pod({"spec": spec})
    assert pod.constraints == PodConstraints(host_ports=frozenset({HostPort("0.0.0.0", "TCP", 80)}))


def test_replicas_share_labels_requests_and_terms():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    raw = {
        "metadata": {"namespace": "n", "labels": {"app": "web"}},
        "spec": {"nodeName": "a", "affinity": affinity, "containers": [container("1")]},
    }
    one, other = (decode.decode_pod(json.loads(json.dumps(raw))) for _ in range(2))
    assert one.labels is other.labels
    assert one.requests is other.requests
    assert one.constraints is other.constraints


def test_what_a_bound_pod_holds_while_it_is_resized_counts():
    main = {"name": "main", **container("1")}
    held = {"name": "main", "resources": {"requests": {"cpu": "3"}}}
    pod = decode.decode_pod({"spec": {"nodeName": "a", "containers": [main]}, "status": {"containerStatuses": [held]}})
    assert pod.requests == {"cpu": 3000}


def test_a_waiting_pod_holds_nothing_yet():
    main = {"name": "main", **container("1")}
    held = {"name": "main", "resources": {"requests": {"cpu": "3"}}}
    pod = decode.decode_pod({"spec": {"containers": [main]}, "status": {"containerStatuses": [held]}})
    assert pod.requests == {"cpu": 1000}


@given(OBJECTS | JSON)
def test_whatever_the_api_sends_can_be_read(raw: object):
    node, pod = decode.decode_node(raw), decode.decode_pod(raw)
    assert all(number >= 0 for number in node.allocatable.values())
    assert pod is None or all(number >= 0 for number in pod.requests.values())


HIGH = PriorityClass(name="high", value=1000)
SHY = PriorityClass(name="shy", value=1000, preempts=False)
USUAL, RARE = (PriorityClass(name=f"default-{value}", value=value, is_default=True) for value in (-5, 7))


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, None, (0, True), id="no-class-and-no-right"),
        pytest.param({}, [HIGH], (0, True), id="no-class-and-no-default"),
        pytest.param({}, [HIGH, RARE, USUAL], (-5, True), id="the-lowest-default"),
        pytest.param({"priorityClassName": "high"}, [USUAL, HIGH], (1000, True), id="a-class"),
        pytest.param({"priorityClassName": "high", "priority": 7}, [HIGH], (1000, True), id="the-class-itself-counts"),
        pytest.param({"priorityClassName": "shy"}, [SHY], (1000, False), id="a-class-that-preempts-no-pod"),
        pytest.param({"preemptionPolicy": "Never"}, [HIGH], (0, False), id="a-pod-that-preempts-no-pod"),
        pytest.param({"priorityClassName": "high"}, None, (0, None), id="a-class-that-cannot-be-read"),
        pytest.param({"priorityClassName": "high", "priority": 7}, None, (7, True), id="a-value-of-the-settings"),
        pytest.param({"priorityClassName": "gone"}, [HIGH], (0, None), id="a-class-that-does-not-exist"),
        pytest.param(
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            None,
            (0, False),
            id="never-whatever-its-priority",
        ),
    ],
)
def test_a_new_pod_gets_the_priority_of_its_class(
    spec: dict[str, Any], classes: list[PriorityClass] | None, expected: tuple[int, bool | None]
):
    pod = decode_pod({"metadata": {"name": "p"}, "spec": spec})
    assert pod is not None
    found = apply_priority_class(pod, spec, classes=classes)
    assert (found.priority, found.preempts) == expected
    assert find_preempting_priority(spec, classes=classes) == (expected[0] if expected[1] else None)


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, None, None, id="default-unknown"),
        pytest.param({}, [HIGH], 0, id="no-default"),
        pytest.param({}, [HIGH, RARE, USUAL], -5, id="the-lowest-default"),
        pytest.param({"preemptionPolicy": "Never"}, None, None, id="default-unknown-and-no-preemption"),
        pytest.param({"priority": 7}, None, 7, id="a-dry-run"),
        pytest.param({"priorityClassName": "high", "priority": 7}, [HIGH], 1000, id="the-class-itself-counts"),
        pytest.param({"priorityClassName": "high"}, None, None, id="a-class-that-cannot-be-read"),
        pytest.param(
            {"priorityClassName": "gone", "preemptionPolicy": "Never"}, [HIGH], None, id="a-class-that-does-not-exist"
        ),
    ],
)
def test_the_priority_of_a_new_pod_is_unknown_where_it_cannot_be_read(
    spec: dict[str, Any], classes: list[PriorityClass] | None, expected: int | None
):
    assert find_new_priority(spec, classes=classes) == expected


def test_a_priority_class_is_read():
    raw = {"metadata": {"name": "x"}, "value": -10, "globalDefault": True, "preemptionPolicy": "Never"}
    assert decode_priority_class(raw) == PriorityClass(name="x", value=-10, preempts=False, is_default=True)
    assert decode_priority_class({"metadata": {"name": "y"}}) == PriorityClass(name="y", value=0)
