"""Additions of admission plugins to a new pod, as in Kubernetes' plugin/pkg/admission/runtimeclass and limitranger."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.cluster.decode import (
    add_limit_ranges,
    add_runtime_class,
    decode_pod,
    decode_requests,
    decode_runtime_class,
)


def test_a_runtime_class_adds_selector_tolerations_and_overhead():
    tolerated = {"key": "kata", "operator": "Exists"}
    kata = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [tolerated]},
    }
    spec = {"runtimeClassName": "kata", "nodeSelector": {"pool": "a"}, "tolerations": [{"key": "own"}]}
    assert add_runtime_class(spec, [decode_runtime_class(kata)]) == {
        "nodeSelector": {"pool": "a", "kata": "yes"},
        "tolerations": [{"key": "own"}, tolerated],
        "overhead": {"cpu": "250m"},
    }


@pytest.mark.parametrize("plain", [{}, {"handler": "nvidia"}, {"overhead": None, "scheduling": 3}])
def test_of_a_plain_runtime_class_nothing_is_left(plain: dict[str, Any]):
    containers = [{"name": "notebook"}]
    classes = [decode_runtime_class({"metadata": {"name": "n"}, **plain})]
    with_class = decode_pod({"spec": add_runtime_class({"runtimeClassName": "n", "containers": containers}, classes)})
    assert with_class == decode_pod({"spec": {"containers": containers}})


@pytest.mark.parametrize("spec", [{}, {"runtimeClassName": ""}, {"runtimeClassName": "unknown"}])
def test_a_pod_without_a_known_runtime_class_stays_as_it_is(spec: dict[str, Any]):
    assert add_runtime_class(spec, map(decode_runtime_class, [{}, None, {"metadata": {"name": "n"}}])) == spec


def limit_range(**entry: Any) -> dict[str, Any]:
    return {"spec": {"limits": [{"type": "Container", **entry}]}}


FOUR = limit_range(default={"memory": "8Gi", "cpu": "4"}, defaultRequest={"cpu": "4"})


@pytest.mark.parametrize(
    ("resources", "limit_ranges", "millis"),
    [
        pytest.param({}, [], None, id="no LimitRange"),
        pytest.param({}, [FOUR], 4000, id="nothing requested"),
        pytest.param({"requests": {"cpu": "1"}}, [FOUR], 1000, id="requested"),
        pytest.param({"limits": {"cpu": "2"}}, [FOUR], 2000, id="a limit is a request"),
        pytest.param({}, [limit_range(defaultRequest={"cpu": "3"}), FOUR], 3000, id="the first one counts"),
        pytest.param({}, [{"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}], None, id="of pods"),
        pytest.param({}, [None, {"spec": {"limits": [None, 3]}}], None, id="malformed"),
    ],
)
def test_a_container_gets_the_defaults_that_it_lacks(resources: Any, limit_ranges: list[Any], millis: int | None):
    changed = add_limit_ranges({"containers": [{"name": "notebook", "resources": resources}]}, limit_ranges)
    assert decode_requests(changed).get("cpu") == millis


def test_init_containers_get_them_too():
    changed = add_limit_ranges({"containers": [], "initContainers": [{"name": "i"}]}, [FOUR])
    assert decode_requests(changed) == {"cpu": 4000, "memory": 8 << 30}
