"""The form in pages of a real browser that stay open and untouched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, async_playwright

from bench.freshness.cluster import Cards
from bench.freshness.form import capacity_text
from devcluster import chromium

PAGES = 3
REFRESH_S = 10.0
"""How often a page asks for itself again (templates/live.js)."""
LOOK_MS = 50
TIMEOUT_MS = 60_000
SHOWS = "([row, text]) => document.querySelector(`label:has(#${row}) .gs-free`).textContent === text"


async def measure(url: str, cards: Cards, *, row: str, rounds: int) -> list[float]:
    """Return after how many seconds each page shows that one GPU fewer is free, for so many of them.

    :param url: address of the hub; :param row: id of the type's radio button.
    """
    times: list[float] = []
    async with _opened(url) as pages:
        for number in range(rounds):
            # One page has just refreshed itself, and the next is about to in a third of the time. So bindings come at
            # every moment in between, the first of them at the worst, right after a refresh.
            await asyncio.sleep(number / rounds * REFRESH_S / PAGES)
            bound = await asyncio.to_thread(cards.take)
            seen = await asyncio.gather(*(_seen(page, row, free=cards.free) for page in pages))
            times += [at - bound for at in seen]
            print(f"freshness: open pages {number + 1}/{rounds}, {max(times):.2f} s at most", flush=True)
    return times


async def _seen(page: Page, row: str, *, free: int) -> float:
    await page.wait_for_function(SHOWS, arg=[row, capacity_text(free)], polling=LOOK_MS, timeout=TIMEOUT_MS)
    return time.monotonic()


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[list[Page]]:
    """Open the pages one after the other, so that they are not refreshed together."""
    async with async_playwright() as playwright:
        browser = await chromium.launch(playwright, chromium.PROGRAM)
        pages = []
        for number in range(PAGES):
            if pages:
                await asyncio.sleep(REFRESH_S / PAGES)
            page = await (await browser.new_context()).new_page()
            await page.goto(f"{url}/hub/login?next=%2Fhub%2Fspawn", timeout=TIMEOUT_MS)
            await page.fill("input[name=username]", f"open-{number}")
            await page.fill("input[name=password]", "any password")
            await page.click("#login_submit")
            await page.wait_for_selector("#spawn_form", timeout=TIMEOUT_MS)
            pages.append(page)
        yield pages
        await browser.close()
