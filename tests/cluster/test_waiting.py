"""More GPUs asked for than are free: the server waits, says why, and starts when it can."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers


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


def free_on_the_form(servers: Servers, user: str) -> int | None:
    visitor = Visitor(servers.hub.url)
    visitor.log_in(user)
    return visitor.get("/hub/spawn").offered()[WHOLE_CARD.slug]["free"]
