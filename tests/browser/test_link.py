"""A link to a choice fills it in for the user who opens it, and one press starts it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from playwright.async_api import Dialog, Locator, Page, expect

from gpuspawner.core.catalog.model import CustomImages
from gpuspawner.core.errors import Problem
from tests.browser.support.axe import complaints
from tests.browser.support.offered import CATALOG, STILL, Form, Site
from tests.browser.support.person import Person
from tests.browser.support.site import serving
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


# -- what a link starts, on a page that is served without a hub --------------------------------------------------------

FOREIGN = {"custom_image": "quay.io/someone/evil:1", "gpu": "gpu-3", "cpu": "4"}


@pytest_asyncio.fixture(loop_scope="session")
async def form(page: Page) -> AsyncIterator[Form]:
    site = Site(catalog=replace(CATALOG, custom_images=CustomImages()), link=FOREIGN, asks=True)
    async with serving(site.answer) as site.url:
        yield Form(page, site)


def facts(form: Form) -> Locator:
    return form.page.locator(".gs-facts > div:visible")


@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param("light", marks=pytest.mark.window(viewport={"width": 1280, "height": 720}, **STILL)),
        pytest.param(
            "dark", marks=pytest.mark.window(viewport={"width": 390, "height": 844}, color_scheme="dark", **STILL)
        ),
        pytest.param("plain", marks=pytest.mark.window(java_script_enabled=False)),
    ],
)
async def test_what_a_link_starts_is_in_sight_and_a_foreign_image_stands_out(form: Form, scheme: str) -> None:
    await form.open()

    await expect(facts(form)).to_have_text(
        [
            "Image quay.io/someone/evil:1 not one of this hub's images",
            "GPU 1 × GPU 3",
            "CPU and memory 4 CPUs · 8 GiB RAM",
            "Run time up to 8 hours",
        ],
        use_inner_text=True,
    )
    await expect(facts(form).first).to_be_in_viewport(ratio=1)
    await expect(form.page.locator(".gs-foreign")).to_have_count(1)
    if scheme != "plain":
        assert await complaints(form.page) == []
        assert not await form.page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.window(viewport={"width": 1280, "height": 720}, **STILL)
async def test_the_list_follows_the_fields(form: Form) -> None:
    form.site.language = "de"
    await form.open()
    await form.part("custom").locator("> summary").click()

    await form.radio("image", "image-1").check()
    await form.radio("gpu", "").check()
    await form.part("memory").fill("2,5")

    await expect(form.page.locator(".gs-foreign")).to_have_count(0)
    await expect(facts(form)).to_have_count(0)  # 2.5 GiB is wrong
    await form.part("memory").fill("3")
    await expect(facts(form)).to_have_text(
        [
            "Image Image 1",
            "GPU Keine GPU",
            "CPU und Arbeitsspeicher 4 CPUs · 3 GiB RAM",
            "Laufzeit höchstens 8 Stunden",
        ],
        use_inner_text=True,
    )
    await form.part("more").locator("summary").click()
    await form.part("shared_memory").fill("1")
    await expect(facts(form).last).to_contain_text("1 GiB")


@pytest.mark.window(viewport={"width": 1280, "height": 720}, **STILL)
async def test_what_is_to_be_changed_goes_with_the_last_wrong_field(form: Form) -> None:
    form.site.asks = False
    form.site.link = {"gpu": "gone", "cpu": "999"}
    form.site.problems = tuple(Problem(field=name, code="x", message=f"Another {name}.") for name in ("gpu", "cpu"))
    await form.open()

    await form.radio("gpu", "gpu-3").check()
    await expect(form.part("errors")).to_be_visible()
    await form.part("cpu").fill("4")

    await expect(form.part("errors")).to_have_count(0)
