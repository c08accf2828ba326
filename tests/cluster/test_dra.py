"""GPUs that only a DRA driver offers: the form counts what the real scheduler gives away, and no more.

No real driver runs here, because there is no GPU that it could find. Its DeviceClass and its ResourceSlice are written
through the API as NVIDIA's driver (gpu.nvidia.com) writes them; whatever comes after that is real: kube-scheduler that
makes claims for pods which ask for nvidia.com/gpu, and the controller that takes them away again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api, ResourceV1Api, V1Pod

from devcluster.hub import Hub
from tests.cluster.support.dra import DRIVER, GPU, node_with_devices
from tests.cluster.support.onlooker import Onlooker
from tests.cluster.support.waiting import wait_for

PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
NODE = "dra-1"
NAMESPACE = "default"
DEVICES = 5
BROKEN = 1
CLAIMED = 1
FREE = DEVICES - BROKEN - CLAIMED
FIELDS = {"image": "lab", "cpu": "0.5", "memory": "512M", "gpu": "l40s", "gpu_count": "1"}

CLAIM = {
    "metadata": {"name": "of-another-kind"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
}


def pod(name: str, *, limits: dict[str, str] | None = None, claims: list[dict[str, str]] | None = None) -> Any:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"limits": limits or {}, "claims": [{"name": "gpu"}] if claims else []},
    }
    spec = {"nodeSelector": PRODUCT, "containers": [container], "resourceClaims": claims or []}
    return {"metadata": {"name": name, "labels": {"test": "dra"}}, "spec": spec}


@pytest.fixture
def onlooker(hub: Hub, api: ApiClient) -> Iterator[Onlooker]:
    """Have a node whose GPUs only a DRA driver offers, some broken and some claimed, and a user at the form."""
    core, resources = CoreV1Api(api), ResourceV1Api(api)
    claims = [{"name": "gpu", "resourceClaimName": "of-another-kind"}]
    with ExitStack() as made:
        made.enter_context(node_with_devices(api, "dra", labels=PRODUCT, devices=DEVICES, broken=BROKEN))
        resources.create_namespaced_resource_claim(NAMESPACE, CLAIM)
        made.callback(wait_for, lambda: not pods(api), "no pod left")
        made.callback(resources.delete_namespaced_resource_claim, "of-another-kind", NAMESPACE)
        made.callback(
            core.delete_collection_namespaced_pod, NAMESPACE, label_selector="test=dra", grace_period_seconds=0
        )
        core.create_namespaced_pod(NAMESPACE, pod("with-a-claim", claims=claims))
        wait_for(lambda: bound(api) == {"with-a-claim"}, "the claim's pod bound")
        yield Onlooker(hub.url, "dra-onlooker", choice=FIELDS)


def pods(api: ApiClient) -> list[V1Pod]:
    return list(CoreV1Api(api).list_namespaced_pod(NAMESPACE, label_selector="test=dra").items)


def bound(api: ApiClient) -> set[str]:
    return {each.metadata.name for each in pods(api) if each.spec.node_name == NODE}


def refused(api: ApiClient) -> set[str]:
    """Return the pods that the scheduler found no node for."""
    return {
        each.metadata.name
        for each in pods(api)
        for condition in each.status.conditions or []
        if (condition.type, condition.reason) == ("PodScheduled", "Unschedulable")
    }


def settle(onlooker: Onlooker, *, free: int, outcome: str) -> None:
    def look() -> bool:
        glance = onlooker.look()
        is_said = f"{BROKEN} of {DEVICES} broken" in glance.details
        return is_said and (glance.counts, glance.outcome) == ((free, DEVICES), outcome)

    wait_for(look, f"{free} of {DEVICES} free on the form, and {outcome}")


def test_the_form_counts_the_devices_that_the_scheduler_gives_away(onlooker: Onlooker, api: ApiClient) -> None:
    core = CoreV1Api(api)
    settle(onlooker, free=FREE, outcome="now")

    names = {f"pod-{number}" for number in range(FREE + 2)}
    for name in sorted(names):
        core.create_namespaced_pod(NAMESPACE, pod(name, limits={GPU: "1"}))

    wait_for(lambda: len(bound(api) & names) == FREE and len(refused(api)) == 2, "as many pods bound as were free")
    by_claim = {each.metadata.name for each in pods(api) if each.status.extended_resource_claim_status}
    assert by_claim == bound(api) & names
    settle(onlooker, free=0, outcome="waits")

    for name in refused(api):
        core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
    core.delete_namespaced_pod(sorted(by_claim)[0], NAMESPACE, grace_period_seconds=0)

    settle(onlooker, free=1, outcome="now")
    core.create_namespaced_pod(NAMESPACE, pod("last", limits={GPU: "1"}))
    wait_for(lambda: "last" in bound(api), "the last one bound")
    settle(onlooker, free=0, outcome="waits")
