"""The messages about starts that get on: each stage for real, where Kubernetes alone can produce it.

The words of cluster-autoscaler, GKE and Kueue are recorded ones, written through the API server about the real pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from tests.cluster.support import registry as registries
from tests.cluster.support.autoscalers import say
from tests.cluster.support.fleet import KINDS, WHOLE_CARD
from tests.cluster.support.nodes import cordoned
from tests.cluster.support.own_pods import running_pod
from tests.cluster.support.pods import Pods
from tests.cluster.support.registry import Registry
from tests.cluster.support.servers import Servers
from tests.cluster.support.starts import CARD, CARD_NAME, settings, starting
from tests.cluster.support.told import Told
from tests.cluster.support.webhook import KUEUE_GATE, asked, gate

ALL = {WHOLE_CARD.resource: str(WHOLE_CARD.total)}
T4 = KINDS["T4"]
T4_NODES = {label: values[0] for label, values in T4.match.items()}

PREPARED = {"postStart": {"exec": {"command": ["sleep", "3"]}}}
"""Kubernetes takes a container for ready the moment it runs, unless there is something to be done first."""


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registries.serving() as running:
        yield running


@pytest.fixture(scope="module")
def hub(cluster: Cluster, registry: Registry) -> Iterator[Hub]:
    with Hub(cluster, settings(cluster, registry, namespace="progress", lifecycle_hooks=PREPARED)) as running:
        yield running


@pytest.fixture(scope="module")
def servers(api: ApiClient, hub: Hub) -> Servers:
    return Servers(hub, Pods(api, hub.settings.namespace))


@pytest.fixture(scope="module", autouse=True)
def scaling(cluster: Cluster, servers: Servers) -> Iterator[tuple[Told, Told]]:
    """Have an autoscaler add a node for one server and none for another; the autoscaler refuses the second later."""
    with ExitStack() as stack:
        stack.enter_context(running_pod(cluster, "all-t4", limits={T4.resource: str(T4.total)}, where=T4_NODES))
        coming, refused = (
            stack.enter_context(starting(servers, user, {**CARD, "gpu": T4.slug})) for user in ("cleo", "dora")
        )
        scale_up = (
            "pod triggered scale-up: [{https://www.googleapis.com/compute/v1/projects/p/zones/z/g 0->1 (max: 2)}]"
        )
        no_quota = (
            "Node scale up in zones europe-west4-a associated with this pod failed: GCE quota exceeded. "
            "Pod is at risk of not being scheduled."
        )
        component = "cluster-autoscaler"
        say(servers.pods, "cleo", component=component, reason="TriggeredScaleUp", message=scale_up)
        say(servers.pods, "dora", component=component, reason="FailedScaleUp", message=no_quota, kind="Warning")
        yield coming, refused


def in_order(told: Told, *texts: str) -> bool:
    """Tell whether there is a sentence with each of these texts, one after the other."""
    rest = iter(told.sentences)
    return all(any(text in sentence for sentence in rest) for text in texts)


def test_a_start_has_messages_from_the_wait_for_a_gpu_to_the_open_page(
    cluster: Cluster, api: ApiClient, registry: Registry, servers: Servers
) -> None:
    image = registry.image("lab")
    with ExitStack() as stack:
        with registry.held():
            with running_pod(cluster, "holder", limits=ALL):
                told = stack.enter_context(starting(servers, "ada", {**CARD, "custom_image": image}))
                waiting = told.wait("You're next.")
            pulling = told.wait(f"The image {image} is being fetched.")
            # A server that has its node already keeps it.
            stack.enter_context(cordoned(api, [cluster.real_node]))
        assert told.wait_over()["message"].startswith("Server ready"), told.sentences

    assert in_order(
        told,
        "You're next.",
        f"The image {image} is being fetched.",
        "The image was fetched in",
        "Your server is running.",
        "Server ready",
    ), told.sentences
    assert told.bar == sorted(told.bar)
    assert "Insufficient nvidia.com/gpu" in waiting["raw_event"]["message"]
    assert pulling["raw_event"]["message"] == f'Pulling image "{image}"'
    assert "holder" not in str(told.events)


def test_a_start_waits_for_a_node_that_is_back_in_service(cluster: Cluster, api: ApiClient, servers: Servers) -> None:
    with ExitStack() as stack:
        with cordoned(api, [cluster.real_node]):
            told = stack.enter_context(starting(servers, "bea", CARD))
            told.wait(f"the nodes with an {CARD_NAME} take no new servers right now.")
        told.wait("The image was on the node already. Your server is starting.")


def test_a_server_in_kueues_gate_waits_in_the_queue_and_goes_on_when_it_is_admitted(
    cluster: Cluster, api: ApiClient, servers: Servers, tmp_path: Path
) -> None:
    short = (
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, "
        "1 more needed"
    )
    with (
        asked(cluster, api, tmp_path, namespace=servers.pods.namespace, review=gate),
        starting(servers, "emil", CARD) as told,
    ):
        say(servers.pods, "emil", component="kueue-admission", reason="Pending", message=short, kind="Warning")
        told.wait("Waiting in the queue.")
        admit(servers.pods, "emil")
        told.wait("Your server is running.")


def test_what_cluster_autoscaler_and_gke_say_of_new_nodes_reaches_the_page(scaling: tuple[Told, Told]) -> None:
    coming, refused = scaling
    coming.wait("Adding a new node for your server.")
    refused.wait("No new node can be added: the cluster's quota with its provider is used up.")


def admit(pods: Pods, user: str) -> None:
    """Open the gate of a user's pod, as Kueue does when it is its turn."""
    pod = pods.of(user)
    assert [each.name for each in pod.spec.scheduling_gates] == [KUEUE_GATE]
    pods.core.patch_namespaced_pod(pod.metadata.name, pods.namespace, {"spec": {"schedulingGates": None}})
    message = "Admitted by clusterQueue gpus"
    say(pods, user, component="kueue-pod-controller", reason="Started", message=message)
