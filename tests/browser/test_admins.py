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
from tests.cluster.support.pages import Visitor, visit

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
    return visit(hub.url, name)


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
