"""The main journey, form to GPU, on the oldest and the newest JupyterHub and KubeSpawner that are supported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import CHECKOUT, Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

PAIRS = {
    "newest": ("6.1", Path(sys.executable)),
    "oldest": ("5.5", CHECKOUT / ".venv-hub5" / "bin" / "python"),
}


@pytest.mark.parametrize(("version", "python"), PAIRS.values(), ids=PAIRS)
def test_a_choice_in_the_form_becomes_a_server_that_holds_the_gpus(
    cluster: Cluster, api: ApiClient, version: str, python: Path
) -> None:
    namespace = f"pair-{version.replace('.', '-')}"
    settings = HubSettings(namespace=namespace, gpuspawner=offer(cluster), python=python)
    with Hub(cluster, settings) as hub:
        servers = Servers(hub, Pods(api, namespace))
        visitor = visit(hub.url, "ada")
        fields = visitor.get("/hub/spawn").fields()

        try:
            visitor.post("/hub/spawn/ada", {**fields, "gpu": WHOLE_CARD.slug, "gpu_count": "2"})
            servers.wait_ready("ada")

            # Through the hub's login, the proxy and OAuth to the server's own page.
            page = wait_for(lambda: visitor.get("/user/ada/lab"), "JupyterLab's page")

            assert servers.pods.gpus_listed("ada") == 2
            assert "JupyterLab" in str(page.soup.title)
            assert hub.client.request("GET", "/").body["version"].startswith(version)
        finally:
            servers.stop("ada")
