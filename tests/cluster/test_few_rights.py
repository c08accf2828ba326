"""A hub that may read less of the cluster says what it does not know, and what it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub, HubSettings
from tests.cluster.support.fixtures import AS_ROOT, offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import Page, Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "modest"


@pytest.fixture
def servers(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    """Run a hub whose admin left out the right to read the pods of all namespaces."""
    settings = HubSettings(namespace=NAMESPACE, gpuspawner=offer(cluster), extra={"KubeSpawner": AS_ROOT})
    with Hub(cluster, settings) as hub:
        forbid(api, "gpuspawner-pods")
        yield Servers(hub, Pods(api, NAMESPACE))


def forbid(api: ApiClient, role: str) -> None:
    client.RbacAuthorizationV1Api(api).delete_cluster_role_binding(f"{role}-{NAMESPACE}")


def form(servers: Servers) -> Page:
    visitor = Visitor(servers.hub.url)
    visitor.log_in("onlooker")
    return visitor.get("/hub/spawn")


def test_without_the_pods_of_others_there_are_totals_and_the_hubs_own_servers(
    servers: Servers, cluster: Cluster, api: ApiClient
) -> None:
    with servers.running({"holder": {"gpu": WHOLE_CARD.slug, "gpu_count": 3}}):
        page = form(servers)
        offered = page.offered()[WHOLE_CARD.slug]
        assert (offered["total"], offered["free"], offered["state"]) == (4, None, "unknown")
        assert page.details(WHOLE_CARD.slug) == "3 in use by servers of this hub"
        assert "The hub may not list the pods of all namespaces." in page.text

    assert form(servers).details(WHOLE_CARD.slug) == "none in use by servers of this hub"

    forbid(api, "gpuspawner-nodes")
    wait_for(lambda: "GPU capacity is unknown right now." in form(servers).text, "a form without nodes", timeout_s=30)
    assert all(each["total"] is None for each in form(servers).offered().values())
