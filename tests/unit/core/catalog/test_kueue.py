"""The labels by which a pod is queued, and why Kueue admits it not."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.kueue import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    ClusterQueues,
    QueueCapacity,
    QueueReason,
    QuotaAnswer,
    QuotaJudgment,
    read_queue_problem,
)
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.cluster.model import PodConstraints
from tests.unit.core.kueue_workloads import local_queue


def test_a_pod_that_is_to_be_queued_names_its_queue():
    assert KueueQueue(local_queue="gpu-queue").labels == {"kueue.x-k8s.io/queue-name": "gpu-queue"}


def test_a_priority_is_named_beside_it():
    labels = KueueQueue(local_queue="gpu-queue", priority_class="interactive").labels
    assert labels == {QUEUE_LABEL: "gpu-queue", "kueue.x-k8s.io/priority-class": "interactive"}
    assert PRIORITY_LABEL in labels


@pytest.mark.parametrize(("gpus", "takes"), [(("*",), True), (("a100",), True), (("t4",), False)])
def test_a_queue_is_for_some_types_or_for_all(gpus: tuple[str, ...], takes: bool):
    assert KueueQueue(local_queue="q", gpus=gpus).accepts("a100") is takes


@pytest.mark.parametrize(
    ("queue", "problem"),
    [
        pytest.param(local_queue(), None, id="works"),
        pytest.param({"metadata": {}}, None, id="new"),
        pytest.param(local_queue(reason="Stopped", message="LocalQueue is stopped"), QueueReason.STOPPED, id="stopped"),
        pytest.param(local_queue(reason="ClusterQueueIsInactive"), QueueReason.INACTIVE, id="inactive"),
        pytest.param(local_queue(reason="Unheard"), QueueReason.INACTIVE, id="a reason of a later version"),
        pytest.param(local_queue(reason="ClusterQueueDoesNotExist"), QueueReason.NO_QUEUE, id="no ClusterQueue"),
    ],
)
def test_a_queue_tells_whether_it_admits_anything(queue: dict[str, Any], problem: QueueReason | None):
    assert read_queue_problem(queue) is problem


# -- what a ClusterQueue can admit -------------------------------------------------------------------------------------

GPU = "nvidia.com/gpu"


def quota(nominal: object, borrowing: object = None, lending: object = None) -> dict[str, Any]:
    limits = {"borrowingLimit": borrowing, "lendingLimit": lending}
    return {"name": GPU, "nominalQuota": nominal, **{key: limit for key, limit in limits.items() if limit is not None}}


def quota_node(name: str, gpus: dict[str, Any] | None = None, *, used: object = 0, **spec: Any) -> dict[str, Any]:
    """Return a ClusterQueue or a Cohort with a quota of GPUs in the flavor ``t4``."""
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "t4", "resources": [gpus]}]}] if gpus else []
    status = {"flavorsReservation": [{"name": "t4", "resources": [{"name": GPU, "total": used}]}]}
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups, **spec}, "status": status}


TEAM = {"cohortName": "team"}


@pytest.mark.parametrize(
    ("queues", "cohorts", "expected"),
    [
        pytest.param([quota_node("cq", quota(4), used=1)], [], (4, 3), id="alone"),
        pytest.param([quota_node("cq", quota(4), used=5)], [], (4, -1), id="more admitted than the quota"),
        pytest.param([quota_node("cq", quota(4), used=1)], None, (4, 3), id="alone, Cohorts unknown"),
        pytest.param([quota_node("cq", quota(4), used=1, **TEAM)], None, (None, None), id="Cohorts unknown"),
        pytest.param([quota_node("cq", quota(4, 2), **TEAM)], None, (6, None), id="a borrowing limit, Cohorts unknown"),
        pytest.param(
            [quota_node("cq", quota(4), used=1, **TEAM), quota_node("b", quota(3), used=1, **TEAM)],
            [],
            (7, 5),
            id="a Cohort without an object",
        ),
        pytest.param(
            [quota_node("cq", quota(4), used=6, cohort="team"), quota_node("b", quota(3), cohort="team")],
            [],
            (7, 1),
            id="v1beta1",
        ),
        pytest.param(
            [quota_node("cq", quota(4, 1), used=1, **TEAM), quota_node("b", quota(3), **TEAM)],
            [],
            (5, 4),
            id="a borrowing limit",
        ),
        pytest.param(
            [quota_node("cq", quota(4), **TEAM), quota_node("b", quota(3, lending=1), used=3, **TEAM)],
            [],
            (5, 4),
            id="a lending limit",
        ),
        pytest.param(
            [quota_node("cq", quota(4, lending=1), used=2, **TEAM), quota_node("b", quota(3), used=4, **TEAM)],
            [],
            (7, 1),
            id="what it does not lend stays",
        ),
        pytest.param(
            [quota_node("cq", quota(0), **TEAM)],
            [quota_node("team", quota(2), parentName="all"), quota_node("all", quota(5))],
            (7, 7),
            id="Cohorts with quotas",
        ),
        pytest.param(
            [quota_node("cq", quota(0), **TEAM), quota_node("b", quota(9), used=2, cohortName="all")],
            [quota_node("team", quota(2, 3), parentName="all"), quota_node("all")],
            (5, 5),
            id="a Cohort's borrowing limit",
        ),
        pytest.param(
            [quota_node("cq", quota(4), **TEAM)],
            [quota_node("team", parentName="all"), quota_node("all", parentName="team")],
            (None, None),
            id="a cycle",
        ),
        pytest.param(
            [quota_node("cq", quota(4), used=1)],
            [quota_node("a", parentName="b"), quota_node("b", parentName="a"), quota_node("c", parentName="b")],
            (4, 3),
            id="a cycle elsewhere",
        ),
        pytest.param(
            [quota_node("cq", quota(4), **TEAM)],
            [quota_node("team", parentName="a"), quota_node("a", parentName="b"), quota_node("b", parentName="a")],
            (None, None),
            id="below a cycle",
        ),
        pytest.param(
            [quota_node("cq", quota(4), used=1, cohortName="0")],
            [quota_node(str(at), quota(1, lending=3), parentName=str(at + 1)) for at in range(2000)],
            (2004, 2003),
            id="many levels of Cohorts",
        ),
        pytest.param([quota_node("cq", quota("nonsense"))], [], (None, None), id="a strange quantity"),
        pytest.param([quota_node("cq", quota(4, "many"), **TEAM)], [], (None, None), id="a strange borrowing limit"),
        pytest.param(
            [quota_node("cq", quota(4), **TEAM), quota_node("b", quota(3, lending="none"), **TEAM)],
            [],
            (None, None),
            id="another's strange lending limit",
        ),
        pytest.param(
            [quota_node("cq", quota(4), **TEAM), quota_node("b", quota("?"), cohortName="all")],
            [quota_node("team", parentName="all")],
            (None, None),
            id="another's strange quantity",
        ),
        pytest.param([quota_node("cq", quota(4), used="some")], [], (4, None), id="strange usage"),
        pytest.param(
            [quota_node("cq", quota(4), **TEAM), quota_node("b", quota(3), used=[], **TEAM)],
            [],
            (7, None),
            id="another's strange usage",
        ),
        pytest.param(
            [quota_node("cq", quota(4), used=1, **TEAM), quota_node("b", quota("?"), used="some", cohortName="other")],
            [],
            (4, 3),
            id="strange values in another Cohort",
        ),
    ],
)
def test_quota_is_counted_with_all_that_may_be_borrowed(queues: list[Any], cohorts: Any, expected: Any):
    capacity = ClusterQueues(queues, cohorts=cohorts, flavors=None).read_capacity("cq")
    assert capacity is not None
    ((_, (flavor,)),) = capacity.groups
    assert (flavor.most.get(GPU), flavor.free.get(GPU)) == expected


def judged(capacity: QueueCapacity | None, gpus: int, **selector: str) -> QuotaJudgment:
    assert capacity is not None
    return capacity.judge({GPU: gpus}, PodConstraints(node_selector=selector))


def resource_flavor(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}


@pytest.mark.parametrize(
    ("gpus", "answer"),
    [
        pytest.param(1, QuotaAnswer.ROOM, id="room"),
        pytest.param(3, QuotaAnswer.IN_USE, id="in use"),
        pytest.param(5, QuotaAnswer.EXCEEDED, id="more than the quota"),
    ],
)
def test_a_request_is_compared_with_the_quota(gpus: int, answer: QuotaAnswer):
    queues = [quota_node("cq", quota(4), used=2)]
    known = ClusterQueues(queues, cohorts=[], flavors=[resource_flavor("t4", gpu="t4")]).read_capacity("cq")
    unknown = ClusterQueues(queues, cohorts=[], flavors=None).read_capacity("cq")
    assert judged(known, gpus, gpu="t4", zone="a").answer is answer
    assert judged(known, gpus, gpu="a100").answer is QuotaAnswer.NO_FLAVOR
    assert judged(unknown, gpus).answer is (answer if answer is QuotaAnswer.EXCEEDED else QuotaAnswer.UNKNOWN)


def test_a_label_that_only_some_flavors_have_counts_for_all():
    flavors = [{"name": name, "resources": [quota(4)]} for name in ("t4", "any")]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    used = [{"name": name, "resources": [{"name": GPU, "total": 0}]} for name in ("t4", "any")]
    queue = {"metadata": {"name": "cq"}, "spec": {"resourceGroups": groups}, "status": {"flavorsReservation": used}}
    described = [resource_flavor("t4", gpu="t4"), resource_flavor("any")]
    capacity = ClusterQueues([queue], cohorts=[], flavors=described).read_capacity("cq")
    assert judged(capacity, 1, gpu="a100") == QuotaJudgment(QuotaAnswer.NO_FLAVOR, "", ("t4", "any"))
    assert judged(capacity, 1, zone="a").answer is QuotaAnswer.ROOM


def test_a_cluster_queue_that_does_not_exist_has_no_capacity():
    assert ClusterQueues([quota_node("b", quota(4))], cohorts=[], flavors=[]).read_capacity("cq") is None


def test_a_resource_without_a_quota_is_named():
    capacity = ClusterQueues([quota_node("cq", quota(4))], cohorts=[], flavors=None).read_capacity("cq")
    assert capacity is not None
    assert capacity.judge({"memory": 1, GPU: 1}, PodConstraints()) == QuotaJudgment(QuotaAnswer.UNCOVERED, "memory")
