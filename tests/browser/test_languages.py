"""Users read the form in their language: all of it, whatever they do, and a wrong form comes back in it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.support.person import Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

GERMAN = pytest.mark.window(locale="de-DE")
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
