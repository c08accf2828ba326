"""A link to a choice fills it in for the user who opens it, and one press starts it."""

from __future__ import annotations

import pytest
from playwright.async_api import Dialog, expect

from tests.browser.support.person import Person
from tests.cluster.support.servers import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

CARD = "a100-40gb"
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest.mark.smoke
@pytest.mark.window(permissions=CLIPBOARD)
async def test_a_copied_link_asks_about_the_same_choice_and_starts_it(person: Person, servers: Servers) -> None:
    page = person.page
    try:
        await person.log_in("linker")
        await person.pick("image", "jupyterlab")
        await person.field("memory").fill("3")
        await person.pick("gpu", CARD)
        await person.field("gpu_count").fill("2")
        await person.unfold()
        await page.get_by_role("button", name="Copy link").click()
        await expect(page.locator("#gpuspawner-copied")).to_have_text(
            "Link copied. It opens the form with this choice."
        )

        await page.goto(f"{await page.evaluate('navigator.clipboard.readText()')}&next=%2Fuser%2Flinker%2Ftree")

        await expect(page.get_by_role("heading", name="Start this server?")).to_be_visible()
        await expect(page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "now")
        await expect(person.field("memory")).to_be_hidden()
        await expect(page.get_by_role("button", name="Start", exact=True)).to_have_count(1)
        await person.start()
        await page.wait_for_url("**/hub/spawn-pending/**")
        assert "next=%2Fuser%2Flinker%2Ftree" in page.url

        limits = servers.pods.of("linker").spec.containers[0].resources.limits
        assert (limits["nvidia.com/gpu"], limits["memory"]) == ("2", str(3 * 1024**3))
    finally:
        servers.stop("linker")


async def test_without_a_clipboard_the_link_is_shown_to_be_copied_by_hand(person: Person) -> None:
    page = person.page
    await page.add_init_script("delete Navigator.prototype.clipboard")
    await person.log_in("by-hand")
    await person.pick("image", "jupyterlab-cpu")

    shown: list[str] = []

    async def note(dialog: Dialog) -> None:
        shown.append(dialog.default_value)
        await dialog.dismiss()

    page.on("dialog", note)
    await person.unfold()
    await page.get_by_role("button", name="Copy link").click()

    assert [link.startswith(f"{person.url}/hub/spawn?opt-image=jupyterlab-cpu&") for link in shown] == [True]


async def test_a_wrong_choice_has_no_link(person: Person) -> None:
    await person.log_in("linker")
    link = person.page.get_by_role("button", name="Copy link")
    await person.unfold()
    await expect(link).to_be_visible()

    await person.field("cpu").fill("lots")
    await person.unfold()

    await expect(person.page.locator("#gpuspawner-sentence")).to_be_visible()
    await expect(link).to_be_hidden()
