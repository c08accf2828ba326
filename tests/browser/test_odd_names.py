"""Names with "@" and spaces: an open form is about its own server, however the address spells the names.

The hub's links leave "@" as it is, browsers' own functions do not. JupyterHub 6 allows such names for users only,
JupyterHub 5 for servers, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.async_api import BrowserContext, Page, Response, expect

from devcluster import Cluster
from devcluster.hub import CHECKOUT, Hub
from tests.browser.support.quick_hub import ADMIN, end_server, is_at_rest, run_quick_hub, sign_in
from tests.browser.support.tab import FAILED, FAILS, STARTING, WAITS, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

USER, SERVER = "ada lovelace@uni.example", "my lab@home"
OLDEST = CHECKOUT / ".venv-hub5" / "bin" / "python"
# What the hub answers about another user, and about none.
WRONG_PLACE = {403, 404}


def spell(*names: str, safe: str = "") -> str:
    """Return names as a part of an address.

    :param safe: what is left as it is, besides letters and digits.
    """
    return "/".join(quote(name, safe=safe) for name in names)


def watch_misses(page: Page) -> list[str]:
    """Return a list that grows by each request of the page from now on that goes to a wrong address."""
    misses: list[str] = []

    def note(response: Response) -> None:
        if response.status in WRONG_PLACE:
            misses.append(f"{response.status} {response.url}")

    page.on("response", note)
    return misses


@pytest.fixture(scope="module")
def old_hub(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Run a quick hub on the oldest JupyterHub."""
    folder = tmp_path_factory.mktemp("old-quick-hub")
    with run_quick_hub(cluster, folder, namespace="quick-old", python=OLDEST) as hub:
        yield hub


async def test_a_users_server_is_one_however_the_address_spells_the_name(context: BrowserContext, quick_hub: Hub):
    quick_hub.client.create_user(USER)
    await sign_in(context, quick_hub.url, USER)
    tab, other = [Tab(await context.new_page(), quick_hub.url) for _ in range(2)]
    misses = watch_misses(tab.page)
    await tab.open(f"/hub/spawn/{spell(USER, safe='@')}")
    await other.open()
    await other.person.field("memory").fill(WAITS)
    try:
        await other.press_start()

        await tab.expect_says(STARTING, dead=True)  # without coming back to it
        await tab.banner.get_by_role("link").click()
        await expect(tab.page).to_have_url(f"{quick_hub.url}/hub/spawn-pending/{spell(USER)}")
        await tab.page.go_back()
        await tab.come_back()
        await tab.expect_says(STARTING, dead=True)
    finally:
        end_server(quick_hub, USER)
    await tab.come_back()
    await tab.expect_alive()
    assert misses == []


@pytest.mark.parametrize(
    ("viewer", "safe"),
    [
        pytest.param(USER, "@", id="their own form, as the hub spells it"),
        pytest.param(ADMIN, "", id="an admin's form, as browsers spell it"),
    ],
)
async def test_what_became_of_a_named_server_is_said_in_its_form_which_starts_it(
    context: BrowserContext, old_hub: Hub, viewer: str, safe: str
):
    old_hub.client.create_user(USER)
    await sign_in(context, old_hub.url, viewer)
    tab, other = [Tab(await context.new_page(), old_hub.url) for _ in range(2)]
    misses = watch_misses(tab.page)
    for each in (tab, other):
        await each.open(f"/hub/spawn/{spell(USER, SERVER, safe=safe)}")
    await other.person.field("memory").fill(FAILS)
    try:
        await other.press_start()
        await expect(other.page.locator("#progress-bar.bg-danger")).to_be_visible()

        await tab.come_back()
        await tab.expect_says(FAILED, dead=False)
        details = f"/hub/spawn-pending/{spell(USER, SERVER)}"
        await expect(tab.banner.get_by_role("link")).to_have_attribute("href", details)
        await tab.person.field("memory").fill(WAITS)
        await tab.press_start()
        await tab.page.wait_for_url(f"**{details}")

        memory = old_hub.client.servers(USER)[SERVER]["user_options"]["memory"]
        assert (memory, is_at_rest(old_hub, USER), misses) == ("3G", True, [])
    finally:
        end_server(old_hub, USER, server=SERVER)
