"""The messages about starts that get on: each stage for real, where Kubernetes alone can produce it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.nodes import cordoned
from tests.cluster.support.own_pods import running_pod
from tests.cluster.support.pods import Pods
from tests.cluster.support.registry import Registry
from tests.cluster.support.servers import Servers
from tests.cluster.support.starts import CARD, CARD_NAME, settings, starting
from tests.cluster.support.told import Told
from tests.cluster.support.waiting import wait_for

ALL = {WHOLE_CARD.resource: str(WHOLE_CARD.total)}
PREPARED = {"postStart": {"exec": {"command": ["sleep", "3"]}}}
"""Kubernetes takes a container for ready the moment it runs, unless there is something to be done first."""


@pytest.fixture(scope="module")
def hub(cluster: Cluster, registry: Registry) -> Iterator[Hub]:
    with Hub(cluster, settings(cluster, registry, namespace="progress", lifecycle_hooks=PREPARED)) as running:
        yield running


@pytest.fixture(scope="module")
def servers(api: ApiClient, hub: Hub) -> Servers:
    return Servers(hub, Pods(api, hub.settings.namespace))


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
                told.wait("You're next.")
                # The hub's own verdict may come before the scheduler's event.
                wait_for(lambda: "Insufficient nvidia.com/gpu" in str(told.events), "the scheduler's own words")
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
    assert pulling["raw_event"]["message"] == f'Pulling image "{image}"'
    assert "holder" not in str(told.events)


def test_a_start_waits_for_a_node_that_is_back_in_service(cluster: Cluster, api: ApiClient, servers: Servers) -> None:
    with ExitStack() as stack:
        with cordoned(api, [cluster.real_node]):
            told = stack.enter_context(starting(servers, "bea", CARD))
            told.wait(f"the nodes with an {CARD_NAME} take no new servers right now.")
        told.wait("The image was on the node already. Your server is starting.")
