"""More GPUs asked for than are free: the server waits, says why, and starts when it can."""

from __future__ import annotations

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.starts import starting


@pytest.mark.smoke
def test_a_server_that_finds_too_few_gpus_waits_and_says_so_and_starts_when_they_are_free(
    cluster: Cluster, servers: Servers, pods: Pods
) -> None:
    first, second = ({"gpu": WHOLE_CARD.slug, "gpu_count": count} for count in (3, 2))
    with servers.running({"first": first}), servers.asked("second", second):
        refusal = pods.wait_unschedulable("second")
        told = servers.wait_told("second", "Insufficient nvidia.com/gpu")
        phase = pods.of("second").status.phase
        shown = free_on_the_form(servers, "third")

        servers.stop("first")
        servers.wait_ready("second")

        assert "Insufficient nvidia.com/gpu" in refusal
        assert "Gives up in" in told
        assert phase == "Pending"
        assert shown == 1
        assert pods.of("second").spec.node_name == cluster.real_node


def test_a_server_whose_scheduler_does_not_run_names_it(cluster: Cluster, api: ApiClient) -> None:
    scheduler = {"KubeSpawner": {"scheduler_name": "site-scheduler"}}
    with Hub(cluster, HubSettings(namespace="overlooked", gpuspawner=offer(cluster), extra=scheduler)) as hub:
        servers = Servers(hub, Pods(api, "overlooked"))
        with starting(servers, "first", {"gpu": None}) as told:
            told.wait("The scheduler site-scheduler hasn't looked at your server yet.", timeout_s=60)


def free_on_the_form(servers: Servers, user: str) -> int | None:
    visitor = Visitor(servers.hub.url)
    visitor.log_in(user)
    return visitor.get("/hub/spawn").offered()[WHOLE_CARD.slug]["free"]
