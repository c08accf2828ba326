"""What axe-core finds wrong with a page."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page

_SCRIPT = Path(__file__).parents[3] / "node_modules" / "axe-core" / "axe.min.js"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The Start button stands in the form, and is the hub's, in the hub's colours.
_RUN = """([part, tags]) => axe.run({ include: part, exclude: '.feedback-container' },
                                    { runOnly: tags, resultTypes: ['violations'] })"""


async def complaints(page: Page, part: str = "#gpuspawner-form") -> list[str]:
    """Return what is wrong with a part of a page, each with where it is."""
    await page.add_script_tag(path=_SCRIPT)
    # Where the page ends, the bar covers nothing: axe-core counts a target that it half covers as too small.
    await page.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
    found = await page.evaluate(_RUN, [part, _TAGS])
    return [f"{rule['id']}: {', '.join(str(node['target']) for node in rule['nodes'])}" for rule in found["violations"]]
