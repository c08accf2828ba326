"""The form is complete without JavaScript; it only gets livelier with it."""

from __future__ import annotations

import pytest

from tests.browser.support.person import Person
from tests.cluster.support.servers import Servers

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.window(java_script_enabled=False)]

CARD = "a100-40gb"


@pytest.mark.smoke
async def test_the_form_starts_a_server_with_the_chosen_gpus(person: Person, servers: Servers) -> None:
    try:
        await person.log_in("plain")
        await person.pick("image", "jupyterlab")
        await person.field("memory").fill("1G")
        await person.pick("gpu", CARD)
        await person.field("gpu_count").fill("2")
        await person.start()
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        limits = servers.pods.of("plain").spec.containers[0].resources.limits

        assert (limits["nvidia.com/gpu"], limits["memory"]) == ("2", str(1024**3))
    finally:
        servers.stop("plain")


async def test_a_preset_starts_with_one_press(person: Person, servers: Servers) -> None:
    try:
        await person.log_in("hasty")
        await person.page.get_by_role("button", name="One GPU").click()
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        assert servers.pods.of("hasty").spec.containers[0].resources.limits["nvidia.com/gpu"] == "1"
    finally:
        servers.stop("hasty")


async def test_enter_in_a_field_means_start_and_no_preset(person: Person, servers: Servers) -> None:
    try:
        await person.log_in("enter")
        await person.pick("gpu", "")
        await person.field("memory").fill("1.5")
        await person.field("memory").press("Enter")
        await person.page.wait_for_url("**/hub/spawn-pending/**")

        limits = servers.pods.of("enter").spec.containers[0].resources.limits

        assert (limits["memory"], "nvidia.com/gpu" in limits) == (str(3 * 1024**3 // 2), False)
    finally:
        servers.stop("enter")
