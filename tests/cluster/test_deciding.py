"""A start of which nothing will come ends soon, with the reason and what to choose instead, and is not counted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.own_pods import running_pod
from tests.cluster.support.pages import Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.starts import starting
from tests.cluster.support.told import Told
from tests.cluster.support.waiting import wait_for

T4 = {"nvidia.com/gpu.product": "Tesla-T4"}
SOON_S = 60
AT_ONCE_S = 8
"""JupyterHub itself waits for a second before it stops a server that starts."""


def card(product: str, **more: Any) -> dict[str, Any]:
    match = {"nvidia.com/gpu.product": [product]}
    return {"display_name": product, "resource": "nvidia.com/gpu", "match": match, "max_count": 4, **more}


@pytest.fixture(scope="module")
def impatient(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    """The servers of a hub that ends itself at the second failure in a row."""
    gpus = {
        "short": card("Tesla-T4", start_timeout=8),
        "long": card("Tesla-T4", start_timeout=300),
        "real": card("NVIDIA-A100-SXM4-40GB"),
    }
    custom = {"allowed": True, "registries": ["localhost"]}
    extra = {"Spawner": {"consecutive_failure_limit": 2}, "KubeSpawner": {"delete_grace_period": 20}}
    settings = HubSettings(
        namespace="deciding", gpuspawner=offer(cluster, gpus=gpus, custom_images=custom), extra=extra
    )
    with Hub(cluster, settings) as hub:
        yield Servers(hub, Pods(api, "deciding"))


@pytest.fixture(scope="module")
def no_t4_free(cluster: Cluster) -> Iterator[None]:
    with running_pod(cluster, "all-t4", limits={"nvidia.com/gpu": "4"}, where=T4):
        yield


@pytest.fixture(scope="module", autouse=True)
def typo(impatient: Servers) -> Iterator[Told]:
    """Have a user's image be missing, which takes Kubernetes a while to be sure of."""
    choice = {"custom_image": "localhost/no-such-image:1", "gpu": "real", "gpu_count": 1}
    with starting(impatient, "typo", choice) as heard:
        yield heard


def told(servers: Servers, user: str, *, name: str = "") -> list[dict[str, Any]]:
    """Return all that is said of a start until it has ended."""
    return list(servers.hub.client.progress(user, name=name))


def test_waiting_for_room_ends_with_the_type_s_own_timeout_and_is_not_counted(
    impatient: Servers, no_t4_free: None
) -> None:
    users = ("first", "second", "third")
    began = time.monotonic()
    for user in users:
        impatient.begin(user, {"gpu": "short", "gpu_count": 1})

    with ThreadPoolExecutor(len(users)) as pages:
        heard = list(pages.map(lambda user: told(impatient, user), users))

    assert time.monotonic() - began < SOON_S
    for user, said in zip(users, heard, strict=True):
        assert "No room for your server with Tesla-T4 opened up within 8 seconds" in said[-1]["message"]
        sentences = [each["message"] for each in said if "message" in each]
        assert any("Gives up in less than a minute." in sentence for sentence in sentences)
        percents = [each["progress"] for each in said if "progress" in each]
        assert percents == sorted(percents)
        impatient.pods.wait_gone(user)
    # The third failure in a row would have ended the hub.
    with impatient.asked("fourth", {"gpu": "real", "gpu_count": 1}):
        impatient.wait_ready("fourth")


def test_a_named_server_that_waits_is_cancelled_at_once_and_alone(impatient: Servers, no_t4_free: None) -> None:
    client = impatient.hub.client
    with impatient.running({"juggler": {"gpu": "real", "gpu_count": 1}}):
        answer = client.start_server("juggler", {"gpu": "long", "gpu_count": 1}, name="lab")
        assert answer.status in {201, 202}, answer
        wait_for(lambda: len(names(impatient, "juggler")) == 2, "two pods")
        first = next(iter(client.progress("juggler", name="lab")))

        asked_at = time.monotonic()
        stopped = client.stop_server("juggler", name="lab")
        wait_for(lambda: len(names(impatient, "juggler")) == 1, "one pod", timeout_s=AT_ONCE_S)

        assert stopped.status in {202, 204}, stopped
        assert time.monotonic() - asked_at < AT_ONCE_S
        assert first["message"]
        assert impatient.state("juggler")["ready"] is True
        wait_for(lambda: not client.servers("juggler").get("lab", {}).get("pending"), "the named server at rest")


def test_the_page_of_a_named_server_stops_that_server(impatient: Servers, no_t4_free: None) -> None:
    client = impatient.hub.client
    client.create_user("clicker")
    client.start_server("clicker", {"gpu": "long", "gpu_count": 1}, name="lab")
    events = client.progress("clicker", name="lab")
    html = next(event["html_message"] for event in events if "html_message" in event)

    (address,) = re.findall(r'value="([^"]+)"', html)

    assert address == "/hub/api/users/clicker/servers/lab"
    assert client.request("DELETE", address.removeprefix("/hub/api")).status in {202, 204}
    impatient.pods.wait_gone("clicker", timeout_s=AT_ONCE_S)


def test_an_image_that_is_not_there_ends_the_start_with_other_images_to_fill_in(impatient: Servers, typo: Told) -> None:
    last = typo.wait_over()

    assert last["at"] < SOON_S
    assert last["failed"] is True
    assert "Try JupyterLab" in last["message"]
    impatient.pods.wait_gone("typo")
    visitor = Visitor(impatient.hub.url)
    visitor.log_in("typo")
    page = visitor.get("/hub/spawn-pending/typo")
    links = [str(link["href"]) for link in page.soup.select("a[href*=fill-]")]
    assert (page.status, len(links)) == (409, 2)
    assert links[0].startswith("/hub/spawn/typo?fill-image=lab&")
    form = visitor.get(links[0])
    assert (form.status, form.fields()["image"], form.fields()["custom_image"]) == (200, "lab", "")
    assert impatient.state("typo").get("pending") is None
    assert impatient.pods.find("typo") is None


def names(servers: Servers, user: str) -> set[str]:
    """Return the names of all pods of a user."""
    annotation = "hub.jupyter.org/username"
    return {pod.metadata.name for pod in servers.pods.all() if pod.metadata.annotations.get(annotation) == user}
