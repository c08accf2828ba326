"""The fields under "More", which is open where one of them was changed or is wrong."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.browser.support.person import Person
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

HOURS = "up to 1 hour 30 minutes"
DEADLINE_S = 90 * 60


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


async def test_a_run_time_is_written_in_words_and_steps_with_the_arrow_keys(person: Person) -> None:
    sentence = person.page.locator("#gpuspawner-sentence")
    await person.log_in("rare")
    await open_more(person)
    run_time = person.field("run_time")

    await run_time.fill("90 min")
    await expect(sentence).to_contain_text(HOURS)
    await run_time.press("ArrowUp")
    await expect(run_time).to_have_value("1h45m")
    await expect(sentence).to_contain_text("up to 1 hour 45 minutes")
    await person.page.get_by_label("Less Run time").click()
    await expect(run_time).to_have_value("1h30m")
    await run_time.fill("2")
    await expect(sentence).to_contain_text("up to 2 hours")

    await run_time.fill("for ever")
    await run_time.blur()
    complaint = person.page.locator("#gpuspawner-run_time-error")
    await expect(complaint).to_have_text("Enter a duration, such as 4h.")
    await expect(sentence).not_to_contain_text("up to")


async def test_shared_memory_is_never_more_than_the_memory(person: Person) -> None:
    complaint = person.page.locator("#gpuspawner-shared_memory-error")
    await person.log_in("rare")
    await open_more(person)
    await person.field("memory").fill("2")
    await person.field("shared_memory").fill("3")
    await person.field("shared_memory").blur()
    await expect(complaint).to_have_text("Enter 0.25 to 2 GiB.")

    await person.field("memory").fill("4")

    await expect(complaint).to_be_hidden()
    await expect(person.page.locator("#gpuspawner-sentence")).to_contain_text(
        "4 GiB RAM · 3 GiB shared memory · no GPU"
    )


async def test_a_wrong_field_under_more_comes_back_with_more_open(person: Person) -> None:
    await person.log_in("mistaken")
    await open_more(person)
    await person.field("run_time").fill("13h")
    await person.field("memory").fill("2")
    await person.field("shared_memory").fill("3")
    await person.field("memory").fill("2")
    await person.field("cpu").fill("2")

    await person.send_unchecked()

    await expect(door(person)).to_have_attribute("open", "")
    error = person.page.locator("#gpuspawner-run_time-error")
    await expect(error).to_have_text("Enter 15m to 12h.")
    await expect(person.page.locator("#gpuspawner-shared_memory-error")).to_have_text("Enter 0.25 to 2 GiB.")
    await expect(person.field("run_time")).to_have_value("13h")
    await expect(person.field("run_time")).to_have_attribute("aria-invalid", "true")
    await expect(person.field("cpu")).to_have_value("2")

    await person.page.locator("#gpuspawner-errors a[href='#gpuspawner-run_time']").click()

    await expect(person.field("run_time")).to_be_focused()


async def test_an_empty_field_that_was_closed_away_is_shown_when_the_browser_complains(person: Person) -> None:
    await person.log_in("mistaken")
    await open_more(person)
    await person.field("run_time").fill("")
    await door(person).locator("> summary").click()
    await person.page.locator("#gpuspawner-custom > summary").click()
    await expect(person.field("run_time")).to_be_hidden()

    await person.start()

    await expect(person.field("run_time")).to_be_visible()


async def test_a_link_starts_it_and_the_form_has_it_the_next_time(person: Person, servers: Servers) -> None:
    page = person.page
    try:
        await person.log_in("timed")
        await page.goto(f"{person.url}/hub/spawn?opt-memory=2&opt-run_time=90m&opt-shared_memory=1")
        await person.start()
        await page.wait_for_url("**/hub/spawn-pending/**")
        servers.wait_ready("timed")
        assert servers.pods.of("timed").spec.active_deadline_seconds == DEADLINE_S
        assert sizes(servers.pods, "timed") == [str(1024**3)]
        servers.stop("timed")

        await page.goto(f"{person.url}/hub/spawn")

        await expect(door(person)).to_have_attribute("open", "")
        await expect(person.field("run_time")).to_have_value("1h30m")
        await expect(person.field("shared_memory")).to_have_value("1")
    finally:
        servers.stop("timed")


async def test_the_keyboard_gets_there(person: Person) -> None:
    await person.log_in("keys")

    await person.tab_to("#gpuspawner-more > summary")
    await person.page.keyboard.press("Enter")
    await person.tab_to("input[name=run_time]")
    await person.page.keyboard.press("ArrowDown")
    await person.tab_to("input[name=shared_memory]")
    await person.page.keyboard.press("ArrowUp")

    await expect(person.field("run_time")).to_have_value("3h45m")
    await expect(person.field("shared_memory")).to_have_value("0.25")


@pytest.mark.window(java_script_enabled=False)
async def test_without_javascript_it_opens_and_counts_as_well(person: Person, servers: Servers) -> None:
    try:
        await person.log_in("plain-timed")
        await open_more(person)
        await person.field("run_time").fill("1.5")
        await person.start()
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        assert servers.pods.of("plain-timed").spec.active_deadline_seconds == DEADLINE_S
        assert sizes(servers.pods, "plain-timed") == []
    finally:
        servers.stop("plain-timed")
