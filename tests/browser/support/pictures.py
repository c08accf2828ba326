"""Pictures of pages as the documentation shows them; ``GPUSPAWNER_SCREENSHOTS=1`` writes them to docs/images."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.async_api import Page

IMAGES = Path(__file__).parents[3] / "docs" / "images"
MOST_BYTES = 300_000


async def shoot(page: Page, name: str, folder: Path) -> Path:
    """Take a picture of what a window shows, into a folder for tests unless it is wanted for the documentation."""
    wanted = os.environ.get("GPUSPAWNER_SCREENSHOTS") == "1"
    path = (IMAGES if wanted else folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=path)
    return path
