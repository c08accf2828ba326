"""The form's size and speed in a real browser, beside KubeSpawner's own form with the same choices.

The page comes from a small site on this machine, so that no cluster is needed; each answer has other counts. Scripts
and style sheets are minified as in the wheel.
"""

from __future__ import annotations

import asyncio
import gzip
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web
from kubespawner import KubeSpawner
from playwright.async_api import Page, async_playwright

from bench.render import busy_inventory, rich_catalog
from bench.result import Result
from devcluster import chromium
from gpuspawner._resources import data_dir
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.cache import FormCache
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.verdict.availability import count_availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.hub.form.refresh import build_answer, compute_tag
from gpuspawner.hub.form.rendering import render
from hatch_build import minify_all

IMAGES = 20
GPU_TYPES = 20
CLICKS = 400
REFRESHES = 10

BYTES_BUDGET = 104_000
GZIP_BYTES_BUDGET = 26_000
GZIP_LEVEL = 6
"""The level of Tornado, and of zlib by default."""
VERDICT_BUDGET_MS = 50.0

PAGE = """<!DOCTYPE html><html lang="en"><head><title>Form</title></head><body>
<form id="spawn_form" method="post">{}
<div class="feedback-container"><button type="submit">Start</button></div></form></body></html>"""

# From a click to the frame that shows what came of it: the second of two frames is drawn when the first is over.
CLICK = """async ([number, told]) => {
  const radios = [...document.querySelectorAll("#spawn_form input[type=radio]:not(:checked):not(:disabled)")];
  const before = document.querySelector(told)?.textContent;
  const began = performance.now();
  radios[number % radios.length].click();
  await new Promise(requestAnimationFrame);
  await new Promise((resolve) => setTimeout(resolve));
  return [performance.now() - began, document.querySelector(told)?.textContent !== before];
}"""
WATCH_SHIFTS = """() => {
  globalThis.shifted = 0;
  new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => { globalThis.shifted += value; }))
    .observe({ type: "layout-shift", buffered: false });
}"""
COUNTS = "[...document.querySelectorAll('.gs-free')].map(({ textContent }) => textContent).join()"
REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"


def measure() -> Result:
    """Weigh both forms, click through them, and let ours refresh itself."""
    ours = catalog()
    # Its constructor wants a cluster, its form does not.
    theirs = KubeSpawner.__new__(KubeSpawner)._render_options_form(profiles(ours))
    with TemporaryDirectory() as folder:
        # As a site's templates: those of the checkout are not minified.
        minified = Path(folder, "gpuspawner")
        minified.mkdir()
        minify_all(data_dir("templates"), minified)
        return asyncio.run(_measure(Ours(ours, folder), theirs))


class Ours:
    """Our form, as a hub has it.

    :param folder: of templates that come before the package's.
    """

    def __init__(self, offered: Catalog, folder: str) -> None:
        self._offered = offered
        self._folder = folder
        self._cache = FormCache()

    def view(self, number: int) -> FormView:
        """Return a form; the counts differ by its number."""
        return form(self._offered, number, cache=self._cache)

    def page(self, view: FormView) -> str:
        """Return the page of a form."""
        return render(replace(view, tag=compute_tag(view)), template_dirs=[self._folder])


async def _measure(ours: Ours, theirs: str) -> Result:
    async with _site(ours, theirs) as url, async_playwright() as playwright:
        browser = await chromium.launch(playwright, chromium.PROGRAM)
        page = await browser.new_page()
        await page.goto(f"{url}/ours")
        clicks = await _clicks(page, "#gpuspawner-sentence")
        shift = await _shift(page)
        await page.goto(f"{url}/theirs")
        peer = await _clicks(page, "#none")
        await browser.close()
    our_bytes, their_bytes = ours.page(ours.view(0)).encode(), theirs.encode()
    return Result(
        name="page",
        values={
            "bytes": len(our_bytes),
            "gzip_bytes": len(gzip.compress(our_bytes, GZIP_LEVEL)),
            "peer_bytes": len(their_bytes),
            "peer_gzip_bytes": len(gzip.compress(their_bytes, GZIP_LEVEL)),
            "verdict_p50_ms": statistics.median(clicks),
            "verdict_p99_ms": statistics.quantiles(clicks, n=100)[98],
            "peer_click_p99_ms": statistics.quantiles(peer, n=100)[98],
            "layout_shift": shift,
        },
        budgets={
            "bytes": BYTES_BUDGET,
            "gzip_bytes": GZIP_BYTES_BUDGET,
            "verdict_p99_ms": VERDICT_BUDGET_MS,
            "layout_shift": 0,
        },
        details={"images": IMAGES, "gpu_types": GPU_TYPES, "clicks": CLICKS, "refreshes": REFRESHES},
    )


async def _clicks(page: Page, told: str) -> list[float]:
    """Return how many milliseconds each click took to be drawn.

    :param told: selector of what each click must change, where it is there at all.
    """
    times = []
    for number in range(CLICKS):
        took_ms, has_changed = await page.evaluate(CLICK, [number * 7, told])
        if not has_changed and await page.locator(told).count():
            raise RuntimeError(f"click {number} changed nothing in {told}")
        times.append(took_ms)
    return times


async def _shift(page: Page) -> float:
    """Return how far the page moved, as browsers measure it, while it showed new counts again and again."""
    await page.evaluate(WATCH_SHIFTS)
    for _ in range(REFRESHES):
        before = await page.evaluate(COUNTS)
        await page.evaluate(REFRESH)
        await page.wait_for_function(f"(before) => {COUNTS} !== before", arg=before)
    return float(await page.evaluate("new Promise((resolve) => setTimeout(() => resolve(globalThis.shifted), 100))"))


def catalog() -> Catalog:
    """Return what a site offers that has twenty of both."""
    return rich_catalog(images=IMAGES, gpu_types=GPU_TYPES)


def form(offered: Catalog, number: int, *, cache: FormCache) -> FormView:
    """Return our form on a cluster that is a little different each time.

    :param number: of the form; the counts of free GPUs differ by it.
    :param cache: the hub's.
    """
    inventory = busy_inventory(gpu_types=GPU_TYPES, taken=number)
    live = LiveState(
        availabilities=count_availability(tuple(offered.gpus.values()), inventory),
        verdict=Verdict(outcome=Outcome.NOW, places=3 + number % 2, places_exact=True),
        cache=cache,
    )
    saved = {"image": "image-3", "cpu": 4, "memory": "16G", "gpu": "gpu-1", "gpu_count": 2}
    return build_view(offered, inventory, filled=fill_fields(offered, options=saved), live=live)


def profiles(offered: Catalog) -> list[dict[str, object]]:
    """Return the same choices as a profile list: a profile for each GPU type, with the images as its options."""
    images = {
        image.slug: {"display_name": image.display_name, "kubespawner_override": {"image": image.image}}
        for image in offered.images.values()
    }
    return [
        {
            "display_name": gpu.display_name,
            "slug": gpu.slug,
            "description": gpu.description,
            "profile_options": {"image": {"display_name": "Image", "choices": images}},
            "kubespawner_override": {"extra_resource_limits": {gpu.resource: "1"}},
        }
        for gpu in offered.gpus.values()
    ]


@asynccontextmanager
async def _site(ours: Ours, theirs: str) -> AsyncIterator[str]:
    """Serve both pages; ours asks again and again what is new, by its own address."""
    numbers = count()

    async def show_ours(request: web.Request) -> web.Response:
        view = ours.view(next(numbers))
        if "application/json" in request.headers.get("Accept", ""):
            status, headers, body = build_answer(view, sent=request.headers, again_s=10)
            return web.Response(status=status, headers=headers, body=body)
        return web.Response(text=PAGE.format(ours.page(view)), content_type="text/html")

    async def show_theirs(_: web.Request) -> web.Response:
        return web.Response(text=PAGE.format(theirs), content_type="text/html")

    app = web.Application()
    app.add_routes([web.get("/ours", show_ours), web.get("/theirs", show_theirs)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
