from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster.pod_requests import compute_requests

GIB = 1 << 30


def container(cpu: str, **extra: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **extra}


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
        ([container("3"), container("500m", restartPolicy="Always"), container("1")], 3000),
    ],
)
def test_init_containers_count_as_kube_scheduler_counts_them(init: list[Any], millis: int):
    assert compute_requests({"containers": [container("1")], "initContainers": init}) == {"cpu": millis}


def test_a_limit_without_a_request_stands_for_both():
    resources = {"limits": {"nvidia.com/gpu": "2", "cpu": "2"}, "requests": {"cpu": "1"}}
    assert compute_requests({"containers": [{"resources": resources}]}) == {"nvidia.com/gpu": 2, "cpu": 1000}


def test_the_api_server_rounds_each_amount_up_to_thousandths_before_they_are_added():
    assert compute_requests({"containers": [container("100.4m"), container("100.4m")]}) == {"cpu": 101 + 101}


def test_nothing_of_a_resource_is_no_request():
    resources = {"requests": {"nvidia.com/gpu": "0", "cpu": "0"}}
    assert compute_requests({"containers": [{"resources": resources}]}) == {}


def test_resources_that_kube_scheduler_does_not_count_are_left_out():
    names = ["pods", "storage", "gpu", "hugepages-2Mi", "ephemeral-storage", "example.com/card"]
    resources = {"requests": dict.fromkeys(names, "1")}
    assert compute_requests({"containers": [{"resources": resources}]}).keys() == set(names[3:])


@pytest.mark.parametrize(
    ("on_pod", "expected"),
    [
        ({"requests": {"cpu": "4"}}, {"cpu": 4000}),
        ({"requests": {"cpu": "500m", "nvidia.com/gpu": "8"}}, {"cpu": 500}),
        # A limit alone: containers' requests win, else it stands for a request.
        ({"limits": {"cpu": "4"}}, {"cpu": 1000}),
        ({"limits": {"memory": "1Gi"}}, {"cpu": 1000, "memory": GIB}),
        ({"limits": {"cpu": "9"}, "requests": {"cpu": "2"}}, {"cpu": 2000}),
    ],
)
def test_amounts_of_the_pod_itself_take_the_place_of_its_containers(on_pod: dict[str, Any], expected: dict[str, int]):
    assert compute_requests({"containers": [container("1")], "resources": on_pod}) == expected


def test_overhead_is_added_to_all():
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}
    assert compute_requests({**spec, "overhead": {"cpu": "250m", "memory": "1Gi"}}) == {"cpu": 2250, "memory": GIB}


@pytest.mark.parametrize(
    ("conditions", "millis"),
    [
        ([], 3000),
        ([{"type": "PodResizePending", "reason": "Deferred"}], 3000),
        ([{"type": "PodResizePending", "reason": "Infeasible"}], 2000),
    ],
)
def test_while_a_bound_pod_is_resized_the_larger_amount_counts(conditions: list[Any], millis: int):
    spec = {"containers": [container("3", name="main")]}
    held = {"name": "main", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}
    assert compute_requests(spec, {"containerStatuses": [held], "conditions": conditions}) == {"cpu": millis}


def test_what_a_container_still_holds_counts():
    spec = {"containers": [container("1", name="main")]}
    held = {"name": "main", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"}}
    assert compute_requests(spec, {"containerStatuses": [held]}) == {"cpu": 2000}


def test_what_a_resized_pod_still_holds_as_a_whole_counts():
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}
    assert compute_requests(spec, {"resources": {"requests": {"cpu": "4"}}}) == {"cpu": 4000}


INFEASIBLE = [{"type": "PodResizePending", "reason": "Infeasible"}]


@pytest.mark.parametrize(
    ("conditions", "held", "expected"),
    [
        pytest.param([], {"cpu": "2"}, {"cpu": 4000, "memory": 1024}, id="new amounts count until then"),
        pytest.param(INFEASIBLE, {"cpu": "2"}, {"cpu": 2000}, id="an amount that the pod did not have"),
        pytest.param(INFEASIBLE, {"cpu": "2", "memory": "512"}, {"cpu": 2000, "memory": 512}, id="both held"),
        pytest.param(INFEASIBLE, {}, {}, id="nothing held"),
        pytest.param(INFEASIBLE, None, {"cpu": 4000, "memory": 1024}, id="kubelet reports nothing"),
    ],
)
def test_of_a_resize_of_the_whole_pod_that_no_node_can_do_only_what_is_held_counts(
    conditions: list[Any], held: dict[str, str] | None, expected: dict[str, int]
):
    """As in component-helpers/resource/helpers.go, ``PodRequests`` and ``determineEffectiveRequests``."""
    own = {"requests": {"cpu": "4", "memory": "1Ki"}}
    spec = {"containers": [{"resources": {"requests": {"memory": "256"}}}], "resources": own}
    status = {"conditions": conditions, **({} if held is None else {"resources": {"requests": held}})}
    assert compute_requests(spec, status) == expected


def test_amounts_that_are_no_quantity_are_left_out():
    resources = {"requests": {"cpu": "many", "memory": None, "example.com/card": [1], "nvidia.com/gpu": 2}}
    assert compute_requests({"containers": [{"resources": resources}, "no container", None]}) == {"nvidia.com/gpu": 2}
