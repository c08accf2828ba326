"""Names that try to be more than names: what users and administrators write is shown and never run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.person import Person
from tests.cluster.support.fixtures import offer
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

ATTACK = (
    "</script></style><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"'{username}{{7*7}}${8}"
)
USER = "o'\"&<img src=x onerror=window.hacked=1>{username}{{7*7}}"


@pytest.fixture(scope="module")
def hostile_hub(cluster: Cluster) -> Iterator[Hub]:
    """Run a hub whose administrator writes attacks wherever text can be written."""
    card = {
        "display_name": f"GPU {ATTACK}",
        "description": ATTACK,
        "note": ATTACK,
        "resource": "nvidia.com/gpu",
        "match": {"nvidia.com/gpu.product": ["NVIDIA-A100-SXM4-40GB"]},
        "max_count": 4,
    }
    image = {"display_name": f"Image {ATTACK}", "description": ATTACK, "image": cluster.notebook_image}
    preset = {"display_name": f"Preset {ATTACK}", "description": ATTACK, "cpu": 1}
    settings = HubSettings(
        namespace="hostile",
        gpuspawner=offer(cluster, images={"hostile": image}, gpus={"hostile": card}, presets={"hostile": preset}),
    )
    with Hub(cluster, settings) as running:
        yield running


@pytest.fixture
def victim(page: Page, hostile_hub: Hub) -> Person:
    return Person(page, hostile_hub.url, "any password")


async def assert_inert(page: Page) -> None:
    assert await page.evaluate("window.hacked") is None
    assert await page.locator("img[src=x]").count() == 0


async def test_display_names_are_shown_as_they_were_written(victim: Person) -> None:
    await victim.log_in("reader")

    for kind in ("GPU", "Image", "Preset"):
        await expect(victim.page.get_by_text(f"{kind} {ATTACK}").first).to_be_visible()
    await victim.pick("gpu", "hostile")
    await expect(victim.page.locator("#gpuspawner-sentence")).to_contain_text(f"GPU {ATTACK}")
    await assert_inert(victim.page)


async def test_text_typed_into_a_field_comes_back_as_text(victim: Person) -> None:
    await victim.log_in("reader")
    await victim.field("memory").fill(ATTACK)
    await victim.send_unchecked()

    await expect(victim.page.locator("#gpuspawner-memory-error")).to_be_visible()
    await expect(victim.field("memory")).to_have_value(ATTACK)
    await assert_inert(victim.page)


async def test_a_hostile_user_name_starts_a_server_like_any_other(
    victim: Person, api: ApiClient, hostile_hub: Hub
) -> None:
    servers = Servers(hostile_hub, Pods(api, hostile_hub.settings.namespace))
    try:
        await victim.log_in(USER)
        await assert_inert(victim.page)
        await victim.pick("gpu", "hostile")
        await victim.start()
        await victim.page.wait_for_url("**/hub/spawn-pending/**")
        await assert_inert(victim.page)

        servers.wait_ready(USER)
        pod = servers.pods.of(USER)

        assert pod.spec.containers[0].resources.limits["nvidia.com/gpu"] == "1"
        assert pod.metadata.annotations["hub.jupyter.org/username"] == USER
    finally:
        servers.stop(USER)


async def test_the_home_page_of_a_hostile_user_is_inert(victim: Person) -> None:
    await victim.log_in(USER)
    await victim.page.goto(f"{victim.url}/hub/home")

    await expect(victim.page.get_by_text(USER).first).to_be_visible()
    await assert_inert(victim.page)
