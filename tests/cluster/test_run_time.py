"""A run time that a user picked ends the server, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from kubernetes.client import ApiClient, CoreV1Event, V1Pod

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "hourglass"
RUN_TIME = {"min": "1m", "max": "1h", "step": "1m", "default": "1h"}
POLL_INTERVAL_S = 2
SOON = timedelta(seconds=15)
"""More than a pod needs from the hub to a kubelet on a busy machine, and less than its run time."""
SHORTER_S = 20
"""The rest of the minute, the shortest run time there is: Kubernetes takes a shorter one at any time."""


@pytest.fixture
def servers(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    """The servers of a hub that offers a minute, and that looks after its servers more often than every 30 s."""
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, run_time=RUN_TIME),
        extra={"KubeSpawner": {"poll_interval": POLL_INTERVAL_S}},
    )
    with Hub(cluster, settings) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


def ending(pods: Pods, pod: V1Pod) -> CoreV1Event | None:
    """Return the event by which Kubernetes ended a pod, which stays when the hub has deleted the pod."""
    selector = f"involvedObject.uid={pod.metadata.uid},reason=DeadlineExceeded"
    events = pods.core.list_namespaced_event(pods.namespace, field_selector=selector).items
    return events[0] if events else None


def test_a_server_ends_when_its_run_time_is_over_and_starts_again_with_a_new_one(servers: Servers) -> None:
    pods = servers.pods
    # These GPUs are on the node that runs pods, and ends them; others are simulated.
    usual = {"gpu": WHOLE_CARD.slug}
    brief = {**usual, "run_time": "1m"}
    with servers.running({"sprinter": brief, "walker": usual}):
        first, other = pods.of("sprinter"), pods.of("walker")
        assert (first.spec.active_deadline_seconds, other.spec.active_deadline_seconds) == (60, 3600)
        assert (said(first), said(other)) == (("60", "60"), ("3600", "3600"))
        # The hub sent the pod before Kubernetes created it, and the kubelet counts from when it accepted the pod.
        for pod in (first, other):
            end = pod.status.start_time + timedelta(seconds=pod.spec.active_deadline_seconds)
            assert timedelta() <= end - datetime.fromisoformat(variables(pod)["GPUSPAWNER_ENDS_AT"]) < SOON
        assert variables(first)["GPUSPAWNER_GPU"] == WHOLE_CARD.slug

        pods.core.patch_namespaced_pod(first.metadata.name, NAMESPACE, {"spec": {"activeDeadlineSeconds": SHORTER_S}})
        event = wait_for(lambda: ending(pods, first), "the run time over", timeout_s=120)
        lasted_s = (told_at(event) - first.status.start_time).total_seconds()
        assert SHORTER_S - 1 <= lasted_s < SHORTER_S + 30

        # No request makes the hub look: it has to notice.
        wait_for(lambda: servers.state("sprinter").get("stopped"), "the hub sees that the server has stopped")
        pods.wait_gone("sprinter")

        # Without a choice, as when a user presses "Restart": the hub has kept the last one.
        answer = servers.hub.client.request("POST", "/users/sprinter/server")
        assert answer.status in {201, 202}, answer
        servers.wait_ready("sprinter")
        second = pods.of("sprinter")
        assert (second.metadata.uid != first.metadata.uid, second.spec.active_deadline_seconds) == (True, 60)
        assert servers.state("walker")["ready"]
        assert pods.of("walker").metadata.uid == other.metadata.uid


def said(pod: V1Pod) -> tuple[str, str]:
    """Return the run time in seconds as the pod says it: to users and tools, and to what runs in it."""
    return pod.metadata.annotations["gpuspawner.jupyter.org/run-time-seconds"], variables(pod)["GPUSPAWNER_RUN_TIME"]


def variables(pod: V1Pod) -> dict[str, str]:
    return {each.name: each.value for each in pod.spec.containers[0].env}


def told_at(event: CoreV1Event) -> datetime:
    """Return when something happened first; which of the two fields says it is up to the component that tells it."""
    at: datetime = event.first_timestamp or event.event_time
    return at
