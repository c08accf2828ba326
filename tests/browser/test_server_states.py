"""The pages follow what the hub says of a server, also what it says for a moment only."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from devcluster.hub import Hub
from tests.browser.support.person import Person
from tests.browser.support.quick_hub import sign_in
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

BACK = "document.dispatchEvent(new Event('visibilitychange'))"
# The answer to the form when the user presses Start in another tab.
STARTED_ELSEWHERE = "user => dispatchEvent(new StorageEvent('storage', { key: `gpuspawner-started:/hub/${user}` }))"
SMALL = {"image": "jupyterlab-cpu", "cpu": 1, "memory": "1G", "gpu": None}
TAKEN = {"image": "jupyterlab", "cpu": 1, "memory": "1G", "gpu": "h100-80gb", "gpu_count": 1}
BUSY = "Your server is busy."


@pytest_asyncio.fixture(loop_scope="session")
async def signed_in(browser: Browser, quick_hub: Hub, user: str) -> AsyncIterator[Page]:
    """Open a window in which the person is signed in."""
    context = await browser.new_context(base_url=quick_hub.url)
    context.set_default_timeout(30_000)
    await sign_in(context, quick_hub.url, user)
    yield await context.new_page()
    await context.close()


@pytest.fixture
def user(request: pytest.FixtureRequest, quick_hub: Hub) -> str:
    """Make a person for this test alone."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))[:60].strip("-")
    quick_hub.client.create_user(name)
    return name


def start_button(page: Page) -> Locator:
    return page.locator("#gpuspawner-summary .feedback-container button")


async def test_a_server_that_is_first_started_in_another_tab_appears_on_the_home_page_and_can_be_stopped(
    person: Person, servers: Servers
) -> None:
    page, client = person.page, servers.hub.client
    note, lab = page.locator("#gpuspawner-stop-note"), page.locator("#gpuspawner-servers li[data-server=lab]")
    with servers.running({"edna": SMALL}):
        pass  # its choice is kept
    await person.log_in_to("/hub/home", "edna")
    await expect(page.locator("#gpuspawner-servers .gs-state")).to_have_text(["Not running"])
    await expect(note).to_be_hidden()
    client.start_server("edna", SMALL, name="lab")
    try:
        wait_for(lambda: client.servers("edna").get("lab", {}).get("ready"), "lab ready", timeout_s=120)
        await page.evaluate(BACK)
        await expect(lab.locator(".gs-state")).to_have_text("Running")
        await expect(lab.get_by_role("button", name="Stop and change lab")).to_be_visible()
        await expect(note).to_be_visible()
    finally:
        client.stop_server("edna", name="lab")
        wait_for(lambda: client.servers("edna").get("lab", {}).get("stopped", True), "lab stopped", timeout_s=120)


@pytest.mark.parametrize(("kind", "text"), [("check", BUSY), ("rename", BUSY), ("stop", "Your server is stopping.")])
async def test_the_form_rests_while_the_hub_is_busy_with_the_server_and_says_only_of_a_stop_that_it_stops(
    signed_in: Page, user: str, kind: str, text: str
) -> None:
    page = signed_in
    banner, button = page.locator(".gs-session"), start_button(page)

    async def answer(route: Route) -> None:
        me = await (await route.fetch()).json()
        server = {"ready": False, "pending": kind, "stopped": False, "url": "/"}
        await route.fulfill(json={**me, "servers": {"": server}})

    await page.goto("/hub/spawn")
    await expect(button).to_be_enabled()
    await page.route("**/hub/api/user", answer)
    await page.evaluate(STARTED_ELSEWHERE, user)
    await expect(banner).to_have_text(text)
    await expect(button).to_be_disabled()
    await page.unroute("**/hub/api/user")
    await page.evaluate(BACK)
    await expect(banner).to_have_text("")
    await expect(button).to_be_enabled()


async def test_the_admins_words_about_a_slow_start_stay_until_there_are_others(
    person: Person, servers: Servers
) -> None:
    page = person.page
    note, detail = page.locator("#gpuspawner-note"), page.locator("#gpuspawner-detail")
    told: list[list[dict[str, Any]]] = [
        [{"detail": "First.", "note": "Coffee?"}, {"detail": "Second."}],
        [{"detail": "Third."}, {"detail": "Fourth.", "note": "Tea?"}],
    ]

    async def answer(route: Route) -> None:
        if route.request.headers.get("accept") != "text/event-stream":  # the page only asks whether there are events
            await route.fulfill(content_type="text/event-stream", body="")
            return
        status = json.loads(await page.locator("#gpuspawner-data").inner_text())["status"]
        events = [
            {"progress": 10, "message": each["detail"], "gpuspawner": {**status, **each}}
            for each in (told.pop(0) if told else [])
        ]
        await route.fulfill(
            content_type="text/event-stream", body="".join(f"data: {json.dumps(each)}\n\n" for each in events)
        )

    servers.begin("milhouse", TAKEN)
    try:
        servers.pods.wait_unschedulable("milhouse")
        await page.route(re.compile(r"/progress(\?|$)"), answer)
        await person.log_in_to("/hub/spawn-pending/milhouse", "milhouse")
        await expect(detail).to_have_text("Second.")
        assert (await note.inner_text(), await note.is_visible()) == ("Coffee?", True)
        await expect(detail).to_have_text("Fourth.")
        await expect(note).to_have_text("Tea?")
        await page.unroute_all(behavior="ignoreErrors")
    finally:
        servers.stop("milhouse")
