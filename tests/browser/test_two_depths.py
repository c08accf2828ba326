"""Presets for most users, and every field under "Customize"."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.browser.support.person import Person
from tests.cluster.support.servers import Servers

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

CARD = "a100-40gb"


async def arrive(person: Person, name: str) -> None:
    """Come to the form without opening anything."""
    await person.log_in(name, customise=False)


def customise(person: Person) -> Locator:
    return person.page.locator("#gpuspawner-custom")


async def test_a_newcomer_sees_presets_with_their_verdicts_and_no_field(person: Person) -> None:
    await arrive(person, "newcomer")

    await expect(person.page.locator(".gs-preset")).to_have_count(3)
    await expect(person.page.locator("#gpuspawner-preset-2 .gs-outlook")).to_contain_text("Starts now: ")
    await expect(customise(person)).not_to_have_attribute("open", "")
    await expect(person.field("cpu")).to_be_hidden()


@pytest.mark.window(viewport={"width": 1000, "height": 900})
async def test_the_verdicts_of_presets_side_by_side_stand_on_one_line(person: Person) -> None:
    """However many lines each takes to say what is in it."""
    await arrive(person, "comparing")
    await expect(person.page.locator("#gpuspawner-preset-3 .gs-outlook")).to_contain_text("Starts now: ")

    outlooks = await person.page.locator(".gs-preset .gs-outlook").all()
    tops = {(await each.bounding_box() or {}).get("y") for each in outlooks}

    assert (len(outlooks), len(tops)) == (3, 1)


@pytest.mark.smoke
async def test_a_preset_and_start_are_two_clicks(person: Person, servers: Servers) -> None:
    try:
        await arrive(person, "quick")
        await person.page.get_by_role("button", name="One GPU").click()
        await expect(person.page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "now")
        await expect(person.field("cpu")).to_be_hidden()
        await person.start()
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        assert servers.pods.of("quick").spec.containers[0].resources.limits["nvidia.com/gpu"] == "1"
    finally:
        servers.stop("quick")


@pytest.mark.parametrize("name", ["cpu", "run_time"])
async def test_an_empty_field_that_was_closed_away_is_shown_when_the_browser_complains(
    person: Person, name: str
) -> None:
    await person.log_in("mistaken")
    await person.page.locator("#gpuspawner-more > summary").click()
    await person.field(name).fill("")
    for door in ("more", "custom"):
        await person.page.locator(f"#gpuspawner-{door} > summary").click()
    await expect(person.field(name)).to_be_hidden()

    await person.start()

    await expect(person.field(name)).to_be_visible()
