"""With the rights that zero-to-jupyterhub's chart gives its hub, and no others, servers start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply
from gpuspawner.cli.cluster.shipped_roles import read_shipped_rights
from tests.cluster.support.audit import Use, requests_of, uses_of
from tests.cluster.support.fixtures import AS_ROOT, offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "chart"
READ = ["get", "list", "watch"]
OBJECTS = {
    "apiGroups": [""],
    "resources": ["pods", "persistentvolumeclaims", "secrets", "services"],
    "verbs": [*READ, "create", "delete"],
}
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": READ}
"""The chart's Role for the hub has these two rules (its templates/hub/rbac.yaml)."""
CARD = {
    "display_name": "A100",
    "resource": WHOLE_CARD.resource,
    "match": {label: list(values) for label, values in WHOLE_CARD.match.items()},
    "max_count": 2,
}
LIST_EVENTS = Use("list", "", "events", True)
CHOICE = {"gpu": WHOLE_CARD.slug}


class ChartHub:
    """A hub with a Role of its own.

    :param hub: while it runs.
    """

    def __init__(self, hub: Hub, api: ApiClient) -> None:
        self.hub = hub
        self.api = api
        self.servers = Servers(hub, Pods(api, NAMESPACE))
        self._settings = hub.settings

    def restart(self, **kubespawner: Any) -> None:
        """Restart it with these settings of KubeSpawner besides its own."""
        own = self._settings.extra["KubeSpawner"]
        self.hub.settings = replace(self._settings, extra={"KubeSpawner": {**own, **kubespawner}})
        self.hub.restart()

    def services(self) -> list[str]:
        return [each.metadata.name for each in CoreV1Api(self.api).list_namespaced_service(NAMESPACE).items]


def grant(api: ApiClient, rules: Sequence[Mapping[str, Any]]) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    apply(api, {**role, "metadata": {"name": "hub", "namespace": NAMESPACE}, "rules": list(rules)})


@pytest.fixture(scope="module")
def chart_hub(cluster: Cluster, api: ApiClient) -> Iterator[ChartHub]:
    kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    grant(api, [OBJECTS, EVENTS])
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "hub", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
    }
    apply(api, binding)
    # As the chart does for storage; no pod mounts the claim here.
    kubespawner = {**AS_ROOT, "storage_pvc_ensure": True, "storage_capacity": "1Mi", "delete_grace_period": 0}
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, gpus={WHOLE_CARD.slug: CARD}),
        extra={"KubeSpawner": kubespawner},
    )
    with Hub(cluster, settings, kubeconfig=kubeconfig) as hub:
        yield ChartHub(hub, api)


@pytest.mark.smoke
def test_servers_start_with_the_charts_rights_alone(cluster: Cluster, api: ApiClient, chart_hub: ChartHub) -> None:
    servers = chart_hub.servers
    page = visit(chart_hub.hub.url, "visitor").get("/hub/spawn")
    assert page.island()["capacity_notice"].endswith("The hub may not list the cluster's nodes.")
    assert list(page.offered()) == [WHOLE_CARD.slug]
    with servers.running({"visitor": CHOICE}):
        assert servers.pods.gpus_listed("visitor") == 1
    chart_hub.hub.client.request("DELETE", "/users/visitor")
    wait_for(lambda: not servers.pods.claims(), "no claim of a user who is gone")

    # One that a hub which crashed has left behind is replaced.
    leftover = {"metadata": {"name": "jupyter-served"}, "spec": {"ports": [{"port": 80}]}}
    CoreV1Api(api).create_namespaced_service(NAMESPACE, leftover)
    chart_hub.restart(services_enabled=True)
    # The hub does not find it by that name, for no DNS server is here.
    with servers.asked("served", CHOICE):
        servers.pods.wait_bound("served")
        assert chart_hub.services() == ["jupyter-served"]
    wait_for(lambda: not chart_hub.services(), "no service without its pod")

    requests = requests_of(cluster, NAMESPACE)

    # All others are asked for with a review first. A refusal of these two holds for a minute.
    refused = {each.use for each in requests if not each.is_allowed}
    assert refused == {Use("list", "", name, True) for name in ("resourcequotas", "limitranges")}
    asked = {each.use for each in requests if each.is_allowed and each.use and each.use.is_namespaced}
    # For secrets KubeSpawner has the same three calls, but internal_ssl takes a hub and a proxy with certificates.
    of_chart = uses_of(each for each in read_shipped_rights() if each.part == "hub" and each.resource != "secrets")
    # Of volume claims, none is mounted, so none is looked at.
    assert asked == of_chart - {Use("get", "", "persistentvolumeclaims", True)}
    assert {each.reviewed for each in requests if each.reviewed} <= uses_of(read_shipped_rights())


def test_without_the_right_to_events_servers_start_and_users_and_admin_read_so(
    cluster: Cluster, api: ApiClient, chart_hub: ChartHub
) -> None:
    servers = chart_hub.servers
    grant(api, [OBJECTS])
    try:
        chart_hub.restart(node_selector={"gpuspawner.jupyter.org/nowhere": "yes"})
        known = len(requests_of(cluster, NAMESPACE))
        with servers.asked("deaf", CHOICE), servers.asked("mute", CHOICE):
            servers.wait_told("deaf", "The hub may not read the cluster's events, so a reason may be missing here.")
        refused = [each.use for each in requests_of(cluster, NAMESPACE)[known:] if not each.is_allowed]
        warnings = [
            line for line in chart_hub.hub.log.read_text().splitlines() if "The hub may not list events" in line
        ]

        chart_hub.restart(events_enabled=False)
        known = len(requests_of(cluster, NAMESPACE))
        with servers.running({"deaf": CHOICE}):
            last = servers.last_told("deaf")
        asked = {each.use for each in requests_of(cluster, NAMESPACE)[known:]}
    finally:
        grant(api, [OBJECTS, EVENTS])

    assert refused.count(LIST_EVENTS) == 1
    assert len(warnings) == 1
    assert f"in the namespace {NAMESPACE}" in warnings[0]
    assert last.startswith("Server ready at ")
    assert LIST_EVENTS not in asked
