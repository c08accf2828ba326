"""Starts that are watched from the first moment, on a hub whose servers may have their image from a test's registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from bs4 import BeautifulSoup

from devcluster import Cluster
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.registry import Registry
from tests.cluster.support.servers import Servers
from tests.cluster.support.told import Told, listening
from tests.cluster.support.waiting import wait_for

CARD: Mapping[str, Any] = {"gpu": WHOLE_CARD.slug, "gpu_count": 1, "cpu": 0.5, "memory": "512M"}
"""A choice that only the node that runs pods can take."""
CARD_NAME = "A100 40 GB"


def settings(cluster: Cluster, registry: Registry, *, namespace: str, **kubespawner: Any) -> HubSettings:
    """Return the settings of a hub of a test module's own.

    :param kubespawner: for KubeSpawner, besides the usual ones.
    """
    return HubSettings(
        namespace=namespace,
        gpuspawner=offer(
            cluster,
            memory={"min": "16M", "max": "8G", "step": "16M", "default": "1G", "guarantee": 0.05},
            custom_images={"allowed": True, "registries": [registry.address]},
        ),
        extra={"KubeSpawner": {"image_pull_policy": "IfNotPresent", **kubespawner}},
    )


@contextmanager
def starting(servers: Servers, user: str, options: Mapping[str, object]) -> Iterator[Told]:
    """Have a user's server starting, and a page open on it, inside the block; nothing is left of it afterwards."""
    with servers.asked(user, options), listening(servers.hub, user) as told:
        yield told


def ends_with(servers: Servers, user: str, told: Told, *sentences: str, within_s: float = 60) -> dict[str, Any]:
    """Wait until a start is given up for this reason, see that nothing is left of it, and return the last event.

    :param sentences: any of them tells the reason.
    """
    last = told.wait_over(timeout_s=within_s)
    found = any(sentence in last["message"] for sentence in sentences)
    assert (last.get("failed"), found) == (True, True), told.sentences
    servers.pods.wait_gone(user)
    wait_for(lambda: not servers.state(user).get("pending"), f"the hub done with the server of {user}", timeout_s=10)
    return last


def links(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the links of an event's HTML: what each says, and where on the hub it leads."""
    soup = BeautifulSoup(str(event.get("html_message", "")), "html.parser")
    return {link.get_text(): urlsplit(str(link["href"])).geturl() for link in soup.select("a[href]")}
