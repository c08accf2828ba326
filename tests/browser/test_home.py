"""JupyterHub's home page shows what a user's servers are and when they end, and changes one with a click."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from kubernetes.client import V1Pod
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.support.axe import complaints
from tests.browser.support.person import START_TIMEOUT_MS, Person
from tests.browser.support.pictures import shoot
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

CARD, TAKEN = "a100-40gb", "h100-80gb"
CHOICE = "JupyterLab · 2 CPUs · 3 GiB · 2 × A100 40 GB · up to 3 hours"
OPTIONS = {"image": "jupyterlab", "cpu": 2, "memory": "3G", "gpu": CARD, "gpu_count": 2, "run_time": "3h"}
SMALL = {"image": "jupyterlab-cpu", "cpu": 1, "memory": "1G", "gpu": None}
WAITING = {"image": "jupyterlab", "cpu": 1, "memory": "1G", "gpu": TAKEN, "gpu_count": 1, "run_time": "2h"}


def card(page: Page, server: str = "") -> Locator:
    return page.locator(f"#gpuspawner-servers li[data-server='{server}']")


def end_of(pod: V1Pod) -> datetime:
    end: datetime = pod.status.start_time + timedelta(seconds=pod.spec.active_deadline_seconds)
    return end


@contextmanager
def named(servers: Servers, user: str, name: str, options: dict[str, object]) -> Iterator[None]:
    """Start a named server, and delete it in the end."""
    client = servers.hub.client
    client.create_user(user)
    assert client.start_server(user, options, name=name).status in {201, 202}
    try:
        wait_for(lambda: client.servers(user).get(name, {}).get("ready"), f"{name} ready", timeout_s=120)
        yield
    finally:
        client.stop_server(user, name=name)
        wait_for(lambda: client.servers(user).get(name, {}).get("stopped", True), f"{name} stopped", timeout_s=120)


@pytest.mark.window(viewport={"width": 1000, "height": 760})
async def test_a_running_server_shows_its_choice_and_stop_and_change_leads_to_the_filled_form(
    person: Person, servers: Servers, tmp_path: Path
) -> None:
    page = person.page
    with servers.running({"homer": OPTIONS}):
        await person.log_in_to("/hub/home", "homer")
        home = card(page)
        await expect(home.get_by_role("heading")).to_have_text("Default server")
        await expect(home.locator(".gs-state")).to_have_text("Running")
        await expect(home.locator("dd").first).to_have_text(CHOICE)
        await expect(home.locator("dd").nth(1)).to_have_text("2 × A100 40 GB")
        end = end_of(servers.pods.of("homer"))
        assert await home.locator("time").get_attribute("datetime") == end.isoformat()
        await expect(home.locator("time")).to_have_text(re.compile(r"Ends .*in 2 h 5\d min$"))
        await shoot(page, "home", tmp_path)

        await home.get_by_role("button", name="Stop and change Default server").click()

        await expect(home.get_by_role("status")).to_have_text("Stopping. The form opens next.")
        await page.wait_for_url("**/hub/spawn/homer", timeout=START_TIMEOUT_MS)
        servers.pods.wait_gone("homer")
        await expect(person.choice("image", "jupyterlab")).to_be_checked()
        await expect(person.choice("gpu", CARD)).to_be_checked()
        await expect(person.field("gpu_count")).to_have_value("2")
        await expect(person.field("memory")).to_have_value("3")


async def test_a_named_server_is_changed_by_keyboard_and_the_default_one_runs_on(
    person: Person, servers: Servers
) -> None:
    page = person.page
    with servers.running({"marge": SMALL}), named(servers, "marge", "lab", OPTIONS):
        await person.log_in_to("/hub/home", "marge")
        await expect(card(page, "lab").get_by_role("heading")).to_have_text("lab")
        await expect(card(page, "lab")).to_contain_text(CHOICE)
        await expect(card(page)).to_contain_text("JupyterLab without GPU tools · 1 CPU · 1 GiB")
        await expect(card(page)).not_to_contain_text("A100")
        assert await complaints(page, "#gpuspawner-servers") == []

        await person.tab_to("li[data-server=lab] button")
        await page.keyboard.press("Enter")

        await page.wait_for_url("**/hub/spawn/marge/lab", timeout=START_TIMEOUT_MS)
        await expect(person.choice("gpu", CARD)).to_be_checked()
        assert servers.state("marge")["ready"]
        await page.goto(f"{person.url}/hub/home")
        await expect(card(page, "lab").locator(".gs-state")).to_have_text("Not running")
        await expect(card(page, "lab")).to_contain_text("Last choice")
        await expect(card(page, "lab").get_by_role("link", name="Change and start lab")).to_be_visible()


async def test_a_server_that_waits_says_when_its_time_begins_and_the_section_follows_its_state(
    person: Person, servers: Servers
) -> None:
    page = person.page
    servers.begin("lisa", WAITING)
    try:
        servers.pods.wait_unschedulable("lisa")
        await person.log_in_to("/hub/home", "lisa")
        await expect(card(page).locator(".gs-state")).to_have_text("Starting")
        await expect(card(page)).to_contain_text("The time limit of 2 hours begins when the server gets a node.")
        assert await complaints(page, "#gpuspawner-servers") == []

        await page.locator("#stop").click()  # JupyterHub's own button

        # A canceled start is no last choice, and without one the user has no server to list.
        await expect(page.locator("#gpuspawner-servers")).to_be_hidden(timeout=START_TIMEOUT_MS)
        await expect(page.locator("#start")).to_be_visible()
    finally:
        servers.stop("lisa")


@pytest.mark.window(color_scheme="dark", viewport={"width": 360, "height": 740})
async def test_a_stop_that_fails_says_so_and_can_be_tried_again(person: Person, servers: Servers) -> None:
    page, calls = person.page, []

    async def fail(route: Route) -> None:
        if route.request.method != "DELETE":
            await route.continue_()
            return
        calls.append(route.request.url)
        await (route.abort() if len(calls) == 1 else route.fulfill(status=403 if len(calls) == 2 else 500))

    with servers.running({"bart": SMALL}):
        await person.log_in_to("/hub/home", "bart")
        await expect(card(page)).to_be_visible()
        assert await complaints(page, "#gpuspawner-servers") == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.route("**/hub/api/users/bart/server?*", fail)
        for message in (
            "The hub doesn't answer. Try again.",
            "You've been signed out. Reload the page to sign in again.",
            "The hub can't stop the server now. Try again.",
        ):
            await card(page).get_by_role("button").click()
            await expect(card(page).get_by_role("status")).to_have_text(message)
        assert (len(calls), page.url) == (3, f"{person.url}/hub/home")
