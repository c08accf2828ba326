"""Fixtures of the browser tests: Debian's Chromium on the demo's hub, on a real cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from kubernetes.client import ApiClient
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from devcluster import Cluster, chromium
from devcluster.demo.local import PASSWORD
from devcluster.demo.occupy import occupy_simulated_nodes
from devcluster.demo.values import LOCAL, Values
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.browser.support.form_site import FormSite, Reader, demo_form
from tests.browser.support.person import Person
from tests.browser.support.quick_hub import quick_hub
from tests.cluster.support.fixtures import api, cluster, pytest_runtest_makereport
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

__all__ = ["api", "cluster", "pytest_runtest_makereport", "quick_hub"]

PATIENCE_MS = 30_000
NAMESPACE = "browser"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "window(**options): options of the browser window, as Playwright's new_context has"
    )
    config.addinivalue_line(
        "markers", "form_alone: ``person`` is at the demo's form without a hub, unless the test has ``servers`` as well"
    )


@pytest.fixture(scope="session")
def hub(cluster: Cluster, api: ApiClient) -> Iterator[Hub]:
    """Run the demo's hub on a cluster that looks like the demo's."""
    occupy_simulated_nodes(api, image=cluster.pause_image)
    sections = Values.read(LOCAL).hub_sections()
    offer = sections.pop("GPUSpawner")
    settings = HubSettings(namespace=NAMESPACE, gpuspawner=offer, extra=sections, password=PASSWORD)
    with Hub(cluster, settings) as running:
        yield running


@pytest.fixture(scope="session")
def servers(api: ApiClient, hub: Hub) -> Servers:
    return Servers(hub, Pods(api, hub.settings.namespace))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await chromium.launch(playwright)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """Open a window without cookies, for tests that have several tabs."""
    made = await browser.new_context()
    made.set_default_timeout(PATIENCE_MS)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """Open a window without cookies; a test's marker ``window(...)`` holds options of its browser context."""
    options = request.node.get_closest_marker("window")
    context = await browser.new_context(**(options.kwargs if options else {}))
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    yield page
    await context.close()


@pytest.fixture(scope="session")
def form(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FormSite]:
    """Serve the demo's form without a hub and a cluster."""
    with demo_form(tmp_path_factory.mktemp("form")) as site:
        yield site


@pytest.fixture
def person(page: Page, request: pytest.FixtureRequest) -> Person:
    """A person at the demo's hub; in front of its form alone where the test is marked so."""
    is_alone = request.node.get_closest_marker("form_alone") is not None and "servers" not in request.fixturenames
    if is_alone:
        return Reader(page, request.getfixturevalue("form").url, "")
    return Person(page, request.getfixturevalue("hub").url, PASSWORD)
