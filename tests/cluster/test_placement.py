"""Where servers land: the real scheduler binds each GPU type to a node that has it, and the others elsewhere."""

from __future__ import annotations

import pytest
from kubernetes.client import ApiClient

from tests.cluster.support import nodes
from tests.cluster.support.fleet import KINDS, WHOLE_CARD, Kind
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for


@pytest.mark.smoke
def test_the_form_offers_every_gpu_type_of_the_fleet_with_its_numbers(servers: Servers) -> None:
    offered = visit(servers.hub.url, "reader").get("/hub/spawn").offered()

    numbers = {slug: (gpu["total"], gpu["max_count"]) for slug, gpu in offered.items() if slug != "nowhere"}
    assert numbers == {kind.slug: (kind.total, kind.most) for kind in KINDS.values()}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=pytest.mark.smoke if kind is WHOLE_CARD else ())
        for name, kind in KINDS.items()
    ],
)
def test_a_server_with_a_gpu_lands_on_a_node_that_has_this_gpu(
    api: ApiClient, servers: Servers, pods: Pods, kind: Kind
) -> None:
    with servers.asked("lander", {"gpu": kind.slug, "gpu_count": kind.most}):
        node = nodes.read(api, pods.wait_bound("lander"))
        limits = pods.of("lander").spec.containers[0].resources.limits

    assert kind.is_on(node.metadata.labels)
    assert nodes.gpu_resources(node)[kind.resource] >= kind.most
    assert {name: int(amount) for name, amount in limits.items() if "/" in name} == {kind.resource: kind.most}


@pytest.mark.smoke
def test_servers_without_gpu_land_on_cpu_nodes_while_those_have_room(
    api: ApiClient, servers: Servers, pods: Pods
) -> None:
    users = [f"cpu-{number}" for number in range(6)]
    found: dict[str, dict[str, int]] = {}
    try:
        for user in users:
            servers.begin(user, {"gpu": None, "cpu": 4, "memory": "8G"})
        for user in users:
            found[user] = nodes.gpu_resources(nodes.read(api, pods.wait_bound(user)))
    finally:
        for user in users:
            servers.stop(user)

    assert found == {user: {} for user in users}


def test_a_server_without_gpu_still_starts_when_no_cpu_node_has_room(
    api: ApiClient, servers: Servers, pods: Pods
) -> None:
    simulated = nodes.simulated(api)
    closed = [node.metadata.name for node in simulated if not nodes.gpu_resources(node)]
    h100 = KINDS["H100"]
    # One more, as the last: a hub that knows of it, some tenths of a second later, knows of the others as well.
    closed += [node.metadata.name for node in simulated if h100.is_on(node.metadata.labels)]
    onlooker = visit(servers.hub.url, "onlooker")

    with nodes.cordoned(api, closed):
        wait_for(
            lambda: onlooker.get("/hub/spawn").offered()[h100.slug]["free"] == 0, "a form that knows of the cordons"
        )
        with servers.asked("squeezed", {"gpu": None}):
            node = nodes.read(api, pods.wait_bound("squeezed"))

    assert nodes.gpu_resources(node)
