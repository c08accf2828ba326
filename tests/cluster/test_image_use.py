"""Images and the nodes of a GPU type: what cannot run is refused with the reason, and the scheduler keeps off it."""

from __future__ import annotations

import pytest
from kubernetes.client import ApiClient

from tests.cluster.support import nodes
from tests.cluster.support.fleet import KINDS
from tests.cluster.support.pages import Visitor, visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

DRIVER = "nvidia.com/cuda.driver-version.major"
MIXED = KINDS["A100 80 GB"]


@pytest.fixture
def visitor(servers: Servers) -> Visitor:
    return visit(servers.hub.url, "reader")


def nodes_of_mixed(api: ApiClient) -> list[str]:
    return [node.metadata.name for node in nodes.simulated(api) if MIXED.is_on(node.metadata.labels)]


@pytest.mark.parametrize("number", [0, 1])
def test_a_server_lands_on_the_node_of_its_gpu_type_that_can_run_its_image(
    api: ApiClient, servers: Servers, pods: Pods, visitor: Visitor, number: int
) -> None:
    names = nodes_of_mixed(api)
    new = names.pop(number)
    with nodes.labelled(api, names, DRIVER, "535"):
        with nodes.labelled(api, [new], DRIVER, "550"):
            told = wait_for(
                lambda: visitor.get("/hub/spawn").misfits("cuda13").get(MIXED.slug), "a form that knows of the drivers"
            )
        wait_for(
            lambda: MIXED.slug not in visitor.get("/hub/spawn").misfits("cuda13"), "a form that knows of the new one"
        )
        with servers.asked("lander", {"image": "cuda13", "gpu": MIXED.slug}):
            landed = pods.wait_bound("lander")

    assert (told, landed) == ("CUDA 13.0 needs driver 580 or newer; these nodes have 535 and 550.", new)
