"""Fixed presets: cards that are started with what is picked in them, and say whether that can start.

A small site of this test answers the page, so that verdicts and limits are the test's to choose.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Locator, Page, expect

from gpuspawner.core.catalog.model import (
    Bounds,
    Catalog,
    GPUType,
    Image,
    ImageInput,
    Preset,
    PresetChoice,
    PresetVariant,
)
from gpuspawner.core.catalog.policy_model import Access, Policy
from gpuspawner.core.catalog.policy_model import Person as User
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.browser.support.person import Person
from tests.browser.support.pictures import MOST_BYTES, shoot
from tests.browser.support.site import (
    PAGE,
    STYLE,
    answer_posts,
    is_refresh,
    refreshed,
    render_open,
    serving,
)
from tests.browser.test_accessibility import complaints

pytestmark = pytest.mark.asyncio(loop_scope="session")

GIB = 1 << 30
REFRESH_MS = 10_000
SETTLED_MS = 300
FREE = Availability(total=4, healthy=4, free=4, largest=4, waiting=0)


def entry(slug: str, name: str, **options: Any) -> PresetVariant:
    return PresetVariant(slug=slug, display_name=name, options=options)


SIZES = PresetChoice(
    name="size",
    display_name="Size",
    entries={
        "small": entry("small", "4 GiB", memory="4G"),
        "large": entry("large", "16 GiB", memory="16G"),
        "huge": entry("huge", "64 GiB", memory="64G"),
    },
)
IMAGES = PresetChoice(
    name="image",
    display_name="Image",
    entries={"lab": entry("lab", "JupyterLab", image="lab"), "r": entry("r", "RStudio", image="r")},
    custom_image=ImageInput(label="Your image", pattern="^quay.io/", message="It must come from quay.io."),
)
COURSE = Preset(
    slug="course",
    display_name="Course",
    description="For exercises.",
    options={"cpu": 1},
    choices={"size": SIZES, "image": IMAGES},
    overrides={"working_dir": "/course"},
)
GPU = Preset(
    slug="gpu", display_name="One GPU", options={"gpu": "t4", "gpu_count": 1}, overrides={"working_dir": "/gpu"}
)
STAFF = Preset(slug="staff", display_name="Staff", options={"memory": "unlimited"})
PLAIN = Preset(slug="plain", display_name="Plain", options={"cpu": 4})
CATALOG = Catalog(
    images={
        slug: Image(slug=slug, display_name=name, image=slug)
        for slug, name in [("lab", "JupyterLab"), ("r", "RStudio")]
    },
    cpu=Bounds(min=500, max=64_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=512 * GIB, step=GIB, default=8 * GIB),
    gpus={
        "t4": GPUType(
            slug="t4", display_name="Tesla T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4, new_nodes=False
        )
    },
    presets={each.slug: each for each in (COURSE, GPU, STAFF)},
    only_presets=True,
    policy=Policy(
        access={
            ("preset", "staff"): Access(users=frozenset({"bob"})),
            ("preset", "course", "size", "huge"): Access(users=frozenset({"bob"})),
        }
    ),
)
MIXED = replace(CATALOG, presets={**CATALOG.presets, "plain": PLAIN}, only_presets=False)


@dataclass
class Site:
    """Answers as the hub does: the form for the choice in the header.

    :param unjudged: slugs of presets without a verdict.
    """

    catalog: Catalog = CATALOG
    options: dict[str, Any] | None = None
    typed: dict[str, str] | None = None
    problems: tuple[Problem, ...] = ()
    status: int = 200
    unjudged: set[str] = field(default_factory=set)
    asked: list[dict[str, str] | None] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        choice = request.headers.get("Gpuspawner-Choice")
        self.asked.append(None if choice is None else json.loads(choice))
        if self.status == 200 and is_refresh(request):
            return refreshed(request, self.view(self.asked[-1]))
        return web.Response(text=self.form(self.asked[-1]), content_type="text/html", status=self.status)

    def form(self, choice: dict[str, str] | None) -> str:
        return PAGE.format(STYLE, render_open(self.view(choice)))

    def view(self, choice: dict[str, str] | None) -> FormView:
        allowance = resolve_allowance(self.catalog, User(name="ada"), usage=Usage())
        typed = self.typed if choice is None else choice
        filled = fill_fields(self.catalog, options=self.options, typed=typed, allowance=allowance)
        waits = {slug for slug, each in filled.presets.items() if each.entries.get("size") == "large"}
        verdicts = {
            slug: Verdict(outcome=Outcome.WAITS if slug in waits else Outcome.NOW)
            for slug, each in filled.presets.items()
            if each.selection is not None and slug not in self.unjudged
        }
        live = LiveState(availabilities=(FREE,), presets=verdicts)
        problems = self.problems if choice is None else ()
        inventory = Inventory(nodes=(), pods=(), age_s=0.0)
        view = build_view(self.catalog, inventory, filled=filled, problems=problems, live=live, allowance=allowance)
        return replace(view, capacity_notice="")


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site.answer) as site.url:
        yield site


@dataclass
class Form:
    """The form in a browser window, and what the window has sent."""

    page: Page
    site: Site
    sent: list[dict[str, list[str]]] = field(default_factory=list)

    async def open(self, *, is_still: bool = False) -> None:
        """Open the form.

        :param is_still: the clock stands still until a test lets time pass.
        """
        await answer_posts(self.page, self.sent)
        if is_still:
            await self.page.clock.install(time=0)
            await self.page.clock.pause_at(1)
        await self.page.goto(self.site.url)
        await expect(self.page.locator("#gpuspawner-presets-title")).to_be_visible()

    def card(self, slug: str) -> Locator:
        return self.page.locator(f".gs-fixed[data-preset={slug}]")

    def outlook(self, slug: str) -> Locator:
        return self.card(slug).locator(".gs-outlook")

    def start(self, slug: str) -> Locator:
        return self.card(slug).locator("[name=start_preset]")

    async def pick(self, name: str, value: str) -> None:
        await self.card("course").locator(f"select[name='preset:course:{name}']").select_option(value)


@pytest.fixture
def form(page: Page, site: Site) -> Form:
    return Form(page, site)


COURSE_FIELDS = {"preset:course:size": ["small"], "preset:course:image": ["lab"], "preset-image:course:image": [""]}


@pytest.mark.smoke
async def test_only_the_presets_and_their_buttons_are_there(form: Form) -> None:
    await form.open()
    await expect(form.page.locator("h2")).to_have_text(["Presets"])
    await expect(form.page.locator(".feedback-container")).to_be_hidden()
    buttons = form.page.get_by_role("button")
    await expect(buttons).to_have_text(["Start", "Copy link", "Start", "Start"])
    await expect(form.page.get_by_role("button", name="Start One GPU")).to_be_enabled()
    await expect(form.page.get_by_role("button", name="Start Staff")).to_be_disabled()
    await expect(form.outlook("staff")).to_have_text("You don't have access to the preset Staff.")


async def test_a_button_sends_its_preset_with_what_is_picked(form: Form) -> None:
    await form.open()
    await form.pick("size", "large")
    await form.start("course").click()
    await expect(form.page.locator("body")).to_have_text("Sent")
    assert form.sent == [{**COURSE_FIELDS, "start_preset": ["course"], "preset:course:size": ["large"]}]


@pytest.mark.window(java_script_enabled=False)
async def test_without_javascript_as_well(form: Form) -> None:
    await form.open()
    await expect(form.page.locator(".feedback-container")).to_be_hidden()
    await expect(form.card("course").get_by_label("Your image")).to_be_visible()
    await form.pick("image", "")
    await form.card("course").get_by_label("Your image").fill("quay.io/a/b:1")
    await form.card("course").get_by_label("Your image").press("Enter")
    assert form.sent == []
    await form.start("course").click()
    await expect(form.page.locator("body")).to_have_text("Sent")
    named = {"preset:course:image": [""], "preset-image:course:image": ["quay.io/a/b:1"]}
    assert form.sent == [{**COURSE_FIELDS, **named, "start_preset": ["course"]}]


async def test_a_card_says_whether_what_is_picked_starts_and_nothing_of_what_is_not(form: Form) -> None:
    await form.open(is_still=True)
    await expect(form.outlook("course")).to_have_text("Starts now")
    await expect(form.card("course").locator(".gs-holds")).to_have_text("JupyterLab · 1 CPU · 4 GiB RAM · no GPU")
    await form.pick("size", "large")
    await expect(form.outlook("course")).to_have_text("Checking…")
    await expect(form.card("course").locator(".gs-holds")).to_be_hidden()
    async with form.page.expect_response("**/spawn"):
        await form.page.clock.run_for(SETTLED_MS)
    await expect(form.outlook("course")).to_have_text("Will wait")
    await expect(form.card("course").locator(".gs-holds")).to_have_text("JupyterLab · 1 CPU · 16 GiB RAM · no GPU")
    await form.pick("size", "small")
    await expect(form.outlook("course")).to_have_text("Checking…")
    await expect(form.outlook("gpu")).to_have_text("Starts now")


async def test_what_the_hub_does_not_answer_is_not_known(form: Form) -> None:
    await form.open(is_still=True)
    form.site.status = 500
    await form.pick("size", "large")
    async with form.page.expect_response("**/spawn"):
        await form.page.clock.run_for(SETTLED_MS)
    await expect(form.outlook("course")).to_have_text("Availability unknown: the hub can't read what is free.")


async def test_the_question_names_the_card_and_what_is_picked(form: Form) -> None:
    await form.open(is_still=True)
    await form.card("gpu").locator(".gs-name").click()
    async with form.page.expect_response("**/spawn"):
        await form.page.clock.run_for(REFRESH_MS)
    fields = {name: text for name, (text,) in COURSE_FIELDS.items()}
    asked = form.site.asked[-1]
    assert asked is not None
    assert {name: text for name, text in asked.items() if "preset" in name} == {"start_preset": "gpu", **fields}
    await expect(form.card("gpu")).to_have_attribute("data-picked", "")
    await expect(form.card("course")).not_to_have_attribute("data-picked", "")


async def test_a_card_that_nothing_is_known_of_is_asked_for_once_it_is_looked_at(form: Form) -> None:
    form.site.unjudged = {"gpu"}
    await form.open(is_still=True)
    await expect(form.outlook("gpu")).to_have_text("")
    form.site.unjudged = set()
    await form.start("gpu").focus()
    async with form.page.expect_response("**/spawn"):
        await form.page.clock.run_for(SETTLED_MS)
    await expect(form.outlook("gpu")).to_have_text("Starts now")
    await expect(form.outlook("gpu")).to_have_attribute("aria-live", "polite")


async def test_an_image_of_ones_own_has_a_field_where_it_is_picked(form: Form) -> None:
    await form.open()
    field = form.card("course").get_by_label("Your image")
    await expect(field).to_be_hidden()
    await form.pick("image", "")
    await field.fill("docker.io/x")
    await expect(form.outlook("course")).to_have_text("It must come from quay.io.")
    await field.fill("quay.io/a/b:1")
    await expect(form.outlook("course")).to_have_text("Starts now")
    await field.press("Enter")
    await expect(form.page.locator("body")).to_have_text("Sent")
    assert form.sent[0]["start_preset"] == ["course"]


async def test_entries_for_others_cannot_be_picked(form: Form) -> None:
    await form.open()
    option = form.card("course").locator("option[value=huge]")
    await expect(option).to_be_disabled()
    await expect(option).to_have_text("64 GiB (not available to you)")
    await expect(form.card("course").locator(".gs-reason")).to_have_text("You don't have access to the choice 64 GiB.")


async def test_what_changes_elsewhere_reaches_the_cards_and_keeps_what_is_picked(form: Form) -> None:
    form.site.catalog = replace(CATALOG, policy=None)
    await form.open(is_still=True)
    await form.pick("size", "huge")
    await expect(form.start("staff")).to_be_enabled()
    form.site.catalog = replace(CATALOG, presets={slug: CATALOG.presets[slug] for slug in ("course", "staff")})
    async with form.page.expect_response("**/spawn"):
        await form.page.clock.run_for(REFRESH_MS)
    await expect(form.start("staff")).to_be_disabled()
    await expect(form.outlook("gpu")).to_have_text("Reload the page to see what is offered now.")
    await expect(form.start("gpu")).to_be_disabled()
    await expect(form.card("course").locator("select").first).to_have_value("huge")
    await form.pick("size", "small")
    async with form.page.expect_response("**/spawn"):
        await form.page.clock.run_for(REFRESH_MS)
    await expect(form.card("course").locator("option[value=huge]")).to_be_disabled()


async def test_a_start_is_sent_once_and_says_so(form: Form) -> None:
    await form.open()
    count = "window.sent = 0; document.onsubmit = (event) => { event.preventDefault(); window.sent += 1; }"
    await form.page.evaluate(f"() => {{ {count} }}")
    await form.start("gpu").click()
    await expect(form.start("gpu")).to_have_text("Starting…")
    await expect(form.start("course")).to_be_disabled()
    await form.page.evaluate("document.querySelector('#spawn_form').requestSubmit()")
    assert await form.page.evaluate("window.sent") == 1


async def test_the_keyboard_goes_through_a_card_from_top_to_bottom(form: Form) -> None:
    await form.open()
    stops = []
    for _ in range(6):
        await form.page.keyboard.press("Tab")
        stops.append(await form.page.evaluate("document.activeElement.name || document.activeElement.className"))
    assert stops == ["preset:course:size", "preset:course:image", "start_preset", "gs-copy", "start_preset", "gs-copy"]


@pytest.mark.window(permissions=["clipboard-read", "clipboard-write"])
async def test_the_link_of_a_card_starts_what_is_picked(form: Form) -> None:
    await form.open()
    await form.pick("size", "large")
    await form.card("course").get_by_role("button", name="Copy link").click()
    await expect(form.card("course").locator(".gs-copy")).to_have_text(
        "Link copied. It opens the form with this choice."
    )
    link = urlsplit(await form.page.evaluate("navigator.clipboard.readText()"))
    assert parse_qs(link.query) == {"preset": ["course"], "preset_choices": ["size:large,image:lab"]}


async def test_the_last_start_comes_first_with_what_was_picked(form: Form) -> None:
    form.site.options = {"v": 1, "preset": "gpu"}
    await form.open()
    first = form.page.locator(".gs-fixed").first
    await expect(first).to_contain_text("One GPU")
    await expect(first.locator(".gs-last")).to_have_text("Last time")


async def refused(form: Form) -> None:
    form.site.typed = {"start_preset": "course", "preset:course:image": "", "preset-image:course:image": "docker.io/x"}
    form.site.problems = (Problem(field="custom_image", code="not_a_reference", message="It must come from quay.io."),)
    await form.open()


async def test_a_refused_start_is_said_at_its_card_and_goes_with_a_change(form: Form) -> None:
    await refused(form)
    error = form.card("course").locator(".gs-error")
    await expect(error).to_contain_text("It must come from quay.io.")
    await expect(form.card("course").get_by_label("Your image")).to_have_value("docker.io/x")
    await form.page.locator("#gpuspawner-errors a").click()
    await expect(form.start("course")).to_be_focused()
    await form.pick("image", "lab")
    await expect(error).to_have_count(0)


async def beside_fields(form: Form) -> None:
    form.site.catalog = MIXED
    form.site.options = {"v": 1, "preset": "course", "preset_choices": {"size": "large"}}
    await form.open()


async def test_beside_fields_presets_of_both_kinds_keep_their_ways(form: Form) -> None:
    await beside_fields(form)
    await expect(form.page.locator("#gpuspawner-summary")).to_be_visible()
    await form.page.get_by_role("button", name="Plain").click()
    await expect(form.page.locator("#gpuspawner-cpu")).to_have_value("4")
    assert form.sent == []
    await form.page.locator("#gpuspawner-custom > summary").click()
    await form.page.locator("#gpuspawner-cpu").press("Enter")
    await expect(form.page.locator("body")).to_have_text("Sent")
    assert "start_preset" not in form.sent[0]
    assert form.sent[0]["cpu"] == ["4"]


async def only_presets(form: Form) -> None:
    await form.open()


async def with_an_image(form: Form) -> None:
    await form.open()
    await form.pick("image", "")
    await expect(form.outlook("course")).to_have_text("")


async def twenty(form: Form) -> None:
    presets = {
        f"{slug}-{number}": replace(preset, slug=f"{slug}-{number}", display_name=f"{preset.display_name} {number}")
        for number in range(7)
        for slug, preset in CATALOG.presets.items()
    }
    form.site.catalog = replace(CATALOG, presets=presets)
    form.site.options = {"v": 1, "preset": "gpu-5"}
    await form.open()


STATES = {step.__name__: step for step in (only_presets, with_an_image, refused, beside_fields, twenty)}


@pytest.mark.window(color_scheme="light", viewport={"width": 1000, "height": 900})
@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
async def test_nothing_is_wrong_in_light(form: Form, reach: Any) -> None:
    await reach(form)
    assert await complaints(Person(form.page, "", "")) == []


@pytest.mark.window(color_scheme="light", viewport={"width": 760, "height": 620})
async def test_the_form_of_a_hub_with_presets_only(form: Form, tmp_path: Path) -> None:
    form.site.options = {"v": 1, "preset": "course", "preset_choices": {"size": "large"}}
    await form.open()
    path = await shoot(form.page, "form-presets", tmp_path)
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.window(color_scheme="dark", viewport={"width": 340, "height": 900})
@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
async def test_nothing_is_wrong_in_dark_and_narrow(form: Form, reach: Any) -> None:
    await reach(form)
    assert await complaints(Person(form.page, "", "")) == []
    assert not await form.page.evaluate("document.documentElement.scrollWidth > innerWidth")
