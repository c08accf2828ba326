from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from gpuspawner.cli.doctor.referenced_objects import (
    check_priority_classes,
    check_queue_capacity,
    check_queues,
    check_runtime_classes,
    check_storage,
)
from gpuspawner.cli.values.chart_config import ChartRequirements
from tests.unit.cli.doctor.cases import GPU, PRODUCT, T4, codes, facts, gpu_type, named, node


@pytest.mark.parametrize(
    ("there", "expected"),
    [(["nvidia"], []), ([], [("fault", "runtime-class-missing", ("nvidia", "a", "b"))])],
)
def test_runtime_classes_that_types_ask_for_have_to_be_there(there: list[str], expected: list[Any]):
    settings = {"gpus": {slug: gpu_type(runtime_class="nvidia", max_count=n) for n, slug in enumerate("ab", 1)}}
    assert (
        codes(check_runtime_classes, facts(settings=settings, read={ObjectKind.RUNTIME_CLASSES: map(named, there)}))
        == expected
    )
    assert codes(check_runtime_classes, facts(settings=settings)) == []


PRIORITIES = {"priorities": {"p": {"display_name": "P", "class": "high", "value": 5}}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([named("high", value=5)], []),
        ([named("high", value=7)], [("warning", "priority-value", ("high",))]),
        ([], [("fault", "priority-class-missing", ("high",))]),
    ],
)
def test_priority_classes_have_to_be_there_and_worth_what_is_said(found: list[Any], expected: list[Any]):
    assert (
        codes(check_priority_classes, facts(settings=PRIORITIES, read={ObjectKind.PRIORITY_CLASSES: found})) == expected
    )


def test_the_priority_class_of_all_servers_is_looked_for_as_well():
    read = {ObjectKind.PRIORITY_CLASSES: [named("there", value=9)]}
    assert codes(check_priority_classes, facts(requirements=ChartRequirements(priority_class="there"), read=read)) == []
    assert codes(check_priority_classes, facts(requirements=ChartRequirements(priority_class="gone"), read=read)) == [
        ("fault", "priority-class-missing", ("gone",))
    ]


ACTIVE = {"conditions": [{"type": "Active", "status": "True"}]}
INACTIVE = {"conditions": [{"type": "Active", "status": "False", "message": "stopped"}]}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"read": {ObjectKind.LOCAL_QUEUES: [named("q", status=ACTIVE)]}}, []),
        ({"read": {ObjectKind.LOCAL_QUEUES: [named("q", status=INACTIVE)]}}, ["queue-inactive"]),
        ({"read": {ObjectKind.LOCAL_QUEUES: [named("other")]}}, ["queue-missing"]),
        ({"unserved": frozenset({ObjectKind.LOCAL_QUEUES})}, ["kueue-missing"]),
        ({}, []),
    ],
)
def test_the_queue_of_the_settings_has_to_be_there_and_active(more: dict[str, Any], expected: list[str]):
    found = codes(check_queues, facts(settings={"queue": {"local_queue": "q"}}, **more))
    assert found == [("fault", code, ("q",)) for code in expected]


def test_so_has_its_priority_class():
    settings = {"queue": {"local_queue": "q", "priority_class": "p"}}
    read = {ObjectKind.LOCAL_QUEUES: [named("q")], ObjectKind.QUEUE_PRIORITIES: []}
    assert codes(check_queues, facts(settings=settings, read=read)) == [("fault", "queue-priority-missing", ("p",))]
    assert codes(check_queues, facts(read=read)) == []


def cluster_queue(
    *flavors: str, gpus: int = 4, resources: tuple[str, ...] = ("cpu", "memory", GPU), **spec: Any
) -> Any:
    """Return a ClusterQueue with a quota of each resource in each flavor."""
    amounts = {"cpu": "64", "memory": "256Gi", GPU: gpus}
    quotas = [{"name": name, "nominalQuota": amounts[name]} for name in resources]
    group = {"coveredResources": list(resources), "flavors": [{"name": name, "resources": quotas} for name in flavors]}
    return named("cq", spec={"namespaceSelector": {}, "resourceGroups": [group], **spec})


def flavor(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    return named(name, spec={"nodeLabels": labels or {}, **spec})


T4_FLAVOR = flavor("t4", {PRODUCT: "Tesla-T4"})
A10_FLAVOR = flavor("a10", {PRODUCT: "A10"})
SPOT = {"key": "spot", "value": "true", "effect": "NoSchedule"}


def kueue(*cluster_queues: Any, flavors: tuple[Any, ...] = (T4_FLAVOR,), **more: Any) -> dict[ObjectKind, Any]:
    return {
        ObjectKind.LOCAL_QUEUES: [named("q", spec={"clusterQueue": "cq"}, status=ACTIVE)],
        ObjectKind.CLUSTER_QUEUES: cluster_queues,
        ObjectKind.QUEUE_FLAVORS: flavors,
        ObjectKind.NAMESPACES: [{"metadata": {"name": "jhub", "labels": {"kubernetes.io/metadata.name": "jhub"}}}],
        **{ObjectKind[kind]: found for kind, found in more.items()},
    }


def queued(read: dict[ObjectKind, Any], **gpu: Any) -> ClusterFacts:
    """Return a cluster whose only GPU type is queued, with up to 4 GPUs for a server."""
    settings = {
        "queue": {"local_queue": "q"},
        "gpus": {"t4": gpu_type(max_count=4, **gpu)},
        "cpu": {"max": 8},
        "memory": {"max": "8G"},
    }
    return facts(settings=settings, read={kind: found for kind, found in read.items() if found is not None})


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(kueue(cluster_queue("t4")), [], id="as it should be"),
        pytest.param(kueue(), [("fault", "queue-missing", ("cq",))], id="no ClusterQueue"),
        pytest.param(
            kueue(cluster_queue("t4", namespaceSelector={"matchLabels": {"team": "a"}})),
            [("fault", "queue-excludes-namespace", ("cq",))],
            id="another namespace",
        ),
        pytest.param(
            kueue(cluster_queue("t4", resources=("cpu", GPU))),
            [("fault", "queue-uncovered", ("cq", "t4"))],
            id="no quota for memory",
        ),
        pytest.param(
            kueue(cluster_queue("a10"), flavors=(A10_FLAVOR,)),
            [("fault", "queue-flavor-mismatch", ("cq", "t4"))],
            id="labels of another type",
        ),
        pytest.param(
            kueue(cluster_queue("t4"), flavors=(flavor("t4", nodeTaints=[SPOT]),)),
            [("fault", "queue-flavor-mismatch", ("cq", "t4"))],
            id="a taint",
        ),
        pytest.param(
            kueue(cluster_queue("t4", gpus=0)), [("fault", "queue-quota-small", ("cq", "t4"))], id="no GPU in the quota"
        ),
        pytest.param(
            kueue(cluster_queue("t4", gpus=2)),
            [("warning", "queue-quota-small", ("cq", "t4"))],
            id="few GPUs",
        ),
        pytest.param(
            kueue(cluster_queue("pool"), flavors=(flavor("pool", {"pool": "batch"}),), DEPLOYMENTS=()),
            [("warning", "queue-flavor-empty", ("pool", "t4"))],
            id="a flavor without a node",
        ),
        pytest.param(
            kueue(cluster_queue("pool"), flavors=(flavor("pool", {"pool": "batch"}),)),
            [("note", "queue-flavor-empty", ("pool", "t4"))],
            id="a flavor whose node may be added",
        ),
        pytest.param(
            kueue(cluster_queue("t4", gpus=2), QUEUE_FLAVORS=None),
            [("warning", "queue-quota-small", ("cq", "t4"))],
            id="flavors are unknown",
        ),
        pytest.param(kueue(CLUSTER_QUEUES=None), [], id="ClusterQueues are unknown"),
    ],
)
def test_the_queue_has_to_take_what_the_form_offers(read: dict[ObjectKind, Any], expected: list[Any]):
    assert codes(check_queue_capacity, queued(read)) == expected


def test_a_type_that_is_not_queued_needs_no_quota():
    types = {"t4": gpu_type(), "a10": gpu_type(match={PRODUCT: "A10"})}
    settings = {"queue": {"local_queue": "q", "gpus": ["a10"]}, "gpus": types}
    found = facts(settings=settings, read=kueue(cluster_queue("a10"), flavors=(A10_FLAVOR,)))
    assert {each.objects for each in check_queue_capacity(found)} == {("a10", "a10")}


@pytest.mark.parametrize(
    ("local", "above", "expected"),
    [
        pytest.param({"status": INACTIVE}, {"status": INACTIVE}, [("cq",)], id="the ClusterQueue says why"),
        pytest.param({}, {"spec": {"stopPolicy": "HoldAndDrain"}}, [("cq",)], id="the ClusterQueue is stopped"),
        pytest.param({"spec": {"stopPolicy": "Hold"}}, {}, [("q",)], id="the LocalQueue is stopped"),
        pytest.param({}, {"spec": {"stopPolicy": "None"}}, [], id="both are active"),
    ],
)
def test_a_queue_that_is_stopped_is_named_with_its_reason(local: Any, above: Any, expected: list[Any]):
    local = {"spec": {"clusterQueue": "cq"}, **local}
    local["spec"] = {"clusterQueue": "cq", **local["spec"]}
    read = {ObjectKind.LOCAL_QUEUES: [named("q", **local)], ObjectKind.CLUSTER_QUEUES: [named("cq", **above)]}
    found = list(check_queues(facts(settings={"queue": {"local_queue": "q"}}, read=read)))
    assert [(each.code, each.objects) for each in found] == [("queue-inactive", objects) for objects in expected]


def storage_class(name: str, *, is_default: bool = True, mode: str = "Immediate") -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if is_default else {}
    return {"metadata": {"name": name, "annotations": annotations}, "volumeBindingMode": mode}


ZONES = tuple(node(zone, labels={**T4, "topology.kubernetes.io/zone": zone}) for zone in "ab")


@pytest.mark.parametrize(
    ("classes", "named_class", "expected"),
    [
        ([storage_class("s", mode="WaitForFirstConsumer")], "", []),
        ([storage_class("s")], "", [("warning", "storage-immediate", ("s",))]),
        ([storage_class("s", is_default=False)], "", [("fault", "storage-class-missing", ())]),
        ([], "", [("fault", "storage-class-missing", ())]),
        ([storage_class("s")], "t", [("fault", "storage-class-missing", ("t",))]),
        ([storage_class("t", is_default=False, mode="WaitForFirstConsumer")], "t", []),
    ],
)
def test_volumes_need_a_class_that_waits_for_the_server(classes: list[Any], named_class: str, expected: list[Any]):
    wishes = ChartRequirements(wants_claims=True, storage_class=named_class)
    read = {ObjectKind.STORAGE_CLASSES: classes}
    assert codes(check_storage, facts(*ZONES, requirements=wishes, read=read)) == expected
    assert codes(check_storage, facts(*ZONES, requirements=ChartRequirements(), read=read)) == []


def test_in_one_zone_a_volume_may_be_made_at_once():
    read = {ObjectKind.STORAGE_CLASSES: [storage_class("s")]}
    assert codes(check_storage, facts(requirements=ChartRequirements(wants_claims=True), read=read)) == []


@pytest.mark.parametrize(
    ("wishes", "objects", "said"),
    [
        (
            ChartRequirements(database_class=""),
            [()],
            "The hub's database gets a volume, and there is no default StorageClass",
        ),
        (
            ChartRequirements(database_class="t"),
            [("t",)],
            "The hub's database gets a volume, and there is no StorageClass t",
        ),
        (ChartRequirements(database_class="s"), [], ""),
        (
            ChartRequirements(database_class="", wants_claims=True),
            [()],
            "Each user gets a volume, and the hub's database gets",
        ),
        (
            ChartRequirements(database_class="", wants_claims=True, storage_class="s"),
            [()],
            "The hub's database gets a volume",
        ),
    ],
)
def test_the_hubs_database_needs_a_class_as_well(wishes: ChartRequirements, objects: list[tuple[str, ...]], said: str):
    read = {ObjectKind.STORAGE_CLASSES: [storage_class("s", is_default=False)]}
    found = list(check_storage(facts(requirements=wishes, read=read)))
    assert [each.objects for each in found] == objects
    assert all(each.what.startswith(said) and "hub.db.pvc.storageClassName" in each.fix for each in found)


@pytest.mark.parametrize(("spec", "count"), [({"nodeName": "a"}, 0), ({}, 1)])
def test_the_volume_of_a_hub_that_is_on_a_node_is_there(spec: dict[str, Any], count: int):
    read = {ObjectKind.STORAGE_CLASSES: [], ObjectKind.HUB_PODS: [{"metadata": {"name": "hub"}, "spec": spec}]}
    assert len(list(check_storage(facts(requirements=ChartRequirements(database_class=""), read=read)))) == count


OVERRIDE = {"priority_class_name": "high", "extra_pod_config": {"runtimeClassName": "kata"}}


@pytest.mark.parametrize(
    "settings",
    [
        {"images": {"i": {"image": "i:1", "kubespawner_override": OVERRIDE}}},
        {"gpus": {"t": {"resource": "nvidia.com/gpu", "kubespawner_override": OVERRIDE}}},
    ],
    ids=["image", "gpu"],
)
def test_classes_that_an_override_names_are_looked_for(settings: dict[str, Any]):
    gone = facts(settings=settings, read={ObjectKind.PRIORITY_CLASSES: [], ObjectKind.RUNTIME_CLASSES: []})
    found = [*codes(check_priority_classes, gone), *codes(check_runtime_classes, gone)]
    assert found == [("fault", "priority-class-missing", ("high",)), ("fault", "runtime-class-missing", ("kata",))]
    there = {ObjectKind.PRIORITY_CLASSES: [named("high")], ObjectKind.RUNTIME_CLASSES: [named("kata")]}
    assert [*check_priority_classes(facts(settings=settings, read=there))] == []
    assert [*check_runtime_classes(facts(settings=settings, read=there))] == []
