"""The real Karpenter: what the form says it may add, it adds, and what the form says it cannot, it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.karpenter import Karpenter, running_karpenter
from tests.cluster.support.onlooker import Glance, Onlooker
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.told import listening
from tests.cluster.support.waiting import wait_for

POOL = "scale-to-zero"
TIGHT = "too-tight"
GPU_NAME = "karpenter.k8s.aws/instance-gpu-name"
RESOURCE = "nvidia.com/gpu"
TYPE = {
    "display_name": "L40S on demand",
    "resource": RESOURCE,
    "match": {GPU_NAME: ["l40s"]},
    "max_count": 2,
}
OTHER_TYPE = {**TYPE, "display_name": "H200 on demand", "match": {GPU_NAME: ["h200"]}}
OPTIONS = {"image": "lab", "cpu": 1, "memory": "1G", "gpu": "l40s", "gpu_count": 2}
FIELDS = {"image": "lab", "cpu": "1", "memory": "1G", "gpu": "l40s", "gpu_count": "2"}
MACHINE = {
    "name": "gpu.large",
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", RESOURCE: "2"},
    "offerings": [
        {
            "Price": 1.0,
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
            ],
        }
    ],
}


def requirements(gpu_name: str) -> list[dict[str, Any]]:
    return [
        {"key": GPU_NAME, "operator": "In", "values": [gpu_name]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["gpu.large"]},
    ]


@pytest.fixture(scope="module")
def karpenter(cluster: Cluster, api: ApiClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Karpenter]:
    with running_karpenter(cluster, api, tmp_path_factory.mktemp("karpenter"), machines=[MACHINE]) as running:
        yield running


@pytest.fixture(scope="module")
def pool(karpenter: Karpenter) -> Iterator[str]:
    """Let Karpenter add machines with two GPUs, of which there is none yet."""
    with karpenter.pool(POOL, labels={}, requirements=requirements("l40s"), limits={RESOURCE: "4"}):
        yield POOL


@pytest.fixture(scope="module")
def hub(cluster: Cluster, pool: str) -> Iterator[Hub]:
    """Run a hub of this module's own, whose admin says nothing of autoscalers."""
    with Hub(
        cluster, HubSettings(namespace="karpenter", gpuspawner=offer(cluster, gpus={"l40s": TYPE, "h200": OTHER_TYPE}))
    ) as running:
        yield running


@pytest.fixture(scope="module")
def servers(api: ApiClient, hub: Hub) -> Servers:
    return Servers(hub, Pods(api, hub.settings.namespace))


@pytest.mark.smoke
def test_of_a_pool_whose_limit_is_less_than_a_machine_nothing_is_expected(
    karpenter: Karpenter, servers: Servers
) -> None:
    with karpenter.pool(TIGHT, labels={}, requirements=requirements("h200"), limits={RESOURCE: "1"}):
        settle(Onlooker(servers.hub.url, "pessimist", choice={**FIELDS, "gpu": "h200"}), "never")

        answer = servers.ask("pessimist", {**OPTIONS, "gpu": "h200"})

        assert (answer.status, servers.pods.find("pessimist"), karpenter.nodes(TIGHT)) == (409, None, []), answer


@pytest.mark.smoke
def test_what_the_form_says_of_new_nodes_is_what_karpenter_does(
    api: ApiClient, karpenter: Karpenter, pool: str, servers: Servers
) -> None:
    onlooker = Onlooker(servers.hub.url, "onlooker", choice=FIELDS)
    assert said(onlooker.look()) == (
        "after-scale-up",
        "Starts after a new node is added, if a large enough one is available.",
    )
    with servers.asked("first", OPTIONS), listening(servers.hub, "first") as told:
        # The node may be there before Karpenter's word that it adds one.
        told.wait("a new node")
        node = servers.pods.wait_bound("first")
        told.wait("Your server is running.")
        assert [each.metadata.name for each in karpenter.nodes(pool)] == [node]
        settle(onlooker, "after-scale-up", "Starts after a new node is added.")

        karpenter.limit(pool, {RESOURCE: "2"})

        settle(onlooker, "waits", "Will wait: all 2 are in use. You'd be next in line.")
        with servers.asked("second", OPTIONS), listening(servers.hub, "second") as told_second:
            wait_for(lambda: refusal(api, servers.pods, "second"), "Karpenter's word on the second server")
            told_second.wait("all 2 are in use. You're next.")
            told_second.wait("No new node can be added: there are as many as there may be.", timeout_s=45)
            assert servers.pods.of("second").spec.node_name is None
            assert [each.metadata.name for each in karpenter.nodes(pool)] == [node]


def said(glance: Glance) -> tuple[str, str]:
    return glance.outcome, glance.verdict


def settle(onlooker: Onlooker, outcome: str, sentence: str = "") -> None:
    """Wait until the form says so; it learns of a NodePool within seconds.

    :param sentence: empty for any.
    """
    seen: list[Any] = []

    def look() -> bool:
        seen[:] = said(onlooker.look())
        return seen == [outcome, sentence or seen[1]]

    try:
        wait_for(look, f"{outcome}: {sentence!r} on the form", timeout_s=30)
    except AssertionError as error:
        raise AssertionError(f"{error}; it says {seen}") from error


def refusal(api: ApiClient, pods: Pods, user: str) -> str:
    """Return why Karpenter adds no node for a user's pod, empty until it has said so."""
    name = pods.of(user).metadata.name
    events = CoreV1Api(api).list_namespaced_event(pods.namespace, field_selector=f"involvedObject.name={name}").items
    texts = [str(each.message) for each in events if "karpenter" in (each.source.component, each.reporting_component)]
    return next((text for text in texts if "limits" in text), "")
