"""Users' limits on a real hub: the form offers each user what the gate lets through, and says why of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import ApiClient, CoreV1Api
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.back import is_marked, mark, open_browser
from tests.browser.support.person import Person
from tests.browser.support.pictures import MOST_BYTES, shoot
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import KINDS

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMESPACE = "limits"
ADMIN = "boss"
# A user who may start nothing.
BLOCKED = "bob"
CARD, OTHER, THEIRS = KINDS["V100"].slug, KINDS["T4"].slug, KINDS["H100"].slug
POLICY = {
    "default": {
        "images": ["lab", "plain"],
        "gpus": {CARD: {}, OTHER: {"max_runtime": "4h"}},
        "max_gpus": 2,
        "cpu": {"max": 2},
    },
    "groups": {"Research": {"gpus": ["*"], "max_gpus": 4, "images": ["*"]}},
    "users": {BLOCKED: {"images": ["cuda13"], "deny": True}},
}
PRESETS = {
    "one": {"display_name": "One card", "image": "lab", "gpu": CARD, "gpu_count": 1},
    "large": {"display_name": "Large", "image": "lab", "gpu": THEIRS, "gpu_count": 1},
}
# The page asks every ten seconds.
NEWS_MS = 30_000
NOT_THEIRS = "You don't have access to "


@pytest.fixture(scope="module")
def limits_hub(cluster: Cluster, api: ApiClient) -> Iterator[Hub]:
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, policy=POLICY, presets=PRESETS),
        admin_users=[ADMIN],
        extra={
            "JupyterHub": {"load_groups": {"research": {"users": ["rosa"]}}},
            # No program answers in the pods of simulated nodes.
            "Spawner": {"http_timeout": 900, "start_timeout": 900},
        },
    )
    with Hub(cluster, settings) as running:
        yield running
        CoreV1Api(api).delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)


@pytest.fixture
def limited(page: Page, limits_hub: Hub) -> Person:
    return Person(page, limits_hub.url, "any password")


@pytest.mark.window(viewport={"width": 1000, "height": 1100}, color_scheme="light")
async def test_each_user_sees_their_own_choices_and_why_the_rest_is_not_theirs(limited: Person, tmp_path: Path) -> None:
    await limited.log_in("ada")

    await expect(limited.choice("gpu", CARD)).to_be_enabled()
    await expect(limited.choice("gpu", THEIRS)).to_be_disabled()
    await expect(limited.row("gpu", THEIRS).locator(".gs-reason")).to_contain_text(NOT_THEIRS)
    await expect(limited.choice("image", "cuda13")).to_be_disabled()
    await expect(limited.row("gpu", OTHER)).to_contain_text("up to 4 hours")
    await expect(limited.page.locator("#gpuspawner-in-use")).to_have_text("0 of 2 GPUs in use by you")
    await expect(limited.page.locator("#gpuspawner-cpu-help")).to_contain_text("0.5 to 2 cores")
    await expect(limited.page.get_by_role("button", name="One card")).to_be_enabled()
    await expect(limited.page.get_by_role("button", name="Large")).to_be_disabled()

    await limited.page.locator("#gpuspawner-gpus").scroll_into_view_if_needed()
    assert (await shoot(limited.page, "form-limits", tmp_path)).stat().st_size < MOST_BYTES


async def test_a_server_that_starts_elsewhere_fills_the_quota_in_the_open_page(
    limited: Person, limits_hub: Hub
) -> None:
    await limited.log_in("eve")
    await limited.pick("gpu", CARD)
    await limited.field("memory").fill("2")
    options = {"image": "lab", "cpu": 0.5, "memory": "512M", "gpu": CARD, "gpu_count": 2}
    assert limits_hub.client.start_server("eve", options, name="other").status in {201, 202}

    await expect(limited.page.locator("#gpuspawner-in-use")).to_have_text("2 of 2 GPUs in use by you", timeout=NEWS_MS)
    full = "You may have 2 GPUs at a time. 2 are in use by your server other. Stop it first."
    await expect(limited.page.locator("#gpuspawner-verdict-text")).to_have_text(full)
    await expect(limited.choice("gpu", CARD)).to_be_checked()
    await expect(limited.choice("gpu", OTHER)).to_be_disabled()
    await expect(limited.field("memory")).to_have_value("2")

    await limited.start()

    await expect(limited.page.locator("#gpuspawner-gpu-error")).to_contain_text(full)
    await expect(limited.field("memory")).to_have_value("2")

    limits_hub.client.stop_server("eve", name="other")
    await expect(limited.page.locator("#gpuspawner-in-use")).to_have_text("0 of 2 GPUs in use by you", timeout=NEWS_MS)
    await expect(limited.choice("gpu", OTHER)).to_be_enabled()


async def test_start_of_who_may_start_nothing_stays_disabled_after_back(limits_hub: Hub) -> None:
    async with open_browser() as context:
        person = Person(await context.new_page(), limits_hub.url, "any password")
        start = person.page.locator("#gpuspawner-summary .feedback-container button")
        await person.log_in(BLOCKED)
        await expect(person.page.locator("#gpuspawner-blocked")).to_contain_text("None of the images")
        await expect(start).to_be_disabled()
        await mark(person.page)
        await person.page.goto(f"{limits_hub.url}/hub/home")

        await person.page.evaluate("setTimeout(() => history.back())")

        await expect(start).to_be_visible()
        assert await is_marked(person.page)
        await expect(start).to_be_disabled()
