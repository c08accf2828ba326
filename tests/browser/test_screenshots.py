"""The form at home in JupyterHub's theme, light and dark; the README's pictures come from here.

``GPUSPAWNER_SCREENSHOTS=1`` writes them to docs/images.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.support.person import Person

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MOST_BYTES = 300_000


async def _shoot(person: Person, scheme: str, folder: Path) -> Path:
    await person.log_in(f"{scheme}-reader")
    await person.pick("image", "jupyterlab")
    await person.pick("gpu", "a100-40gb")
    await person.field("gpu_count").fill("2")
    await expect(person.page.locator("#gpuspawner-sentence")).to_contain_text("2 × A100 40 GB")
    await person.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    wanted = os.environ.get("GPUSPAWNER_SCREENSHOTS") == "1"
    path = (IMAGES if wanted else folder) / f"form-{scheme}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    await person.page.screenshot(path=path)
    return path


async def _brightness(page: Page) -> float:
    """Return how bright the page's background is, 0 to 1."""
    colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3])
    return (red + green + blue) / 3 / 255


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(color_scheme="light", viewport={"width": 1000, "height": 1280})
async def test_the_form_in_light(person: Person, tmp_path: Path) -> None:
    path = await _shoot(person, "light", tmp_path)

    assert await _brightness(person.page) > 0.8
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(color_scheme="dark", viewport={"width": 1000, "height": 1280})
async def test_the_form_in_dark(person: Person, tmp_path: Path) -> None:
    path = await _shoot(person, "dark", tmp_path)

    assert await _brightness(person.page) < 0.3
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.window(viewport={"width": 390, "height": 800})
async def test_a_phone_needs_no_sideways_scrolling(person: Person) -> None:
    await person.log_in("ada")

    assert await person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
