"""The fields under "More", which is open where one of them was changed or is wrong."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.browser.support.person import Person
from tests.cluster.support.pods import Pods

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]


def door(person: Person) -> Locator:
    return person.page.locator("#gpuspawner-more")


async def open_more(person: Person) -> None:
    await person.page.locator("#gpuspawner-more:not([open]) > summary").click()


def sizes(pods: Pods, user: str) -> list[str]:
    """Return how large the shared memory of a user's server is, nothing where it is the container runtime's."""
    return [each.empty_dir.size_limit for each in pods.of(user).spec.volumes if each.name == "gpuspawner-shm"]


@pytest.mark.smoke
async def test_it_is_one_click_further_than_the_other_fields(person: Person) -> None:
    await person.log_in("rare")
    await expect(person.field("cpu")).to_be_visible()
    await expect(door(person)).not_to_have_attribute("open", "")
    await expect(person.field("run_time")).to_be_hidden()

    await open_more(person)

    await expect(person.field("run_time")).to_have_value("4h")
    await expect(person.field("shared_memory")).to_have_value("")
    await expect(person.page.locator("#gpuspawner-run_time-help")).to_contain_text("files in your home directory stay")


async def test_an_empty_field_that_was_closed_away_is_shown_when_the_browser_complains(person: Person) -> None:
    await person.log_in("mistaken")
    await open_more(person)
    await person.field("run_time").fill("")
    await door(person).locator("> summary").click()
    await person.page.locator("#gpuspawner-custom > summary").click()
    await expect(person.field("run_time")).to_be_hidden()

    await person.start()

    await expect(person.field("run_time")).to_be_visible()
