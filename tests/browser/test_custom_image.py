"""A custom image: named by its reference, checked, started, and there the next time."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.support.person import Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

# The demo allows images of localhost/devcluster, and its node has this one of them.
OWN = "localhost/devcluster/notebook:1"
ELSEWHERE = "The image must come from localhost/devcluster, not 'docker.io/library/python'."


async def test_the_field_comes_and_goes_with_its_card(person: Person) -> None:
    await person.log_in("chooser")
    await expect(person.field("custom_image")).to_be_hidden()

    await person.pick("image", "")
    await person.field("custom_image").fill(OWN)

    await expect(person.page.locator("#gpuspawner-sentence")).to_contain_text(f"{OWN} ·")
    await person.pick("image", "jupyterlab")
    await expect(person.field("custom_image")).to_be_hidden()
    await expect(person.page.locator("#gpuspawner-sentence")).to_contain_text("JupyterLab ·")

    await person.pick("image", "")
    await expect(person.field("custom_image")).to_have_value(OWN)


async def test_a_wrong_reference_gets_a_complaint_while_it_is_typed_and_no_promise_of_a_start(person: Person) -> None:
    page = person.page
    await person.log_in("writer")
    await person.pick("image", "")
    await person.field("custom_image").fill("python:3.12")

    await expect(page.locator("#gpuspawner-custom_image-error")).to_have_text(ELSEWHERE)
    await expect(page.locator("#gpuspawner-verdict-text")).to_have_text("Fix 1 field above to continue.")
    await person.unfold()
    await expect(page.get_by_role("button", name="Copy link")).to_be_hidden()

    await person.field("custom_image").fill(OWN)
    await expect(page.locator("#gpuspawner-custom_image-error")).to_be_hidden()
    await expect(page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "now")
