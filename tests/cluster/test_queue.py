"""Servers that wait in a queue of Kueue: the form says so first, and the hub has patience and says the place.

Users also read where Kueue is down.

Kueue is the real one, and its objects and the hub's settings are those of ``helm-values/kueue.yaml`` and
``docs/queue.md``. The hub has the rights of ``helm-values/rbac.yaml``, as every hub of these tests.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient, V1Pod

from devcluster import Cluster
from devcluster.hub import CHECKOUT, Hub
from devcluster.hub_config import HubSettings
from devcluster.hub_rbac import ensure_namespace
from docsite.markdown import blocks
from gpuspawner.cli.main import main
from gpuspawner.cli.values.helm_values import load_values
from tests.cluster.support.cloud import pool_of
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.kueue import Kueue, documented_objects, installed_kueue, objects_for
from tests.cluster.support.pages import visit
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
HELD = "Your server has ended, but Kubernetes keeps its pod until kueue.x-k8s.io/managed releases it."


def documented(key: str) -> dict[str, Any]:
    """Return the example of docs/queue.md with a key."""
    page = (CHECKOUT / "docs" / "queue.md").read_text(encoding="utf-8")
    (values,) = (yaml.safe_load(each.text) for each in blocks(page) if f"{key}:" in each.text)
    return dict(values)


def documented_queue() -> dict[str, Any]:
    """Return the section ``queue`` as docs/queue.md shows it."""
    return dict(documented("local_queue")["hub"]["config"]["GPUSpawner"]["queue"])


@pytest.fixture(scope="module")
def kueue(cluster: Cluster, api: ApiClient) -> Iterator[Kueue]:
    """Install Kueue for the namespace that docs/queue.md names, and that of these tests."""
    settings = documented("managedJobsNamespaceSelector")
    (names,) = settings["managedJobsNamespaceSelector"]["matchExpressions"]
    names["values"].append(NAMESPACE)
    ensure_namespace(api, NAMESPACE)
    with installed_kueue(cluster, api, namespace=NAMESPACE, settings=settings) as installed:
        yield installed


@pytest.fixture(scope="module")
def servers(cluster: Cluster, api: ApiClient, kueue: Kueue) -> Iterator[Servers]:
    """Run a hub with the settings of docs/queue.md, and a queue with a quota of two GPUs of the node that runs pods."""
    queue = documented_queue()
    labels = {label: value for label, (value,) in WHOLE_CARD.match.items()}
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, queue=queue),
        extra={"KubeSpawner": {"start_timeout": IMPATIENT_S, "k8s_api_request_retry_timeout": IMPATIENT_S}},
    )
    with Hub(cluster, settings) as hub, kueue.objects(*objects_for(NAMESPACE, queue, labels=labels, gpus=QUOTA)):
        yield Servers(hub, Pods(api, NAMESPACE))


@pytest.mark.smoke
def test_the_form_says_before_the_start_at_which_place_kueue_then_lets_the_server_wait(
    servers: Servers, kueue: Kueue
) -> None:
    queue = documented_queue()["local_queue"]
    in_use = f"Will wait: the quota of the queue {queue} is in use"
    room = servers.wait_verdict("holder", WHOLE_CARD.slug, QUOTA, sentence="Starts now")
    with servers.running({"holder": BOTH_CARDS}):
        first = servers.wait_verdict("first", WHOLE_CARD.slug, 1, sentence=f"{in_use}. You'd be next in line.")
        with servers.asked("first", CARD):
            told_first = servers.wait_told("first", "The queue's quota is in use.")
            second = servers.wait_verdict(
                "second", WHOLE_CARD.slug, 1, sentence=f"{in_use}. 1 in the queue is ahead of you."
            )
            kueue.wait_until_next_is_last(NAMESPACE)
            with servers.asked("second", CARD):
                told_second = servers.wait_told("second", "ahead")
    after = servers.wait_verdict("second", WHOLE_CARD.slug, 1, sentence="Starts now")

    assert [each["outcome"] for each in (room, first, second, after)] == ["now", "waits", "waits", "now"]
    assert told_first.startswith(f"Waiting in the queue {queue}. You're next. ")
    assert told_second.startswith(f"Waiting in the queue {queue}. 1 is ahead of you. ")


@contextmanager
def in_line(servers: Servers, kueue: Kueue, *users: str) -> Iterator[dict[str, V1Pod]]:
    """Have each user's server wait in the queue for one GPU, in this order, and return their pods."""
    queue = documented_queue()["local_queue"]
    pods: dict[str, V1Pod] = {}

    def is_complete() -> bool:
        return kueue.waiting(NAMESPACE, queue) == [pod.metadata.name for pod in pods.values()]

    with ExitStack() as stack:
        for user in users:
            kueue.wait_until_next_is_last(NAMESPACE)
            stack.enter_context(servers.asked(user, CARD))
            pods[user] = servers.pods.of(user)
            wait_for(is_complete, f"{', '.join(pods)} in the queue in this order")
        yield pods


def age_s(pod: V1Pod) -> float:
    return (datetime.now(UTC) - pod.metadata.creation_timestamp).total_seconds()


def test_a_server_waits_at_its_place_without_the_hub_giving_up_and_starts_when_it_is_admitted(
    cluster: Cluster, servers: Servers, kueue: Kueue
) -> None:
    pods, queue = servers.pods, documented_queue()
    with servers.running({"holder": BOTH_CARDS}), in_line(servers, kueue, "first", "second") as before:
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
        assert told["first"].startswith("Waiting in the queue gpu-queue. You're next. ")
        assert told["second"].startswith("Waiting in the queue gpu-queue. 1 is ahead of you. ")
        assert (state["pending"], state["ready"]) == ("spawn", False)
        after = {user: pods.of(user) for user in before}
        assert {user: (pod.metadata.uid, pod.spec.node_name) for user, pod in after.items()} == {
            user: (pod.metadata.uid, cluster.real_node) for user, pod in before.items()
        }


def test_a_queued_server_keeps_its_place_while_the_hub_is_killed_and_comes_back(
    cluster: Cluster, servers: Servers, kueue: Kueue
) -> None:
    hub, pods, queue = servers.hub, servers.pods, documented_queue()["local_queue"]
    with servers.running({"holder": BOTH_CARDS}), in_line(servers, kueue, "first", "second") as before:
        os.kill(hub.hub_pid, signal.SIGKILL)
        hub.restart()
        told = servers.wait_told("second", "ahead")
        kept = kueue.waiting(NAMESPACE, queue)
        servers.stop("first")
        advanced = servers.wait_told("second", "next")
        servers.stop("holder")
        servers.wait_ready("second")

        assert kept == [pod.metadata.name for pod in before.values()]
        assert told.startswith(f"Waiting in the queue {queue}. 1 is ahead of you. ")
        assert advanced.startswith(f"Waiting in the queue {queue}. You're next. ")
        after = pods.of("second")
        assert (after.metadata.uid, after.spec.node_name) == (before["second"].metadata.uid, cluster.real_node)


def test_while_kueue_is_down_users_and_admins_read_it_and_a_stop_ends_once_it_is_back(
    cluster: Cluster, servers: Servers, kueue: Kueue, tmp_path: Path
) -> None:
    pods, hub = servers.pods, servers.hub
    servers.start("holder", BOTH_CARDS)
    with kueue.stopped():
        for user, options in (("plain", NO_GPU), ("other", CARD)):
            servers.begin(user, options)
        hub.client.stop_server("holder")
        told = {user: servers.wait_told(user, "Spawn failed") for user in ("plain", "other")}
        found = diagnoses(cluster, tmp_path / "doctor.json")
        visitor = visit(hub.url, "holder")
        wait_for(lambda: HELD in visitor.get("/hub/home").text, "the stop told")
        held, elsewhere = servers.state("holder")["pending"], takes_pods(pods, "default")
        log = hub.log.read_text()
    wait_for(lambda: not servers.state("holder").get("pending"), "the stop over")

    assert set(told.values()) == {
        "Spawn failed: The admission webhook mpod.kb.io (kueue-system/kueue-webhook-service) of the cluster cannot be"
        " reached or fails, so the server was not started. Please try again later."
    }
    assert found["webhook-silent"] == [["mpod.kb.io", "vpod.kb.io"]]
    assert "the component behind the finalizer kueue.x-k8s.io/managed does not release it" in log
    assert (held, elsewhere) == ("stop", True)
    assert (pods.find("holder"), servers.state("holder")["ready"]) == (None, False)
    assert "webhook-silent" not in diagnoses(cluster, tmp_path / "doctor.json")
    with servers.running({"plain": NO_GPU}):
        assert pods.of("plain").spec.scheduling_gates is None


def diagnoses(cluster: Cluster, file: Path) -> dict[str, list[list[str]]]:
    """Return what ``gpuspawner doctor`` finds in the hub's namespace: codes, and the objects of each finding."""
    with file.open("w") as out, redirect_stdout(out):
        main(["doctor", "--kubeconfig", str(cluster.kubeconfig), "-n", NAMESPACE, "--output", "json"])
    found: dict[str, list[list[str]]] = {}
    for each in json.loads(file.read_text())["findings"]:
        found.setdefault(each["code"], []).append(each["objects"])
    return found


def takes_pods(pods: Pods, namespace: str) -> bool:
    """Tell whether Kubernetes would take a pod in a namespace."""
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    return bool(pods.core.create_namespaced_pod(namespace, probe, dry_run="All"))


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
