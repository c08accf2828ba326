"""An open form says why it cannot be sent, and can be sent again when that is over. Its choice is kept meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Locator, Route, expect

from devcluster.hub import Hub
from tests.browser.support.axe import complaints
from tests.browser.support.back import is_marked, mark, open_browser
from tests.browser.support.quick_hub import ADMIN, TITLE, end_server, is_at_rest, sign_in, sign_out
from tests.browser.support.tab import FAILED, FAILS, RUNS, STARTING, WAITS, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Only the hub knows the registries that are allowed.
DENIED = "elsewhere.example/mine:1"
SIGNED_OUT = "You've been signed out. Sign in again"
RUNNING = "Your server is already running. Open it"
AWAY = "The hub doesn't answer. Trying again… Try now"
KNOCK_MS = 5_000


@pytest.fixture
def user(request: pytest.FixtureRequest, quick_hub: Hub) -> Iterator[str]:
    """Make a person for this test alone, whose server is stopped in the end."""
    name = request.node.name.removeprefix("test_").replace("[", "-").replace(" ", "-").strip("]")[:40].strip("-_")
    quick_hub.client.create_user(name)
    yield name
    end_server(quick_hub, name)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(context: BrowserContext, quick_hub: Hub, user: str) -> Tab:
    """The form of a person who is signed in."""
    await sign_in(context, quick_hub.url, user)
    opened = Tab(await context.new_page(), quick_hub.url)
    await opened.open()
    return opened


@pytest_asyncio.fixture(loop_scope="session")
async def other(context: BrowserContext, tab: Tab) -> Tab:
    """A second tab with the form."""
    opened = Tab(await context.new_page(), tab.person.url)
    await opened.open()
    return opened


async def test_a_server_that_runs_is_said_with_a_link_to_it_until_it_is_stopped(
    tab: Tab, other: Tab, quick_hub: Hub, user: str
):
    choice = await tab.choose(RUNS)
    await other.person.field("memory").fill(RUNS)
    await other.press_start()
    await expect(other.page).to_have_title(TITLE)

    await tab.come_back()
    await tab.expect_says(RUNNING, dead=True)
    await expect(tab.banner.get_by_role("link")).to_have_attribute("href", f"/user/{user}/")
    end_server(quick_hub, user)
    await tab.come_back()
    await tab.expect_alive()
    assert await tab.values() == choice


async def test_a_start_that_failed_in_another_tab_is_said_with_the_reason_which_stays_there(tab: Tab, other: Tab):
    await other.person.field("memory").fill(FAILS)
    await other.press_start()
    await expect(other.page.locator("#progress-bar.bg-danger")).to_be_visible()

    await tab.come_back()
    await tab.expect_says(FAILED, dead=False)
    await other.page.reload()
    await expect(other.page.locator("body")).to_contain_text("The disk is full.")
    await tab.person.field("memory").fill(RUNS)
    await tab.expect_alive()


@pytest.mark.parametrize("leave", ["sign out", "expire"])
async def test_who_is_signed_out_comes_back_to_the_same_choice(
    tab: Tab, context: BrowserContext, quick_hub: Hub, user: str, leave: str
):
    choice = await tab.choose(WAITS)
    await (sign_out(context, quick_hub.url) if leave == "sign out" else context.clear_cookies())
    await tab.come_back()
    await tab.expect_says(SIGNED_OUT, dead=True)

    await tab.banner.get_by_role("link").click()
    await tab.page.fill("input[name=username]", user)
    await tab.page.fill("input[name=password]", "any password")
    await tab.page.click("#login_submit")
    await tab.customize()

    assert await tab.values() == choice
    assert is_at_rest(quick_hub, user)


async def test_a_login_in_a_window_of_its_own_fills_in_the_form(
    tab: Tab, context: BrowserContext, quick_hub: Hub, user: str
):
    choice = await tab.choose(WAITS)
    await context.clear_cookies()
    await tab.come_back()
    address = await tab.banner.get_by_role("link").get_attribute("href")
    await sign_in(context, quick_hub.url, user)
    new = Tab(await context.new_page(), quick_hub.url)
    await new.open(str(address))

    # The link names one choice, here the fields', and no picks in the cards of profiles.
    expected = {name: value for name, value in choice.items() if not name.startswith("profile-option-")}
    assert {name: value for name, value in (await new.values()).items() if name in expected} == expected
    assert is_at_rest(quick_hub, user)


async def test_who_signs_in_again_elsewhere_starts_the_same_choice(
    tab: Tab, context: BrowserContext, quick_hub: Hub, user: str
):
    await tab.person.field("memory").fill(WAITS)
    await context.clear_cookies()
    await tab.come_back()
    await tab.expect_says(SIGNED_OUT, dead=True)
    await sign_in(context, quick_hub.url, user)
    await tab.come_back()
    await tab.expect_alive()

    await tab.press_start()

    await tab.page.wait_for_url(f"**/hub/spawn-pending/{user}")
    assert quick_hub.client.servers(user)[""]["user_options"]["memory"] == "3G"


@pytest.mark.parametrize("cookies", [{}, {"name": "_xsrf"}], ids=["all cookies", "the token's cookie"])
async def test_a_cookie_that_is_gone_loses_nothing_when_start_is_pressed(
    tab: Tab, context: BrowserContext, user: str, cookies: dict[str, str]
):
    choice = await tab.choose(WAITS)
    await tab.person.pick("image", "lab")
    await context.clear_cookies(**cookies)

    await tab.press_start()

    if cookies:
        await tab.page.wait_for_url(f"**/hub/spawn-pending/{user}")
        return
    await tab.expect_says(SIGNED_OUT, dead=True)
    assert await tab.values() == {**choice, "image": "lab"}


@pytest.mark.parametrize("name", ["someone-else", ADMIN])
async def test_the_form_is_not_sent_for_another_person_who_has_signed_in(
    tab: Tab, context: BrowserContext, quick_hub: Hub, user: str, name: str
):
    await tab.person.field("memory").fill(RUNS)
    await sign_out(context, quick_hub.url)
    await sign_in(context, quick_hub.url, name)

    await tab.press_start()

    said = f"You're now signed in as {name}. This form is for {user}. Open your form"
    await tab.expect_says(said, dead=True)
    assert [is_at_rest(quick_hub, each) for each in (user, name)] == [True, True]
    await tab.page.reload()
    await expect(tab.start).to_be_visible()
    await tab.expect_alive()


async def test_a_hub_that_is_away_is_said_and_what_is_typed_stays(tab: Tab, quick_hub: Hub):
    choice = await tab.choose(RUNS)
    try:
        await asyncio.to_thread(quick_hub.stop_hub)
        await tab.press_start()
        await tab.expect_says(AWAY, dead=True)
    finally:
        await asyncio.to_thread(quick_hub.start_hub)

    await tab.expect_alive()  # without doing anything
    assert await tab.values() == choice


async def test_a_hidden_tab_leaves_a_hub_that_is_away_alone_and_asks_it_once_it_is_shown(
    context: BrowserContext, quick_hub: Hub, user: str
):
    asked: list[str] = []

    async def lose(route: Route) -> None:
        asked.append(urlsplit(route.request.url).path)
        await route.abort()

    await sign_in(context, quick_hub.url, user)
    tab = Tab(await context.new_page(), quick_hub.url)
    await tab.page.clock.install(time=0)
    await tab.page.clock.pause_at(1)
    await tab.open()
    await tab.page.route("**/hub/**", lose)
    await tab.come_back()
    await tab.expect_says(AWAY, dead=True)
    async with tab.page.expect_event("requestfailed"):
        await tab.page.clock.run_for(KNOCK_MS)

    await tab.set_visible(False)
    await tab.page.clock.run_for(20 * KNOCK_MS)
    async with tab.page.expect_event("requestfailed"):
        await tab.set_visible(True)

    form = f"/hub/spawn/{user}"
    assert asked == [form, "/hub/health", form]
    await tab.page.unroute_all()
    await tab.page.clock.run_for(KNOCK_MS)
    await tab.expect_alive()


async def test_what_the_hub_refuses_is_said_in_the_form_which_can_be_sent_again(tab: Tab, user: str):
    choice = await tab.choose(WAITS)
    await tab.person.field("custom_image").fill(DENIED)

    await tab.press_start()

    await expect(tab.page.locator("#gpuspawner-errors")).to_be_focused()
    assert await tab.values() == {**choice, "custom_image": DENIED}
    assert tab.page.url.endswith("/hub/spawn")
    assert await complaints(tab.page, "#spawn_form") == []
    await tab.person.field("custom_image").fill(choice["custom_image"])
    await tab.press_start()
    await tab.page.wait_for_url(f"**/hub/spawn-pending/{user}")


async def test_an_error_page_of_the_hubs_is_said_in_the_form(tab: Tab):
    async def fail(route: Route) -> None:
        page = "<title>JupyterHub</title><div class='error'><h1>404</h1><p>No such user: <b>ada</b></p></div>"
        await (route.fulfill(status=404, body=page) if route.request.method == "POST" else route.continue_())

    choice = await tab.choose(RUNS)
    await tab.page.route("**/hub/spawn*", fail)
    await tab.start.focus()

    await tab.page.keyboard.press("Enter")

    await tab.expect_says("Not started. The hub says: No such user: ada", dead=False)
    await expect(tab.start).to_be_focused()
    assert await tab.values() == choice


@pytest.mark.parametrize("way", ["reload", "back", "back from the cache"])
async def test_all_of_the_choice_is_there_again(quick_hub: Hub, user: str, way: str):
    cached = way == "back from the cache"
    async with open_browser(keeps_pages=cached) as context:
        await sign_in(context, quick_hub.url, user)
        tab = Tab(await context.new_page(), quick_hub.url)
        await tab.open()
        choice = await tab.choose(WAITS)
        await mark(tab.page)
        if way == "reload":
            await tab.page.reload()
        else:
            await tab.press_start()
            await tab.page.wait_for_url(f"**/hub/spawn-pending/{user}")
            await tab.page.evaluate("setTimeout(() => history.back())")
            await expect(tab.banner).to_have_text(STARTING)
        await expect(tab.start).to_be_visible()
        assert (await is_marked(tab.page), await tab.values()) == (cached, choice)


async def test_none_of_an_untouched_choice_is_put_back_over_what_the_hub_says_now(tab: Tab, other: Tab, quick_hub: Hub):
    await other.person.pick("gpu", "a100-40gb")
    await other.person.field("gpu_count").fill("2")
    await other.person.field("memory").fill(RUNS)
    await other.press_start()
    await expect(other.page).to_have_title(TITLE)
    end_server(quick_hub, str(await tab.page.evaluate("jhdata.user")))

    await tab.page.reload()

    await expect(tab.start).to_be_visible()
    values = await tab.values()
    assert [values[name] for name in ("gpu", "gpu_count", "memory")] == ["a100-40gb", "2", "2"]


async def test_a_link_fills_in_the_form_each_time_it_is_followed(tab: Tab, quick_hub: Hub):
    link = f"{quick_hub.url}/hub/spawn?fill-gpu=a100-40gb&fill-memory=4"
    for _ in range(2):
        await tab.page.goto(link)
        await tab.customize()
        values = await tab.values()
        assert (values["gpu"], values["memory"]) == ("a100-40gb", "4")
        await tab.person.field("memory").fill("7")
        await tab.page.goto(f"{quick_hub.url}/hub/home")

    await tab.page.go_back()

    await expect(tab.start).to_be_visible()
    assert (await tab.values())["memory"] == "7"


async def test_the_banner_is_heard_once_and_moves_nothing(tab: Tab, context: BrowserContext):
    before = await where(tab.start)
    await context.clear_cookies()
    for _ in range(3):
        async with tab.page.expect_response("**/hub/api/user"):
            await tab.come_back()
        await tab.expect_says(SIGNED_OUT, dead=True)
    heard = await tab.page.evaluate(
        """async () => {
          let heard = 0;
          const banner = document.querySelector(".gs-session");
          new MutationObserver(() => { heard += 1; }).observe(banner, { childList: true });
          document.dispatchEvent(new Event("visibilitychange"));
          await new Promise((resolve) => setTimeout(resolve, 1000));
          return heard;
        }"""
    )

    assert (heard, await where(tab.start)) == (0, before)
    await expect(tab.banner).to_have_role("alert")
    assert await complaints(tab.page, "#spawn_form") == []


async def where(element: Locator) -> dict[str, float]:
    box = await element.bounding_box()
    assert box is not None
    return dict(box)
