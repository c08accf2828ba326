from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.autoscaling.karpenter import NODE_POOL_LABEL, decode_node_pools, derive_pools_from_nodes
from gpuspawner.core.autoscaling.node_pools import NODE_COUNT, check_new_node, has_room_after
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.model import MachineConstraints, Node, Pod, PodConstraints, ScalableNodePool, Taint
from gpuspawner.core.scheduling.results import Answer

GIB = 1 << 30
GPU = "nvidia.com/gpu"
AWS = "karpenter.k8s.aws/instance"
NAME = f"{AWS}-gpu-name"
TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


T4 = (requirement(NAME, "In", "t4"), requirement(f"{AWS}-gpu-count", "In", "1", "4"))
GPU_TYPE = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={NAME: ("t4",)})


def node_pool(*requirements: dict[str, Any], name: str = "gpus", **changes: Any) -> dict[str, Any]:
    """Return a NodePool as the API server sends it.

    :param changes: ``labels``, ``taints``, ``limits``, ``resources`` (used), ``ready``, or fields of the spec.
    """
    status = {"conditions": [{"type": "Ready", "status": changes.pop("ready", "True")}]}
    template = {
        "metadata": {"labels": changes.pop("labels", {})},
        "spec": {"requirements": list(requirements), "taints": changes.pop("taints", []), "startupTaints": []},
    }
    return {
        "metadata": {"name": name},
        "status": {**status, "resources": changes.pop("resources", {})},
        "spec": {"template": template, **changes},
    }


def pool(*requirements: dict[str, Any], **changes: Any) -> ScalableNodePool:
    (found,) = decode_node_pools([node_pool(*requirements, **changes)])
    return found


def machines(*requirements: dict[str, Any], **changes: Any) -> MachineConstraints:
    found = pool(*requirements, **changes).machines
    assert found is not None
    return found


def pod(gpus: int = 1, cpu: int = 1000, memory: int = GIB, **constraints: Any) -> Pod:
    requests = {"cpu": cpu, "memory": memory, GPU: gpus}
    return Pod(name="p", namespace="n", node=None, requests=requests, constraints=PodConstraints(**constraints))


def answer(scalable_pool: ScalableNodePool, wanted: Pod) -> Answer:
    return check_new_node(scalable_pool, wanted, gpu=GPU_TYPE)


def test_what_a_node_will_be_labelled_is_what_the_pool_says():
    found = pool(*T4, requirement("kept", "Exists"), requirement("gone", "DoesNotExist"), labels={"team": "a"})
    assert found.labels == {
        NODE_POOL_LABEL: ("gpus",),
        "team": ("a",),
        NAME: ("t4",),
        f"{AWS}-gpu-count": ("1", "4"),
        "gone": (),
    }


@pytest.mark.parametrize(
    ("more", "values"),
    [
        (requirement("size", "NotIn", "2"), ("1", "9")),
        (requirement("size", "In", "9", "10"), ("9",)),
        (requirement("size", "Gt", "1"), ("2", "9")),
        (requirement("size", "Lt", "9"), ("1", "2")),
        (requirement("size", "Gte", "2"), ("2", "9")),
        (requirement("size", "Lte", "2"), ("1", "2")),
        (requirement("size", "Gte", "0"), ("1", "2", "9")),
        (requirement("size", "Exists"), ("1", "2", "9")),
        ({**requirement("size", "In", "1", "2"), "minValues": 2}, ("1", "2")),
    ],
)
def test_several_requirements_on_a_label_hold_together(more: dict[str, Any], values: tuple[str, ...]):
    found = pool(requirement("size", "In", "1", "2", "9"), more)
    assert found.labels["size"] == values
    assert found.machines is not None
    assert found.machines.is_reliable


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 0},
        {"labels": {NAME: "a100"}},
        {"requirements": (requirement(NAME, "DoesNotExist"),)},
        {"requirements": (requirement(NAME, "NotIn", "t4"),)},
    ],
)
def test_a_pool_that_has_no_nodes_or_contradicts_itself_adds_nothing(changes: dict[str, Any]):
    assert decode_node_pools([node_pool(*T4, *changes.pop("requirements", ()), **changes)]) == ()


def test_a_pool_that_is_being_deleted_adds_nothing():
    raw = node_pool(*T4)
    assert (
        decode_node_pools([{**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}]) == ()
    )


def test_the_pool_that_karpenter_prefers_comes_first():
    raws = [node_pool(name="none"), node_pool(name="light", weight=1), node_pool(name="heavy", weight=90)]
    assert [each.name for each in decode_node_pools(raws)] == ["heavy", "light", "none"]


def test_the_rest_of_the_limits_is_the_unused_part():
    found = machines(
        limits={"cpu": "10", "memory": "1Gi", GPU: 2, "nodes": "5"},
        resources={"cpu": "2500m", GPU: "2", "nodes": "2", "pods": "220"},
    )
    assert found.limits == {"cpu": 10_000, "memory": GIB, GPU: 2, "nodes": 5}
    assert found.remaining == {"cpu": 7500, "memory": GIB, GPU: 0, "nodes": 3}


def test_nodes_are_counted_where_the_status_has_them():
    raw = node_pool(limits={"nodes": 5})
    (found,) = decode_node_pools([{**raw, "status": {**raw["status"], "nodes": 4}}])
    assert found.machines is not None
    assert found.machines.remaining == {"nodes": 1}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod(node_selector={NAME: "t4"}), Answer.YES),
        (pod(4, node_selector={NAME: "t4"}), Answer.YES),
        (pod(8, node_selector={NAME: "t4"}), Answer.YES),
        (pod(node_selector={NAME: "a100"}), Answer.NO),
        (pod(node_selector={NAME: "t4", NODE_POOL_LABEL: "others"}), Answer.NO),
        (pod(node_selector={NAME: "t4", "nvidia.com/gpu.product": "Tesla-T4"}), Answer.UNKNOWN),
        (pod(node_selector={NAME: "t4"}, undecided=("a resource claim",)), Answer.UNKNOWN),
    ],
)
def test_a_pod_gets_a_node_of_a_pool_that_is_all_it_asks_for(wanted: Pod, expected: Answer):
    assert answer(pool(*T4), wanted) is expected


def test_gpus_that_a_pool_does_not_speak_of_are_no_promise():
    assert answer(pool(requirement(f"{AWS}-category", "In", "g")), pod()) is Answer.UNKNOWN


def test_taints_that_stay_must_be_tolerated_and_others_pass():
    raw = node_pool(*T4)
    raw["spec"]["template"]["spec"]["startupTaints"] = [{"key": "starting", "effect": "NoSchedule"}]
    (open_,) = decode_node_pools([raw])
    closed = pool(*T4, taints=[{"key": "team", "effect": "NoSchedule"}])
    wanted = pod(node_selector={NAME: "t4"})
    assert (answer(open_, wanted), answer(closed, wanted)) == (Answer.YES, Answer.NO)


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": "Unknown"},
        {"limits": {"cpu": "a lot"}},
        {"limits": {"cpu": "-1"}},
        {"limits": {"cpu": "8"}, "resources": {"cpu": "some"}},
        {"requirements": (requirement("x", "Near", "y"),)},
        {"requirements": ({"key": "x", "operator": "In", "values": ["y", 3]},)},
        {"requirements": ({"key": "x", "operator": "In", "values": "y"},)},
        {"requirements": (requirement("x", "Gt", "y"),)},
    ],
)
def test_requirements_that_are_not_understood_are_no_promise_and_no_refusal(changes: dict[str, Any]):
    found = pool(*T4, *changes.pop("requirements", ()), **changes)
    assert answer(found, pod(node_selector={NAME: "t4"})) is Answer.UNKNOWN


def test_a_pool_whose_last_nodes_never_came_up_is_no_promise():
    raw = node_pool(*T4)
    raw["status"]["conditions"].append({"type": "NodeRegistrationHealthy", "status": "False"})
    (found,) = decode_node_pools([raw])
    assert answer(found, pod(node_selector={NAME: "t4"})) is Answer.UNKNOWN


@pytest.mark.parametrize(
    "changes",
    [{"ready": "False"}, {"limits": {GPU: "2"}, "resources": {GPU: "2"}}, {"limits": {GPU: 4}, "resources": {GPU: 4}}],
)
def test_a_pool_that_is_full_or_out_of_order_may_grow_again(changes: dict[str, Any]):
    wanted, found = pod(node_selector={NAME: "t4"}), pool(*T4, **changes)
    assert (answer(found, wanted), has_room_after(found, wanted, ahead=())) == (Answer.YES, False)


@pytest.mark.parametrize("replicas", [3, "many", None, True, False])
def test_a_static_pool_may_be_replacing_a_node_and_promises_none(replicas: Any):
    raw = node_pool(*T4, replicas=replicas)
    raw["status"]["nodes"] = 3
    (found,) = decode_node_pools([raw])
    expected = Answer.YES if replicas is None else Answer.UNKNOWN
    assert answer(found, pod(node_selector={NAME: "t4"})) is expected
    node = made(labels={**made().labels, f"{AWS}-gpu-count": "1"})
    assert bool(list(derive_pools_from_nodes([found], [node]))) is (replicas is None)


def test_a_limit_for_another_vendors_gpus_is_no_limit_for_a_pod():
    any_gpu = (T4[0], requirement(f"{AWS}-gpu-count", "Gt", "0"))
    found, wanted = pool(*any_gpu, limits={GPU: 8, "amd.com/gpu": 0}), pod(node_selector={NAME: "t4"})
    assert (answer(found, wanted), has_room_after(found, wanted, ahead=())) == (Answer.YES, True)


def test_memory_that_a_machine_counts_for_less_of_is_no_reason_to_refuse():
    found = pool(*T4, requirement(f"{AWS}-memory", "In", "65536"), limits={"memory": "60Gi"})
    assert answer(found, pod(memory=50 * GIB, node_selector={NAME: "t4"})) is Answer.YES


def made(name: str = "gpus", machine: str = "g4dn.xlarge", zone: str = "a", **changes: Any) -> Node:
    """Return a node that Karpenter made, with what others have put on it since."""
    has = {"cpu": 3900, "memory": 15 * GIB, "pods": 50, GPU: 1}
    labels = {NODE_POOL_LABEL: name, TYPE: machine, ZONE: zone, NAME: "t4", "nvidia.com/gpu.product": "Tesla-T4"}
    facts = {"labels": labels, "allocatable": has, "capacity": {**has, "cpu": 4000}, **changes}
    return Node(name="n", **facts)


def test_another_machine_like_one_that_is_there_may_be_added():
    grown = pool(
        limits={"cpu": "15.8", GPU: 8}, resources={"cpu": "4", GPU: 1}, taints=[{"key": "k", "effect": "NoSchedule"}]
    )
    node = made(taints=(Taint(key="busy", effect="NoSchedule"),))
    assert list(derive_pools_from_nodes([grown], [node])) == [
        ScalableNodePool(
            name="gpus",
            minutes=None,
            node_allocatable=node.allocatable,
            max_new_nodes=2,
            examples=(
                Node(
                    name="",
                    labels={NODE_POOL_LABEL: "gpus", TYPE: "g4dn.xlarge", ZONE: "a", NAME: "t4"},
                    taints=(Taint(key="k", effect="NoSchedule"),),
                ),
            ),
        )
    ]


def test_machines_of_one_type_are_as_large_as_the_one_in_order_and_in_all_their_zones():
    starting = made(zone="b", allocatable={"cpu": 3900, "pods": 50})
    (found,) = derive_pools_from_nodes([pool()], [starting, made()])
    assert (found.node_allocatable, found.max_new_nodes) == (made().allocatable, None)
    assert [each.labels[ZONE] for each in found.examples] == ["b", "a"]


MIG = "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("changes", "requests", "expected"),
    [
        ({"allocatable": {MIG: 7}}, {MIG: 1}, Answer.NO),
        ({"allocatable": {GPU: 4}, "labels": {f"{AWS}-gpu-count": "1"}}, {GPU: 2}, Answer.NO),
        ({"allocatable": {GPU: 4}, "labels": {f"{AWS}-gpu-count": "1"}}, {GPU: 1}, Answer.YES),
        ({"allocatable": {GPU: 4}, "labels": {f"{AWS}-gpu-count": "some"}}, {GPU: 2}, Answer.YES),
        ({"allocatable": {GPU: 4}, "labels": {f"{AWS}-gpu-count": "0"}}, {GPU: 1}, Answer.NO),
        ({"allocatable": {"habana.ai/gaudi": 8}}, {"habana.ai/gaudi": 8}, Answer.YES),
    ],
)
def test_a_further_machine_has_what_karpenter_knows_of_before_it_is_there(
    changes: dict[str, Any], requests: dict[str, int], expected: Answer
):
    labels = {**made().labels, **changes.pop("labels", {})}
    (found,) = derive_pools_from_nodes([pool()], [made(labels=labels, **changes)])
    assert answer(found, Pod(name="p", namespace="n", node=None, requests=requests)) is expected


@pytest.mark.parametrize(
    ("node", "grown"),
    [
        (made(name="others"), pool()),
        (made(), pool(requirement(TYPE, "NotIn", "g4dn.xlarge"))),
        (made(), pool(labels={"new": "label"})),
        (made(), pool(ready="Unknown")),
        (Node(name="n", labels={NODE_POOL_LABEL: "gpus"}), pool()),
    ],
)
def test_a_machine_that_the_pool_would_not_make_now_is_no_example(node: Node, grown: ScalableNodePool):
    assert list(derive_pools_from_nodes([grown], [node])) == []


@pytest.mark.timeout(5)
def test_many_values_are_compared_in_no_time():
    values = [str(number) for number in range(50_000)]
    told = (requirement("x", "In", *values), requirement("x", "In", *values), requirement("x", "NotIn", *values[1:]))
    assert pool(*told).labels["x"] == ("0",)


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["1", "In", "Gt", "9Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """Return a NodePool in which one part, anywhere, is something else."""
    raw = node_pool(
        *T4, requirement(f"{AWS}-cpu", "Lt", "9"), limits={"cpu": "9", GPU: 4}, resources={"cpu": "1"}, weight=3
    )
    raw["status"]["nodes"] = 1
    raw["spec"]["template"]["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule", "value": "v"}]
    raw = deepcopy(raw)  # its parts belong to all tests
    at: Any = raw
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or draw(st.integers(0, 3)) == 0:
            at[key] = draw(junk)
            return raw
        at = at[key]


@given(st.lists(damaged() | junk, max_size=3), st.integers(0, 9), st.integers(0, 10_000))
def test_whatever_the_objects_hold_there_is_an_answer(raws: list[object], gpus: int, cpu: int):
    wanted = pod(gpus, cpu, node_selector={NAME: "t4"})
    for found in decode_node_pools(raws):
        for each in (found, *derive_pools_from_nodes([found], [made(name=found.name)])):
            assert answer(each, wanted) in Answer
            assert has_room_after(each, wanted, ahead=[wanted]) in (True, False)


def test_a_pool_that_may_have_no_node_at_all_has_no_room():
    assert answer(pool(*T4, limits={NODE_COUNT: "0"}), pod(node_selector={NAME: "t4"})) is Answer.NO
