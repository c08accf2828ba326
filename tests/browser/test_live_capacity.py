"""Live capacity on the page: counts, bars and the verdict, and how they stay true while a user chooses.

The page is the form with its script in a real browser; what answers it is a small site of this test, so that each count
and failure is the test's to choose. That the hub answers the same is for the tests on the hub.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Locator, Page, expect

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, Preset
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.request.options import parse_form
from gpuspawner.core.request.selection import Selection, validate
from gpuspawner.core.verdict.availability import UNKNOWN_AVAILABILITY, Availability, FreeShape
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.browser.support.site import LiveSite, is_refresh, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

GIB = 1 << 30
REFRESH_MS = 10_000
SETTLED_MS = 300
CATALOG = Catalog(
    images={"lab": Image(slug="lab", display_name="JupyterLab", image="lab:1")},
    cpu=Bounds(min=500, max=64_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=512 * GIB, step=GIB, default=8 * GIB),
    gpus={
        slug: GPUType(
            slug=slug, display_name=name, resource="nvidia.com/gpu", vendor="nvidia", max_count=8, new_nodes=False
        )
        for slug, name in [("a100", "A100 80 GB"), ("h100", "H100 80 GB"), ("t4", "Tesla T4")]
    },
    presets={"two": Preset(slug="two", display_name="Two cards", options={"gpu": "a100", "gpu_count": 2})},
)
EMPTY_NODE = FreeShape(cpu_millis=32_000, memory_bytes=256 * GIB, gpu_count=8)
GONE = Availability(total=0, healthy=0, free=0, largest=0, waiting=0, shapes=(), largest_shapes=())


def available(free: int, *, healthy: int = 8) -> Availability:
    """Return what one node with eight cards has left."""
    left = (FreeShape(cpu_millis=16_000, memory_bytes=64 * GIB, gpu_count=free),) if free else ()
    return Availability(
        total=8, healthy=healthy, free=free, largest=free, waiting=0, shapes=left, largest_shapes=(EMPTY_NODE,)
    )


@dataclass
class Site(LiveSite):
    """A hub with a node of each type.

    :param is_counted: whether the hub knows the counts of any GPU type.
    :param answers: status and bytes of each answer to an open form.
    :param queries: of all requests, in order.
    """

    free: int = 3
    places: int = 2
    age_s: float = 0.0
    status: int = 200
    is_running: bool = False
    is_counted: bool = True
    offered: Catalog = CATALOG
    answers: list[tuple[int, int]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.queries.append(request.query_string)
        if self.is_running:
            raise web.HTTPFound("/user/ada/lab")
        if self.status != 200:
            return web.Response(text="no form", status=self.status)
        answer = await super().answer(request)
        if is_refresh(request):
            self.answers.append((answer.status, answer.content_length or 0))
        return answer

    def view(self, choice: dict[str, str] | None) -> FormView:
        typed = choice or {"gpu": "a100", "gpu_count": "1"}
        counts = (
            (available(self.free, healthy=7), GONE, available(8)) if self.is_counted else (UNKNOWN_AVAILABILITY,) * 3
        )
        return build_view(
            self.offered,
            Inventory(nodes=(), occupancy=Occupancy(), age_s=self.age_s),
            filled=fill_fields(self.offered, typed=typed),
            live=LiveState(
                availabilities=counts[: len(self.offered.gpus)],
                verdict=self.verdict(typed),
                presets={"two": self.judged(validate({"preset": "two"}, self.offered))},
                alternatives=(Selection(image="lab", cpu_millis=2000, memory_bytes=8 * GIB, gpu="t4", gpu_count=4),)
                if int(typed.get("gpu_count") or 0) > self.free
                else (),
            ),
        )

    def verdict(self, typed: dict[str, str]) -> Verdict | None:
        try:
            selection = validate(parse_form({name: [text] for name, text in typed.items()}), self.offered)
        except SelectionError:
            return None
        return self.judged(selection)

    def judged(self, selection: Selection) -> Verdict:
        if selection.gpu == "a100" and selection.gpu_count > self.free:
            return Verdict(outcome=Outcome.WAITS, reason=f"{self.free} of 8 are free.", ahead=2)
        return Verdict(outcome=Outcome.NOW, places=self.places, places_exact=True)


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as site.url:
        yield site


@pytest_asyncio.fixture(loop_scope="session")
async def opened(page: Page, site: Site) -> Page:
    """Open the form on a clock that stands still until a test lets time pass."""
    # It stands still before the page is there: how long that takes to load must not count.
    await page.clock.install(time=0)
    await page.clock.pause_at(1)
    await page.goto(site.url)
    await expect(verdict(page)).to_contain_text("Starts now")
    return page


def outlook(page: Page) -> Locator:
    """Return what the preset's card says of whether it can start."""
    return page.locator("#gpuspawner-preset-1 .gs-outlook")


def verdict(page: Page) -> Locator:
    return page.get_by_role("status")


def capacity(page: Page, number: int) -> Locator:
    return about(page, number).locator(".gs-free")


def about(page: Page, number: int) -> Locator:
    return page.locator(f"label:has(#gpuspawner-gpu-{number})")


def count(page: Page) -> Locator:
    return page.locator("input[name=gpu_count]")


async def set_visible(page: Page, visible: bool) -> None:
    """Tell the page that it is shown or hidden; a headless browser shows every tab."""
    hidden = "false" if visible else "true"
    await page.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def test_the_verdict_follows_the_count_without_a_request(opened: Page, site: Site) -> None:
    await count(opened).fill("5")

    await expect(verdict(opened)).to_have_text("Will wait: only 3 of 8 are free.")
    await expect(verdict(opened)).to_have_attribute("data-outcome", "waits")
    await count(opened).fill("2")
    await expect(verdict(opened)).to_have_attribute("data-outcome", "now")
    assert site.asked == [None]


async def test_the_server_says_it_exactly_once_the_choice_has_settled(opened: Page, site: Site) -> None:
    await count(opened).fill("4")
    await count(opened).fill("5")
    await opened.clock.run_for(SETTLED_MS)

    await expect(verdict(opened)).to_contain_text("2 servers are ahead of yours.")
    sent = {"image": "lab", "cpu": "2", "memory": "8", "gpu": "a100", "gpu_count": "5"}
    assert site.asked == [None, sent]


@pytest.mark.smoke
async def test_the_counts_are_new_every_ten_seconds(opened: Page, site: Site) -> None:
    site.free = 0
    await opened.clock.run_for(REFRESH_MS)

    await expect(capacity(opened, 1)).to_have_text("0 of 8 free")
    await expect(about(opened, 1).locator(".gs-reason")).to_have_text("None is free right now.")
    await expect(verdict(opened)).to_contain_text("Will wait:")
    site.free = 8
    await opened.clock.run_for(REFRESH_MS)
    await expect(capacity(opened, 1)).to_have_text("8 of 8 free")
    await expect(verdict(opened)).to_contain_text("Starts now")


async def test_an_open_form_gets_nothing_without_news_and_only_what_changed_with_news(opened: Page, site: Site) -> None:
    async with opened.expect_response(site.url):
        await opened.clock.run_for(REFRESH_MS)
    site.free = 1
    await opened.clock.run_for(REFRESH_MS)
    await expect(capacity(opened, 1)).to_have_text("1 of 8 free")

    assert [status for status, _ in site.answers] == [304, 200]
    assert site.answers[0][1] == 0
    assert site.answers[1][1] < 1024


async def test_a_type_that_is_offered_no_longer_says_so(opened: Page, site: Site) -> None:
    row = opened.locator("label:has(#gpuspawner-gpu-3)")
    site.offered = replace(CATALOG, gpus={slug: gpu for slug, gpu in CATALOG.gpus.items() if slug != "t4"})
    await opened.clock.run_for(REFRESH_MS)

    await expect(capacity(opened, 3)).to_have_text("no longer offered")
    await expect(row.locator("svg")).to_have_count(0)
    site.offered = CATALOG
    await opened.clock.run_for(REFRESH_MS)
    await expect(capacity(opened, 3)).to_have_text("8 of 8 free")
    await expect(row.locator("svg rect")).to_have_attribute("width", "100%")


async def test_a_page_that_opened_without_any_counts_draws_their_bars_once_there_are_some(
    page: Page, site: Site
) -> None:
    site.is_counted = False
    await page.clock.install(time=0)
    await page.clock.pause_at(1)
    await page.goto(site.url)
    await expect(page.locator("#gpuspawner-sentence")).not_to_be_empty()
    await expect(page.locator("svg")).to_have_count(0)

    site.is_counted = True
    await page.clock.run_for(REFRESH_MS)

    await expect(capacity(page, 1)).to_have_text("3 of 8 free")
    rects = about(page, 1).locator("svg rect")
    await expect(rects).to_have_count(2)
    for rect, width in zip(await rects.all(), ("37.5%", "12.5%"), strict=True):
        await expect(rect).to_have_attribute("width", width)
        await expect(rect).to_be_visible()


async def test_a_presets_card_says_whether_it_can_start_and_stays_new(opened: Page, site: Site) -> None:
    await expect(outlook(opened)).to_have_text("Starts now: room for 2")
    site.free = 1
    await opened.clock.run_for(REFRESH_MS)

    await expect(outlook(opened)).to_have_text("Will wait: 2 ahead of you")
    await expect(outlook(opened)).to_have_attribute("data-outcome", "waits")
    site.status = 503
    await opened.clock.run_for(8 * REFRESH_MS)
    await expect(outlook(opened)).to_have_text("")


async def test_asking_again_starts_nothing_and_loads_nothing_from_elsewhere(opened: Page, site: Site) -> None:
    urls: list[str] = []
    opened.on("request", lambda request: urls.append(request.url))
    await opened.evaluate("history.replaceState(null, '', location.pathname + '?opt-gpu=t4')")
    await opened.clock.run_for(REFRESH_MS)
    await expect(verdict(opened)).to_contain_text("Starts now")

    assert (set(urls), site.queries) == ({site.url}, ["", ""])


async def test_a_refresh_keeps_what_is_being_typed_and_the_focus(opened: Page, site: Site) -> None:
    memory = opened.locator("input[name=memory]")
    await memory.click()
    await memory.fill("1")
    await opened.keyboard.type("6.")
    site.free = 1
    await opened.clock.run_for(REFRESH_MS)
    await expect(capacity(opened, 1)).to_have_text("1 of 8 free")

    await opened.keyboard.type("5")
    await expect(memory).to_be_focused()
    await expect(memory).to_have_value("16.5")


async def test_a_refresh_moves_nothing(opened: Page, site: Site) -> None:
    places = """() => [...document.querySelectorAll('#spawn_form :is(label, input, fieldset, section)')]
        .map(each => Object.values(each.getBoundingClientRect().toJSON()).map(Math.round).join())"""
    before = await opened.evaluate(places)
    site.free = 2
    await opened.clock.run_for(REFRESH_MS)
    await expect(capacity(opened, 1)).to_have_text("2 of 8 free")

    assert await opened.evaluate(places) == before


async def test_a_refresh_without_news_changes_nothing_that_could_be_read_out(opened: Page, site: Site) -> None:
    await opened.evaluate(
        """() => { window.changes = []; new MutationObserver(found => window.changes.push(
            ...found.map(each => `${each.target.id || each.target.nodeName} ${each.attributeName}`)))
            .observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }); }"""
    )
    async with opened.expect_response(site.url):
        await opened.clock.run_for(REFRESH_MS)
    await opened.clock.run_for(SETTLED_MS)

    assert await opened.evaluate("window.changes") == []


async def test_counts_that_cannot_be_renewed_are_marked_with_their_age(opened: Page, site: Site) -> None:
    site.status = 503
    await opened.clock.run_for(7 * REFRESH_MS)

    await expect(opened.locator("#gpuspawner-age")).to_have_text(re.compile(r"These counts are as of 7\d s ago\."))
    await expect(verdict(opened)).to_have_text(re.compile(r"Availability unknown: last update 7\d s ago\."))
    assert len(site.queries) <= 4  # after 10, 30 and 70 s
    site.status = 200
    async with asyncio.timeout(30):
        while await opened.locator("#gpuspawner-age").is_visible():
            await opened.clock.run_for(REFRESH_MS)  # an answer takes its time, whatever the page's clock says
    await expect(verdict(opened)).to_contain_text("Starts now")


async def test_it_goes_on_asking_while_the_server_runs_which_may_end(opened: Page, site: Site) -> None:
    site.is_running = True
    async with opened.expect_response(site.url):
        await opened.clock.run_for(REFRESH_MS)
    site.is_running = False
    site.free = 3
    await opened.clock.run_for(REFRESH_MS)

    await expect(capacity(opened, 1)).to_have_text("3 of 8 free")


async def test_an_alternative_fills_in_the_fields(opened: Page) -> None:
    await count(opened).fill("5")
    await opened.clock.run_for(SETTLED_MS)
    await opened.get_by_role("button", name="Alternatives (1)").click()
    await opened.get_by_role("button", name="4 × Tesla T4").click()

    await expect(opened.locator("input[name=gpu][value=t4]")).to_be_checked()
    await expect(count(opened)).to_have_value("4")
    await expect(verdict(opened)).to_contain_text("Starts now")
    await expect(verdict(opened)).to_be_focused()
    await expect(opened.locator("#gpuspawner-instead")).to_be_hidden()


@pytest.mark.window(viewport={"width": 320, "height": 700})
async def test_a_narrow_window_needs_no_sideways_scrolling(opened: Page) -> None:
    await count(opened).fill("5")
    await opened.clock.run_for(SETTLED_MS)
    await opened.get_by_role("button", name="Alternatives (1)").click()
    await expect(opened.locator("#gpuspawner-instead")).to_be_visible()

    assert await opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
