"""Users with namespaces of their own: with the rights that docs/security.md has for that, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.client.exceptions import NotFoundException

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.hub_rbac import SERVICE_ACCOUNT, SHIPPED_NAMESPACE, apply, manifests, remove
from docsite.markdown import blocks
from gpuspawner.cli.cluster.shipped_roles import parse_shipped_rights, read_shipped_rights
from tests.cluster.support.audit import requests_of, uses_of
from tests.cluster.support.fixtures import AS_ROOT, offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "landlord"
PREFIX = "tenant"
CHOICE = {"gpu": WHOLE_CARD.slug}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
(ROLES,) = (each.text for each in blocks(PAGE.read_text(encoding="utf-8")) if each.language == "yaml")
CARD = {
    "display_name": "A100",
    "resource": WHOLE_CARD.resource,
    "match": {label: list(values) for label, values in WHOLE_CARD.match.items()},
    "max_count": 2,
}


def settings(cluster: Cluster) -> HubSettings:
    kubespawner = {
        **AS_ROOT,
        "enable_user_namespaces": True,
        "user_namespace_template": f"{PREFIX}-{{username}}",
        "storage_pvc_ensure": True,
        "storage_capacity": "1Mi",
        "delete_grace_period": 0,
    }
    policy = {"default": {"max_gpus": 2}, "users": {"two-hubs": {"max_gpus": 1}}}
    return HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, gpus={WHOLE_CARD.slug: CARD}, policy=policy),
        extra={"KubeSpawner": kubespawner},
    )


def parts(*, is_whole: bool) -> list[dict[str, Any]]:
    """Return the roles of the hub: with what the page has, or without any right to the pods of all namespaces."""
    placed = [each for each in manifests(NAMESPACE) if is_whole or f"pods-{NAMESPACE}" not in each["metadata"]["name"]]
    if not is_whole:
        return placed
    of_page: list[dict[str, Any]] = list(yaml.safe_load_all(ROLES.replace(SHIPPED_NAMESPACE, NAMESPACE)))
    return [*of_page, *(each for each in placed if each["kind"].startswith("Cluster"))]


@contextmanager
def granted(api: ApiClient, *, is_whole: bool) -> Iterator[None]:
    """Give the hub its roles inside the block."""
    roles = parts(is_whole=is_whole)
    for each in roles:
        apply(api, each)
    try:
        yield
    finally:
        for name in ("ada", "bob", "two-hubs"):
            with suppress(NotFoundException):
                CoreV1Api(api).delete_namespace(f"{PREFIX}-{name}")
        for each in roles:
            remove(api, each)


@pytest.fixture
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


def servers_of(hub: Hub, api: ApiClient, user: str) -> Servers:
    return Servers(hub, Pods(api, f"{PREFIX}-{user}"))


def test_with_the_rights_of_the_docs_each_users_servers_run_in_a_namespace_of_their_own(
    cluster: Cluster, api: ApiClient, kubeconfig: Path
) -> None:
    with granted(api, is_whole=True), Hub(cluster, settings(cluster), kubeconfig=kubeconfig) as hub:
        ada, bob = (servers_of(hub, api, user) for user in ("ada", "bob"))
        with ada.running({"ada": CHOICE}), bob.running({"bob": CHOICE}):
            nodes = [ada.pods.of("ada").spec.node_name, bob.pods.of("bob").spec.node_name]
            claims = ada.pods.claims(), bob.pods.claims()
            over = hub.client.start_server("ada", {**CHOICE, "gpu_count": 2}, name="second")
            hub.restart()
            ada.wait_ready("ada")
            over_after_restart = hub.client.start_server("ada", {**CHOICE, "gpu_count": 2}, name="third")
        # The one GPU that this hub allows a user is not the one that they have of another hub.
        two_hubs = servers_of(hub, api, "two-hubs")
        with other_hubs_server(api, "two-hubs"), two_hubs.running({"two-hubs": CHOICE}):
            pass
        hub.client.request("DELETE", "/users/ada")
        wait_for(lambda: not ada.pods.claims(), "no claim of a user who is gone")
        requests = requests_of(cluster, NAMESPACE)

    assert nodes == [cluster.real_node] * 2
    assert claims == ({"ada"}, {"bob"})
    assert [(each.status, "may have 2" in each.message) for each in (over, over_after_restart)] == [(403, True)] * 2
    allowed = uses_of(parse_shipped_rights(ROLES)) | uses_of(
        each for each in read_shipped_rights() if not each.is_namespaced
    )
    assert [each for each in requests if not each.is_allowed] == []
    asked = {each.use._replace(is_namespaced=False) for each in requests if each.use}
    assert {use for use in asked if use.api_group != "authorization.k8s.io"} <= allowed


@contextmanager
def other_hubs_server(api: ApiClient, user: str) -> Iterator[None]:
    """Have a pod as another hub makes it for a user of the same name."""
    core, namespace = CoreV1Api(api), f"other-{user}"
    core.create_namespace({"metadata": {"name": namespace}})
    metadata = {
        "name": f"jupyter-{user}",
        "labels": {"component": "singleuser-server"},
        "annotations": {"hub.jupyter.org/username": user, "hub.jupyter.org/servername": "other"},
    }
    container = {"name": "notebook", "image": "x", "resources": {"limits": {WHOLE_CARD.resource: "1"}}}
    nowhere = {"containers": [container], "nodeSelector": {"gpuspawner.jupyter.org/nowhere": "yes"}}
    core.create_namespaced_pod(namespace, {"metadata": metadata, "spec": nowhere})
    try:
        yield
    finally:
        core.delete_namespace(namespace)


def test_with_the_rights_of_one_namespace_a_start_says_what_is_missing_and_the_hub_lives_on(
    cluster: Cluster, api: ApiClient, kubeconfig: Path
) -> None:
    with granted(api, is_whole=False), Hub(cluster, settings(cluster), kubeconfig=kubeconfig) as hub:
        # Limits take the pods of servers, which this hub may not read.
        offered = list(visit(hub.url, "ada").get("/hub/spawn").offered())
        servers = servers_of(hub, api, "ada")
        uncounted, unmade = servers.ask("ada", CHOICE), servers.ask("ada", {"gpu": None})
        failure = hub.failure()

    assert WHOLE_CARD.slug in offered
    assert (uncounted.status, "It is not known at the moment" in uncounted.message) == (503, True)
    refused = 'cannot create resource "namespaces" in API group "" at the cluster scope'
    assert (unmade.status, refused in unmade.message) == (503, True), unmade.message
    assert failure == ""
