"""Why Kueue does not admit a pod, as its Workload says it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.progress.scheduler_events import WorkloadState, read_workload_state
from tests.unit.core import kueue_workloads as records
from tests.unit.core.kueue_workloads import condition, pending, workload

EVICTED = condition("Evicted", "AdmissionCheck", "At least one admission check is false", is_true=True)
BACKOFF = condition("Requeued", "AdmissionCheck", "At least one admission check is false")
LATER = {"requeueState": {"count": 1, "requeueAt": "2026-11-23T19:40:00Z"}}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(workload(), QueueReason.NOT_EVALUATED, id="not looked at"),
        pytest.param(pending(records.EXCEEDS_ONLY_FLAVOR), QueueReason.EXCEEDS_QUOTA, id="too many GPUs"),
        pytest.param(pending(records.EXCEEDS_ALL_FLAVORS), QueueReason.EXCEEDS_QUOTA, id="too many GPUs for all"),
        pytest.param(pending(records.EXCEEDS_CPU), QueueReason.EXCEEDS_QUOTA, id="too many CPUs"),
        pytest.param(
            pending(records.EXCEEDS_ONE_AND_WAITS_FOR_ANOTHER), QueueReason.QUOTA_IN_USE, id="another flavor has room"
        ),
        pytest.param(
            pending(f"{records.EXCEEDS_ONLY_FLAVOR}, insufficient unused quota for cpu in flavor t4, 3 more needed"),
            QueueReason.EXCEEDS_QUOTA,
            id="a flavor that is too small is in use as well",
        ),
        pytest.param(pending(records.NO_MATCH), QueueReason.NO_FLAVOR, id="no flavor"),
        pytest.param(pending(records.TAINTED), QueueReason.NO_FLAVOR, id="taint of a flavor"),
        pytest.param(pending(records.NOT_COVERED), QueueReason.NO_FLAVOR, id="no quota for the resource"),
        pytest.param(pending(records.IN_USE), QueueReason.QUOTA_IN_USE, id="in use"),
        pytest.param(pending(records.PREEMPTING), QueueReason.PREEMPTION, id="preempting"),
        pytest.param(pending(records.WRONG_NAMESPACE), QueueReason.MISCONFIGURED, id="wrong namespace"),
        pytest.param(
            pending("resources validation failed: podSets[0].template: Invalid value"),
            QueueReason.MISCONFIGURED,
            id="limits below requests",
        ),
        pytest.param(pending(records.TOPOLOGY), None, id="topology"),
        pytest.param(pending(f"{records.NO_MATCH}, something new"), None, id="a reason that is unknown"),
        pytest.param(pending("something new"), None, id="a text that is unknown"),
        pytest.param(pending(""), None, id="no text"),
        pytest.param(
            workload(condition("QuotaReserved", "Waiting", "waiting for all admitted workloads to be in PodsReady …")),
            QueueReason.OTHERS_NOT_READY,
            id="others not ready",
        ),
        pytest.param(
            workload(condition("QuotaReserved", "Inadmissible", "LocalQueue main is inactive")),
            QueueReason.NOT_EVALUATED,
            id="queue that may work again",
        ),
        pytest.param(
            workload(
                condition("QuotaReserved", "Inadmissible", "DynamicResourceAllocation feature does not support …"),
                condition("Requeued", "Inadmissible", "DRA resource claims not supported"),
            ),
            QueueReason.MISCONFIGURED,
            id="resource claims",
        ),
        pytest.param(
            workload(condition("QuotaReserved", "QuotaReserved", "Quota reserved in …", is_true=True)),
            QueueReason.CHECKS,
            id="admission checks",
        ),
        pytest.param(
            workload(condition("QuotaReserved", "Pending", "At least one …"), EVICTED, BACKOFF, **LATER),
            QueueReason.REQUEUED,
            id="sent back by a check",
        ),
        pytest.param(
            workload(
                condition("QuotaReserved", "Pending", records.IN_USE),
                EVICTED,
                condition("Requeued", "BackoffFinished", is_true=True),
            ),
            QueueReason.QUOTA_IN_USE,
            id="back in the queue",
        ),
        pytest.param(pending(records.IN_USE, is_active=False), QueueReason.DEACTIVATED, id="deactivated"),
        *(
            pytest.param(workload(condition("QuotaReserved", each.value)), each, id=f"later version: {each.value}")
            for each in (QueueReason.EXCEEDS_QUOTA, QueueReason.NO_FLAVOR, QueueReason.QUOTA_IN_USE,
                         QueueReason.PREEMPTION, QueueReason.STOPPED, QueueReason.MISCONFIGURED)
        ),
        pytest.param(workload(condition("QuotaReserved", "AdmissionGated")), None, id="later version: unknown"),
        pytest.param({"status": {"conditions": 5}, "spec": None}, QueueReason.NOT_EVALUATED, id="nonsense"),
    ],
)  # fmt: skip
def test_a_workload_tells_why_it_is_not_admitted(found: dict[str, Any], reason: QueueReason | None):
    assert read_workload_state(found).reason is reason


def test_a_workload_that_was_sent_back_tells_until_when():
    found = workload(condition("QuotaReserved", "Pending"), BACKOFF, **LATER)
    assert read_workload_state(found) == WorkloadState(QueueReason.REQUEUED, "2026-11-23T19:40:00Z")
