"""A custom image: named by its reference, checked, started, and there the next time."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.support.person import Person
from tests.cluster.support.servers import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

# The demo allows images of localhost/devcluster, and its node has this one of them.
OWN = "localhost/devcluster/notebook:1"
ELSEWHERE = "The image must come from localhost/devcluster, not 'docker.io/library/python'."
NO_REFERENCE = "The image must be written as registry/name:tag"


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


async def test_a_reference_is_looked_at_soon_whatever_else_is_wrong(person: Person) -> None:
    await person.log_in("hasty")
    await person.field("cpu").fill("lots")
    await person.pick("image", "")
    await person.field("custom_image").fill("python:3.12")

    # Long before the page asks by itself.
    await expect(person.page.locator("#gpuspawner-custom_image-error")).to_have_text(ELSEWHERE, timeout=5000)


async def test_a_wrong_reference_comes_back_at_its_field_with_everything_kept(person: Person) -> None:
    await person.log_in("mistaken")
    await person.pick("image", "")
    await person.field("custom_image").fill("no <b>image</b>")
    await person.field("memory").fill("3")

    await person.send_unchecked()

    await expect(person.page.locator("#gpuspawner-custom_image-error")).to_contain_text(NO_REFERENCE)
    await expect(person.choice("image", "")).to_be_checked()
    await expect(person.field("custom_image")).to_have_value("no <b>image</b>")
    await expect(person.field("custom_image")).to_have_attribute("aria-invalid", "true")
    await expect(person.field("memory")).to_have_value("3")


async def test_a_link_starts_it_and_the_form_has_it_the_next_time(person: Person, servers: Servers) -> None:
    page = person.page
    try:
        await person.log_in("namer")
        await page.goto(f"{person.url}/hub/spawn?opt-custom_image={OWN}&opt-memory=1")
        await person.start()
        await page.wait_for_url("**/hub/spawn-pending/**")
        servers.wait_ready("namer")
        pod = servers.pods.of("namer")
        assert (pod.spec.containers[0].image, pod.metadata.annotations["gpuspawner.jupyter.org/image"]) == (OWN, OWN)
        servers.stop("namer")

        await page.goto(f"{person.url}/hub/spawn")

        await expect(person.choice("image", "")).to_be_checked()
        await expect(person.field("custom_image")).to_have_value(OWN)
    finally:
        servers.stop("namer")


@pytest.mark.window(java_script_enabled=False)
async def test_without_javascript_the_field_is_always_there_and_counts_with_its_card_alone(
    person: Person, servers: Servers
) -> None:
    try:
        await person.log_in("plain-namer")
        await person.pick("image", "")
        await person.start()
        await expect(person.page.locator("#gpuspawner-custom_image-error")).to_contain_text("Enter an image")

        await person.field("custom_image").fill("no image")
        await person.pick("image", "jupyterlab")
        await person.start()
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        annotations = servers.pods.of("plain-namer").metadata.annotations
        assert annotations["gpuspawner.jupyter.org/image"] == "jupyterlab"
    finally:
        servers.stop("plain-namer")
