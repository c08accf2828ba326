"""Servers take the room of placeholders, as zero-to-jupyterhub's ``podPriority`` and user-scheduler arrange it.

The priority classes, the placeholders and the scheduler's configuration are those that the chart makes of its default
values with ``scheduling.podPriority.enabled``. The placeholders request the servers' GPUs, as in the chart.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes.client import ApiClient, V1Pod

from devcluster import Cluster, build
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.endowed import Site
from tests.cluster.support.fixtures import AS_ROOT, offer
from tests.cluster.support.fleet import KINDS
from tests.cluster.support.planting import Planted, planted
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

NAMESPACE = "placeholders"
H100 = KINDS["H100"]
SCHEDULER = f"{NAMESPACE}-user-scheduler"
USUAL, LOW = f"{NAMESPACE}-default-priority", f"{NAMESPACE}-user-placeholder-priority"
REPLICAS = 4
GPUS = H100.most // REPLICAS
AT_ONCE_S = 10
LABELS = {"app": "jupyterhub", "component": "user-placeholder"}


def priority_class(name: str, value: int) -> Planted:
    body = {"metadata": {"name": name}, "value": value, "globalDefault": False}
    return "/apis/scheduling.k8s.io/v1/priorityclasses", body


PLACEHOLDERS: Planted = (
    f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets",
    {
        "metadata": {"name": "user-placeholder"},
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": REPLICAS,
            "selector": {"matchLabels": LABELS},
            "serviceName": "user-placeholder",
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "priorityClassName": LOW,
                    "schedulerName": SCHEDULER,
                    "nodeSelector": {label: values[0] for label, values in H100.match.items()},
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "pause",
                            "image": "registry.k8s.io/pause:3.10.2",
                            "resources": {"limits": {H100.resource: GPUS}, "requests": {"memory": "1G"}},
                        }
                    ],
                },
            },
        },
    },
)
REPLACED = ["NodeAffinity", "InterPodAffinity", "NodeResourcesFit", "ImageLocality"]
PROFILE = {
    "schedulerName": SCHEDULER,
    "plugins": {
        "score": {
            "disabled": [{"name": name} for name in ("NodeResourcesBalancedAllocation", *REPLACED)],
            "enabled": [
                {"name": name, "weight": weight} for name, weight in zip(REPLACED, (14631, 1331, 121, 11), strict=True)
            ],
        }
    },
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                }
            },
        }
    ],
}


@contextmanager
def user_scheduler(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Run the chart's second kube-scheduler inside the block."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [PROFILE],
    }
    path, log = folder / "user-scheduler.json", folder / "user-scheduler.log"
    path.write_text(json.dumps(config))
    command = [str(build.folder() / "kube-scheduler"), f"--config={path}", "--secure-port=0"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def site(cluster: Cluster, api: ApiClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a hub and placeholders that hold every H100."""
    kubespawner = {**AS_ROOT, "scheduler_name": SCHEDULER, "priority_class_name": USUAL, "delete_grace_period": 0}
    settings = HubSettings(namespace=NAMESPACE, gpuspawner=offer(cluster), extra={"KubeSpawner": kubespawner})
    with (
        user_scheduler(cluster, tmp_path_factory.mktemp("scheduler")),
        planted(api, priority_class(USUAL, 0), priority_class(LOW, -10)),
        Hub(cluster, settings) as hub,
        planted(api, PLACEHOLDERS),
    ):
        yield Site(hub, api)


def placeholders(site: Site) -> list[V1Pod]:
    found = Pods(site.api, NAMESPACE).core.list_namespaced_pod(NAMESPACE, label_selector="component=user-placeholder")
    pods: list[V1Pod] = found.items
    return pods


def wait_held(site: Site) -> None:
    """Wait until the placeholders hold every H100, and the hub knows."""
    wait_for(
        lambda: sum(each.status.phase == "Running" for each in placeholders(site)) == REPLICAS, "placeholders running"
    )


def told(site: Site, user: str, count: int) -> tuple[int | None, str]:
    """Return how many H100 the form says are free, and its verdict on so many."""
    page = site.form(user, gpu=H100.slug, gpu_count=str(count))
    return page.offered()[H100.slug]["free"], page.island()["verdict"]["sentence"]


def seconds_to_be_scheduled(pod: V1Pod) -> float:
    (scheduled,) = (each for each in pod.status.conditions if each.type == "PodScheduled")
    waited: float = (scheduled.last_transition_time - pod.metadata.creation_timestamp).total_seconds()
    return waited


def test_a_server_takes_the_room_of_placeholders_as_the_form_says(site: Site) -> None:
    wait_held(site)
    before = {count: wait_told(site, count, free=H100.most) for count in (GPUS, H100.most)}

    servers = site.servers
    with servers.asked("taker", {"gpu": H100.slug, "gpu_count": H100.most}):
        pod = servers.wait_pod_running("taker")
        wait_for(lambda: len(placeholders(site)) == REPLICAS, "placeholders that wait")
        pending = {each.status.phase for each in placeholders(site)}
        after = wait_told(site, 1, free=0)

    assert before == {GPUS: "Starts now: room for 4 like this.", H100.most: "Starts now: room for 1 like this."}
    assert (seconds_to_be_scheduled(pod) <= AT_ONCE_S, pending) == (True, {"Pending"})
    assert after == "Will wait: all 8 are in use. You'd be next in line."


def test_without_the_right_to_read_the_class_it_is_unknown(site: Site) -> None:
    wait_held(site)
    with site.without("priorities"):
        site.hub.restart()
        found = wait_told(site, 1, free=0)
    site.hub.restart()
    again = wait_told(site, 1, free=H100.most)

    assert found == "Availability unknown: it depends on the priority that the cluster gives the server."
    assert again == "Starts now: room for 8 like this."


def wait_told(site: Site, count: int, *, free: int) -> str:
    """Wait until the form says that so many are free, and return its verdict."""

    def look() -> str | None:
        number, sentence = told(site, "onlooker", count)
        return sentence if number == free else None

    return wait_for(look, f"{free} free on the form", timeout_s=20)
