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
