"""The form at home in JupyterHub's theme, light and dark; the pictures in the docs come from here.

``GPUSPAWNER_SCREENSHOTS=1`` writes them to docs/images.
"""

from __future__ import annotations

import asyncio
import html
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from devcluster import Cluster
from devcluster.hub import Hub
from gpuspawner.cli.main import main
from tests.browser.support.person import Person
from tests.browser.support.pictures import MOST_BYTES, shoot
from tests.browser.test_pending import INSTEAD_MS, waiting, watch
from tests.cluster.support.servers import Servers


async def _choose_two(person: Person, name: str) -> None:
    await person.log_in(name)
    await person.pick("image", "jupyterlab")
    await person.pick("gpu", "a100-40gb")
    await person.field("gpu_count").fill("2")
    await expect(person.page.locator("#gpuspawner-sentence")).to_contain_text("2 × A100 40 GB")
    await person.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


async def _is_wide(page: Page) -> bool:
    """Tell whether the page has to be scrolled sideways."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


async def _brightness(page: Page) -> float:
    """Return how bright the page's background is, 0 to 1."""
    colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3])
    return (red + green + blue) / 3 / 255


@pytest.mark.smoke
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(color_scheme="light", viewport={"width": 1000, "height": 1560})
async def test_the_form_in_light(person: Person, tmp_path: Path) -> None:
    await _choose_two(person, "light-reader")
    path = await shoot(person.page, "form-light", tmp_path)

    assert await _brightness(person.page) > 0.8
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(color_scheme="dark", viewport={"width": 1000, "height": 1560})
async def test_the_form_in_dark(person: Person, tmp_path: Path) -> None:
    await _choose_two(person, "dark-reader")
    path = await shoot(person.page, "form-dark", tmp_path)

    assert await _brightness(person.page) < 0.3
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 320, "height": 1400})
async def test_a_phone_needs_no_sideways_scrolling(person: Person, tmp_path: Path) -> None:
    await _choose_two(person, "phone-reader")
    path = await shoot(person.page, "form-narrow", tmp_path)

    assert not await _is_wide(person.page)
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 1000, "height": 900})
async def test_errors_stand_first_and_at_their_fields(person: Person, tmp_path: Path) -> None:
    await person.log_in("error-reader")
    await person.field("cpu").fill("4000")
    await person.field("memory").fill("many")
    await person.send_unchecked()
    errors = person.page.locator("#gpuspawner-errors")
    await expect(errors).to_be_in_viewport()
    path = await shoot(person.page, "form-error", tmp_path)

    await expect(errors.locator("a")).to_have_count(2)
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 1000, "height": 1560}, locale="zh-CN")
async def test_the_form_in_chinese(person: Person, tmp_path: Path) -> None:
    await person.log_in("chinese-reader")
    await person.pick("image", "jupyterlab")
    await person.pick("gpu", "h100-80gb")
    await expect(person.page.locator("#gpuspawner-alternatives button")).not_to_have_count(0)
    await person.unfold()
    await person.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    path = await shoot(person.page, "form-chinese", tmp_path)

    assert path.stat().st_size < MOST_BYTES
    assert not await _is_wide(person.page)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 1000, "height": 900}, color_scheme="dark")
async def test_a_full_cluster_says_what_would_fit_instead(person: Person, tmp_path: Path) -> None:
    await person.log_in("full-reader")
    await person.pick("gpu", "h100-80gb")
    await expect(person.page.locator("#gpuspawner-alternatives button")).not_to_have_count(0)
    await person.unfold()
    await person.page.locator("#gpuspawner-gpus").scroll_into_view_if_needed()
    path = await shoot(person.page, "form-full", tmp_path)

    await expect(person.page.locator("#gpuspawner-verdict")).to_have_attribute("data-outcome", "waits")
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 1000, "height": 640}, color_scheme="light")
async def test_the_page_of_a_server_that_waits(person: Person, servers: Servers, tmp_path: Path) -> None:
    with waiting(servers, "waiting-reader"):
        await watch(person, "waiting-reader")
        await expect(person.page.locator("#gpuspawner-instead")).to_be_visible(timeout=INSTEAD_MS)
        path = await shoot(person.page, "waiting", tmp_path)

    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 1100, "height": 520}, color_scheme="dark")
async def test_the_findings_of_doctor(
    page: Page, cluster: Cluster, hub: Hub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    namespace = hub.settings.namespace
    arguments = ["doctor", "--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace]
    status = await asyncio.to_thread(main, arguments)
    found = capsys.readouterr().out
    style = "body { margin: 1.5rem; color: #ddd; background: #1a1c1e } pre { white-space: pre-wrap; font-size: 15px }"
    command = f"$ gpuspawner doctor --namespace {namespace}\n\n"
    await page.set_content(f"<style>{style}</style><pre>{html.escape(command + found)}</pre>")
    path = await shoot(page, "doctor", tmp_path)

    assert (status, "mig-invalid-1" in found) == (1, True)
    assert path.stat().st_size < MOST_BYTES
