"""An answer of the API server is lost: the start goes on with the pod that the API server has created."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply_rbac, ensure_namespace
from tests.cluster.support import webhook
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.relay import Relay, changed
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "lost-answer"
CREATED_BY = "gpuspawner.jupyter.org/created-by-start"


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, api: ApiClient) -> Path:
    ensure_namespace(api, NAMESPACE)
    apply_rbac(api, NAMESPACE)
    return cluster.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


@pytest.fixture(scope="module")
def relay(cluster: Cluster) -> Iterator[Relay]:
    server = urlsplit(cluster.server)
    relay = Relay(str(server.hostname), int(server.port or 443))
    yield relay
    relay.end()


def test_a_start_keeps_its_pod_when_the_answer_to_its_request_is_lost(
    cluster: Cluster, api: ApiClient, kubeconfig: Path, relay: Relay, tmp_path: Path
) -> None:
    def hold_answer(pod: dict[str, Any]) -> dict[str, Any]:
        """Let the pod in, and hold the API server's answer back if the start itself, no dry run, has sent the pod."""
        if pod["metadata"]["name"] == "probe":
            return webhook.gate(pod)
        if CREATED_BY in pod["metadata"].get("annotations", {}) and not accepted:
            accepted.append(relay.accepted)
            relay.hold_answers()
        return {"allowed": True}

    accepted: list[int] = []
    config = changed(kubeconfig, tmp_path / "kubeconfig", server=f"https://{cluster.gateway}:{relay.port}")
    hasty = HubSettings(
        namespace=NAMESPACE, gpuspawner=offer(cluster), extra={"KubeSpawner": {"k8s_api_request_timeout": 1}}
    )
    with (
        Hub(cluster, hasty, kubeconfig=config, run_dir=tmp_path) as hub,
        webhook.asked(cluster, api, tmp_path, namespace=NAMESPACE, review=hold_answer),
    ):
        servers = Servers(hub, Pods(api, NAMESPACE))
        servers.begin("unheard", {"gpu": WHOLE_CARD.slug})
        created = wait_for(lambda: servers.pods.find("unheard"), "the pod")
        # The hub gives up the connection on which it gets no answer, and asks again on another one.
        wait_for(lambda: relay.accepted > accepted[0], "the hub to ask again")
        relay.release_answers()
        servers.wait_ready("unheard")

        assert servers.pods.of("unheard").metadata.uid == created.metadata.uid
        servers.stop("unheard")
