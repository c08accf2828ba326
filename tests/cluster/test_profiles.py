"""A hub's untouched profile_list: KubeSpawner's pods, and gpuspawner's cards, policy and care for the servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.test_metrics import scraped

NAMESPACE = "profiles"
CARD = WHOLE_CARD.slug
OWN = "gpuspawner.jupyter.org/"


def ask_for(number: int) -> dict[str, Any]:
    """Return the override of a profile with GPUs, as an admin writes it."""
    return {
        "extra_resource_limits": {"nvidia.com/gpu": str(number)},
        "node_selector": {key: values[0] for key, values in WHOLE_CARD.match.items()},
    }


@pytest.fixture(scope="module")
def servers(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    too_large = {"mem_guarantee": "900G", "node_selector": {"kubernetes.io/hostname": cluster.real_node}}
    profiles = [
        {"display_name": "Plain", "slug": "plain", "default": True},
        {"display_name": "One GPU", "slug": "one", "kubespawner_override": ask_for(1)},
        {"display_name": "All GPUs", "slug": "all", "kubespawner_override": ask_for(4)},
        {"display_name": "Too large", "slug": "large", "kubespawner_override": too_large},
    ]
    extra = {
        "JupyterHub": {"authenticate_prometheus": False},
        "KubeSpawner": {"profile_list": profiles},
    }
    with Hub(cluster, HubSettings(namespace=NAMESPACE, extra=extra)) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


@pytest.mark.smoke
def test_a_profile_waits_for_its_gpus_and_says_so_and_starts_when_they_are_free(servers: Servers) -> None:
    with servers.running({"first": {"profile": "one"}}), servers.asked("second", {"profile": "all"}):
        told = servers.wait_told("second", "Insufficient nvidia.com/gpu")
        url = servers.hub.url
        waiting = visit(url, "second").get("/hub/spawn-pending/second").text
        home = visit(url, "first").get("/hub/home").text
        held = scraped(servers.hub)

        servers.stop("first")
        servers.wait_ready("second")
        pod = servers.pods.of("second")

    assert "Waiting for 4 × A100 40 GB: only 3 of 4 are free." in told
    assert "Waiting for 4 × A100 40 GB" in waiting
    assert "One GPU · 1 × A100 40 GB" in home
    assert held[f'gpus{{gpu="{CARD}",state="held"}}'] == 1
    assert held[f'gpus{{gpu="{CARD}",state="requested"}}'] == 4
    assert pod.spec.containers[0].resources.limits == {"nvidia.com/gpu": "4"}
    noted = {key.removeprefix(OWN): value for key, value in pod.metadata.annotations.items() if key.startswith(OWN)}
    del noted["created-by-start"]
    assert noted == {"summary": "All GPUs · 4 × A100 40 GB", "gpu": CARD, "gpu-name": "A100 40 GB", "gpu-count": "4"}


@pytest.mark.smoke
def test_the_cards_say_what_each_profile_gives_and_when_it_starts(servers: Servers) -> None:
    with servers.running({"holder": {"profile": "one"}}):
        page = visit(servers.hub.url, "reader").get("/hub/spawn")

    assert page.cards() == {
        "plain": page.cards()["plain"],
        "one": "Starts now: room for 3 like this.",
        "all": "Will wait: only 3 of 4 are free. You'd be next in line.",
        "large": page.cards()["large"],
    }
    assert page.cards()["plain"].startswith("Starts now")
    assert "no node has 900 GiB of memory" in page.cards()["large"]
    assert "All GPUs 4 × A100 40 GB" in page.text
