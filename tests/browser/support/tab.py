"""One tab with the form of a quick hub, and what a user does in it."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.support.person import Person

BACK = "document.dispatchEvent(new Event('visibilitychange'))"
# Memory that the quick hub's servers run with, wait with, and fail with.
RUNS, WAITS, FAILS = "2", "3", "5"
STARTING = "Your server is starting. See its progress"
FAILED = "Your server didn't start. The disk is full. See details"


class Tab:
    """One tab with the form, and what stands in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.person = Person(page, url, "any password")
        self.banner = page.locator(".gs-session")
        self.start = page.locator("#gpuspawner-summary .feedback-container button")

    async def open(self, path: str = "/hub/spawn") -> None:
        await self.page.goto(f"{self.person.url}{path}")
        await self.customize()

    async def customize(self) -> None:
        await expect(self.start).to_be_visible()
        await self.person.customise()

    async def choose(self, memory: str) -> dict[str, str]:
        """Make a choice in which every kind of field differs from what the form opens with, and return it."""
        await self.person.pick("image", "")
        await self.person.field("custom_image").fill("localhost/mine:1")
        await self.person.pick("gpu", "a100-40gb")
        await self.person.field("gpu_count").fill("2")
        await self.person.field("memory").fill(memory)
        await self.page.locator("#gpuspawner-more:not([open]) > summary").click()
        await self.person.field("run_time").fill("2h")
        await self.page.get_by_label("Size").select_option("large")
        await self.page.locator(".gs-profile .gs-choice", has_text="Image").locator("select").select_option("")
        await self.page.locator(".gs-profile input[type=text]").fill("localhost/course:2")
        return await self.values()

    async def press_start(self) -> None:
        """Press Start, also where the form has noticed meanwhile that it cannot be sent."""
        await self.start.evaluate("button => button.click()")

    async def values(self) -> dict[str, str]:
        """Return what stands in all fields of the form."""
        found: dict[str, str] = await self.page.evaluate(
            """Object.fromEntries([...document.querySelectorAll("#gpuspawner-form :is(input, select)[name]")]
                .filter(({ type, checked }) => type !== "hidden" && (type !== "radio" || checked))
                .map(({ name, value }) => [name, value]))"""
        )
        return found

    async def come_back(self) -> None:
        """Do what the browser does when a person comes back to the tab."""
        await self.page.evaluate(BACK)

    async def set_visible(self, visible: bool) -> None:
        """Tell the page that it is shown or hidden; a headless browser shows every tab."""
        hidden = "false" if visible else "true"
        await self.page.evaluate(
            f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})"
        )
        await self.come_back()

    async def expect_says(self, text: str, *, dead: bool) -> None:
        await expect(self.banner).to_have_text(text)
        await (expect(self.start).to_be_disabled() if dead else expect(self.start).to_be_enabled())

    async def expect_alive(self) -> None:
        await self.expect_says("", dead=False)
