"""Servers that wait in a queue of Kueue: the hub has patience, says the place, and says so where Kueue is down.

Kueue is the real one, and its objects and the hub's settings are those of ``helm-values/kueue.yaml`` and
``docs/queue.md``. The hub has the rights of ``helm-values/rbac.yaml``, as every hub of these tests.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient, V1Pod

from devcluster import Cluster
from devcluster.hub import CHECKOUT, Hub
from devcluster.hub_config import HubSettings
from docsite.markdown import blocks
from gpuspawner.cli.values.helm_values import load_values
from tests.cluster.support.cloud import pool_of
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.kueue import Kueue, documented_objects, installed_kueue, objects_for
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "queue"
DOCUMENTED_NAMESPACE = "jupyterhub"
QUOTA = 2
IMPATIENT_S = 3
"""For how long the hub would wait without the queue."""
CARD = {"gpu": WHOLE_CARD.slug, "gpu_count": 1}
BOTH_CARDS = {**CARD, "gpu_count": QUOTA}
NO_GPU = {"gpu": None}


def documented_queue() -> dict[str, Any]:
    """Return the section ``queue`` as docs/queue.md shows it."""
    page = (CHECKOUT / "docs" / "queue.md").read_text(encoding="utf-8")
    (values,) = (yaml.safe_load(each.text) for each in blocks(page) if "local_queue" in each.text)
    return dict(values["hub"]["config"]["GPUSpawner"]["queue"])


@pytest.fixture(scope="module")
def kueue(cluster: Cluster, api: ApiClient) -> Iterator[Kueue]:
    with installed_kueue(cluster, api) as installed:
        yield installed


@pytest.fixture(scope="module")
def servers(cluster: Cluster, api: ApiClient, kueue: Kueue) -> Iterator[Servers]:
    """Run a hub with the settings of docs/queue.md, and a queue with a quota of two GPUs of the node that runs pods."""
    queue = documented_queue()
    labels = {label: value for label, (value,) in WHOLE_CARD.match.items()}
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, queue=queue),
        extra={"KubeSpawner": {"start_timeout": IMPATIENT_S}},
    )
    with Hub(cluster, settings) as hub, kueue.objects(*objects_for(NAMESPACE, queue, labels=labels, gpus=QUOTA)):
        yield Servers(hub, Pods(api, NAMESPACE))


def age_s(pod: V1Pod) -> float:
    return (datetime.now(UTC) - pod.metadata.creation_timestamp).total_seconds()


def test_a_server_waits_at_its_place_without_the_hub_giving_up_and_starts_when_it_is_admitted(
    cluster: Cluster, servers: Servers, kueue: Kueue
) -> None:
    pods, queue = servers.pods, documented_queue()
    with servers.running({"holder": BOTH_CARDS}), servers.asked("first", CARD), servers.asked("second", CARD):
        before = {user: pods.of(user) for user in ("first", "second")}
        names = [pod.metadata.name for pod in before.values()]
        wait_for(lambda: kueue.waiting(NAMESPACE, queue["local_queue"]) == names, "both in the queue")
        told = {"first": servers.wait_told("first", "next"), "second": servers.wait_told("second", "ahead")}
        wait_for(lambda: age_s(before["second"]) > 3 * IMPATIENT_S, "the usual time to start over")
        waiting = pods.of("first")
        state = servers.state("first")

        servers.stop("holder")
        for user in before:
            servers.wait_ready(user)

        labels = {name: value for name, value in waiting.metadata.labels.items() if name.startswith("kueue")}
        assert labels == {
            "kueue.x-k8s.io/managed": "true",
            "kueue.x-k8s.io/queue-name": queue["local_queue"],
            "kueue.x-k8s.io/priority-class": queue["priority_class"],
        }
        (condition,) = waiting.status.conditions
        assert (condition.type, condition.reason) == ("PodScheduled", "SchedulingGated")
        assert told["first"].startswith("Your server waits in the queue gpu-queue. It is next. ")
        assert told["second"].startswith("Your server waits in the queue gpu-queue. 1 is ahead of it. ")
        assert (state["pending"], state["ready"]) == ("spawn", False)
        after = {user: pods.of(user) for user in before}
        assert {user: (pod.metadata.uid, pod.spec.node_name) for user, pod in after.items()} == {
            user: (pod.metadata.uid, cluster.real_node) for user, pod in before.items()
        }


def test_a_server_without_a_gpu_starts_beside_the_queue(servers: Servers, kueue: Kueue) -> None:
    with servers.running({"plain": NO_GPU}):
        labels = servers.pods.of("plain").metadata.labels

    assert {name for name in labels if name.startswith("kueue")} == set()


def test_a_queued_server_keeps_its_place_while_the_hub_is_killed_and_comes_back(
    cluster: Cluster, servers: Servers, kueue: Kueue
) -> None:
    hub, pods, queue = servers.hub, servers.pods, documented_queue()["local_queue"]
    with servers.running({"holder": BOTH_CARDS}), servers.asked("first", CARD), servers.asked("second", CARD):
        before = {user: pods.of(user) for user in ("first", "second")}
        names = [pod.metadata.name for pod in before.values()]
        wait_for(lambda: kueue.waiting(NAMESPACE, queue) == names, "both in the queue")

        os.kill(hub.hub_pid, signal.SIGKILL)
        hub.restart()
        told = servers.wait_told("second", "ahead")
        kept = kueue.waiting(NAMESPACE, queue)
        servers.stop("first")
        advanced = servers.wait_told("second", "next")
        servers.stop("holder")
        servers.wait_ready("second")

        assert kept == names
        assert told.startswith(f"Your server waits in the queue {queue}. 1 is ahead of it. ")
        assert advanced.startswith(f"Your server waits in the queue {queue}. It is next. ")
        after = pods.of("second")
        assert (after.metadata.uid, after.spec.node_name) == (before["second"].metadata.uid, cluster.real_node)


@pytest.fixture
def as_documented(cluster: Cluster, api: ApiClient, kueue: Kueue) -> Iterator[Servers]:
    """Run a hub with helm-values/kueue.yaml and its objects as they are written there, but for the images."""
    files = [CHECKOUT / "helm-values" / f"{name}.yaml" for name in ("gpuspawner", "kueue")]
    settings = dict(load_values([str(path) for path in files]).settings)
    settings["images"] = {
        slug: {**image, "image": cluster.notebook_image} for slug, image in settings["images"].items() if image
    }
    with (
        Hub(cluster, HubSettings(namespace=DOCUMENTED_NAMESPACE, gpuspawner=settings)) as hub,
        kueue.objects(*documented_objects()),
    ):
        yield Servers(hub, Pods(api, DOCUMENTED_NAMESPACE))


def test_servers_of_each_type_of_the_shipped_values_are_admitted_to_their_nodes(
    as_documented: Servers, kueue: Kueue
) -> None:
    servers, pods = as_documented, as_documented.pods
    types = [each["metadata"]["name"] for each in documented_objects() if each["kind"] == "ResourceFlavor"]
    for gpu in types:
        servers.begin(gpu, {"gpu": gpu, "gpu_count": 1})
    try:
        landed = {gpu: pool_of(pods.wait_bound(gpu)) for gpu in types}
        workloads = kueue.workloads(DOCUMENTED_NAMESPACE)
    finally:
        for gpu in types:
            servers.stop(gpu)

    assert landed == {gpu: gpu for gpu in types}
    assert {each["spec"]["priority"] for each in workloads} == {1000}
