from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core import decode
from gpuspawner.core.inventory import Node, Pod, Taint

GIB = 1 << 30
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
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
            },
        ),
        "status": JSON | st.fixed_dictionaries({"allocatable": JSON, "conditions": JSON, "phase": JSON}),
    },
)
READY = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]


def container(cpu: str, **extra: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **extra}


def requests(**spec: Any) -> dict[str, int]:
    pod = decode.pod({"spec": spec})
    assert pod is not None
    return dict(pod.requests)


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
    assert decode.node(raw) == Node(
        name="gpu-1",
        labels={"zone": "a"},
        taints=(Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
        allocatable={"cpu": 7910, "memory": 16 * GIB, "nvidia.com/gpu": 3},
        capacity={"cpu": 8000, "nvidia.com/gpu": 4},
        schedulable=True,
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
    assert decode.node({"spec": spec, "status": {"conditions": conditions}}).schedulable is False


def test_a_pod_keeps_where_it_is_and_what_it_requests():
    raw = {
        "metadata": {"name": "jupyter-ada", "namespace": "hub"},
        "spec": {"nodeName": "gpu-1", "containers": [container("500m"), container("1")]},
        "status": {"phase": "Running"},
    }
    assert decode.pod(raw) == Pod(name="jupyter-ada", namespace="hub", node="gpu-1", requests={"cpu": 1500})


def test_a_waiting_pod_is_on_no_node():
    pod = decode.pod({"metadata": {"name": "p"}, "spec": {"nodeName": ""}, "status": {"phase": "Pending"}})
    assert pod is not None
    assert pod.node is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str):
    assert decode.pod({"status": {"phase": phase}}) is None


@pytest.mark.parametrize(
    ("init", "millis"),
    [
        ([], 1000),
        ([container("500m")], 1000),
        ([container("3"), container("2")], 3000),
        ([container("500m", restartPolicy="Always")], 1500),
        # The sidecar runs already while the second one initialises.
        ([container("500m", restartPolicy="Always"), container("2")], 2500),
        ([container("2"), container("500m", restartPolicy="Always")], 2000),
    ],
)
def test_init_containers_count_as_kube_scheduler_counts_them(init: list[Any], millis: int):
    assert requests(containers=[container("1")], initContainers=init) == {"cpu": millis}


def test_a_limit_without_a_request_stands_for_both():
    resources = {"limits": {"nvidia.com/gpu": "2", "cpu": "2"}, "requests": {"cpu": "1"}}
    assert requests(containers=[{"resources": resources}]) == {"nvidia.com/gpu": 2, "cpu": 1000}


def test_amounts_of_the_pod_itself_take_the_place_of_its_containers():
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}, "limits": {"memory": "1Gi"}}}
    assert requests(**spec) == {"cpu": 4000}


def test_overhead_is_added():
    assert requests(containers=[container("1")], overhead={"cpu": "250m", "memory": "1Gi"}) == {
        "cpu": 1250,
        "memory": GIB,
    }


@given(OBJECTS | JSON)
def test_whatever_the_api_sends_can_be_read(raw: object):
    node, pod = decode.node(raw), decode.pod(raw)
    assert all(number >= 0 for number in node.allocatable.values())
    assert pod is None or all(number >= 0 for number in pod.requests.values())
