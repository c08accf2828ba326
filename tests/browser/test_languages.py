"""Users read the form in their language: all of it, whatever they do, and a wrong form comes back in it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.support.person import Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

GERMAN = pytest.mark.window(locale="de-DE")
CHINESE = pytest.mark.window(locale="zh-CN")
CARD, TAKEN = "a100-40gb", "h100-80gb"


@pytest.mark.smoke
@GERMAN
async def test_the_form_is_in_german(person: Person) -> None:
    await person.log_in("german")
    await expect(person.page.locator("#gpuspawner-form")).to_have_attribute("lang", "de")
    await person.pick("gpu", CARD)
    await person.field("gpu_count").fill("2")
    sentence = person.page.locator("#gpuspawner-sentence")
    await expect(sentence).to_have_text(re.compile(r" · \d+ CPUs? · [\d,]+ GiB RAM · 2 × .* · höchstens \d+ Stunden$"))
    await expect(person.page.locator("#gpuspawner-verdict-text")).to_have_text(
        re.compile("^Startet sofort: Platz für ")
    )
    await expect(person.row("gpu", CARD).locator(".gs-free")).to_have_text(re.compile(r"^\d+ von \d+ frei$"))
    await expect(person.page.locator(".feedback-container button")).to_have_text("Starten")


@GERMAN
async def test_what_the_page_finds_itself_is_in_german(person: Person) -> None:
    await person.log_in("german-writer")
    await person.field("cpu").fill("1000")
    await person.field("cpu").blur()
    await expect(person.page.locator("#gpuspawner-cpu-error")).to_have_text(
        re.compile(r"^Geben Sie .* bis .* Kerne ein\.$")
    )
    await expect(person.page.locator("#gpuspawner-sentence")).to_have_text(
        "Korrigieren Sie oben 1 Feld, um fortzufahren."
    )


@GERMAN
async def test_a_wrong_form_comes_back_in_german(person: Person) -> None:
    await person.log_in("german-sender")
    await person.field("cpu").fill("1000")
    await person.send_unchecked()
    await expect(person.page.locator("#gpuspawner-errors p")).to_have_text(
        "Nicht gestartet. Korrigieren Sie unten 1 Feld, um fortzufahren:"
    )
    await expect(person.page.locator("#gpuspawner-cpu-error")).to_have_text("Geben Sie 0,25 bis 4 Kerne ein.")


@CHINESE
async def test_a_refreshed_page_stays_in_its_language(person: Person) -> None:
    await person.log_in("chinese")
    async with person.page.expect_response(re.compile("/hub/spawn")):
        await person.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await person.pick("gpu", TAKEN)
    await expect(person.page.locator("#gpuspawner-verdict-text")).to_have_text(re.compile("^需等待|^新增节点后启动"))
    await expect(person.row("gpu", TAKEN).locator(".gs-free")).to_have_text(re.compile("个空闲$"))


@pytest.mark.window(locale="de-DE", java_script_enabled=False)
async def test_without_a_script_the_language_is_the_same(person: Person) -> None:
    await person.log_in("german-plain")
    await person.field("cpu").fill("1000")
    await person.start()
    await expect(person.page.locator("#gpuspawner-cpu-error")).to_have_text("Geben Sie 0,25 bis 4 Kerne ein.")


@pytest.mark.window(locale="fr-FR")
async def test_who_speaks_a_language_that_is_not_there_reads_english(person: Person) -> None:
    await person.log_in("french")
    await expect(person.page.locator("#gpuspawner-gpus legend").first).to_have_text("GPU")
    await expect(person.row("gpu", "").locator("b")).to_have_text("No GPU")
