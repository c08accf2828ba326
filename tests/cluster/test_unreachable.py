"""The API server is down: the form stays, and a spawn fails with one sentence.

If only an answer of the API server is lost, the start goes on with the pod that it has created.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from tests.cluster.support.pages import Page, Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.relay import Relay, changed
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "unreachable"
CREATED_BY = "gpuspawner.jupyter.org/created-by-start"
LONGEST_SENTENCE = 300


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, api: ApiClient) -> Path:
    ensure_namespace(api, NAMESPACE)
    apply_rbac(api, NAMESPACE)
    return cluster.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


def settings(cluster: Cluster) -> HubSettings:
    # Named types: with none discovered there would be nothing whose capacity could be unknown.
    card = {
        "display_name": "Card",
        "resource": "nvidia.com/gpu",
        "match": {"nvidia.com/gpu.product": [WHOLE_CARD.match["nvidia.com/gpu.product"][0]]},
        "max_count": 4,
    }
    return HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, gpus={"card": card}),
        # KubeSpawner tries again for this long; by default longer than a test should take.
        extra={"KubeSpawner": {"k8s_api_request_retry_timeout": 3}},
    )


@pytest.fixture(scope="module")
def relay(cluster: Cluster) -> Iterator[Relay]:
    server = urlsplit(cluster.server)
    relay = Relay(str(server.hostname), int(server.port or 443))
    yield relay
    relay.end()


@pytest.fixture(scope="module")
def relayed(
    cluster: Cluster, api: ApiClient, kubeconfig: Path, relay: Relay, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """A hub whose way to the API server can be closed."""
    folder = tmp_path_factory.mktemp("relayed")
    config = changed(kubeconfig, folder / "kubeconfig", server=f"https://{cluster.gateway}:{relay.port}")
    with Hub(cluster, settings(cluster), kubeconfig=config, run_dir=folder) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


def form(servers: Servers, user: str) -> Page:
    visitor = Visitor(servers.hub.url)
    visitor.log_in(user)
    return visitor.get("/hub/spawn")


def assert_capacity_unknown(page: Page) -> None:
    card = page.offered()["card"]
    assert (page.status, card["total"], card["free"]) == (200, None, None)
    assert "unknown" in page.text


def assert_fails_with_one_sentence(servers: Servers, user: str) -> None:
    answer = servers.ask(user, {"gpu": "card"})
    assert answer.status != 500, answer
    sentence = answer.message or servers.wait_told(user, "failed")
    assert "Kubernetes" in sentence
    assert "Traceback" not in sentence
    assert len(sentence) < LONGEST_SENTENCE


def test_the_form_says_that_capacity_is_unknown_when_the_api_server_is_down(relayed: Servers, relay: Relay) -> None:
    relay.close()

    assert_capacity_unknown(form(relayed, "reader"))


def test_a_spawn_fails_with_one_sentence_when_the_api_server_is_down(relayed: Servers, relay: Relay) -> None:
    relay.close()

    assert_fails_with_one_sentence(relayed, "starter")


def test_the_form_counts_again_once_the_api_server_is_back(relayed: Servers, relay: Relay) -> None:
    relay.open()

    wait_for(lambda: form(relayed, "reader").offered()["card"]["total"] == 4, "the count of GPUs on the form")


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
    hasty = replace(settings(cluster), extra={"KubeSpawner": {"k8s_api_request_timeout": 1}})
    relay.open()
    with (
        Hub(cluster, hasty, kubeconfig=config, run_dir=tmp_path) as hub,
        webhook.asked(cluster, api, tmp_path, namespace=NAMESPACE, review=hold_answer),
    ):
        servers = Servers(hub, Pods(api, NAMESPACE))
        servers.begin("unheard", {"gpu": "card"})
        created = wait_for(lambda: servers.pods.find("unheard"), "the pod")
        # The hub gives up the connection on which it gets no answer, and asks again on another one.
        wait_for(lambda: relay.accepted > accepted[0], "the hub to ask again")
        relay.release_answers()
        servers.wait_ready("unheard")

        assert servers.pods.of("unheard").metadata.uid == created.metadata.uid
        servers.stop("unheard")
