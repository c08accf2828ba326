"""News in a long list: what becomes free appears, and nothing moves that a person may be pointing at.

A small site of this test answers the page, so that each count is the test's to choose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, UnitKind
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.verdict.availability import Availability, FreeShape
from tests.browser.support.site import LiveSite, serving

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.window(viewport={"width": 1280, "height": 1000})]

GIB = 1 << 30
REFRESH_MS = 10_000
PRODUCT = "nvidia.com/gpu.product"
NAMES = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett"]
NODE = FreeShape(cpu_millis=32_000, memory_bytes=256 * GIB, gpu_count=8)


def gpu(slug: str, position: int) -> GPUType:
    return GPUType(
        slug=slug,
        display_name=f"GPU {slug.upper()}",
        resource="nvidia.com/gpu",
        vendor="nvidia",
        match={PRODUCT: (f"MODEL-{slug}",)},
        max_count=8,
        memory_bytes=(80 - position) * GIB,
        new_nodes=False,
    )


SLICE = GPUType(
    slug="slice",
    display_name="GPU JULIETT slice",
    resource="nvidia.com/mig-1g.5gb",
    vendor="nvidia",
    unit=UnitKind.MIG,
    match={"nvidia.com/mig-1g.5gb.product": ("MODEL-juliett-MIG-1g.5gb",)},
    max_count=7,
    new_nodes=False,
)
CATALOG = Catalog(
    images={"lab": Image(slug="lab", display_name="JupyterLab", image="lab:1")},
    cpu=Bounds(min=500, max=64_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=512 * GIB, step=GIB, default=8 * GIB),
    gpus={**{slug: gpu(slug, position) for position, slug in enumerate(NAMES)}, "slice": SLICE},
)


@dataclass
class Site(LiveSite):
    """A hub.

    :param taken: slugs of the types of which no GPU is free.
    """

    taken: set[str] = field(default_factory=set)

    def view(self, choice: dict[str, str] | None) -> FormView:
        return build_view(
            CATALOG,
            Inventory(nodes=(), occupancy=Occupancy(), age_s=0.0),
            filled=fill_fields(CATALOG, typed={"image": "lab", **(choice or {})}),
            live=LiveState(availabilities=tuple(self._count(slug) for slug in CATALOG.gpus)),
        )

    def _count(self, slug: str) -> Availability:
        is_free = slug not in self.taken
        return Availability(
            total=8,
            healthy=8,
            free=8 if is_free else 0,
            largest=8 if is_free else 0,
            waiting=0,
            shapes=(NODE,) if is_free else (),
            largest_shapes=(NODE,),
        )


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as site.url:
        yield site


async def opened(page: Page, site: Site, *taken: str) -> None:
    """Open the form on a clock that stands still until a test lets time pass."""
    site.taken = set(taken)
    await page.clock.install(time=0)
    await page.clock.pause_at(1)
    await page.goto(site.url)
    await expect(page.locator("#gpuspawner-sentence")).to_contain_text("no GPU")


async def news(page: Page, site: Site, *taken: str) -> None:
    """Let the page ask again, when these types are taken."""
    site.taken = set(taken)
    async with page.expect_response(site.url):
        await page.clock.run_for(REFRESH_MS)
    for slug in CATALOG.gpus:
        words = page.locator(f"label:has([value={slug}]) .gs-free")
        await expect(words).to_have_text("0 of 8 free" if slug in taken else "8 of 8 free")


async def shown(page: Page) -> list[str]:
    found: list[str] = await page.locator("input[name=gpu]").evaluate_all(
        "radios => radios.filter((radio) => radio.checkVisibility() && radio.value).map(({ value }) => value)"
    )
    return found


@pytest.mark.smoke
async def test_a_type_that_becomes_free_appears_and_what_stands_before_it_does_not_move(page: Page, site: Site) -> None:
    await opened(page, site, "bravo", "charlie", "juliett", "slice")
    assert await shown(page) == ["alpha", "delta", "echo", "foxtrot", "golf", "hotel", "india"]
    before = await page.locator("label:has([value=india])").bounding_box()

    await news(page, site, "charlie", "juliett", "slice")

    # By the order it would be the second; it comes where it was folded.
    assert await shown(page) == ["alpha", "delta", "echo", "foxtrot", "golf", "hotel", "india", "bravo"]
    assert await page.locator("label:has([value=india])").bounding_box() == before
    await expect(page.get_by_role("button", name="3 more are in use now")).to_be_visible()
    await expect(page.locator(".gs-find [role=status]")).to_have_text("8 of 11 shown")


async def test_a_type_that_is_taken_stays_where_it_is_until_the_person_does_something(page: Page, site: Site) -> None:
    await opened(page, site, "bravo")
    await news(page, site, "alpha", "bravo")
    assert (await shown(page))[:2] == ["alpha", "charlie"]

    await page.get_by_label("Order of the GPUs").select_option("As listed")
    await page.get_by_label("Order of the GPUs").select_option("Free first")
    assert (await shown(page))[0] == "charlie"
    assert "alpha" not in await shown(page)


async def test_where_nothing_is_found_the_list_says_what_is_still_shown_and_is_cleared_at_once(
    page: Page, site: Site
) -> None:
    await opened(page, site, "bravo")
    status, clear = page.locator(".gs-find [role=status]"), page.get_by_role("button", name="Clear")
    await expect(clear).to_be_hidden()
    await page.get_by_role("searchbox").fill("nothing like it")
    await expect(status).to_have_text("Nothing found.")
    assert await shown(page) == []

    await page.get_by_role("searchbox").fill("")
    await page.locator("[value=charlie]").check()
    await page.get_by_role("button", name="Free now").click()
    await page.get_by_role("searchbox").fill("nothing like it")
    await expect(status).to_have_text("Nothing found. Shown: your choice.")
    assert await shown(page) == ["charlie"]
    await clear.click()

    await expect(page.get_by_role("searchbox")).to_be_focused()
    await expect(page.get_by_role("searchbox")).to_have_value("")
    await expect(page.get_by_role("button", name="Free now")).to_have_attribute("aria-pressed", "false")
    await expect(status).to_have_text("10 of 11 shown")
    await expect(page.get_by_role("button", name="1 more is in use now")).to_be_visible()
    await expect(clear).to_be_hidden()


async def test_picking_another_type_hides_none_under_the_pointer(page: Page, site: Site) -> None:
    await opened(page, site, "bravo")
    await page.get_by_role("button", name="1 more is in use now").click()
    await page.locator("[value=bravo]").check()
    await page.get_by_role("searchbox").fill("charlie")
    assert await shown(page) == ["charlie", "bravo"]

    await page.locator("[value=charlie]").check()
    assert await shown(page) == ["charlie", "bravo"]


async def test_a_choice_that_is_filled_in_is_in_sight(page: Page, site: Site) -> None:
    await opened(page, site, "bravo")
    await page.get_by_role("searchbox").fill("charlie")
    # As a preset or an alternative does it.
    await page.locator("[value=bravo]").evaluate(
        "(radio) => { radio.checked = true; radio.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    await expect(page.locator("label:has([value=bravo])")).to_be_visible()
