"""The page of a server that starts: what it waits for, a way to stop it, and what to choose where it never starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import jupyterhub
import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.support.person import Person
from tests.browser.test_accessibility import AXE, TAGS
from tests.cluster.support.pods import USER_ANNOTATION
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

SERVER_ANNOTATION = "hub.jupyter.org/servername"
TAKEN = {"gpu": "h100-80gb", "gpu_count": 1}
MISSING = "localhost/devcluster/no-such-image:1"
WAITS = re.compile(
    r"Waiting for 1 × H100 80 GB: all 8 are in use\."
    r".* Gives up in (less than a minute|\d+ (min|h))\."
)
IN_KUBERNETES_WORDS = re.compile(r"nodes are available|Insufficient|nvidia\.com")
# A start of which nothing comes ends before a minute is over.
SOON_MS = 60_000
SAID_MS = 15_000
# JupyterHub itself waits for a second before it stops a server that starts.
AT_ONCE_S = 15
HAS_OWN = jupyterhub.version_info >= (6,)


@contextmanager
def waiting(servers: Servers, user: str, name: str = "") -> Iterator[None]:
    """Ask for a server that no node has room for, and stop it in the end."""
    client = servers.hub.client
    client.create_user(user)
    answer = client.start_server(user, TAKEN, name=name)
    assert answer.status in {201, 202}, answer
    try:
        servers.pods.wait_unschedulable(user)
        yield
    finally:
        if name in names(servers, user):
            client.stop_server(user, name=name)
        wait_for(lambda: name not in names(servers, user), f"no pod of the server {name!r} of {user}")


def names(servers: Servers, user: str) -> set[str]:
    """Return the names of a user's servers that have a pod, of which the API server knows."""
    found = [pod.metadata.annotations for pod in servers.pods.all()]
    return {each.get(SERVER_ANNOTATION, "") for each in found if each.get(USER_ANNOTATION) == user}


async def watch(person: Person, user: str, name: str = "") -> None:
    """Open the page of a server that waits, and wait until it says so."""
    await person.log_in_to(f"/hub/spawn-pending/{user}/{name}".rstrip("/"), user)
    await expect(message(person.page)).to_have_text(WAITS, timeout=SAID_MS)


def message(page: Page) -> Locator:
    return page.locator("#progress-message")


def cancel(page: Page) -> Locator:
    return message(page).get_by_role("button", name="Cancel")


async def complaints(page: Page) -> list[str]:
    """Return what axe-core finds wrong with what we say on a page that JupyterHub made."""
    await page.add_script_tag(path=AXE)
    found = await page.evaluate(
        "tags => axe.run('#progress-message', { runOnly: tags, resultTypes: ['violations'] })", TAGS
    )
    return [f"{rule['id']}: {', '.join(str(node['target']) for node in rule['nodes'])}" for rule in found["violations"]]


async def test_the_page_says_what_a_server_waits_for_and_how_long_in_words_of_ours(
    person: Person, servers: Servers
) -> None:
    with waiting(servers, "patient", "lab"):
        await watch(person, "patient", "lab")

        bar = person.page.get_by_role("progressbar")
        await expect(bar).to_have_attribute("aria-valuenow", re.compile(r"^([5-9]|[12]\d)$"))
        await expect(message(person.page)).not_to_have_text(IN_KUBERNETES_WORDS)
        await person.page.get_by_text("Event log").click()
        log = person.page.locator("#progress-log")
        await expect(log).to_contain_text("H100")
        await expect(log.get_by_role("button")).to_have_count(0)


async def test_a_named_server_is_cancelled_from_its_page_by_keyboard_and_no_other_is(
    person: Person, servers: Servers
) -> None:
    page = person.page
    with waiting(servers, "canceller"), waiting(servers, "canceller", "lab"):
        await watch(person, "canceller", "lab")
        assert names(servers, "canceller") == {"", "lab"}
        await expect(page.locator("#stop-server-btn")).to_be_hidden()

        await person.tab_to(".gs-cancel button")
        await page.keyboard.press("Enter")

        await page.wait_for_url("**/hub/home")
        wait_for(lambda: names(servers, "canceller") == {""}, "only the default server", timeout_s=AT_ONCE_S)
        assert servers.state("canceller")["pending"] == "spawn"


async def test_a_cancel_that_fails_says_so_and_can_be_tried_again(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "unlucky", "lab"):
        await watch(person, "unlucky", "lab")
        await page.route("**/hub/api/users/**", lambda route: route.abort())

        await cancel(page).click()

        await expect(message(page).get_by_role("alert")).to_contain_text("That did not work.")
        await expect(cancel(page)).to_be_enabled()
        assert names(servers, "unlucky") == {"lab"}


async def test_the_default_server_is_cancelled_from_its_page(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "default"):
        await watch(person, "default")

        await (page.get_by_role("button", name="Stop Server") if HAS_OWN else cancel(page)).click()

        servers.pods.wait_gone("default", timeout_s=AT_ONCE_S)
        await expect(page.locator("#start")).to_be_visible()


async def test_a_start_without_hope_ends_with_choices_that_fill_in_the_form_and_start_nothing(
    person: Person, servers: Servers
) -> None:
    page = person.page
    try:
        await person.log_in("hopeful")
        await person.pick("image", "")
        await person.field("custom_image").fill(MISSING)
        await person.pick("gpu", "a100-40gb")
        await person.field("memory").fill("3")
        await person.start()
        await expect(page.locator("#progress-bar.bg-danger")).to_be_visible(timeout=SOON_MS)
        await expect(message(page)).to_contain_text(MISSING)
        links = message(page).get_by_role("link")
        assert await links.count() in range(1, 4)
        told = [await link.inner_text() for link in await links.all()]
        assert await complaints(page) == []

        await page.reload()  # the page of a server that does not run
        await expect(page.locator("body")).to_contain_text(MISSING)
        again = page.locator("a[href*='fill-']")
        assert [await link.inner_text() for link in await again.all()] == told
        await again.first.click()

        await expect(person.choice("image", "jupyterlab")).to_be_checked()
        await expect(person.choice("gpu", "a100-40gb")).to_be_checked()
        await expect(person.field("memory")).to_have_value("3")
        assert not servers.state("hopeful").get("pending")
        assert names(servers, "hopeful") == set()
    finally:
        servers.stop("hopeful")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.window(viewport={"width": 320, "height": 700})
async def test_nothing_is_wrong_with_what_is_said_nor_cut_off(person: Person, servers: Servers, scheme: str) -> None:
    await person.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    with waiting(servers, f"{scheme}-watcher", "lab"):
        await watch(person, f"{scheme}-watcher", "lab")
        await expect(cancel(person.page)).to_be_visible()

        assert await complaints(person.page) == []
        assert await person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
