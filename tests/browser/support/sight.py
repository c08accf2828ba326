"""The part of a page that the window shows, and clicks without scrolling."""

from __future__ import annotations

from playwright.async_api import Locator

_HIDDEN = """(element) => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  const isInside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  const hits = [top + 2, (top + bottom) / 2, bottom - 2].map((y) => document.elementFromPoint((left + right) / 2, y));
  if (isInside && hits.every((hit) => element.contains(hit))) return "";
  return `${element.id || element.tagName}: ${top} to ${bottom}, hit ${hits.map((hit) => hit?.outerHTML.slice(0, 80))}`;
}"""


async def hidden(*elements: Locator) -> list[str]:
    """Return which elements are not all in the window, or below another one, and what is there instead."""
    found = [await element.evaluate(_HIDDEN) for element in elements]
    return [each for each in found if each]


async def click(element: Locator) -> None:
    """Click an element where it is; Playwright's own click scrolls to it.

    :raises AssertionError: it is out of sight.
    """
    assert await hidden(element) == []
    box = await element.bounding_box()
    assert box is not None
    await element.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
