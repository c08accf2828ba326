"""Two ways to use a page, as users do it: with a pointer and with the keyboard. Each action is counted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from playwright.async_api import Locator, Page

WINDOW = (1280, 720)
"""Width and height in CSS pixels."""
LIST_ENTRIES = 20
"""So many entries of a list that opens Chromium shows at once (``kMaxVisibleItems``)."""
_MOST = 300
_IS_HIT = """(target) => {
  const { left, top, width, height, bottom } = target.getBoundingClientRect();
  const hit = document.elementFromPoint(left + width / 2, top + height / 2);
  return top >= 0 && bottom <= innerHeight && target.contains(hit);
}"""
# How many tab stops the nearest of some elements is after what has the focus. A group of radio buttons is one stop.
_TABS = """(targets) => {
  const isStop = (each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility({ visibilityProperty: true })
    && (each.type !== "radio" || each.checked || each === document.activeElement
      || !document.querySelector(`input[name="${each.name}"]:checked`));
  const stops = [...document.querySelectorAll("a[href], button, input, select, summary")].filter(isStop);
  const steps = targets.map((each) => stops.indexOf(each)).filter((at) => at >= 0)
    .map((at) => at - stops.indexOf(document.activeElement));
  return steps.sort((one, other) => Math.abs(one) - Math.abs(other))[0];
}"""
_ENTRIES = "(select) => [[...select.options].map(({ label }) => label), select.selectedIndex]"


@dataclass(slots=True)
class Tally:
    """The actions of a user.

    :ivar clicks: presses of the pointer's button.
    :ivar keys: presses of keys.
    :ivar texts: texts that were typed without a pause.
    :ivar typed: how many of the keys were for these texts.
    :ivar scrolls: turns of the wheel, each by at most a window.
    """

    clicks: int = 0
    keys: int = 0
    texts: int = 0
    typed: int = 0
    scrolls: int = 0

    @property
    def actions(self) -> int:
        """Return the number of actions if each key counts."""
        return self.clicks + self.keys + self.scrolls

    @property
    def with_texts_as_one(self) -> int:
        """Return the number of actions if a text counts as one."""
        return self.actions - self.typed + self.texts


class Hand(Protocol):
    """Does what a person does on a page, and counts it."""

    tally: Tally

    def __init__(self, page: Page) -> None: ...

    async def find(self, search: Locator, words: str, row: Locator) -> None:
        """Pick a row of a list that has a search.

        :param words: what to search for, to have no other row left.
        :param row: the label of the row's radio button.
        """

    async def write(self, number: Locator, text: str, button: Locator) -> None:
        """Replace what a field holds.

        :param button: the button below the field, which fills in this text.
        """

    async def increase(self, number: Locator, more: Locator) -> None:
        """Add one to what a field holds.

        :param more: the field's button for that.
        """

    async def turn_to(self, profile: Locator) -> None:
        """Go to the lists of a profile.

        :param profile: its radio button.
        """

    async def choose(self, select: Locator, label: str) -> None:
        """Choose an entry of a list that opens."""

    async def start(self, button: Locator, *, radio: Locator) -> None:
        """Send the form.

        :param button: its Start.
        :param radio: a radio button of it that is picked: Enter sends the form there as well.
        """


@dataclass
class _Counting:
    page: Page
    tally: Tally = field(default_factory=Tally)

    async def _type(self, text: str) -> None:
        for letter in text:
            await self._press(letter)
        self.tally.texts += 1
        self.tally.typed += len(text)

    async def _press(self, key: str) -> None:
        await self.page.keyboard.press(key)
        self.tally.keys += 1


class Pointer(_Counting):
    """A person with a mouse, who scrolls to what is out of sight."""

    async def find(self, search: Locator, words: str, row: Locator) -> None:
        """Scroll to the row and pick it: a click into the search and the letters would be more actions."""
        await self._click(row)

    async def write(self, number: Locator, text: str, button: Locator) -> None:
        """Click the button."""
        await self._click(button)

    async def increase(self, number: Locator, more: Locator) -> None:
        """Click the button."""
        await self._click(more)

    async def turn_to(self, profile: Locator) -> None:
        """Do nothing: a click on a list picks its profile."""

    async def choose(self, select: Locator, label: str) -> None:
        """Click the list, which opens, and the entry."""
        # The list that opens is the browser's own, outside of the page: what a click there does is done by a script.
        await self._reveal(select)
        labels, _ = await select.evaluate(_ENTRIES)
        await select.dispatch_event("click")
        await select.select_option(label=label)
        self.tally.clicks += 2
        self.tally.scrolls += labels.index(label) // LIST_ENTRIES

    async def start(self, button: Locator, *, radio: Locator) -> None:
        """Click Start."""
        await self._click(button)

    async def _click(self, target: Locator) -> None:
        await self._reveal(target)
        box = await target.bounding_box()
        if box is None:
            raise RuntimeError(f"{target} is not shown")
        at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        await self.page.mouse.click(*at)
        self.tally.clicks += 1

    async def _reveal(self, target: Locator) -> None:
        """Scroll until all of the target is in sight, and nothing covers it."""
        await target.wait_for()
        height = WINDOW[1]
        for _ in range(_MOST):
            if await target.evaluate(_IS_HIT):
                return
            box = await target.bounding_box()
            if box is None:
                raise RuntimeError(f"{target} is not shown")
            wanted = box["y"] + box["height"] / 2 - height / 2  # to the middle
            await self._scroll(math.copysign(min(abs(wanted), height), wanted))
        raise RuntimeError(f"{target} cannot be clicked")

    async def _scroll(self, distance: float) -> None:
        wanted = await self.page.evaluate(
            "(by) => Math.max(0, Math.min(scrollY + by, document.documentElement.scrollHeight - innerHeight))", distance
        )
        await self.page.mouse.move(2, WINDOW[1] / 2)
        await self.page.mouse.wheel(0, distance)
        await self.page.wait_for_function("(wanted) => Math.abs(scrollY - wanted) < 2", arg=wanted)
        self.tally.scrolls += 1


class Keyboard(_Counting):
    """A person without a mouse, who knows the shortest way."""

    async def find(self, search: Locator, words: str, row: Locator) -> None:
        """Search, and go from the search to the row."""
        await self._tab_to(search)
        await self._type(words)
        radio = row.locator("input")
        for _ in range(_MOST):
            await self._press("ArrowDown")  # the first time into the rows
            if await radio.is_checked():
                return
        raise RuntimeError(f"{row} was not reached")

    async def write(self, number: Locator, text: str, button: Locator) -> None:
        """Go to the field, which marks what it holds, and type."""
        await self._tab_to(number)
        await self._type(text)

    async def increase(self, number: Locator, more: Locator) -> None:
        """Press the arrow key in the field."""
        await self._tab_to(number)
        await self._press("ArrowUp")

    async def turn_to(self, profile: Locator) -> None:
        """Go through the radio buttons in the nearer direction."""
        group = self.page.locator(f"input[name={await profile.get_attribute('name')}]")
        await self._tab_to(group)
        slugs = await group.evaluate_all("(all) => all.map(({ id }) => id)")
        down = slugs.index(await profile.get_attribute("id"))
        up = len(slugs) - down  # from the first radio button to the last
        for _ in range(min(down, up)):
            await self._press("ArrowDown" if down <= up else "ArrowUp")
        if not await profile.is_checked():
            raise RuntimeError(f"{profile} was not reached")

    async def choose(self, select: Locator, label: str) -> None:
        """Choose an entry by its first letters, by arrow keys, or by both, whatever is shortest."""
        await self._tab_to(select)
        labels, at = await select.evaluate(_ENTRIES)
        wanted = labels.index(label)
        begins = {0: at} | {
            letters: next(n for n, each in enumerate(labels) if each.lower().startswith(label[:letters].lower()))
            for letters in range(1, len(label) + 1)
        }
        letters = min(begins, key=lambda each: each + abs(wanted - begins[each]))
        if letters:
            await self._type(label[:letters])
        for _ in range(abs(wanted - begins[letters])):
            await self._press("ArrowDown" if wanted > begins[letters] else "ArrowUp")
        if (await select.evaluate(_ENTRIES))[1] != wanted:
            raise RuntimeError(f"{select} is not at {label}")

    async def start(self, button: Locator, *, radio: Locator) -> None:
        """Press Enter on Start or on the radio button, whatever is nearer."""
        steps = [abs(await each.evaluate_all(_TABS)) for each in (radio, button)]
        await self._tab_to(radio if steps[0] < steps[1] else button)
        await self._press("Enter")

    async def _tab_to(self, target: Locator) -> None:
        """Press Tab or Shift+Tab, whatever is nearer, until the target (one of them) has the focus."""
        steps = await target.evaluate_all(_TABS)
        for _ in range(abs(steps)):
            await self._press("Tab" if steps > 0 else "Shift+Tab")
        if not await target.evaluate_all("(all) => all.includes(document.activeElement)"):
            raise RuntimeError(f"Tab did not reach {target}")
