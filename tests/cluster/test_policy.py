"""No limit is ever exceeded, counted from the API server's own pods, and each refusal says which one it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_client import Answer
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import KINDS
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import USER_ANNOTATION, Pods
from tests.cluster.support.waiting import wait_for
from tests.cluster.test_pairs import PAIRS

CARD = KINDS["V100"]
POLICY = {
    "default": {"gpus": [CARD.slug], "max_gpus": 4, "max_runtime": "8h"},
    "groups": {"Big": {"max_gpus": 6}, "probation": {"deny": True, "max_gpus": 1}},
}
POOLS = {
    "physics": {"groups": ["PHYSICS", "astro"], "gpus": [CARD.slug], "max_gpus": 3, "display_name": "Physics"},
}
GROUPS = {"big": ["bea"], "Probation": ["pat"], "physics": ["phil", "phoebe"], "astro": ["asta"]}
TABS = 20


def options(count: int = 1, **more: object) -> dict[str, object]:
    return {"image": "lab", "cpu": 0.5, "memory": "512M", "gpu": CARD.slug, "gpu_count": count, **more}


class Site:
    """A hub with a policy, and the pods that it made."""

    def __init__(self, hub: Hub, api: ApiClient) -> None:
        self.hub = hub
        self.api = api
        self.pods = Pods(api, hub.settings.namespace)

    def ask(self, user: str, name: str = "", *, count: int = 1, **more: object) -> Answer:
        return self.hub.client.start_server(user, options(count, **more), name=name)

    def ask_at_once(self, user: str, names: Iterable[str]) -> list[Answer]:
        """Ask for several servers of one person in the same moment, as that many tabs would."""
        names = list(names)
        with ThreadPoolExecutor(len(names)) as tabs:
            return list(tabs.map(lambda name: self.ask(user, name), names))

    def gpus(self) -> dict[str, int]:
        """Return how many GPUs the pods of each user ask for, as the API server has them."""
        held: Counter[str] = Counter()
        for pod in self.pods.all():
            limits = pod.spec.containers[0].resources.limits
            held[pod.metadata.annotations[USER_ANNOTATION]] += int(limits.get(CARD.resource, 0))
        return dict(held)

    def wait_gpus(self, user: str, number: int) -> None:
        wait_for(lambda: self.gpus().get(user, 0) == number, f"{number} GPUs of {user}")

    def clear(self) -> None:
        CoreV1Api(self.api).delete_collection_namespaced_pod(self.pods.namespace, grace_period_seconds=0)
        wait_for(lambda: not self.pods.all(), "no pods")


@pytest.fixture(scope="module", params=PAIRS.values(), ids=PAIRS)
def ruled_hub(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Hub]:
    version, python = request.param
    settings = HubSettings(
        namespace=f"policy-{version.replace('.', '-')}",
        gpuspawner=offer(cluster, policy=POLICY, pools=POOLS),
        python=Path(python),
        admin_users=["root"],
        extra={
            "JupyterHub": {
                "load_groups": {name: {"users": users} for name, users in GROUPS.items()},
                # Long enough for twenty refusals to be in the answers themselves.
                "tornado_settings": {"slow_spawn_timeout": 6},
            },
            # No program answers in these pods, and five failures would end the hub.
            "Spawner": {"http_timeout": 900, "start_timeout": 900, "consecutive_failure_limit": 5},
        },
    )
    with Hub(cluster, settings) as hub:
        for user in ("tess", "rita", "dana", "quinn", "carl"):
            hub.client.create_user(user)
        yield hub


@pytest.fixture
def site(ruled_hub: Hub, api: ApiClient) -> Iterator[Site]:
    site = Site(ruled_hub, api)
    yield site
    site.clear()


def told(answers: Iterable[Answer]) -> Counter[int]:
    return Counter(200 if answer.status in {201, 202} else answer.status for answer in answers)


def test_twenty_tabs_get_as_many_servers_as_the_limit_has(site: Site) -> None:
    answers = site.ask_at_once("tess", [f"tab-{number}" for number in range(TABS)])

    assert told(answers) == {200: 4, 403: TABS - 4}
    refused = {answer.message.partition(" by your server")[0] for answer in answers if answer.status == 403}
    assert refused == {"gpu: You may have 4 GPUs at a time. 4 are in use"}
    site.wait_gpus("tess", 4)
    assert {pod.spec.active_deadline_seconds for pod in site.pods.all()} == {8 * 60 * 60}
    assert site.ask("tess", "one-more").status == 403
    assert site.gpus() == {"tess": 4}


def test_an_admin_who_starts_a_server_for_a_user_has_that_users_limits(site: Site) -> None:
    root = visit(site.hub.url, "root")
    fields = {**root.get("/hub/spawn/pat/by-root").fields(), "gpu": CARD.slug}

    refused = root.post("/hub/spawn/pat/by-root", {**fields, "gpu_count": "2"})

    assert refused.status == 403
    assert "You may have 1 GPU at a time." in refused.text
    assert site.gpus() == {}


def test_stored_options_are_checked_against_the_limits_of_now(site: Site) -> None:
    assert site.ask("dana", count=4).status in {201, 202}
    site.wait_gpus("dana", 4)
    site.hub.client.stop_server("dana")
    site.wait_gpus("dana", 0)
    assert wait_for(lambda: site.ask("dana", "second").status in {201, 202}, "a second server", timeout_s=10)
    site.wait_gpus("dana", 1)

    # Without a body the hub takes what it stored of the last start.
    again = wait_for(lambda: _settled(site.hub.client.request("POST", "/users/dana/server")), "an answer")

    assert again.status == 403
    assert "You may have 4 GPUs at a time. 1 is in use by your server second." in again.message
    assert site.gpus() == {"dana": 1}


def _settled(answer: Answer) -> Answer | None:
    """Return an answer unless the hub is still stopping the server."""
    return None if answer.status == 400 else answer


def test_after_a_restart_of_the_hub_the_first_request_is_counted_right(site: Site) -> None:
    site.ask_at_once("rita", ["a", "b"])
    site.wait_gpus("rita", 2)

    site.hub.restart()
    answers = site.ask_at_once("rita", [f"later-{number}" for number in range(10)])

    assert told(answers) == {200: 2, 403: 8}
    site.wait_gpus("rita", 4)
    assert site.gpus() == {"rita": 4}


def test_a_namespaces_quota_is_the_tighter_limit(site: Site) -> None:
    with quota(site, {f"requests.{CARD.resource}": "2"}):
        visitor = visit(site.hub.url, "quinn")
        refused = wait_for(lambda: _refused(site.ask("quinn", "big", count=3)), "the quota noticed")
        assert refused.message == "gpu_count: The cluster's quota leaves 2 GPUs for one more server."

        assert site.ask("quinn", "small", count=2).status in {201, 202}
        site.wait_gpus("quinn", 2)

        # For three seconds it may be Kubernetes that refuses, then it is known before.
        wait_for(lambda: _refused(site.ask("carl", "none-left")), "nothing left")
        assert site.gpus() == {"quinn": 2}
        assert "The cluster's quota leaves no GPU for one more server." in visitor.get("/hub/spawn/quinn/third").text


def _refused(answer: Answer) -> Answer | None:
    return answer if answer.status == 403 else None


@contextmanager
def quota(site: Site, hard: dict[str, Any]) -> Iterator[None]:
    """Have a ResourceQuota in the namespace, as soon as Kubernetes has counted what is in use."""
    core, namespace = CoreV1Api(site.api), site.pods.namespace
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    try:
        wait_for(lambda: core.read_namespaced_resource_quota("gpus", namespace).status.used, "the quota counted")
        yield
    finally:
        core.delete_namespaced_resource_quota("gpus", namespace)
