"""Amounts that a user presses instead of typing them: suggestions for a GPU, and common amounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from gpuspawner.core.catalog.model import Catalog
from tests.browser.support.offered import (
    CATALOG,
    EARLIER,
    STILL,
    WIDE,
    WITH_PRESETS,
    Form,
    Site,
)
from tests.browser.support.site import serving, sign_in

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.window(**STILL)]
SUGGESTED = "Suggested for 1 × GPU 3: 11.5 CPUs · 118 GiB RAM (share of the node)"


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as site.url:
        yield site


@pytest.fixture
def form(page: Page, site: Site) -> Form:
    return Form(page, site)


# -- suggestions -------------------------------------------------------------------------------------------------------


@WIDE
async def test_a_suggestion_is_taken_with_one_press_and_what_a_user_typed_stays_until_then(form: Form) -> None:
    await form.open()
    await expect(form.part("suggestion")).to_be_hidden()
    await form.part("cpu").fill("3")
    await form.part("memory").fill("2")

    await form.radio("gpu", "gpu-3").check()

    await expect(form.part("suggested")).to_have_text(SUGGESTED)
    await expect(form.part("cpu")).to_have_value("3")
    await expect(form.part("memory")).to_have_value("2")
    await expect(form.part("follow")).to_be_hidden()
    await form.page.get_by_role("button", name="Use it").click()
    await expect(form.part("cpu")).to_have_value("11.5")
    await expect(form.part("memory")).to_have_value("118")
    await expect(form.part("cpu")).to_be_focused()
    await expect(form.part("suggestion")).to_be_hidden()
    await expect(form.part("sentence")).to_contain_text("11.5 CPUs · 118 GiB RAM · 1 × GPU 3")

    await form.part("gpu_count").fill("2")
    await expect(form.part("suggested")).to_contain_text("2 × GPU 3: 23.5 CPUs · 237 GiB RAM")


# -- amounts that go with the GPU --------------------------------------------------------------------------------------

FOLLOWS = "CPU and memory follow the GPU."


async def expect_amounts(form: Form, cpu: str, memory: str) -> None:
    await expect(form.part("cpu")).to_have_value(cpu)
    await expect(form.part("memory")).to_have_value(memory)


@WIDE
async def test_cpu_and_memory_follow_the_gpu_until_the_user_takes_that_back(form: Form) -> None:
    await form.open()
    await expect(form.part("follow")).to_be_hidden()

    await form.radio("gpu", "gpu-3").check()

    await expect_amounts(form, "11.5", "118")
    await expect(form.part("followed")).to_have_text(FOLLOWS)
    await expect(form.part("brief")).to_have_text("1 × GPU 3 · 11.5 CPUs · 118 GiB RAM")
    await expect(form.part("suggestion")).to_be_hidden()
    await form.part("gpu_count").press("ArrowUp")
    await expect_amounts(form, "23.5", "237")
    await form.radio("gpu", "").check()
    await expect_amounts(form, "2", "8")
    await expect(form.part("follow")).to_be_hidden()
    await expect(form.part("unfollow")).to_be_hidden()
    await form.radio("gpu", "gpu-4").check()
    await form.page.get_by_role("button", name="Undo").click()
    await expect_amounts(form, "2", "8")
    await expect(form.part("cpu")).to_be_focused()
    await expect(form.part("follow")).to_be_hidden()
    await expect(form.part("suggestion")).to_be_visible()
    await form.radio("gpu", "gpu-3").check()
    await expect_amounts(form, "2", "8")


@WIDE
async def test_a_field_that_the_user_has_changed_never_follows(form: Form) -> None:
    await sign_in(form.page, {"name": "ada"})  # so that the tab keeps the choice
    await form.open()
    await form.part("cpu").fill("4")
    await form.part("cpu").fill("2")  # the default, but the user's own

    await form.radio("gpu", "gpu-3").check()

    await expect_amounts(form, "2", "118")
    await expect(form.part("followed")).to_have_text("Memory follows the GPU.")
    await form.page.reload()
    await expect(form.start).to_be_visible()
    await expect_amounts(form, "2", "118")
    await form.radio("gpu", "").check()
    await expect_amounts(form, "2", "8")
    await form.page.locator("[data-for=memory][data-step='1']").click()
    await form.radio("gpu", "gpu-3").check()
    await expect_amounts(form, "2", "9")


@WIDE
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param({**EARLIER, "cpu": 4, "memory": "16G"}, ("4", "16"), id="own amounts"),
        pytest.param({**EARLIER, "gpu_count": 1, "cpu": 11.5, "memory": "118G"}, ("23.5", "237"), id="the share"),
        pytest.param({**EARLIER, "gpu": None, "gpu_count": 0, "cpu": 2}, ("23.5", "237"), id="the defaults"),
    ],
)
async def test_an_earlier_choice_follows_only_where_it_holds_what_the_form_fills_in(
    form: Form, options: dict[str, Any], kept: tuple[str, str]
) -> None:
    form.site.options = options
    await form.open()

    await form.radio("gpu", "gpu-3").check()
    await form.part("gpu_count").fill("2")

    await expect_amounts(form, *kept)


# -- common amounts ----------------------------------------------------------------------------------------------------


def common(form: Form, name: str) -> Locator:
    return form.page.locator(f".gs-number:has(#gpuspawner-{name}) + .gs-common").get_by_role("button")


def pressed(form: Form, name: str) -> Locator:
    return common(form, name).and_(form.page.locator("[aria-pressed=true]"))


@pytest.mark.smoke
@WIDE
async def test_a_common_amount_takes_one_press(form: Form) -> None:
    await form.open()
    await form.radio("gpu", "gpu-3").check()
    await form.page.get_by_role("button", name="Undo").click()

    for name, amount in {"gpu_count": "4", "cpu": "16", "memory": "128"}.items():
        await common(form, name).get_by_text(amount, exact=True).click()

        await expect(form.part(name)).to_have_value(amount)
        await expect(pressed(form, name)).to_have_text([amount])
    await expect(form.part("sentence")).to_contain_text("16 CPUs · 128 GiB RAM · 4 × GPU 3")
    await expect(form.part("brief")).to_have_text("4 × GPU 3")


@WIDE
async def test_an_amount_that_is_typed_marks_the_common_one_however_it_is_written(form: Form) -> None:
    await form.open()
    await expect(pressed(form, "memory")).to_have_text(["8"])

    await form.part("memory").fill("16384M")
    await expect(pressed(form, "memory")).to_have_text(["16"])

    await form.part("memory").fill("17")
    await expect(pressed(form, "memory")).to_have_count(0)


# -- where a first visit begins ----------------------------------------------------------------------------------------


@pytest.mark.window(viewport={"width": 1280, "height": 100}, **STILL)
async def test_a_first_visit_begins_in_the_search_for_a_gpu_without_a_scroll(form: Form) -> None:
    await form.open()

    await expect(form.page.get_by_role("searchbox", name="Find a GPU")).to_be_focused()
    assert await form.page.evaluate("scrollY") == 0


@WIDE
async def test_an_arrow_key_on_a_fresh_page_does_not_change_the_choice(form: Form) -> None:
    await form.open()
    await expect(form.page.get_by_role("searchbox", name="Find a GPU")).to_be_focused()

    for _ in range(3):
        await form.page.keyboard.press("ArrowDown")

    await expect(form.radio("gpu", "")).to_be_checked()
    await form.page.keyboard.type("gpu-7")
    await form.page.keyboard.press("ArrowDown")
    await expect(form.radio("gpu", "gpu-7")).to_be_checked()


@pytest.mark.window(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True, **STILL)
async def test_on_a_phone_no_keyboard_opens_by_itself(form: Form) -> None:
    await form.open()
    await expect(form.page.get_by_role("searchbox", name="Find a GPU")).to_be_visible()

    await expect(form.page.locator("body")).to_be_focused()


@WIDE
@pytest.mark.parametrize("catalog", [pytest.param(CATALOG, id="fields"), pytest.param(WITH_PRESETS, id="presets")])
async def test_with_an_earlier_choice_or_presets_the_page_begins_at_its_top(form: Form, catalog: Catalog) -> None:
    form.site.catalog = catalog
    form.site.options = EARLIER if catalog is CATALOG else None
    await form.open()

    await expect(form.part("brief")).to_be_visible()
    await expect(form.page.locator("body")).to_be_focused()
