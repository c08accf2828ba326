"""A browser in which Back works as in a user's own: Playwright switches off the cache that keeps whole pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import BrowserContext, Page, async_playwright

from devcluster import chromium

NO_CACHE = "--disable-back-forward-cache"


@asynccontextmanager
async def open_browser(*, keeps_pages: bool = True) -> AsyncIterator[BrowserContext]:
    """Open a browser of its own, without cookies.

    :param keeps_pages: whether Back shows a page as it was left; False = Back loads the page again.
    """
    async with async_playwright() as playwright:
        browser = await (
            chromium.launch(playwright, chromium.PROGRAM, ignore_default_args=[NO_CACHE])
            if keeps_pages
            else chromium.launch(playwright)
        )
        yield await browser.new_context()
        await browser.close()


async def mark(page: Page) -> None:
    """Mark a page, for :func:`is_marked`."""
    await page.evaluate("globalThis.isMarked = true")


async def is_marked(page: Page) -> bool:
    """Return whether the page is the one that was marked, not a copy that was loaded since."""
    return bool(await page.evaluate("globalThis.isMarked === true"))
