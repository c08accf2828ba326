"""A user's limits on a page, and how they stay true while servers of theirs come and go elsewhere.

A small site of this test answers the page, so that usage is the test's to choose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from gpuspawner.core.catalog.model import Bounds, Catalog, CustomImages, GPUType, Image, Preset
from gpuspawner.core.catalog.policy_model import AmountRange, GPUTypeRule, Person, Policy, Rule
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.usage import ServerUsage, sum_usage
from gpuspawner.core.verdict.availability import Availability, FreeShape
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.browser.support.axe import complaints
from tests.browser.support.site import LiveSite, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

GIB = 1 << 30
REFRESH_MS = 10_000
HOUR_S = 60 * 60
CATALOG = Catalog(
    images={
        "lab": Image(slug="lab", display_name="JupyterLab", image="lab:1"),
        "secret": Image(slug="secret", display_name="Secret", image="secret:1", description="Theirs."),
    },
    cpu=Bounds(min=500, max=64_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=512 * GIB, step=GIB, default=8 * GIB),
    run_time=Bounds(min=HOUR_S // 2, max=24 * HOUR_S, step=HOUR_S // 2, default=8 * HOUR_S),
    custom_images=CustomImages(),
    gpus={
        slug: GPUType(
            slug=slug, display_name=name, resource="nvidia.com/gpu", vendor="nvidia", max_count=8, new_nodes=False
        )
        for slug, name in [("a100", "A100 80 GB"), ("h100", "H100 80 GB"), ("t4", "Tesla T4")]
    },
    presets={
        "two": Preset(slug="two", display_name="Two cards", options={"gpu": "a100", "gpu_count": 2}),
        "none": Preset(slug="none", display_name="No card", options={"cpu": 1}),
    },
    policy=Policy(
        default=Rule(
            images=("lab",),
            custom_images=False,
            gpus={"a100": GPUTypeRule(), "t4": GPUTypeRule(max_runtime_s=4 * HOUR_S)},
            max_gpus=4,
            cpu=AmountRange(max=8000),
        ),
        groups={"ml": Rule()},
    ),
)
SHAPES = (FreeShape(cpu_millis=64_000, memory_bytes=512 * GIB, gpu_count=8),)
FREE = Availability(total=8, healthy=8, free=8, largest=8, waiting=0, shapes=SHAPES, largest_shapes=SHAPES)
FULL = "You may have 4 GPUs at a time. 4 are in use by your server other. Stop it first."
SOME = "You may have 4 GPUs at a time. 3 are in use by your server other."
UNGROUPED = (
    "What you may start depends on your groups, and they could not be read. Log in again, or ask the hub's admins."
)


@dataclass
class Site(LiveSite):
    """A hub, and its user.

    :param used: GPUs that the person's other servers hold.
    """

    used: int = 2
    groups: frozenset[str] | None = frozenset()
    catalog: Catalog = CATALOG

    def allowed(self) -> Allowance:
        servers = [ServerUsage(owner="ada", name="other", gpu="a100", count=self.used)]
        return resolve_allowance(
            self.catalog, Person(name="ada", groups=self.groups), usage=sum_usage("ada", servers, excluding="")
        )

    def view(self, choice: dict[str, str] | None) -> FormView:
        allowed = self.allowed()
        saved = {"gpu": "a100", "gpu_count": 2, "cpu": 4}
        filled = fill_fields(self.catalog, options=saved, typed=choice, allowance=allowed)
        verdict = None if filled.selection is None else Verdict(outcome=Outcome.NOW)
        live = LiveState(availabilities=(FREE,) * 3, verdict=verdict)
        inventory = Inventory(nodes=(), occupancy=Occupancy(), age_s=0.0)
        return build_view(self.catalog, inventory, filled=filled, live=live, allowance=allowed)


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as site.url:
        yield site


async def open_form(page: Page, site: Site, *, is_still: bool = True) -> None:
    """Open the form.

    :param is_still: the clock stands still until a test lets time pass.
    """
    if is_still:
        await page.clock.install(time=0)
        await page.clock.pause_at(1)
    await page.goto(site.url)
    await expect(page.locator("#gpuspawner-sentence")).not_to_be_empty()
    for door in ("custom", "more"):
        closed = page.locator(f"#gpuspawner-{door}:not([open]) > summary")
        if await closed.count():
            await closed.click()


async def refresh(page: Page) -> None:
    """Let the page ask the site again."""
    async with page.expect_response("**/spawn"):
        await page.clock.run_for(REFRESH_MS)


def radio(page: Page, name: str, value: str) -> Locator:
    return page.locator(f"input[name={name}][value='{value}']")


def row(page: Page, name: str, value: str) -> Locator:
    return page.locator(f"label:has(input[name={name}][value='{value}'])")


def count(page: Page) -> Locator:
    return page.locator("input[name=gpu_count]")


def preset(page: Page, number: int) -> Locator:
    return page.locator(f"#gpuspawner-preset-{number}")


def start(page: Page) -> Locator:
    return page.locator(".feedback-container button")


def told(page: Page, name: str) -> Locator:
    return page.locator(f"#gpuspawner-{name}")


@pytest.mark.smoke
async def test_denied_rows_are_greyed_with_their_reason_and_the_keyboard_passes_them_by(page: Page, site: Site) -> None:
    await open_form(page, site)

    await expect(radio(page, "gpu", "h100")).to_be_disabled()
    await expect(row(page, "gpu", "h100").locator(".gs-reason")).to_have_text("You don't have access to H100 80 GB.")
    await expect(radio(page, "image", "secret")).to_be_disabled()
    await expect(row(page, "image", "secret").locator(".gs-reason")).to_have_text(
        "You don't have access to the image Secret."
    )
    await expect(radio(page, "image", "")).to_be_disabled()
    await expect(page.locator("input[name=custom_image]")).to_have_count(0)
    describing = (await radio(page, "gpu", "h100").get_attribute("aria-describedby") or "").split()
    texts = [await page.locator(f"#{each}").inner_text() for each in describing]
    assert "You don't have access to H100 80 GB." in texts

    await radio(page, "gpu", "a100").focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(radio(page, "gpu", "h100")).not_to_be_checked()
    await expect(radio(page, "gpu", "h100")).to_be_disabled()


async def test_where_the_run_time_is_behind_a_door_it_opens_for_what_is_wrong(page: Page, site: Site) -> None:
    await open_form(page, site)
    await told(page, "more").locator("summary").click()
    await expect(page.locator("input[name=run_time]")).to_be_hidden()

    await radio(page, "gpu", "t4").check()

    await expect(told(page, "run_time-error")).to_be_visible()


async def test_a_quota_that_fills_up_elsewhere_keeps_what_stands_in_the_fields(page: Page, site: Site) -> None:
    await open_form(page, site)
    await page.locator("input[name=cpu]").fill("6")

    site.used = 4
    await refresh(page)

    await expect(told(page, "in-use")).to_have_text("4 of 4 GPUs in use by you")
    await expect(told(page, "verdict-text")).to_have_text(FULL)
    await expect(told(page, "verdict")).to_have_attribute("data-outcome", "never")
    await expect(row(page, "gpu", "a100").locator(".gs-reason")).to_have_text(FULL)
    await expect(radio(page, "gpu", "a100")).to_be_checked()
    await expect(radio(page, "gpu", "a100")).to_be_enabled()  # else it would not be sent
    await expect(radio(page, "gpu", "t4")).to_be_disabled()
    await expect(page.locator("input[name=cpu]")).to_have_value("6")
    await expect(count(page)).to_have_value("2")
    await expect(preset(page, 1)).to_be_disabled()
    await expect(preset(page, 1).locator(".gs-outlook")).to_have_text(FULL)
    await expect(preset(page, 2)).to_be_enabled()

    await radio(page, "gpu", "").check()
    await expect(radio(page, "gpu", "a100")).to_be_disabled()


async def test_what_becomes_free_elsewhere_can_be_picked_again(page: Page, site: Site) -> None:
    site.used = 4
    await open_form(page, site)
    await expect(told(page, "gpu-notice")).to_have_text(f"{FULL} No GPU is selected.")
    await expect(radio(page, "gpu", "a100")).to_be_disabled()
    await expect(preset(page, 1)).to_be_disabled()

    site.used = 1
    await refresh(page)

    await expect(radio(page, "gpu", "a100")).to_be_enabled()
    await expect(row(page, "gpu", "a100").locator(".gs-reason")).to_be_hidden()
    await expect(row(page, "gpu", "a100")).to_contain_text("up to 3")
    await expect(told(page, "in-use")).to_have_text("1 of 4 GPUs in use by you")
    await preset(page, 1).click()
    await expect(count(page)).to_have_value("2")
    await expect(told(page, "verdict-text")).to_have_text("Starts now.")


async def test_a_count_that_is_too_large_by_now_is_reported_at_its_field(page: Page, site: Site) -> None:
    await open_form(page, site)

    site.used = 3
    await refresh(page)

    await expect(count(page)).to_have_value("2")
    await expect(told(page, "gpu_count-error")).to_have_text("Enter 1.")
    await expect(told(page, "sentence")).to_have_text("Fix 1 field above to continue.")
    await expect(row(page, "gpu", "a100")).not_to_contain_text("up to")
    await expect(preset(page, 1).locator(".gs-outlook")).to_have_text(SOME)


async def test_while_nothing_may_be_started_the_form_says_so_and_start_waits(page: Page, site: Site) -> None:
    site.groups = None
    await open_form(page, site)

    await expect(told(page, "blocked")).to_have_text(UNGROUPED)
    await expect(start(page)).to_be_disabled()
    await expect(told(page, "verdict-text")).to_have_text(UNGROUPED)
    await expect(preset(page, 2)).to_be_disabled()
    await expect(count(page)).to_have_value("2")

    site.groups = frozenset({"ml"})
    await refresh(page)

    await expect(told(page, "blocked")).to_be_hidden()
    await expect(start(page)).to_be_enabled()
    await expect(preset(page, 2)).to_be_enabled()


@pytest.mark.window(color_scheme="dark", viewport={"width": 320, "height": 900})
@pytest.mark.parametrize("used", [2, 4])
async def test_nothing_is_wrong_in_dark_and_narrow(page: Page, site: Site, used: int) -> None:
    site.used = used
    await open_form(page, site, is_still=False)

    assert await complaints(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("groups", [frozenset[str](), None], ids=["limits", "blocked"])
async def test_nothing_is_wrong_in_light(page: Page, site: Site, groups: frozenset[str] | None) -> None:
    site.groups = groups
    await open_form(page, site, is_still=False)

    assert await complaints(page) == []


async def test_buttons_of_amounts_that_are_no_longer_allowed_go_away_and_leave_the_focus_at_the_field(
    page: Page, site: Site
) -> None:
    policy = CATALOG.policy
    assert policy is not None
    site.catalog = replace(CATALOG, policy=replace(policy, default=replace(policy.default, cpu=None)))
    await open_form(page, site)
    buttons = page.locator(".gs-number:has([name=cpu]) + .gs-common button")
    await expect(buttons).to_have_text(["2", "4", "8", "16", "32", "64"])
    await buttons.last.click()
    await expect(buttons.last).to_be_focused()

    site.catalog = CATALOG
    await refresh(page)

    await expect(buttons).to_have_text(["2", "4", "8"])
    await expect(page.locator("[name=cpu]")).to_be_focused()
