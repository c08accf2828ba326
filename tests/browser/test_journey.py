"""The main job in a real browser: from the login page to a notebook cell that prints its GPU."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Route, expect

from tests.browser.support.person import START_TIMEOUT_MS, Person
from tests.cluster.support.servers import Servers

pytestmark = pytest.mark.asyncio(loop_scope="session")

CARD = "a100-40gb"


@pytest.mark.smoke
async def test_from_login_to_a_notebook_cell_that_prints_the_chosen_gpus(person: Person, servers: Servers) -> None:
    try:
        await person.log_in("ada")
        await person.pick("image", "jupyterlab")
        await person.field("cpu").fill("2")
        await person.field("memory").fill("3")
        await person.pick("gpu", CARD)
        await person.field("gpu_count").fill("2")
        await person.start()
        await person.wait_for_lab()

        output = await person.run_cell("!nvidia-smi")

        await expect(output).to_contain_text("GPU 1: NVIDIA A100-SXM4-40GB", timeout=START_TIMEOUT_MS)
        await expect(output).not_to_contain_text("GPU 2:")
        assert servers.pods.of("ada").spec.containers[0].resources.limits == {
            "cpu": "2",
            "memory": str(3 * 1024**3),
            "nvidia.com/gpu": "2",
        }
    finally:
        servers.stop("ada")


@pytest.mark.parametrize("number", ["9999", "lots"])
async def test_a_click_that_leaves_a_wrong_number_arrives(person: Person, number: str) -> None:
    """The message at the number moves what stands below it."""
    await person.log_in("clicker")
    await person.pick("gpu", CARD)
    # A verdict that arrives between aim and press would move the page too.
    await expect(person.page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "now")
    await person.field("memory").fill(number)
    await person.choice("gpu", "").hover()
    await person.page.mouse.down()
    await person.page.mouse.up()

    await expect(person.choice("gpu", "")).to_be_checked()
    await expect(person.page.locator("#gpuspawner-memory-error")).to_be_visible()


async def test_data_of_another_version_leaves_the_form_as_it_is_without_a_script(person: Person) -> None:
    """As of a page that a site's own template made for an older script: Start is there, and starts."""

    async def older(route: Route) -> None:
        answer = await route.fetch()
        page = re.sub(r'"version":\d+', '"version":1', await answer.text())
        await route.fulfill(response=answer, body=page)

    await person.log_in("older", customise=False)
    await person.page.route("**/hub/spawn", older)  # not before: a redirect to the page is none of its requests
    await person.page.goto(f"{person.url}/hub/spawn")
    await person.customise()
    await person.field("cpu").fill("lots")
    await person.start()

    await expect(person.page.locator("#gpuspawner-errors")).to_be_visible()
    await expect(person.page.locator(".feedback-container button")).to_be_visible()


@pytest.mark.smoke
async def test_start_pressed_twice_starts_once(person: Person, servers: Servers) -> None:
    posts: list[str] = []
    await person.log_in("eager")
    person.page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    try:
        await person.page.locator(".feedback-container button").dblclick()
        servers.pods.of("eager")
        await person.page.wait_for_url(re.compile("/hub/spawn-pending/|/user/"))
        assert [url.partition("?")[0] for url in posts if "/hub/spawn" in url] == [f"{person.url}/hub/spawn"]
    finally:
        servers.stop("eager")


@pytest.mark.smoke
async def test_the_form_asks_nothing_of_any_other_address(person: Person) -> None:
    asked: list[str] = []
    person.page.on("request", lambda request: asked.append(request.url))
    await person.log_in("private")
    await person.pick("gpu", CARD)
    await expect(person.page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "now")

    assert asked != []
    assert [url for url in asked if not url.startswith((f"{person.url}/", "data:"))] == []


@pytest.mark.window(reduced_motion="reduce")
async def test_nothing_moves_for_who_wants_no_motion(person: Person) -> None:
    await person.log_in("calm")
    await person.pick("gpu", CARD)

    moving = await person.page.evaluate(
        """() => [...document.querySelectorAll("#gpuspawner-form, #gpuspawner-form *")].filter((element) => {
          const { transitionDuration, animationName } = getComputedStyle(element);
          return transitionDuration.split(", ").some((each) => parseFloat(each) > 0) || animationName !== "none";
        }).length"""
    )
    assert moving == 0
