"""A GPU type and an image are found at once among 24 types and 20 images."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.support import many, sight
from tests.browser.support.axe import complaints
from tests.browser.support.form_site import FormSite, Reader, fill, form_site
from tests.browser.support.person import Person
from tests.browser.support.pictures import MOST_BYTES, shoot

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREEN = {"width": 1280, "height": 720}
# Bootstrap lets pages glide where they are scrolled: boxes are measured once they have arrived.
STILL = {"reduced_motion": "reduce"}
PHONE = {"width": 360, "height": 720}
MOST_PX = 60
TOUCH_PX = 44
Step = Callable[[Person], Awaitable[None]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FormSite]:
    nodes = many.nodes()
    busy = [fill(node) for slug, node in nodes.items() if not many.KINDS[slug].free]
    folder = tmp_path_factory.mktemp("many")
    with form_site(folder, settings=many.settings(), nodes=list(nodes.values()), pods=busy) as site:
        yield site


@pytest.fixture
def finder(page: Page, site: FormSite) -> Person:
    return Reader(page, site.url, "")


def search(person: Person, name: str) -> Locator:
    return person.page.get_by_role("searchbox", name=name)


def fold(person: Person, text: str) -> Locator:
    return person.page.get_by_role("button", name=text)


def said(person: Person, section: str = "gpus") -> Locator:
    return person.page.locator(f"#gpuspawner-{section} .gs-find [role=status]")


async def shown(person: Person, name: str = "gpu") -> list[str]:
    """Return the values of the rows in sight, from top to bottom."""
    found: list[str] = await person.page.locator(f"input[name={name}]").evaluate_all(
        "radios => radios.filter((radio) => radio.checkVisibility() && radio.value).map(({ value }) => value)"
    )
    return found


async def heights(person: Person) -> dict[str, float]:
    """Return how high each row in sight is, in CSS pixels."""
    found: dict[str, float] = await person.page.locator("input[name=gpu], input[name=image]").evaluate_all(
        """radios => Object.fromEntries(radios.filter((radio) => radio.checkVisibility())
            .map((radio) => [radio.value, radio.closest("label").getBoundingClientRect().height]))"""
    )
    return found


async def enhanced(person: Person) -> None:
    """Wait for the script, which folds rows away and shows the search."""
    await expect(said(person)).to_be_visible()


async def unfold(person: Person) -> None:
    await enhanced(person)
    closed = person.page.locator("#gpuspawner-gpus button[aria-expanded=false]:visible")
    while await closed.count():
        await closed.first.click()


async def decision(person: Person, slug: str) -> list[Locator]:
    """Return what a person looks at before Start: the row that is picked, its verdict, and the button."""
    verdict = person.page.locator("#gpuspawner-verdict")
    await expect(person.page.locator("#gpuspawner-brief")).to_contain_text(f"1 × {many.KINDS[slug].name}")
    await expect(verdict).to_have_attribute("data-outcome", re.compile("."))
    await expect(verdict).to_be_visible()
    start = person.page.locator(".feedback-container button")
    return [person.row("gpu", slug), person.page.locator("#gpuspawner-brief"), verdict, start]


@pytest.mark.window(viewport=SCREEN, **STILL)
@pytest.mark.parametrize("place", [pytest.param(0, id="the first"), pytest.param(-1, id="the last in sight")])
async def test_after_one_click_a_gpu_its_verdict_and_start_are_in_sight(finder: Person, place: int) -> None:
    await finder.log_in("ada")
    await enhanced(finder)
    slug = [slug for slug in await shown(finder) if not await sight.hidden(finder.row("gpu", slug))][place]

    await sight.click(finder.row("gpu", slug))

    await expect(finder.choice("gpu", slug)).to_be_checked()
    assert await sight.hidden(*await decision(finder, slug)) == []


@pytest.mark.window(viewport=SCREEN, **STILL)
@pytest.mark.parametrize(
    ("written", "slug"),
    [
        pytest.param("mi210", "mi210", id="by its name"),
        pytest.param("80gb a100", "a100-80gb", id="by words"),
        pytest.param("intel 48", "max1100", id="by vendor and memory"),
        pytest.param("h100", "h100", id="one that is folded"),
    ],
)
async def test_a_named_gpu_is_picked_with_two_actions(finder: Person, written: str, slug: str) -> None:
    await finder.log_in("ada")
    await enhanced(finder)

    await sight.click(search(finder, "Find a GPU"))
    await finder.page.keyboard.type(written)
    await expect(said(finder)).to_have_text("1 of 24 shown")
    assert await shown(finder) == [slug]
    await sight.click(finder.row("gpu", slug))

    await expect(finder.choice("gpu", slug)).to_be_checked()
    await expect(finder.page.locator("#gpuspawner-sentence")).to_contain_text(f"1 × {many.KINDS[slug].name}")
    assert await sight.hidden(*await decision(finder, slug)) == []


@pytest.mark.window(viewport=SCREEN)
async def test_rows_found_by_search_start(finder: Person, site: FormSite) -> None:
    await finder.log_in("quick-finder")
    await search(finder, "Find an image").fill("torch")
    await finder.pick("image", "image-1")
    await search(finder, "Find a GPU").fill("mi300")
    await search(finder, "Find a GPU").press("Enter")
    await expect(finder.page).to_have_url(re.compile("/hub/spawn$"))

    await finder.start()

    await expect(finder.page).to_have_title("Sent")
    assert site.pods[-1]["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "1"


@pytest.mark.window(viewport=SCREEN)
async def test_the_keyboard_goes_from_the_search_to_the_rows_and_on(finder: Person) -> None:
    await finder.log_in("keys")
    keys = finder.page.keyboard
    await search(finder, "Find a GPU").focus()
    await keys.type("mig")
    await keys.press("ArrowDown")
    await expect(finder.choice("gpu", "slice-large")).to_be_checked()
    await expect(finder.choice("gpu", "slice-large")).to_be_focused()
    await keys.press("ArrowDown")
    await expect(finder.choice("gpu", "slice-medium")).not_to_be_checked()
    await expect(finder.choice("gpu", "slice-small")).to_be_checked()

    await search(finder, "Find a GPU").focus()
    await keys.press("Escape")
    await expect(search(finder, "Find a GPU")).to_have_value("")
    assert {"h200", "mi300x", "max1100"} <= set(await shown(finder))
    await keys.press("ArrowDown")
    await expect(finder.choice("gpu", "slice-small")).to_be_focused()


@pytest.mark.window(viewport=SCREEN)
async def test_types_that_cannot_start_now_stand_in_one_line_each_and_one_click_shows_them(finder: Person) -> None:
    await finder.log_in("ada")
    busy, unavailable = fold(finder, "7 more are in use now"), fold(finder, "2 more aren't available to you")
    # A card stays in sight with the parts of it that are free.
    assert set(await shown(finder)) == set(many.KINDS) - many.BUSY - many.UNAVAILABLE | {"a100-40gb"}
    await expect(said(finder)).to_have_text("15 of 24 shown")

    await busy.click()
    await expect(busy).to_have_attribute("aria-expanded", "true")
    assert set(await shown(finder)) == set(many.KINDS) - many.UNAVAILABLE
    await unavailable.click()
    assert set(await shown(finder)) == set(many.KINDS)
    await busy.click()
    await expect(finder.row("gpu", "h100")).to_be_hidden()


@pytest.mark.window(viewport=SCREEN)
async def test_the_picked_row_stays_in_sight(finder: Person) -> None:
    await finder.log_in("ada")
    await search(finder, "Find a GPU").fill("h100")
    await finder.pick("gpu", "h100")
    await search(finder, "Find a GPU").fill("")
    await expect(fold(finder, "6 more are in use now")).to_be_visible()
    await expect(finder.row("gpu", "h100")).to_be_visible()

    await finder.page.get_by_role("button", name="AMD").click()
    await finder.page.get_by_role("button", name="Free now").click()
    await search(finder, "Find a GPU").fill("mi")
    assert await shown(finder) == ["h100", "mi300x", "mi210"]
    # The count belongs to it, wherever its row goes.
    await expect(finder.row("gpu", "h100").locator("+ .gs-count")).to_be_visible()


@pytest.mark.parametrize(
    "language",
    [pytest.param(tag, id=tag, marks=pytest.mark.window(viewport=SCREEN, locale=tag)) for tag in ("en", "de", "zh-CN")],
)
async def test_no_row_is_higher_than_two_lines(finder: Person, language: str) -> None:
    await finder.log_in("ada")
    await expect(finder.page.locator("#gpuspawner-form")).to_have_attribute("lang", language)
    await unfold(finder)

    assert {slug: high for slug, high in (await heights(finder)).items() if high > MOST_PX} == {}


@pytest.mark.parametrize(
    ("slug", "label"),
    [
        pytest.param("h200", "Number of GPUs", id="full GPU"),
        pytest.param("slice-small", "Number of slices", id="MIG slice"),
        pytest.param("t4-shared", "Number of shared GPUs", id="shared GPU"),
    ],
)
async def test_the_count_says_what_is_counted(finder: Person, slug: str, label: str) -> None:
    await finder.log_in("ada")
    await finder.pick("gpu", slug)

    await expect(finder.field("gpu_count")).to_have_accessible_name(label)


@pytest.mark.window(viewport={"width": 1000, "height": 900}, color_scheme="light")
async def test_the_form_with_many_types(finder: Person, tmp_path: Path) -> None:
    await finder.log_in("many-reader")
    await finder.page.locator("#gpuspawner-gpus").evaluate("(gpus) => gpus.scrollIntoView({ behavior: 'instant' })")
    path = await shoot(finder.page, "form-many", tmp_path)

    assert path.stat().st_size < MOST_BYTES


@pytest.mark.window(viewport=PHONE, has_touch=True, is_mobile=True, color_scheme="dark")
async def test_a_finger_meets_every_row_and_control(finder: Person) -> None:
    await finder.log_in("ada")
    await unfold(finder)

    assert {slug: high for slug, high in (await heights(finder)).items() if high < TOUCH_PX} == {}
    controls = finder.page.locator(".gs-find :is(button, input, select):visible")
    low = await controls.evaluate_all(
        f"all => all.filter((each) => each.getBoundingClientRect().height < {TOUCH_PX}).map((each) => each.outerHTML)"
    )
    assert low == []
    assert not await finder.page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.parametrize(
    "look",
    [
        pytest.param({"color_scheme": "light"}, id="light", marks=pytest.mark.window(color_scheme="light")),
        pytest.param({"color_scheme": "dark"}, id="dark", marks=pytest.mark.window(color_scheme="dark")),
        pytest.param({"forced_colors": "active"}, id="forced", marks=pytest.mark.window(forced_colors="active")),
    ],
)
async def test_the_state_of_a_row_has_a_shape_a_word_and_a_colour(finder: Person, look: dict[str, str]) -> None:
    await finder.log_in("ada")
    await unfold(finder)
    style = """(words) => [getComputedStyle(words, "::before").content.split('"')[1], getComputedStyle(words).color]"""
    looks = {}
    for slug in ("h200", "h100", "flex170", "flex140", many.DENIED):
        looks[slug] = await finder.row("gpu", slug).locator(".gs-free").evaluate(style)

    assert {slug: shape for slug, (shape, _) in looks.items()} == {
        "h200": "●",
        "h100": "▲",
        "flex170": "▲",
        "flex140": "○",
        many.DENIED: "○",
    }
    if "color_scheme" in look:
        assert len({looks[slug][1] for slug in ("h200", "h100", "flex140")}) == len(("h200", "h100", "flex140"))
    await expect(finder.row("gpu", "h200").locator(".gs-free")).to_have_text("8 of 8 free")
    await expect(finder.row("gpu", "h100").locator(".gs-reason")).to_have_text("None is free right now.")
    await expect(finder.row("gpu", "flex140").locator(".gs-reason")).to_have_text(
        "The cluster has no node with this GPU."
    )


async def as_loaded(_: Person) -> None:
    """Leave the form as it is."""


async def searched(person: Person) -> None:
    await search(person, "Find a GPU").fill("a100")
    await search(person, "Find an image").fill("course")


async def pressed(person: Person) -> None:
    await person.page.get_by_role("button", name="Free now").click()
    await person.page.get_by_role("button", name="AMD").click()


STATES: dict[str, Step] = {step.__name__: step for step in (as_loaded, unfold, searched, pressed)}


@pytest.mark.window(viewport=SCREEN, color_scheme="light")
@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
async def test_nothing_is_wrong_in_light(finder: Person, reach: Step) -> None:
    await finder.log_in("ada")
    await reach(finder)

    assert await complaints(finder.page) == []


@pytest.mark.window(viewport=PHONE, color_scheme="dark")
@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
async def test_nothing_is_wrong_in_dark_and_narrow(finder: Person, reach: Step) -> None:
    await finder.log_in("ada")
    await reach(finder)

    assert await complaints(finder.page) == []
