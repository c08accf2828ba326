"""A page whose counts could not be confirmed for a while says how old they are, and is right again after that."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kubernetes.client import ApiClient
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.person import Person
from tests.cluster.support import late_spawner
from tests.cluster.support.fixtures import offer
from tests.cluster.support.relay import Relay, changed
from tests.cluster.support.watched import hub_kubeconfig

NAMESPACE = "stale"
LATER_S = 75
REFRESH_MS = 10_000


@dataclass(frozen=True, slots=True)
class Far:
    """A hub whose way to the API server can be closed, and whose clock can be set forward."""

    hub: Hub
    relay: Relay

    def set_forward(self, seconds: float) -> None:
        """Let time pass for the hub; the file is there as a whole or not at all."""
        new = self.hub.run_dir / "new"
        new.write_text(str(seconds))
        new.rename(self.hub.run_dir / late_spawner.SKEW.name)


@pytest.fixture
def far(cluster: Cluster, api: ApiClient, tmp_path: Path) -> Iterator[Far]:
    server = urlsplit(cluster.server)
    relay = Relay(str(server.hostname), int(server.port or 443))
    relay.open()
    kubeconfig = hub_kubeconfig(cluster, api, NAMESPACE)
    way = changed(kubeconfig, tmp_path / "kubeconfig", server=f"https://{cluster.gateway}:{relay.port}")
    shutil.copy(late_spawner.__file__, tmp_path)
    settings = HubSettings(namespace=NAMESPACE, gpuspawner=offer(cluster), spawner_class="late_spawner.LateSpawner")
    with Hub(cluster, settings, kubeconfig=way, run_dir=tmp_path) as hub:
        yield Far(hub, relay)
    relay.end()


@pytest.mark.asyncio(loop_scope="session")
async def test_counts_without_confirmation_are_marked_with_their_age_until_there_is_one(far: Far, page: Page) -> None:
    age, verdict = page.locator("#gpuspawner-age"), page.locator("#gpuspawner-verdict")
    capacity = page.locator("label:has(#gpuspawner-gpu-1) .gs-free")
    await page.clock.install()
    await Person(page, far.hub.url, "any password").log_in("ada")
    await expect(age).to_be_hidden()
    before = await capacity.inner_text()

    far.relay.close()
    far.set_forward(LATER_S)
    await page.clock.run_for(REFRESH_MS)
    await expect(age).to_have_text(re.compile(r"These counts are as of [789]\d s ago\."))
    await expect(verdict).to_have_attribute("data-outcome", "unknown")
    await expect(capacity).to_have_text(before)

    far.relay.open()
    async with asyncio.timeout(30):
        while await age.is_visible():
            await page.clock.run_for(REFRESH_MS)
            await asyncio.sleep(0.1)
    await expect(verdict).to_have_attribute("data-outcome", "now")
