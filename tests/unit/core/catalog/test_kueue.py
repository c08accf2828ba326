"""The labels by which a pod is queued, and why Kueue admits it not."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.kueue import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    QueueCapacity,
    QueueReason,
    QuotaAnswer,
    QuotaJudgment,
    read_capacity,
    read_queue_problem,
)
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.cluster.model import PodConstraints
from tests.unit.core.kueue_workloads import local_queue


def test_a_priority_is_named_beside_it():
    labels = KueueQueue(local_queue="gpu-queue", priority_class="interactive").labels
    assert labels == {QUEUE_LABEL: "gpu-queue", "kueue.x-k8s.io/priority-class": "interactive"}
    assert PRIORITY_LABEL in labels


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


def quota(nominal: object, **limits: object) -> dict[str, Any]:
    return {"name": GPU, "nominalQuota": nominal, **limits}


def cluster_queue(gpus: dict[str, Any], *, used: object = 0, **spec: Any) -> dict[str, Any]:
    """Return a ClusterQueue with a quota of GPUs in the flavor ``t4``."""
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "t4", "resources": [gpus]}]}]
    status = {"flavorsReservation": [{"name": "t4", "resources": [{"name": GPU, "total": used}]}]}
    return {"metadata": {"name": "cq"}, "spec": {"resourceGroups": groups, **spec}, "status": status}


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        pytest.param(cluster_queue(quota(4), used=1), (4, 3), id="alone"),
        pytest.param(cluster_queue(quota(4), used=5), (4, -1), id="more admitted than the quota"),
        pytest.param(cluster_queue(quota("nonsense")), (None, None), id="a strange quantity"),
        pytest.param(cluster_queue(quota(4), used="some"), (4, None), id="strange usage"),
        pytest.param(cluster_queue(quota(4), cohortName="team"), (None, None), id="in a Cohort"),
        pytest.param(cluster_queue(quota(4), cohort="team"), (None, None), id="in a Cohort, v1beta1"),
        pytest.param(
            cluster_queue(quota(4, borrowingLimit=2, lendingLimit=1), used=1, cohortName="team"),
            (6, None),
            id="a borrowing limit",
        ),
        pytest.param(
            cluster_queue(quota(4, borrowingLimit="many"), cohortName="team"), (None, None), id="a strange limit"
        ),
    ],
)
def test_what_a_cohort_lends_has_a_limit_only_if_the_cluster_queue_sets_one(
    queue: dict[str, Any], expected: tuple[int | None, int | None]
):
    capacity = read_capacity(queue, flavors=[resource_flavor("t4")])
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
    queue = cluster_queue(quota(4), used=2)
    known = read_capacity(queue, flavors=[resource_flavor("t4", gpu="t4")])
    unknown = read_capacity(queue, flavors=None)
    assert judged(known, gpus, gpu="t4", zone="a").answer is answer
    assert judged(known, gpus, gpu="a100").answer is QuotaAnswer.NO_FLAVOR
    assert judged(unknown, gpus).answer is (answer if answer is QuotaAnswer.EXCEEDED else QuotaAnswer.UNKNOWN)
