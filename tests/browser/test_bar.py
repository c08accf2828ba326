"""The bar with verdict and Start, and what leads there: first preset, order of the groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from gpuspawner.core.verdict.verdict import Outcome
from tests.browser.support.offered import EARLIER, FINGER_PX, STILL, TYPES, WIDE, WITH_PRESETS, Form, Site
from tests.browser.support.site import serving, sign_in

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.window(**STILL)]

MOST_PX = 72
MOST_TABS = 30
BOTH = pytest.mark.parametrize("size", [pytest.param((1280, 720), id="wide"), pytest.param((360, 640), id="phone")])


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as site.url:
        yield site


@pytest.fixture
def form(page: Page, site: Site) -> Form:
    return Form(page, site)


# -- the bar -----------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("language", ["en", "de"])
async def test_verdict_and_start_are_in_sight_in_a_bar_of_little_height(
    form: Form, size: tuple[int, int], language: str
) -> None:
    form.site.language, form.site.outcome = language, Outcome.WAITS
    form.site.options, form.site.reason = EARLIER, "no node with them has enough CPU and memory free " * 3
    await form.open(size)

    box = await form.box(form.bar)
    text = await form.box(form.part("verdict-text"))

    assert box["height"] <= MOST_PX
    assert box["bottom"] <= size[1]
    assert text["height"] < MOST_PX / 2
    for found in (form.part("brief"), form.part("verdict-text"), form.start):
        await expect(found).to_be_in_viewport(ratio=1)
    await expect(form.part("brief")).to_have_text("2 × GPU 2")
    assert not await form.page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.smoke
@WIDE
async def test_a_type_its_verdict_and_start_are_in_sight_together_after_one_action(form: Form) -> None:
    form.site.options = {"image": "image-1"}
    await form.open()

    await form.radio("gpu", "gpu-23").check()

    await expect(form.part("brief")).to_contain_text("1 × GPU 23")
    await expect(form.part("verdict-text")).to_contain_text("Starts now")
    for found in (form.part("brief"), form.part("verdict-text"), form.start):
        await expect(found).to_be_in_viewport(ratio=1)


HIDDEN = """() => {
  const focused = document.activeElement;
  const bar = document.getElementById("gpuspawner-summary");
  if (!focused || focused === document.body || bar.contains(focused)) return "";
  const [own, covers] = [focused.getBoundingClientRect(), bar.getBoundingClientRect()];
  const isSeen = own.top >= 0 && own.bottom <= Math.min(innerHeight, covers.top + 1);
  return isSeen ? "" : `${focused.id || focused.tagName}: ${own.top} to ${own.bottom}, bar ${covers.top}`;
}"""


@BOTH
@pytest.mark.parametrize("key", ["Tab", "Shift+Tab"])
@pytest.mark.parametrize("is_unfolded", [False, True], ids=["folded", "unfolded"])
async def test_the_focused_element_is_never_below_the_bar(
    form: Form, size: tuple[int, int], key: str, is_unfolded: bool
) -> None:
    form.site.catalog, form.site.outcome, form.site.options = WITH_PRESETS, Outcome.WAITS, EARLIER
    await form.open(size)
    await form.part("more").locator("summary").click()
    if key == "Shift+Tab":
        await form.start.focus()
    if is_unfolded:
        await form.part("toggle").click()
    hidden, seen = [], set()
    for _ in range(MOST_TABS):
        await form.page.keyboard.press(key)
        seen.add(await form.page.evaluate("document.activeElement.id || document.activeElement.name"))
        if found := await form.page.evaluate(HIDDEN):
            hidden.append(found)

    assert hidden == []
    assert {"gpuspawner-cpu", "gpuspawner-memory", "gpuspawner-run_time", "gpuspawner-shared_memory"} <= seen


@BOTH
async def test_walking_through_the_types_with_the_arrow_keys_hides_none(form: Form, size: tuple[int, int]) -> None:
    form.site.options = {"image": "image-1"}
    await form.open(size)
    await form.page.get_by_label("Order of the GPUs").select_option("")
    await form.radio("gpu", "").focus()
    hidden = []
    for _ in TYPES:
        await form.page.keyboard.press("ArrowDown")
        if found := await form.page.evaluate(HIDDEN):
            hidden.append(found)

    assert hidden == []
    await expect(form.radio("gpu", "gpu-24")).to_be_checked()


@BOTH
async def test_alternatives_unfold_above_the_bar_and_fold_away_once_one_is_taken(
    form: Form, size: tuple[int, int]
) -> None:
    form.site.outcome, form.site.options = Outcome.WAITS, EARLIER
    await form.open(size)
    await expect(form.part("toggle")).to_have_accessible_name("Alternatives (1)")
    await expect(form.part("instead")).to_be_hidden()

    await form.part("toggle").click()

    other = form.part("alternatives").get_by_role("button")
    await expect(form.part("toggle")).to_have_attribute("aria-expanded", "true")
    await expect(other).to_be_in_viewport(ratio=1)
    assert (await form.box(other))["bottom"] <= (await form.box(form.start))["top"]
    await expect(form.start).to_be_in_viewport(ratio=1)

    await other.click()

    await expect(form.radio("gpu", "gpu-5")).to_be_checked()
    await expect(form.part("instead")).to_be_hidden()
    await expect(form.part("verdict")).to_be_focused()


@WIDE
async def test_the_summary_folds_away_with_escape_and_when_a_field_gets_the_focus(form: Form) -> None:
    await form.open()
    for leave in (form.page.keyboard.press("Escape"), form.radio("gpu", "gpu-4").focus()):
        await form.part("toggle").click()
        await expect(form.part("sentence")).to_be_visible()
        await expect(form.page.get_by_role("button", name="Copy link")).to_be_visible()
        await leave
        await expect(form.part("sentence")).to_be_hidden()


@BOTH
async def test_what_opens_is_in_sight_above_the_bar(form: Form, size: tuple[int, int]) -> None:
    form.site.options = {"image": "image-1"}
    await form.open(size)
    row = form.page.locator("label:has(input[value=gpu-12])")
    # The row is the last one above the bar: the number of GPUs opens below it.
    await row.evaluate("row => scrollBy(0, row.getBoundingClientRect().bottom - innerHeight + 80)")
    await form.radio("gpu", "gpu-12").check()
    await expect(form.part("count")).to_be_visible()
    await form.page.wait_for_function(
        """() => document.getElementById("gpuspawner-count").getBoundingClientRect().bottom
            <= document.getElementById("gpuspawner-summary").getBoundingClientRect().top"""
    )

    more = form.part("more")
    await more.locator("summary").click()
    await form.page.wait_for_function(
        """() => document.getElementById("gpuspawner-more").getBoundingClientRect().bottom
            <= document.getElementById("gpuspawner-summary").getBoundingClientRect().top + 1"""
    )
    assert await more.evaluate("more => more.getBoundingClientRect().top") >= 0


# -- the order of a decision -------------------------------------------------------------------------------------------


@WIDE
async def test_a_picked_image_closes_no_type_and_a_picked_type_tells_at_the_images(form: Form) -> None:
    form.site.options = {"image": "no-gpu"}
    await form.open()
    await expect(form.page.locator("#gpuspawner-gpus [data-misfit]")).to_have_count(0)
    await expect(form.page.locator("input[name=gpu]:disabled")).to_have_count(0)

    await form.radio("gpu", "gpu-3").check()

    await expect(form.page.locator("label[data-misfit]:has([value=no-gpu]) .gs-reason")).to_be_visible()
    await expect(form.radio("image", "no-gpu")).to_be_checked()
    await expect(form.part("verdict-text")).to_have_text("This image and this GPU can't be used together.")


@WIDE
async def test_an_image_that_no_user_picked_makes_room_for_one_that_can_use_the_type(form: Form) -> None:
    await form.open()
    await expect(form.radio("image", "no-gpu")).to_be_checked()

    await form.radio("gpu", "gpu-3").check()

    await expect(form.radio("image", "image-1")).to_be_checked()
    await expect(form.part("fitted")).to_have_text("Image 1 is selected: Without GPU tools can't be used with GPU 3.")
    await expect(form.part("verdict-text")).to_contain_text("Starts now")

    await form.radio("image", "no-gpu").check()
    await expect(form.part("fitted")).to_be_hidden()
    await form.radio("gpu", "gpu-4").check()
    await expect(form.radio("image", "no-gpu")).to_be_checked()


# -- the first preset --------------------------------------------------------------------------------------------------

FIRST = {"image": ["no-gpu"], "cpu": ["1"], "memory": ["1"], "gpu": [""]}


@pytest.mark.parametrize(
    "script", [pytest.param(True, marks=WIDE, id="a script"), pytest.param(False, marks=WIDE, id="none")]
)
async def test_start_starts_the_first_preset_that_the_person_may_have(browser: Any, site: Site, script: bool) -> None:
    context = await browser.new_context(java_script_enabled=script)
    try:
        form = Form(await context.new_page(), site)
        site.catalog = WITH_PRESETS
        await form.open()
        marked = form.page.locator(".gs-preset[aria-pressed=true]" if script else ".gs-preset[aria-current=true]")
        await expect(marked).to_have_attribute("value", "look")
        if script:
            await expect(form.part("brief")).to_have_text("Look around · No GPU")

        await form.start.click()
        await expect(form.page.locator("body")).to_have_text("Sent")

        (sent,) = form.sent
        assert {name: sent[name] for name in FIRST} == FIRST
    finally:
        await context.close()


# -- status at a glance ------------------------------------------------------------------------------------------------

ICON = """element => {
  const { clipPath, backgroundColor, width } = getComputedStyle(element, "::before");
  return [clipPath, backgroundColor, width];
}"""
WORDS = {
    Outcome.NOW: "Starts now",
    Outcome.AFTER_SCALE_UP: "Starts after a new node",
    Outcome.WAITS: "Will wait",
    Outcome.NEVER: "Can't start",
    Outcome.UNKNOWN: "Availability unknown",
}


@pytest.mark.parametrize(
    "look",
    [
        pytest.param({"color_scheme": "light"}, id="light"),
        pytest.param({"color_scheme": "dark"}, id="dark"),
        pytest.param({"forced_colors": "active"}, id="forced colors"),
    ],
)
async def test_each_outcome_has_a_word_an_icon_of_its_shape_and_a_colour(
    browser: Any, site: Site, look: dict[str, str]
) -> None:
    context = await browser.new_context(**look)
    found = {}
    try:
        form = Form(await context.new_page(), site)
        site.options = EARLIER
        for outcome, words in WORDS.items():
            site.outcome = outcome
            await form.open()
            await expect(form.part("verdict-text")).to_contain_text(words)
            shape, colour, width = await form.part("verdict").evaluate(ICON)
            assert (shape[:5], width) == ("path(", "16px")
            found[outcome] = (shape, colour)
    finally:
        await context.close()

    waiting = {Outcome.AFTER_SCALE_UP, Outcome.WAITS}
    assert len({shape for shape, _ in found.values()}) == len(WORDS) - 1
    assert len({found[outcome] for outcome in waiting}) == 1
    if "forced_colors" not in look:
        assert len({colour for _, colour in found.values()}) == len(WORDS) - 1


# -- fingers and axe ---------------------------------------------------------------------------------------------------


@pytest.mark.window(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True, **STILL)
async def test_buttons_are_large_enough_for_a_finger(form: Form) -> None:
    form.site.catalog, form.site.options, form.site.outcome = WITH_PRESETS, EARLIER, Outcome.WAITS
    await form.open()
    await form.part("more").locator("summary").click()
    await form.part("toggle").click()

    small = await form.page.evaluate(
        """least => [...document.querySelectorAll("button, summary, input[type=text], .gs-rows > label")]
            .filter((each) => each.checkVisibility() && !each.matches(".visually-hidden"))
            .filter((each) => each.getBoundingClientRect().height < least)
            .map((each) => each.outerHTML.slice(0, 100))""",
        FINGER_PX,
    )

    assert small == []
    assert (await form.box(form.start))["height"] >= FINGER_PX


# -- beside a Start that cannot start ----------------------------------------------------------------------------------

GREEN = "[data-outcome=now]"
RUNNING = {"ready": True, "pending": None, "url": "/user/ada/"}


@WIDE
@pytest.mark.parametrize(
    ("person", "said", "label", "address"),
    [
        pytest.param(
            {"name": "ada", "servers": {"": RUNNING}},
            "Your server is already running. Open it",
            "Open it",
            "/user/ada/",
            id="running",
        ),
        pytest.param(
            {"name": "ada", "servers": {"": {"ready": False, "pending": "spawn"}}},
            "Your server is starting. See its progress",
            "See its progress",
            "/hub/spawn-pending/ada",
            id="starting",
        ),
        pytest.param({}, "You've been signed out. Sign in again", "Sign in again", "/hub/login?next=", id="signed out"),
    ],
)
async def test_the_bar_says_why_start_rests_and_promises_nothing(
    form: Form, person: dict[str, Any], said: str, label: str, address: str
) -> None:
    known: dict[str, Any] = {"name": "ada", "servers": {}}
    form.site.catalog = WITH_PRESETS
    await sign_in(form.page, known)
    await form.open()
    await expect(form.part("verdict")).to_have_attribute("data-outcome", "now")
    await expect(form.page.locator(GREEN)).not_to_have_count(1)  # the first preset's card as well

    known.clear()
    known.update(person)
    await form.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    await expect(form.page.locator(".gs-session")).to_have_text(said)
    await expect(form.part("verdict-text")).to_have_text(said)
    link = form.part("verdict").get_by_role("link", name=label)
    assert (await link.get_attribute("href") or "").startswith(address)
    await expect(form.page.locator(GREEN)).to_have_count(0)
    await expect(form.start).to_have_attribute("aria-disabled", "true")

    known.clear()
    known.update({"name": "ada", "servers": {}})
    await form.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    await expect(form.part("verdict")).to_have_attribute("data-outcome", "now")
    await expect(form.part("verdict").get_by_role("link")).to_have_count(0)


@WIDE
@pytest.mark.parametrize(
    ("link", "said"),
    [
        pytest.param({"gpu": "foo"}, "Choose a GPU.", id="GPU"),
        pytest.param({"image": "foo"}, "Choose an image.", id="image"),
        pytest.param({"cpu": "lots"}, "Fix 1 field above to continue.", id="CPU"),
    ],
)
async def test_with_a_field_that_is_open_or_wrong_the_bar_says_what_to_choose(
    form: Form, link: dict[str, str], said: str
) -> None:
    form.site.link = link
    await form.open()

    await expect(form.part("verdict-text")).to_have_text(said)
    await expect(form.part("verdict")).to_have_attribute("data-outcome", "")
    (name,) = link
    await form.start.click()
    await expect(form.page.locator(f"[name={name}]").first).to_be_focused()
    assert form.sent == []
    if name == "gpu":
        await expect(form.part("brief")).to_be_hidden()
        await form.radio("gpu", "gpu-3").check()
        await expect(form.part("brief")).to_contain_text("1 × GPU 3")
