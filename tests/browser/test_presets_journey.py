"""A person on a hub that offers presets only: what is picked in a card is what runs, and what comes back next time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.person import START_TIMEOUT_MS, Person
from tests.cluster.support.fixtures import offer
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

COURSE = {
    "display_name": "Course",
    "image": "lab",
    "cpu": 0.5,
    "cpu_guarantee": 0.05,
    "memory_guarantee": "64M",
    "kubespawner_override": {"environment": {"COURSE": "physics"}},
    "choices": {
        "size": {
            "display_name": "Size",
            "entries": {
                "small": {"order": 1, "display_name": "512 MiB", "memory": "512M"},
                "large": {"order": 2, "display_name": "1 GiB", "memory": "1G"},
                "huge": {"order": 3, "display_name": "9 TiB", "memory": "9T", "memory_guarantee": "9T"},
            },
        }
    },
}
STAFF = {"display_name": "Staff", "order": 2, "cpu": 1, "memory": "1G", "allowed_users": ["grace"]}


@pytest.fixture
def presets(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    offered = {**offer(cluster), "only_presets": True, "presets": {"course": COURSE, "staff": STAFF}}
    settings = HubSettings(namespace="presets-only", gpuspawner=offered)
    with Hub(cluster, settings) as hub:
        yield Servers(hub, Pods(api, settings.namespace))


async def test_the_choice_in_a_card_runs_and_is_there_next_time(presets: Servers, page: Page) -> None:
    person = Person(page, presets.hub.url, "any password")
    await person.log_in("ada", customise=False)
    card = page.locator(".gs-fixed[data-preset=course]")
    await expect(page.get_by_role("button", name="Start Staff")).to_be_disabled()
    await expect(card.locator(".gs-outlook")).to_contain_text("Starts now")
    await card.get_by_label("Size").select_option("huge")
    await expect(card.locator(".gs-outlook")).to_have_attribute("data-outcome", "never")
    await card.get_by_label("Size").select_option("large")
    await expect(card.locator(".gs-outlook")).to_contain_text("Starts now")
    await expect(card.locator(".gs-holds")).to_contain_text("1 GiB")

    await page.get_by_role("button", name="Start Course").click()
    # The server may be there before the page about its start.
    await page.wait_for_url(re.compile("/spawn-pending/|/user/"), wait_until="commit")

    (container,) = presets.pods.of("ada").spec.containers
    assert container.resources.limits["memory"] == str(1024**3)
    assert {each.name: each.value for each in container.env}["COURSE"] == "physics"
    await page.wait_for_url("**/user/ada/**", timeout=START_TIMEOUT_MS)  # a canceled start is no last choice
    presets.stop("ada")
    await page.goto(f"{presets.hub.url}/hub/spawn")
    await expect(card.locator(".gs-last")).to_have_text("Last time")
    await expect(card.get_by_label("Size")).to_have_value("large")
