"""The messages about starts that fail: each reason is produced for real.

Every one of them ends the start within a minute, and leaves no pod behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.gpu_faults import absent, unhealthy
from devcluster.gpus import NVIDIA
from devcluster.hub import Hub
from devcluster.run_dir import RunDir
from tests.cluster.support import mishaps
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.own_pods import running_pod
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.registry import Registry
from tests.cluster.support.servers import Servers
from tests.cluster.support.starts import CARD, CARD_NAME, ends_with, links, settings, starting
from tests.cluster.support.told import Told
from tests.cluster.support.waiting import wait_for
from tests.cluster.support.webhook import asked, refuse

NAMESPACE = "failures"
RESOURCE = WHOLE_CARD.resource
ALL = {RESOURCE: str(WHOLE_CARD.total)}


@pytest.fixture(scope="module")
def hub(cluster: Cluster, registry: Registry) -> Iterator[Hub]:
    with Hub(cluster, settings(cluster, registry, namespace=NAMESPACE)) as running:
        yield running


@pytest.fixture(scope="module")
def servers(api: ApiClient, hub: Hub) -> Servers:
    return Servers(hub, Pods(api, hub.settings.namespace))


@pytest.fixture
def devices(cluster: Cluster) -> Path:
    return RunDir(cluster.run_dir).devices


@pytest.fixture(scope="module", autouse=True)
def lost(api: ApiClient, servers: Servers) -> Iterator[dict[str, Told]]:
    """Have nodes go while servers start on them; as a node may come back, nothing else here takes longer to end."""
    with ExitStack() as stack:
        told = {}
        for name, product in (("silent-1", "NVIDIA-H200"), ("silent-2", "NVIDIA-L40S")):
            label = {"nvidia.com/gpu.product": product}
            stack.enter_context(mishaps.silent_node(api, name, labels=label, gpus=1))
        for user, slug in (("lost", "h200"), ("deleted", "l40s")):
            wait_for(lambda user=user, slug=slug: slug in offered(servers, user), f"{slug} on the form")
            told[user] = stack.enter_context(starting(servers, user, {**CARD, "gpu": slug}))
            told[user].wait("Found a node")
        mishaps.lose(api, "silent-1")
        mishaps.delete_node(api, "silent-2")
        yield told


def offered(servers: Servers, user: str) -> dict[str, dict[str, Any]]:
    """Return the GPU types on a user's form by slug."""
    return visit(servers.hub.url, user).get("/hub/spawn").offered()


def allocatable(api: ApiClient, node: str) -> int:
    return int(client.CoreV1Api(api).read_node(node).status.allocatable[RESOURCE])


def see_gpus(api: ApiClient, cluster: Cluster, number: int) -> None:
    wait_for(lambda: allocatable(api, cluster.real_node) == number, f"{number} GPUs on the node")


# -- images ------------------------------------------------------------------------------------------------------------


def test_an_image_that_is_not_there_or_is_locked_ends_the_start(registry: Registry, servers: Servers) -> None:
    missing, private = (registry.image(name) for name in ("missing", "private"))
    with (
        starting(servers, "misser", {**CARD, "custom_image": missing}) as first,
        starting(servers, "outsider", {**CARD, "custom_image": private}) as second,
    ):
        end = ends_with(servers, "misser", first, f"The image {missing} does not exist, or not under this tag.")
        ends_with(servers, "outsider", second, f"The image {private} does not exist, or the cluster may not fetch it.")

    choices = links(end)
    assert 1 <= len(choices) <= 3
    for address in choices.values():
        fields = visit(servers.hub.url, "misser").get(address).fields()
        assert (fields["gpu"], fields["gpu_count"], fields["image"] != "") == (CARD["gpu"], "1", True)
    assert servers.pods.find("misser") is None


# -- GPUs --------------------------------------------------------------------------------------------------------------


def test_a_gpu_that_breaks_between_binding_and_admission_ends_the_start(
    cluster: Cluster, api: ApiClient, servers: Servers, devices: Path
) -> None:
    with mishaps.scheduler_halted(cluster), starting(servers, "unlucky", CARD) as told, unhealthy(devices, NVIDIA):
        see_gpus(api, cluster, 0)
        mishaps.bind(servers.pods, "unlucky", cluster.real_node)
        ends_with(servers, "unlucky", told, f"The {CARD_NAME} that was found for your server is out of order.")
    see_gpus(api, cluster, WHOLE_CARD.total)


def test_a_device_plugin_that_is_gone_ends_the_start(
    cluster: Cluster, api: ApiClient, servers: Servers, devices: Path
) -> None:
    with mishaps.scheduler_halted(cluster), starting(servers, "unplugged", CARD) as told, absent(devices):
        see_gpus(api, cluster, 0)
        mishaps.bind(servers.pods, "unplugged", cluster.real_node)
        ends_with(servers, "unplugged", told, f"The {CARD_NAME} that was found for your server is out of order.")
    see_gpus(api, cluster, WHOLE_CARD.total)


def test_a_node_whose_gpus_went_to_another_user_ends_the_start(cluster: Cluster, servers: Servers) -> None:
    with ExitStack() as stack:
        stack.enter_context(running_pod(cluster, "holder", limits=ALL))
        told = stack.enter_context(starting(servers, "late", CARD))
        mishaps.bind(servers.pods, "late", cluster.real_node)
        end = ends_with(servers, "late", told, f"The node that was found has no {CARD_NAME} left after all.")

    assert len(links(end)) <= 3
    assert "holder" not in str(told.events)


# -- pods that are sent away -------------------------------------------------------------------------------------------


def test_a_pod_that_is_evicted_ends_the_start(registry: Registry, servers: Servers) -> None:
    image = registry.image("evicted")
    with registry.held(), starting(servers, "evictee", {**CARD, "custom_image": image}) as told:
        told.wait("is being fetched")
        mishaps.evict(servers.pods, "evictee")
        ends_with(servers, "evictee", told, "Your server was sent away from its node while it was starting.")


def test_a_pod_that_gives_way_to_another_ends_the_start(
    cluster: Cluster, api: ApiClient, registry: Registry, servers: Servers
) -> None:
    image = registry.image("preempted")
    with registry.held(), starting(servers, "underdog", {**CARD, "custom_image": image}) as told:
        told.wait("is being fetched")
        with mishaps.urgent_pod(api, cluster, limits=ALL):
            ends_with(
                servers,
                "underdog",
                told,
                "Your server had to give way to something of higher priority while it was starting.",
            )
    assert "urgent" not in str(told.events)


# -- what no node would ever take --------------------------------------------------------------------------------------


def test_a_taint_that_comes_while_a_server_waits_ends_the_start(
    cluster: Cluster, api: ApiClient, servers: Servers
) -> None:
    label = {"nvidia.com/gpu.product": "NVIDIA-B200"}
    with (
        mishaps.silent_node(api, "large", labels=label, gpus=2),
        mishaps.silent_node(api, "small", labels=label, gpus=1),
        mishaps.bound_pod(api, "holder", node="large", limits={RESOURCE: "1"}),
    ):
        wait_for(lambda: offered(servers, "tainted").get("b200", {}).get("max_count") == 2, "both nodes on the form")
        with starting(servers, "tainted", {**CARD, "gpu": "b200", "gpu_count": 2}) as told:
            told.wait("You're next.")
            with mishaps.taint(api, "large", "example.org/reserved"):
                end = ends_with(servers, "tainted", told, "No node has 2 × B200; the most on one node is 1.")

    assert "1 × B200 (180 GiB)" in links(end), end


def test_a_disk_that_turns_out_to_be_in_another_zone_ends_the_start(
    cluster: Cluster, api: ApiClient, registry: Registry
) -> None:
    disk = {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "volume_mounts": [{"name": "data", "mountPath": "/data"}],
    }
    with (
        Hub(cluster, settings(cluster, registry, namespace="disks", **disk)) as hub,
        mishaps.far_disk(api, "disks", "data") as bind_claim,
        starting(servers := Servers(hub, Pods(api, "disks")), "remote", CARD) as told,
    ):
        servers.pods.wait_unschedulable("remote")
        bind_claim()
        ends_with(servers, "remote", told, "A disk of your server is in a zone without a suitable node.")

        # From now on it is known before anything starts.
        answer = servers.ask("early", CARD)
        assert (answer.status, "can reach the server's storage" in answer.message) == (409, True), answer


# -- what the API server refuses ---------------------------------------------------------------------------------------


def test_a_quota_of_the_namespace_refuses_the_start(api: ApiClient, servers: Servers) -> None:
    with mishaps.quota(api, NAMESPACE, {f"requests.{RESOURCE}": "0"}):
        refused(servers, "thrifty", "quota")


def test_a_policy_of_the_cluster_refuses_the_start(api: ApiClient, servers: Servers) -> None:
    with mishaps.refusing_policy(api, NAMESPACE):
        refused(servers, "restless", mishaps.REFUSAL)


def test_a_webhook_of_the_cluster_refuses_the_start(
    cluster: Cluster, api: ApiClient, servers: Servers, tmp_path: Path
) -> None:
    with asked(cluster, api, tmp_path, namespace=NAMESPACE, review=refuse):
        refused(servers, "broke", "Servers need a cost centre.")


def refused(servers: Servers, user: str, text: str) -> None:
    answer = servers.ask(user, CARD)
    assert (answer.status >= 400, text in answer.message) == (True, True), answer
    assert servers.pods.find(user) is None


# -- the program itself ------------------------------------------------------------------------------------------------


def test_too_little_memory_to_start_ends_the_start(servers: Servers) -> None:
    with starting(servers, "frugal", {**CARD, "memory": "16M"}) as told:
        end = ends_with(servers, "frugal", told, "Your server needed more memory to start than it was given.")

    assert list(links(end)) == ["32 MiB"], end


# -- nodes that go -----------------------------------------------------------------------------------------------------


def test_a_node_that_is_lost_or_deleted_ends_the_start(servers: Servers, lost: dict[str, Told]) -> None:
    silent = "The node that your server starts on does not answer."
    # The pod of a node that is deleted is collected some time later: whichever is noticed first.
    collected = "The node was taken out of service while your server was starting there."
    ends_with(servers, "lost", lost["lost"], silent)
    ends_with(servers, "deleted", lost["deleted"], silent, collected)
