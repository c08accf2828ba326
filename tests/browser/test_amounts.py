"""Amounts that a user presses instead of typing them: suggestions for a GPU, and common amounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from gpuspawner.core.catalog.model import Bounds, Catalog
from gpuspawner.core.catalog.policy_model import Policy, Rule
from gpuspawner.core.cluster.model import Node
from tests.browser.support.offered import (
    CATALOG,
    EARLIER,
    FINGER_PX,
    GIB,
    NODES,
    STILL,
    TYPES,
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


@WIDE
async def test_a_suggestion_is_taken_as_the_language_writes_it(form: Form) -> None:
    form.site.language = "de"
    form.site.catalog = replace(CATALOG, cpu=Bounds(min=125, max=96_000, step=125, default=2000))
    form.site.options = {**EARLIER, "gpu": "gpu-3", "gpu_count": 1}
    await form.open()

    await form.page.get_by_role("button", name="Übernehmen").click()

    await expect(form.part("cpu")).to_have_value("11,875")
    await expect(form.part("suggestion")).to_be_hidden()
    await expect(form.part("sentence")).to_contain_text("11,875 CPUs")


@pytest.mark.window(java_script_enabled=False)
async def test_without_javascript_the_suggestion_is_about_the_earlier_choice(form: Form) -> None:
    form.site.options = {**EARLIER, "gpu": "gpu-3", "gpu_count": 1}
    await form.open()

    await expect(form.part("suggested")).to_have_text(SUGGESTED)
    await expect(form.part("suggest")).to_be_hidden()


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


@pytest.mark.parametrize("size", [pytest.param((1280, 720), id="wide"), pytest.param((390, 844), id="phone")])
async def test_what_follows_the_gpu_and_its_undo_are_in_sight(form: Form, size: tuple[int, int]) -> None:
    await form.open(size)

    await form.radio("gpu", "gpu-3").check()

    await expect(form.page.get_by_role("button", name="Undo")).to_be_in_viewport(ratio=1)
    await expect(form.part("brief")).to_have_text("1 × GPU 3 · 11.5 CPUs · 118 GiB RAM")
    assert await form.part("brief").evaluate("brief => brief.scrollWidth <= brief.clientWidth")
    assert (await form.box(form.bar))["height"] <= 100


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
async def test_with_the_keyboard_amounts_follow_from_type_to_type(form: Form) -> None:
    form.site.catalog = replace(CATALOG, gpus={"gpu-3": TYPES["gpu-3"], "gpu-4": TYPES["gpu-4"]})
    await form.open()
    await form.radio("gpu", "").focus()

    await form.page.keyboard.press("ArrowDown")
    await expect_amounts(form, "11.5", "118")
    await form.page.keyboard.press("ArrowUp")
    await expect_amounts(form, "2", "8")


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


@WIDE
async def test_a_presets_amounts_stay_with_another_gpu(form: Form) -> None:
    form.site.catalog = WITH_PRESETS
    await form.open()
    await form.part("custom").locator("> summary").click()
    await form.radio("gpu", "gpu-3").check()
    await expect_amounts(form, "11.5", "118")

    await form.page.locator(".gs-preset[value=one]").click()
    await form.radio("gpu", "gpu-3").check()

    await expect_amounts(form, "4", "8")


@WIDE
async def test_what_follows_one_gpu_is_no_reason_against_another(form: Form) -> None:
    form.site.nodes = [replace_cpu(node) if node.name == "gpu-4" else node for node in NODES]
    await form.open()

    await form.radio("gpu", "gpu-3").check()

    row = form.page.locator("label:has(input[value=gpu-4])")
    await expect(row.locator(".gs-reason")).to_have_text("")
    await form.part("cpu").fill("11.5")
    await expect(row.locator(".gs-reason")).to_have_text("Its nodes are too small for this much CPU and memory.")


def replace_cpu(node: Node) -> Node:
    amounts = {**node.allocatable, "cpu": 8000}
    return replace(node, allocatable=amounts, capacity=amounts)


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
async def test_common_amounts_are_doubles_of_the_default_within_the_bounds(form: Form) -> None:
    form.site.catalog = replace(CATALOG, gpus={"gpu-3": TYPES["gpu-3"], "gpu-4": replace(TYPES["gpu-4"], max_count=7)})
    await form.open()

    await expect(common(form, "cpu")).to_have_text(["2", "4", "8", "16", "32", "64"])
    await expect(common(form, "memory")).to_have_text(["8", "16", "32", "64", "128", "256", "512"])
    await form.radio("gpu", "gpu-3").check()
    await expect(common(form, "gpu_count")).to_have_text(["1", "2", "4", "8"])
    await form.radio("gpu", "gpu-4").check()
    await expect(common(form, "gpu_count")).to_have_text(["1", "2", "4"])


@WIDE
async def test_an_amount_that_is_typed_marks_the_common_one_however_it_is_written(form: Form) -> None:
    await form.open()
    await expect(pressed(form, "memory")).to_have_text(["8"])

    await form.part("memory").fill("16384M")
    await expect(pressed(form, "memory")).to_have_text(["16"])

    await form.part("memory").fill("17")
    await expect(pressed(form, "memory")).to_have_count(0)


@WIDE
async def test_common_amounts_are_written_as_the_language_writes_them(form: Form) -> None:
    form.site.language = "de"
    form.site.catalog = replace(CATALOG, cpu=Bounds(min=500, max=2000, step=500, default=500))
    await form.open()

    await common(form, "cpu").get_by_text("0,5").click()

    await expect(form.part("cpu")).to_have_value("0,5")
    await expect(common(form, "cpu")).to_have_text(["0,5", "1", "2"])


@WIDE
async def test_a_press_takes_back_what_was_wrong_with_the_field(form: Form) -> None:
    await form.open()
    await form.part("cpu").fill("1000")
    await form.part("cpu").blur()
    await expect(form.part("cpu-error")).to_be_visible()

    await common(form, "cpu").get_by_text("8", exact=True).click()

    await expect(form.part("cpu-error")).to_be_hidden()
    await expect(form.part("cpu")).not_to_have_attribute("aria-invalid", "true")


@WIDE
async def test_a_press_shows_what_is_wrong_with_the_shared_memory_that_no_longer_fits(form: Form) -> None:
    await form.open()
    await form.part("more").locator("summary").click()
    await common(form, "memory").get_by_text("32", exact=True).click()
    await form.part("shared_memory").fill("16")
    await form.part("shared_memory").blur()
    await expect(form.part("shared_memory-error")).to_be_hidden()

    await common(form, "memory").get_by_text("8", exact=True).click()

    await expect(form.part("shared_memory-error")).to_be_visible()


@WIDE
async def test_a_preset_marks_its_amounts(form: Form) -> None:
    form.site.catalog = WITH_PRESETS
    await form.open()
    await form.part("custom").locator("> summary").click()

    await form.page.locator(".gs-preset[value=many]").click()

    await expect(pressed(form, "cpu")).to_have_text(["2"])
    await expect(pressed(form, "gpu_count")).to_have_text(["8"])


@WIDE
async def test_buttons_have_the_name_of_their_field(form: Form) -> None:
    await form.open()
    await form.radio("gpu", "gpu-3").check()

    for name in ("Number of GPUs 2", "CPU 16", "Memory 16"):
        await expect(form.page.get_by_role("button", name=name, exact=True)).to_have_count(1)


@pytest.mark.window(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True, **STILL)
async def test_on_a_phone_the_buttons_are_below_the_number_of_gpus(form: Form) -> None:
    await form.open()
    await form.radio("gpu", "gpu-3").check()

    field = await form.box(form.page.locator(".gs-number:has(#gpuspawner-gpu_count)"))
    button = await form.box(common(form, "gpu_count").first)

    assert button["top"] >= field["bottom"] + 4
    assert button["height"] >= FINGER_PX


@WIDE
async def test_the_tab_key_goes_from_number_to_number(form: Form) -> None:
    await form.open()
    await form.part("cpu").focus()

    await form.page.keyboard.press("Tab")

    await expect(form.part("memory")).to_be_focused()


@WIDE
async def test_a_field_with_few_amounts_has_no_buttons_for_them(form: Form) -> None:
    few = {"gpu-3": replace(TYPES["gpu-3"], max_count=2)}
    form.site.catalog = replace(CATALOG, gpus=few, memory=Bounds(min=GIB, max=2 * GIB, step=GIB, default=GIB))
    await form.open()
    await form.radio("gpu", "gpu-3").check()

    await expect(form.part("gpu_count")).to_be_visible()
    await expect(form.page.locator(".gs-common:visible")).to_have_count(1)
    await expect(common(form, "cpu").first).to_be_visible()


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


@WIDE
async def test_a_user_who_may_start_nothing_is_not_sent_to_the_search(form: Form) -> None:
    form.site.catalog = replace(CATALOG, policy=Policy(default=Rule(choices={"image": frozenset()})))
    await form.open()

    await expect(form.page.get_by_role("searchbox", name="Find a GPU")).to_be_visible()
    await expect(form.page.locator("body")).to_be_focused()


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
