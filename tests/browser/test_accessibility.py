"""WCAG 2.2 AA as far as a program can tell: axe-core finds nothing wrong with the form in any state, light or dark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import expect

from tests.browser.support.axe import complaints
from tests.browser.support.person import Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

CARD, TAKEN = "a100-40gb", "h100-80gb"

Step = Callable[[Person], Awaitable[None]]


async def fresh(person: Person) -> None:
    await expect(person.page.locator("#gpuspawner-sentence")).to_contain_text("no GPU")


async def picked(person: Person) -> None:
    await person.pick("gpu", CARD)
    await expect(person.page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "now")


async def waiting(person: Person) -> None:
    await person.pick("gpu", TAKEN)
    await expect(person.page.locator("#gpuspawner-alternatives button")).not_to_have_count(0)
    await person.unfold()
    await expect(person.page.locator("#gpuspawner-alternatives button").first).to_be_visible()


async def unfit(person: Person) -> None:
    await person.pick("gpu", CARD)
    await person.pick("image", "jupyterlab-cpu")
    await person.unfold()
    await expect(person.page.locator("#gpuspawner-hint")).to_be_visible()


async def mistyped(person: Person) -> None:
    await person.field("cpu").fill("lots")
    await person.field("cpu").blur()
    await expect(person.page.locator("#gpuspawner-cpu-error")).to_be_visible()


async def refused(person: Person) -> None:
    await person.field("cpu").fill("lots")
    await person.send_unchecked()
    await expect(person.page.locator("#gpuspawner-errors")).to_be_visible()


async def filtered(person: Person) -> None:
    await person.page.get_by_role("button", name="AMD").click()
    await expect(person.row("gpu", TAKEN)).to_be_hidden()


async def named(person: Person) -> None:
    await person.pick("image", "")
    await person.field("custom_image").fill("no image")
    await expect(person.page.locator("#gpuspawner-custom_image-error")).to_be_visible()


async def prefilled(person: Person) -> None:
    await person.page.get_by_role("button", name="Training").click()
    await expect(person.field("gpu_count")).to_have_value("4")


async def closed(person: Person) -> None:
    await person.page.locator("#gpuspawner-custom > summary").click()
    await expect(person.field("cpu")).to_be_hidden()


async def rarer(person: Person) -> None:
    await person.page.locator("#gpuspawner-more > summary").click()
    await person.field("run_time").fill("90 min")
    await person.field("shared_memory").fill("lots")
    await person.field("shared_memory").blur()
    await expect(person.page.locator("#gpuspawner-shared_memory-error")).to_be_visible()


async def fitted(person: Person) -> None:
    """The first preset's image cannot use a GPU: picking one picks another image as well."""
    await person.pick("gpu", CARD)
    await expect(person.page.locator("#gpuspawner-fitted")).to_be_visible()


async def sliced(person: Person) -> None:
    await person.pick("gpu", "a100-40gb-mig-1g.5gb")
    await person.unfold()
    await expect(person.page.locator("#gpuspawner-total")).to_be_visible()


async def miscounted(person: Person) -> None:
    await person.pick("gpu", CARD)
    await person.field("gpu_count").fill("99")
    await person.field("gpu_count").blur()
    await expect(person.page.locator("#gpuspawner-gpu_count-error")).to_be_visible()


async def refused_twice(person: Person) -> None:
    await person.field("memory").fill("much")
    await refused(person)
    await expect(person.page.locator("#gpuspawner-errors li")).to_have_count(2)


STATES: dict[str, Step] = {
    step.__name__: step
    for step in (
        *(fresh, closed, prefilled, picked, sliced, waiting, filtered),
        *(unfit, fitted, mistyped, miscounted, refused, refused_twice, named, rarer),
    )
}


# Without, with and with refused choices: `make test` looks at these.
SOME = {"fresh", "waiting", "refused"}
EACH_STATE = pytest.mark.parametrize(
    "reach",
    [pytest.param(step, id=name, marks=pytest.mark.smoke if name in SOME else ()) for name, step in STATES.items()],
)


@pytest.mark.window(color_scheme="light")
@EACH_STATE
async def test_nothing_is_wrong_in_light(person: Person, reach: Step) -> None:
    await person.log_in("reader")
    await reach(person)

    assert await complaints(person.page) == []


@pytest.mark.window(locale="zh-CN")
async def test_nothing_is_wrong_in_another_language(person: Person) -> None:
    await person.log_in("reader")
    await waiting(person)

    assert await complaints(person.page) == []


@pytest.mark.window(color_scheme="dark", viewport={"width": 320, "height": 900})
@EACH_STATE
async def test_nothing_is_wrong_in_dark_and_narrow(person: Person, reach: Step) -> None:
    await person.log_in("reader")
    await reach(person)

    assert await complaints(person.page) == []


@pytest.mark.smoke
async def test_something_that_is_wrong_would_be_found(person: Person) -> None:
    await person.log_in("reader")
    await person.page.evaluate("document.querySelector('label[for=gpuspawner-cpu]').remove()")

    assert any(each.startswith("label:") for each in await complaints(person.page))


@pytest.mark.window(forced_colors="active")
async def test_the_picked_row_stands_out_in_forced_colors(person: Person) -> None:
    await person.log_in("reader")
    await person.page.get_by_role("button", name="Training").click()

    async def look(selector: str, *names: str) -> list[str]:
        style = f"(element) => {list(names)}.map((name) => getComputedStyle(element)[name])"
        found: list[str] = await person.page.locator(selector).first.evaluate(style)
        return found

    picked, other = "label:has(input[name=gpu]:checked)", "label:has(input[name=gpu]:not(:checked))"
    assert await look(picked, "outlineStyle") == ["solid"]
    assert await look(other, "outlineStyle") == ["none"]
    pressed, free = (f".gs-preset[aria-pressed={is_so}]" for is_so in ("true", "false"))
    assert await look(pressed, "backgroundColor") != await look(free, "backgroundColor")
