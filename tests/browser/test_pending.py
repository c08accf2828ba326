"""The page of a server that starts: what it waits for, what to do meanwhile, and what follows where it never starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from devcluster.hub import Hub
from tests.browser.support.axe import complaints
from tests.browser.support.person import Person
from tests.browser.support.waiting_page import serve_jupyterhubs_page
from tests.cluster.support.pods import USER_ANNOTATION
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

SERVER_ANNOTATION = "hub.jupyter.org/servername"
TAKEN = {"gpu": "h100-80gb", "gpu_count": 1}
MISSING = "localhost/devcluster/no-such-image:1"
HEADLINE = "Waiting for 1 × H100 80 GB"
WAITS = re.compile(r"^\s*All 8 are in use\.")
SAID_WITH_TIME = re.compile(
    r"Waiting for 1 × H100 80 GB: all 8 are in use\."
    r".* Gives up in (less than a minute|\d+ (min|h))\."
)
TIMER = re.compile(r"^(\d+ min )?\d+ s of at most \d+ (min|h)$")
CLOCK_TIME = re.compile(r"^\d{1,2}:\d\d:\d\d [AP]M$")
IN_KUBERNETES_WORDS = re.compile(r"nodes are available|Insufficient|nvidia\.com")
# A start of which nothing comes ends before a minute is over.
SOON_MS = 60_000
SAID_MS = 15_000
# The hub looks for other choices once a page is open, and four times a minute.
INSTEAD_MS = 25_000
# JupyterHub itself waits for a second before it stops a server that starts.
AT_ONCE_S = 15
# A start and its pod are gone, and the form opens.
STOPPED_MS = 30_000
GERMAN = pytest.mark.window(locale="de-DE")


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
    await expect(headline(person.page)).to_have_text(HEADLINE, timeout=SAID_MS)
    await expect(message(person.page)).to_have_text(WAITS, timeout=SAID_MS)


def part(page: Page, name: str) -> Locator:
    return page.locator(f"#gpuspawner-{name}")


def headline(page: Page) -> Locator:
    return part(page, "headline")


def message(page: Page) -> Locator:
    return page.locator("#progress-message")


def alert(page: Page) -> Locator:
    return part(page, "alert")


# -- what it says ------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_the_page_says_what_a_server_waits_for_where_it_is_in_line_and_how_long(
    person: Person, servers: Servers
) -> None:
    page = person.page
    with waiting(servers, "patient", "lab"):
        await watch(person, "patient", "lab")

        await expect(page).to_have_title("Waiting · 1 × H100 80 GB")
        await expect(page.locator(".gs-choice")).to_have_text(re.compile(r"^lab · .+ · 1 × H100 80 GB"))
        await expect(part(page, "place")).to_have_text(re.compile(r"You're next\.|ahead of yours\."))
        await expect(part(page, "time")).to_have_text(TIMER)
        await expect(message(page)).not_to_have_text(IN_KUBERNETES_WORDS)
        bar = page.get_by_role("progressbar")
        assert await bar.get_attribute("aria-valuenow") is None
        await expect(bar).to_have_attribute("aria-valuetext", "Find a node")
        await expect(page.locator("[aria-current=step]")).to_have_text("Find a node")
        log = page.locator("#progress-log li")
        await expect(log.first).to_contain_text("All 8 are in use.")
        assert CLOCK_TIME.match(await log.locator("time").first.inner_text())
        told = await page.locator("#gpuspawner-waiting").inner_text()
        assert (told.count("Gives up"), told.count("Elapsed"), told.count("so far")) == (0, 0, 0)


async def test_the_timer_goes_on_between_two_messages(person: Person, servers: Servers) -> None:
    with waiting(servers, "counter"):
        await watch(person, "counter")
        before = await part(person.page, "time").inner_text()
        await expect(part(person.page, "time")).not_to_have_text(before, timeout=5_000)


@GERMAN
async def test_the_page_is_in_german(person: Person, servers: Servers) -> None:
    page = person.page
    try:
        await person.log_in("wartende")
        await person.pick("gpu", "h100-80gb")
        await person.start()
        await expect(headline(page)).to_have_text("Wartet auf 1 × H100 80 GB", timeout=SAID_MS)
        await expect(page).to_have_title("Wartet · 1 × H100 80 GB")
        await expect(part(page, "waiting")).to_have_attribute("lang", "de")
        await expect(part(page, "time")).to_have_text(re.compile(r"^(\d+ min )?\d+ s von höchstens \d+ (min|h)$"))
        await expect(page.get_by_role("button", name="Abbrechen")).to_be_visible()
        assert re.match(r"\d\d:\d\d:\d\d$", await page.locator("#progress-log time").first.inner_text())
    finally:
        servers.stop("wartende")


@pytest.mark.window(java_script_enabled=False)
async def test_without_javascript_the_page_says_it_and_reloads_itself(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "plain-waiter"):
        await person.log_in_to("/hub/spawn-pending/plain-waiter", "plain-waiter")
        await expect(part(page, "waiting")).to_be_visible()
        async with page.expect_navigation(timeout=SAID_MS):
            pass  # the page opens itself anew
        await expect(headline(page)).to_have_text(HEADLINE, timeout=SAID_MS)
        await expect(message(page)).to_contain_text(WAITS)
        await expect(part(page, "time")).to_have_text(TIMER)
        await expect(page.locator("#progress-log li").first).to_contain_text("UTC")
        assert await page.get_by_role("button", name="Cancel").count() == 0


# -- other choices -----------------------------------------------------------------------------------------------------


async def test_another_choice_that_could_start_now_cancels_the_start_and_fills_in_the_form(
    person: Person, servers: Servers
) -> None:
    page = person.page
    with waiting(servers, "flexible", "lab"):
        await watch(person, "flexible", "lab")
        choices = part(page, "instead").get_by_role("button")
        await expect(choices.first).to_be_visible(timeout=INSTEAD_MS)
        assert await choices.count() in range(1, 4)
        assert await complaints(page, "#gpuspawner-waiting") == []

        await choices.first.click()

        await page.wait_for_url(re.compile("/hub/spawn/flexible/lab\\?"), timeout=STOPPED_MS)
        await expect(person.choice("gpu", "h100-80gb")).not_to_be_checked()
        assert await page.locator("#spawn_form input[name=gpu]:checked").get_attribute("value")
        wait_for(lambda: names(servers, "flexible") == set(), "no pod", timeout_s=AT_ONCE_S)


async def test_changing_the_choice_cancels_the_start_and_keeps_the_choice(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "changer"):
        await watch(person, "changer")
        await page.get_by_role("button", name="Change my choice").click()
        await page.wait_for_url(re.compile("/hub/spawn/changer\\?"), timeout=STOPPED_MS)
        await expect(person.choice("gpu", "h100-80gb")).to_be_checked()
        wait_for(lambda: names(servers, "changer") == set(), "no pod", timeout_s=AT_ONCE_S)


# -- cancel ------------------------------------------------------------------------------------------------------------


async def test_a_named_server_is_canceled_from_its_page_by_keyboard_and_no_other_is(
    person: Person, servers: Servers
) -> None:
    page = person.page
    with waiting(servers, "canceller"), waiting(servers, "canceller", "lab"):
        await watch(person, "canceller", "lab")
        assert names(servers, "canceller") == {"", "lab"}

        await person.tab_to("#gpuspawner-cancel")
        await page.keyboard.press("Enter")

        await page.wait_for_url("**/hub/home")
        wait_for(lambda: names(servers, "canceller") == {""}, "only the default server", timeout_s=AT_ONCE_S)
        assert servers.state("canceller")["pending"] == "spawn"


async def test_a_cancel_that_fails_says_so_and_can_be_tried_again(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "unlucky", "lab"):
        await watch(person, "unlucky", "lab")
        await page.route("**/hub/api/users/unlucky/servers/lab?**", lambda route: route.abort())

        await page.get_by_role("button", name="Cancel").click()

        await expect(alert(page)).to_contain_text("That did not work.")
        await expect(page.get_by_role("button", name="Cancel")).to_be_enabled()
        assert names(servers, "unlucky") == {"lab"}


# -- how it ends -------------------------------------------------------------------------------------------------------


async def test_a_missing_image_ends_the_start_soon_with_choices_that_start_nothing(
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
        await expect(headline(page)).to_have_text("Your server didn't start", timeout=SOON_MS)
        await expect(page).to_have_title("Failed · 1 × A100 40 GB")
        await expect(page.locator("#progress-bar")).to_have_class(re.compile("bg-danger"))
        await expect(message(page)).to_contain_text(MISSING)
        links = message(page).get_by_role("link")
        assert await links.count() in range(1, 4)
        told = [await link.inner_text() for link in await links.all()]
        assert await complaints(page, "#gpuspawner-waiting") == []
        again = page.get_by_role("link", name="Change and try again")
        assert "fill-custom_image=localhost" in str(await again.get_attribute("href"))

        await page.reload()  # the page of a server that does not run
        await expect(page.locator("body")).to_contain_text(MISSING)
        links = page.locator("a[href*='fill-image=']:not([href*='fill-custom_image=localhost'])")
        assert set(told) <= {await link.inner_text() for link in await links.all()}
        await page.get_by_role("link", name=told[0], exact=True).first.click()

        await expect(person.choice("gpu", "a100-40gb")).to_be_checked()
        await expect(person.field("memory")).to_have_value("3")
        assert not servers.state("hopeful").get("pending")
        assert names(servers, "hopeful") == set()
    finally:
        servers.stop("hopeful")


async def test_a_server_that_was_stopped_in_another_tab_says_so(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "two-tabs"):
        await watch(person, "two-tabs")
        servers.hub.client.stop_server("two-tabs")
        await expect(headline(page)).to_have_text("This start was canceled", timeout=SAID_MS)
        await expect(page).to_have_title("Canceled · 1 × H100 80 GB")
        await expect(message(page)).to_contain_text("It may have been stopped in another tab.")
        await expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        assert await complaints(page, "#gpuspawner-waiting") == []
        servers.pods.wait_gone("two-tabs", timeout_s=AT_ONCE_S)
        await page.get_by_role("link", name="Change and try again").click()
        await expect(person.choice("gpu", "h100-80gb")).to_be_checked()


HIDDEN_TAB = """
    window.isTabHidden = false;
    Object.defineProperty(document, "hidden", { get: () => window.isTabHidden });
    window.Notification = class {
      static permission = "default";
      static async requestPermission() {
        window.asked = (window.asked ?? 0) + 1;
        return (Notification.permission = "granted");
      }
      constructor(title) { window.notified = title; }
    };
"""


async def test_a_person_who_wants_it_is_notified_and_the_tab_says_ready(person: Person, servers: Servers) -> None:
    page = person.page
    await page.add_init_script(HIDDEN_TAB)
    with servers.asked("listener", {"gpu": "a100-40gb", "gpu_count": 1}):
        await person.log_in_to("/hub/spawn-pending/listener", "listener")
        assert await page.evaluate("window.asked") is None
        await page.get_by_role("button", name="Notify me when it's ready").click()
        await expect(part(page, "notified")).to_have_text("You'll be notified when your server is ready or has failed.")
        await page.evaluate("window.isTabHidden = true")

        await expect(page).to_have_title("Ready · 1 × A100 40 GB", timeout=SOON_MS)
        assert await page.evaluate("[window.asked, window.notified]") == [1, "Ready · 1 × A100 40 GB"]
        assert "/hub/spawn-pending/" in page.url

        await page.evaluate("window.isTabHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
        await page.wait_for_url("**/user/listener/**", timeout=SOON_MS)


async def test_a_person_who_did_not_ask_for_it_is_not_notified_of_a_failure(person: Person, servers: Servers) -> None:
    page = person.page
    await page.add_init_script(HIDDEN_TAB)
    with waiting(servers, "quiet"):
        await watch(person, "quiet")
        await page.evaluate("window.isTabHidden = true")
        servers.hub.client.stop_server("quiet")
        await expect(page).to_have_title("Canceled · 1 × H100 80 GB", timeout=SAID_MS)
        assert await page.evaluate("[window.asked, window.notified]") == [None, None]


# -- the connection ----------------------------------------------------------------------------------------------------


async def test_a_user_who_was_signed_out_reads_so_and_comes_back(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "sleeper"):
        await watch(person, "sleeper")
        await page.context.clear_cookies()
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await expect(alert(page)).to_contain_text("You've been signed out.")
        assert await complaints(page, "#gpuspawner-waiting") == []

        await page.get_by_role("link", name="Sign in again").click()
        await page.fill("input[name=username]", "sleeper")
        await page.fill("input[name=password]", person.password)
        await page.click("#login_submit")
        await expect(headline(page)).to_have_text(HEADLINE, timeout=SAID_MS)


async def test_while_the_hub_is_away_the_page_says_so_and_then_goes_on(
    person: Person, servers: Servers, hub: Hub
) -> None:
    page = person.page
    with waiting(servers, "survivor"):
        await watch(person, "survivor")
        hub.stop_hub()
        try:
            await expect(alert(page)).to_contain_text("The hub doesn't answer right now.", timeout=SAID_MS)
            await expect(headline(page)).to_have_text(HEADLINE)
        finally:
            hub.start_hub()
        await expect(alert(page)).to_be_hidden(timeout=SOON_MS)
        await expect(headline(page)).to_have_text(HEADLINE)
        elapsed = await page.evaluate("document.getElementById('gpuspawner-time').textContent")
        assert TIMER.match(elapsed)


# -- how it looks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.window(viewport={"width": 320, "height": 700})
async def test_nothing_is_wrong_with_what_is_said_nor_cut_off(person: Person, servers: Servers, scheme: Any) -> None:
    await person.page.emulate_media(color_scheme=scheme)
    with waiting(servers, f"{scheme}-watcher", "lab"):
        await watch(person, f"{scheme}-watcher", "lab")
        await expect(person.page.get_by_role("button", name="Cancel")).to_be_visible()

        assert await complaints(person.page, "#gpuspawner-waiting") == []
        assert await person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_nothing_moves_where_a_person_wants_less_motion(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "calm"):
        await watch(person, "calm")
        moving = "getComputedStyle(document.getElementById('progress-bar')).animationName"
        assert await page.evaluate(moving) == "gs-unknown"
        await page.emulate_media(reduced_motion="reduce")
        assert await page.evaluate(moving) == "none"


# -- a site with a page of its own -------------------------------------------------------------------------------------


async def test_a_sites_own_page_shows_our_messages_with_a_cancel_button(person: Person, servers: Servers) -> None:
    page = person.page
    with waiting(servers, "site"), waiting(servers, "site", "lab"):
        await watch(person, "site", "lab")
        await serve_jupyterhubs_page(page)
        await expect(message(page)).to_have_text(SAID_WITH_TIME, timeout=SAID_MS)
        await expect(page.get_by_role("progressbar")).to_have_attribute(
            "aria-valuenow", re.compile(r"^([5-9]|[12]\d)$")
        )
        await expect(page.locator("#stop-server-btn")).to_be_hidden()
        await page.get_by_text("Event log").click()
        await expect(page.locator("#progress-log").get_by_role("button")).to_have_count(0)

        await message(page).get_by_role("button", name="Cancel").click()

        await page.wait_for_url("**/hub/home")
        wait_for(lambda: names(servers, "site") == {""}, "only the default server", timeout_s=AT_ONCE_S)
