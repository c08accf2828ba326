"""Errors look the same from script and server, lead to the first wrong field, and know how users write."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.support.person import Person
from tests.cluster.support.servers import Servers

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

CARD = "a100-40gb"
LOOK = """(line) => {
    const { color, borderColor, fontSize, marginTop } = getComputedStyle(line);
    const field = line.parentElement.querySelector(".gs-number");
    const { boxShadow } = getComputedStyle(field);
    return [line.className, color, borderColor, fontSize, marginTop, boxShadow];
}"""
WRONG = [
    pytest.param({"cpu": "9999"}, "Enter 0.25 to 4 cores.", id="out of bounds", marks=pytest.mark.smoke),
    pytest.param({"cpu": "1.1"}, "Use a multiple of 0.25 cores.", id="off step"),
    pytest.param({"memory": "lots"}, "Enter a number, such as 2G.", id="no number"),
    pytest.param({"cpu": "0,5"}, "Enter it as 0.5.", id="comma"),
    pytest.param({"memory": "1,000"}, "This could mean 1000 or 1. Enter the one you mean.", id="thousands"),
    pytest.param({"memory": "2", "shared_memory": "3"}, "Enter 0.25 to 2 GiB.", id="more than the memory"),
    pytest.param({"run_time": "13h"}, "Enter 15m to 12h.", id="run time"),
    pytest.param({"gpu_count": "99"}, "Enter 1 to 4.", id="GPU count"),
    pytest.param({"gpu_count": "1.5"}, "Enter a whole number.", id="part of a GPU"),
]


@pytest.mark.parametrize(("typed", "told"), WRONG)
async def test_an_error_looks_the_same_from_script_and_server(person: Person, typed: dict[str, str], told: str) -> None:
    name = list(typed)[-1]
    line = person.page.locator(f"#gpuspawner-{name}-error")
    await person.log_in("mistaken")
    await person.page.locator("#gpuspawner-more > summary").click()
    await person.pick("gpu", CARD)
    await expect(line).to_be_hidden()
    for field, text in typed.items():
        await person.field(field).fill(text)
    await person.field(name).blur()
    await expect(line).to_have_text(told)
    scripts = await line.evaluate(LOOK)

    async with person.page.expect_navigation():
        await person.send_unchecked()
    await expect(line).to_contain_text(" must be ")

    assert await line.evaluate(LOOK) == scripts
    assert await person.field(name).get_attribute("aria-invalid") == "true"
    await person.field(name).fill("1")
    await expect(line).to_be_hidden()


@pytest.mark.smoke
async def test_start_with_wrong_fields_leads_to_the_first_one(person: Person) -> None:
    page = person.page
    await person.log_in("hasty")
    await person.field("cpu").fill("9999")
    await person.field("memory").fill("lots")

    await person.start()

    await expect(page.locator("#gpuspawner-sentence")).to_have_text("Fix 2 fields above to continue.")
    await expect(person.field("cpu")).to_be_focused()
    await expect(page.locator("#gpuspawner-memory-error")).to_be_visible()
    links = page.locator("#gpuspawner-fixes a")
    assert await links.all_text_contents() == ["CPU", "Memory"]
    await person.unfold()
    await links.last.click()
    await expect(person.field("memory")).to_be_focused()
    await person.field("memory").fill("2")
    await expect(page.locator("#gpuspawner-sentence")).to_have_text("Fix 1 field above to continue.")
    await person.field("cpu").fill("1")
    await expect(links).to_have_count(0)


async def test_a_wrong_field_that_is_folded_in_is_shown(person: Person) -> None:
    await person.log_in("folder")
    await person.page.locator("#gpuspawner-more > summary").click()
    await person.field("run_time").fill("13h")
    await person.page.locator("#gpuspawner-more > summary").click()
    await person.page.locator("#gpuspawner-custom > summary").click()

    await person.start()

    await expect(person.field("run_time")).to_be_focused()


@pytest.mark.smoke
async def test_after_a_refused_form_the_focus_is_on_the_summary_with_links(person: Person) -> None:
    await person.log_in("sender")
    await person.field("cpu").fill("9999")
    await person.field("memory").fill("lots")
    await person.send_unchecked()

    summary = person.page.locator("#gpuspawner-errors")
    await expect(summary).to_be_focused()
    assert await summary.locator("p").text_content() == "Not started. Fix 2 fields below to continue:"
    assert await summary.locator("a").all_text_contents() == [
        "CPU must be 0.25 to 4 CPUs, not 9999 CPUs.",
        "Memory must be an amount of memory with a unit, such as 512M or 16G, not 'lots'.",
    ]
    await summary.locator("a").last.click()
    await expect(person.field("memory")).to_be_focused()


@pytest.mark.window(locale="de-DE")
async def test_german_amounts_have_a_comma(person: Person, servers: Servers) -> None:
    page = person.page
    try:
        await person.log_in("komma")
        await person.pick("gpu", "")
        await expect(page.locator("#gpuspawner-cpu-help")).to_contain_text("0,25 bis 4 Kerne")
        await person.field("cpu").fill("0,5")
        await person.field("cpu").press("ArrowUp")
        await expect(person.field("cpu")).to_have_value("0,75")
        await person.field("memory").fill("1.5")
        await expect(page.locator("#gpuspawner-sentence")).to_contain_text("0,75 CPU · 1,5 GiB RAM")
        await person.field("memory").fill("1.000")
        await person.field("memory").blur()
        await expect(page.locator("#gpuspawner-memory-error")).to_have_text(
            "Das kann 1000 oder 1 heißen. Geben Sie ein, was Sie meinen."
        )
        await person.field("memory").fill("1,5")

        await person.start()
        await page.wait_for_url("**/hub/spawn-pending/**")

        limits = servers.pods.of("komma").spec.containers[0].resources.limits
        assert (limits["cpu"], limits["memory"]) == ("750m", str(3 * 1024**3 // 2))
    finally:
        servers.stop("komma")
