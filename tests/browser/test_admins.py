"""Problems of GPUs: the hub's admins see them in the form and in the log, and other users do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.person import Person
from tests.browser.support.pictures import shoot
from tests.cluster.support.fixtures import offer
from tests.cluster.support.pages import Visitor
from tests.cluster.support.waiting import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADMIN, USER = "boss", "ada"
FOLD_OUT = "#gpuspawner-admin"
NODES = ("mixed-models-1", "mig-invalid-1")


@pytest.fixture(scope="module")
def admins_hub(cluster: Cluster) -> Iterator[Hub]:
    settings = HubSettings(namespace="admins", gpuspawner=offer(cluster), admin_users=(ADMIN,))
    with Hub(cluster, settings) as running:
        yield running


@pytest.fixture
def admin(page: Page, admins_hub: Hub) -> Person:
    return Person(page, admins_hub.url, "any password")


def visitor(hub: Hub, name: str) -> Visitor:
    visiting = Visitor(hub.url)
    visiting.log_in(name)
    return visiting


@pytest.mark.window(viewport={"width": 1000, "height": 520})
async def test_an_admin_unfolds_it_with_the_keyboard(admin: Person, tmp_path: Path) -> None:
    await admin.log_in(ADMIN)
    summary = admin.page.locator(f"{FOLD_OUT} summary")
    lines = admin.page.locator(f"{FOLD_OUT} li")

    await expect(summary).to_have_text("For admins: GPUs of 2 nodes are not offered or do not work")
    await expect(lines.first).to_be_hidden()
    await admin.tab_to(f"{FOLD_OUT} summary")
    await admin.page.keyboard.press("Enter")

    await expect(lines.first).to_be_visible()
    starts = [" ".join((await line.inner_text()).split(" ")[:6]) for line in await lines.all()]
    assert starts == [
        "mig-invalid-1: No GPU is offered: the",
        "mixed-models-1: nvidia.com/gpu is not offered: the",
    ]
    await admin.page.locator(FOLD_OUT).evaluate(
        "(list) => list.scrollIntoView({ block: 'center', behavior: 'instant' })"
    )
    await shoot(admin.page, "admin-notes", tmp_path)


@pytest.mark.window(viewport={"width": 320, "height": 700}, color_scheme="dark")
async def test_a_narrow_window_needs_no_sideways_scrolling_to_read_it(admin: Person) -> None:
    await admin.log_in(ADMIN)
    await admin.page.locator(f"{FOLD_OUT} summary").click()

    await expect(admin.page.locator(f"{FOLD_OUT} li").first).to_be_visible()
    assert await admin.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_only_an_admin_sees_it_for_any_users_server(admins_hub: Hub) -> None:
    user, boss = visitor(admins_hub, USER), visitor(admins_hub, ADMIN)
    for page in (boss.get("/hub/spawn"), boss.get(f"/hub/spawn/{USER}")):
        assert all(name in page.text for name in NODES)
        assert not any(name in str(page.island()) for name in NODES)

    # The spawner still holds the admin's request.
    seen = [user.post("/hub/spawn", {"image": "lab", "cpu": "lots"}), user.get("/hub/spawn")]
    assert [page.status for page in seen] == [400, 200]
    assert not any(name in str(page.soup) for page in seen for name in NODES)


async def test_the_hubs_log_tells_each_once(admins_hub: Hub) -> None:
    user = visitor(admins_hub, USER)
    user.get("/hub/spawn")

    def told() -> list[int]:
        text = admins_hub.log.read_text()
        return [text.count(f"GPUs on {name}: ") for name in NODES]

    wait_for(lambda: all(told()), "warnings in the hub's log")
    user.get("/hub/spawn")
    assert told() == [1, 1]
