"""A server that waits in the gate of Kueue: the hub has patience, and the server starts when it is let through.

Kueue itself is not here. Its webhook's part is played by the hub's settings, which give each pod the gate, and its
controller's part by the test, which takes the gate away as Kueue does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from kubernetes.client import ApiClient, V1Pod

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "queue"
GATE = "kueue.x-k8s.io/admission"
IMPATIENT_S = 3
"""For how long the hub would wait without the queue."""
QUEUE = {"local_queue": "gpu-queue", "priority_class": "interactive", "timeout": 300, "gpus": [WHOLE_CARD.slug]}


@pytest.fixture
def servers(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    spawner = {"start_timeout": IMPATIENT_S, "extra_pod_config": {"schedulingGates": [{"name": GATE}]}}
    settings = HubSettings(namespace=NAMESPACE, gpuspawner=offer(cluster, queue=QUEUE), extra={"KubeSpawner": spawner})
    with Hub(cluster, settings) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


def admit(pods: Pods, pod: V1Pod) -> None:
    """Let a pod through, with a label of the nodes it was admitted for."""
    flavour = {"op": "add", "path": "/spec/nodeSelector/gpuspawner.jupyter.org~1real", "value": "true"}
    gates = {"op": "remove", "path": "/spec/schedulingGates"}
    pods.core.patch_namespaced_pod(pod.metadata.name, NAMESPACE, [flavour, gates])


def age_s(pod: V1Pod) -> float:
    return (datetime.now(UTC) - pod.metadata.creation_timestamp).total_seconds()


def test_a_server_waits_in_the_gate_without_the_hub_giving_up_and_starts_when_it_is_admitted(
    cluster: Cluster, servers: Servers
) -> None:
    pods = servers.pods
    with servers.asked("queuer", {"gpu": WHOLE_CARD.slug, "gpu_count": 1}):
        pod = pods.of("queuer")
        labels = {name: value for name, value in pod.metadata.labels.items() if name.startswith("kueue")}
        wait_for(lambda: age_s(pod) > 3 * IMPATIENT_S, "the usual time to start over")
        waiting = pods.of("queuer")
        state = servers.state("queuer")
        told = servers.wait_told("queuer", "queue gpu-queue")

        admit(pods, waiting)
        servers.wait_ready("queuer")

        assert labels == {
            "kueue.x-k8s.io/queue-name": "gpu-queue",
            "kueue.x-k8s.io/priority-class": "interactive",
        }
        (condition,) = waiting.status.conditions
        assert (condition.type, condition.reason) == ("PodScheduled", "SchedulingGated")
        # No Kueue serves a place here; what follows is how long the hub will wait.
        assert told.startswith("Your server waits in the queue gpu-queue. Your server waits for ")
        assert (state["pending"], state["ready"]) == ("spawn", False)
        after = pods.of("queuer")
        assert (after.metadata.uid, after.spec.node_name) == (pod.metadata.uid, cluster.real_node)
