"""Everything can be done with the keyboard alone."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.support.person import Person
from tests.cluster.support.servers import Servers

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.form_alone]

CARD = "a100-40gb"


@pytest.mark.smoke
async def test_login_choice_and_start_without_a_mouse(person: Person, servers: Servers) -> None:
    keys = person.page.keyboard
    try:
        await person.page.goto(f"{person.url}/hub/login?next=%2Fhub%2Fspawn")
        await person.page.focus("input[name=username]")
        await keys.type("keys")
        await keys.press("Tab")
        await keys.type(person.password)
        await keys.press("Enter")
        await expect(person.page.locator("#spawn_form")).to_be_visible()

        await person.tab_to("#gpuspawner-custom > summary")
        await keys.press("Enter")
        await person.tab_to("input[name=gpu]")
        await keys.press("ArrowDown")
        await expect(person.choice("gpu", CARD)).to_be_checked()
        await person.tab_to("input[name=gpu_count]")
        await keys.press("ArrowUp")
        await person.tab_to("input[name=cpu]")
        await keys.press("Control+A")
        await keys.type("1")
        await keys.press("ArrowUp")
        await person.tab_to(".feedback-container button")
        await keys.press("Enter")
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        limits = servers.pods.of("keys").spec.containers[0].resources.limits

        assert (limits["cpu"], limits["nvidia.com/gpu"]) == ("1250m", "2")
    finally:
        servers.stop("keys")


@pytest.mark.smoke
async def test_every_control_has_a_name_for_those_who_cannot_see_it(person: Person) -> None:
    await person.log_in("listener")

    unnamed = await person.page.evaluate(
        """() => [...document.querySelectorAll('#spawn_form input:not([type=hidden]), #spawn_form button')]
            .filter(control => control.checkVisibility() && control.getAttribute('aria-hidden') !== 'true')
            .filter(control => !(control.ariaLabel || control.textContent.trim() || control.labels?.length
                || document.getElementById(control.getAttribute('aria-labelledby'))?.textContent.trim()))
            .map(control => control.outerHTML)"""
    )

    assert unnamed == []


@pytest.mark.smoke
async def test_a_choice_is_called_by_its_name_and_described_by_the_rest(person: Person) -> None:
    await person.log_in("listener")
    card = person.choice("gpu", "a100-40gb")

    await expect(card).to_have_accessible_name("A100 40 GB")
    await expect(card).to_have_accessible_description(
        re.compile(r"40 GiB full GPU NVLink up to 4 .*\bfree\b.*Starts on this machine, without hardware\.")
    )
