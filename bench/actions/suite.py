"""How many actions it takes to start a server with a choice that is no default, beside KubeSpawner's form.

A script makes the same choice in both forms, once with a pointer and once with the keyboard. Both forms stand in
JupyterHub's own page and offer 24 GPU types, 20 images, numbers of GPUs, CPU and memory; for both it is a first visit.
KubeSpawner's form is measured with two profile lists: with a profile for each GPU type, as most sites have it, and with
a single profile, one of whose lists has each number of each type.

One action is:

- a click;
- a press of a key, with the pointer as with the keyboard: a word that is typed is as many actions as it has letters;
- a scroll step: a turn of the wheel by at most one window.

The figures with ``texts_as_one`` count a text that is typed at once as one action. An entry of a list that opens takes
a click on the list, a click on the entry, and a scroll step for each 20 entries before it.

The scripts take the shortest way that each form offers. In ours, the pointer scrolls to a row and clicks the buttons of
common amounts; the keyboard searches for a row with letters of its name, and types amounts. In theirs, a click on a
list picks its profile; the keyboard goes through the profiles in the nearer direction, picks entries by their first
letters, arrow keys, or both, and presses Enter on the radio button where Start is further away.

The times are those of the scripts, from the loaded page until the site has got the form. Users are slower.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import NamedTuple

from playwright.async_api import Browser, Page, async_playwright

from bench.actions import offer
from bench.actions.hands import WINDOW, Hand, Keyboard, Pointer, Tally
from bench.actions.offer import CHOICE
from bench.actions.site import OURS, PENDING, Site, serving
from bench.result import Result
from devcluster import chromium

ROUNDS = 5
START = ".feedback-container button"
GPU_WORDS, IMAGE_WORDS = "a3", "che"
"""Text for the searches, a few letters each: either one leaves a single row."""


class Form(NamedTuple):
    """A form, and how to make the choice in it.

    :param prefix: of the names of its figures.
    :param expected: fields that it must send, with their values.
    """

    name: str
    prefix: str
    choose: Callable[[Hand, Page], Awaitable[None]]
    expected: dict[str, str]


def measure() -> Result:
    """Make the same choice in all forms, again and again with a pointer and with the keyboard."""
    return asyncio.run(_measure())


async def _measure() -> Result:
    tallies: dict[str, list[Tally]] = {}
    times_s: dict[str, list[float]] = {}
    lists = {"each_type": offer.profile_of_each_type(), "one_profile": offer.one_profile()}
    async with serving(lists) as site, async_playwright() as playwright:
        browser = await chromium.launch(playwright, chromium.PROGRAM)
        for _ in range(ROUNDS):
            for form in FORMS:
                for hand in (Pointer, Keyboard):
                    name = f"{form.prefix}{hand.__name__.lower()}"
                    tally, took_s = await _start(browser, site, form, hand=hand)
                    tallies.setdefault(name, []).append(tally)
                    times_s.setdefault(name, []).append(took_s)
        await browser.close()
    return _result(tallies, times_s)


async def _start(browser: Browser, site: Site, form: Form, *, hand: type[Hand]) -> tuple[Tally, float]:
    """Load a form, make the choice and send it; return what was done, and how many seconds it took.

    :raises RuntimeError: another choice was sent.
    """
    context = await browser.new_context(viewport={"width": WINDOW[0], "height": WINDOW[1]}, reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(site.address(form.name))
    used = hand(page)
    began = time.perf_counter()
    await form.choose(used, page)
    await page.wait_for_url(f"**{PENDING}")
    came, fields = site.sent.pop()
    await context.close()
    if wrong := {name: fields.get(name) for name, value in form.expected.items() if fields.get(name) != value}:
        raise RuntimeError(f"{form.name} sent {wrong}, not {form.expected}")
    return used.tally, came - began


async def _choose_in_ours(hand: Hand, page: Page) -> None:
    def row(name: str, slug: str) -> str:
        return f"label:has(input[name={name}][value='{slug}'])"

    gpu, image = (page.locator(f"#gpuspawner-{name} .gs-find input[type=search]") for name in ("gpus", "images"))
    await hand.find(gpu, GPU_WORDS, page.locator(row("gpu", offer.slug_of(CHOICE.gpu))))
    count, more = page.locator("#gpuspawner-gpu_count"), page.locator("[data-for=gpu_count][data-step='1']")
    await hand.increase(count, more)  # from 1 to CHOICE.gpus
    for name, amount in (("cpu", CHOICE.cpu), ("memory", CHOICE.memory)):
        number = page.locator(f".gs-number:has(#gpuspawner-{name})")
        await hand.write(number.locator("input"), amount, number.locator(f"+ .gs-common [value='{amount}']"))
    picked = page.locator(row("image", offer.slug_of(CHOICE.image)))
    await hand.find(image, IMAGE_WORDS, picked)
    await hand.start(page.locator(START), radio=picked.locator("input"))


async def _choose_in_each_type(hand: Hand, page: Page) -> None:
    profile = offer.slug_of(CHOICE.gpu)
    await _choose_in_theirs(hand, page, profile=profile, entries={"count": CHOICE.gpus, **_OTHERS})


async def _choose_in_one_profile(hand: Hand, page: Page) -> None:
    both = offer.name_of_both(CHOICE.gpu, CHOICE.gpus)
    await _choose_in_theirs(hand, page, profile="server", entries={"gpu": both, **_OTHERS})


async def _choose_in_theirs(hand: Hand, page: Page, *, profile: str, entries: dict[str, str]) -> None:
    radio = page.locator(f"#profile-item-{profile}")
    await hand.turn_to(radio)
    for name, label in entries.items():
        await hand.choose(page.locator(f"#profile-option-{profile}--{name}"), label)
    await hand.start(page.locator(START), radio=radio)


_OTHERS = {"cpu": CHOICE.cpu, "memory": CHOICE.memory, "image": CHOICE.image}
FORMS = (
    Form(
        OURS,
        "",
        _choose_in_ours,
        {
            "gpu": offer.slug_of(CHOICE.gpu),
            "gpu_count": CHOICE.gpus,
            "cpu": CHOICE.cpu,
            "memory": CHOICE.memory,
            "image": offer.slug_of(CHOICE.image),
        },
    ),
    Form("each_type", "peer_", _choose_in_each_type, offer.fields_of_each_type()),
    Form("one_profile", "peer_one_profile_", _choose_in_one_profile, offer.fields_of_one_profile()),
)
PEERS = [form.prefix for form in FORMS if form.prefix]


def _result(tallies: dict[str, list[Tally]], times_s: dict[str, list[float]]) -> Result:
    values: dict[str, float] = {}
    for name, found in tallies.items():
        first = found[0]
        if any(each != first for each in found):
            raise RuntimeError(f"{name} took other actions in another round: {found}")
        values |= {
            name: first.actions,
            f"{name}_texts_as_one": first.with_texts_as_one,
            f"{name}_s": statistics.median(times_s[name]),
        }
    counts = [f"{hand}{ending}" for hand in ("pointer", "keyboard") for ending in ("", "_texts_as_one")]
    return Result(
        name="actions",
        values=values,
        budgets={name: min(values[f"{peer}{name}"] for peer in PEERS) - 1 for name in counts},
        details={
            "images": len(offer.IMAGES),
            "gpu_types": len(offer.GPUS),
            "window": WINDOW,
            "rounds": ROUNDS,
            "choice": CHOICE._asdict(),
            "searched": [GPU_WORDS, IMAGE_WORDS],
            "done": {name: asdict(found[0]) for name, found in tallies.items()},
        },
    )
