"""The actions of a user on the hub's pages."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from playwright.async_api import Locator, Page, expect

MOST_TABS = 80
# A server starts, JupyterLab loads and a kernel answers, on a machine that may be busy.
START_TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True)
class Person:
    """One person at one browser window.

    :param url: address of the hub, without a slash at the end.
    """

    page: Page
    url: str
    password: str

    async def log_in(self, name: str, *, customise: bool = True) -> None:
        await self.log_in_to("/hub/spawn", name)
        await expect(self.page.locator("#spawn_form")).to_be_visible()
        if customise:
            await self.customise()

    async def log_in_to(self, path: str, name: str) -> None:
        await self.page.goto(f"{self.url}/hub/login?{urlencode({'next': path})}")
        await self.page.fill("input[name=username]", name)
        await self.page.fill("input[name=password]", self.password)
        await self.page.click("#login_submit")

    async def customise(self) -> None:
        """Show the single fields, where presets stand before them."""
        closed = self.page.locator("#gpuspawner-custom:not([open]) > summary")
        if await closed.count():
            await closed.click()

    async def unfold(self) -> None:
        """Show what the bar with the verdict has more to say: the choice, alternatives, and the link."""
        closed = self.page.locator("#gpuspawner-toggle[aria-expanded=false]")
        if await closed.count():
            await closed.click()

    def field(self, name: str) -> Locator:
        return self.page.locator(f"#spawn_form input[name={name}]")

    def choice(self, name: str, value: str) -> Locator:
        return self.page.locator(f"#spawn_form input[name={name}][value='{value}']")

    def row(self, name: str, value: str) -> Locator:
        """Return a choice with everything that is said about it."""
        return self.page.locator(f"#spawn_form label:has(input[name={name}][value='{value}'])")

    async def pick(self, name: str, value: str) -> None:
        """Pick a choice; one that stands behind a line of a long list is shown first."""
        closed = self.page.locator("#spawn_form button[aria-expanded=false]:visible")
        while await self.row(name, value).is_hidden() and await closed.count():
            await closed.first.click()
        await self.choice(name, value).check()

    async def start(self) -> None:
        await self.page.locator(".feedback-container button").click()

    async def send_unchecked(self) -> None:
        """Send the form as it is, past the script, which would lead to a wrong field instead."""
        await self.page.locator("#spawn_form").evaluate("(form) => form.submit()")

    async def wait_for_lab(self) -> None:
        await self.page.wait_for_url("**/user/*/lab**", timeout=START_TIMEOUT_MS)
        await expect(self.page.locator(".jp-Launcher")).to_be_visible(timeout=START_TIMEOUT_MS)

    async def run_cell(self, code: str) -> Locator:
        """Open a notebook in JupyterLab, run one cell and return its output."""
        await self.page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
        cell = self.page.locator(".jp-Notebook .jp-Cell .cm-content").first
        await cell.click(timeout=START_TIMEOUT_MS)
        await self.page.keyboard.type(code)
        # Before there is a kernel, JupyterLab clears a cell's output instead of running it.
        await expect(self.page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=START_TIMEOUT_MS)
        await self.page.keyboard.press("Shift+Enter")
        return self.page.locator(".jp-Notebook .jp-OutputArea-output").first

    async def tab_to(self, selector: str) -> None:
        """Press Tab until the focus is on an element, as a user without a mouse does."""
        for _ in range(MOST_TABS):
            await self.page.keyboard.press("Tab")
            if await self.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{MOST_TABS} times Tab never reached {selector}")
