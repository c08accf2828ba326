"""Cards of KubeSpawner's profiles: what they give, when that starts, and what their buttons send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.support.axe import complaints
from tests.browser.support.form_site import FormSite, fill, form_site
from tests.browser.support.pictures import MOST_BYTES, shoot
from tests.unit.hub.conftest import A100, node

pytestmark = pytest.mark.asyncio(loop_scope="session")

GPU = "nvidia.com/gpu"
T4 = "Tesla-T4"
NARROW = {"viewport": {"width": 360, "height": 800}}
DARK = {"color_scheme": "dark"}


def on(product: str, count: int) -> dict[str, Any]:
    return {"node_selector": {f"{GPU}.product": product}, "extra_resource_limits": {GPU: str(count)}}


COUNTS = {str(count): {"display_name": str(count), "kubespawner_override": on(A100, count)} for count in (1, 2, 8)}
IMAGES = {
    "display_name": "Image",
    "choices": {
        "lab": {"display_name": "JupyterLab", "kubespawner_override": {"image": "lab:1"}},
        "r": {"display_name": "RStudio", "kubespawner_override": {"image": "r:1"}},
    },
    "unlisted_choice": {
        "enabled": True,
        "display_name": "Your image",
        "validation_regex": "^quay.io/",
        "kubespawner_override": {"image": "{value}"},
    },
}
PROFILES: list[dict[str, Any]] = [
    {
        "display_name": "Small",
        "slug": "small",
        "description": "For <b>reading</b> and writing.",
        "kubespawner_override": {"cpu_limit": 2, "mem_limit": "4G"},
        "default": True,
    },
    {
        "display_name": "Training",
        "slug": "training",
        "description": "Large models.",
        "kubespawner_override": {"cpu_limit": 8, "mem_limit": "32G"},
        "profile_options": {"count": {"display_name": "GPUs", "choices": COUNTS}, "image": IMAGES},
    },
    {"display_name": "Course", "slug": "course", "description": "One T4 each.", "kubespawner_override": on(T4, 1)},
]
NODES = [
    node("big", {f"{GPU}.product": A100}, **{GPU: "4"}),
    node("small", {f"{GPU}.product": T4}, **{GPU: "1"}),
    node("cpu"),
]
POLICY = {"default": {"max_gpus_per_server": 2}}
IDLE, FIELDS = {"new_nodes": "none"}, {"cpu": {"max": 4}, "memory": {"max": "16G"}}


MANY = [
    {**profile, "display_name": f"{profile['display_name']} {number}", "slug": f"p{number}"}
    for number, profile in enumerate(PROFILES * 10)
]
SITES: dict[str, dict[str, Any]] = {
    "alone": {"settings": IDLE, "pods": [fill(NODES[1])]},
    "limited": {"settings": {**IDLE, "policy": {"default": {"max_gpus": 0}}}},
    "beside": {"settings": {**IDLE, **FIELDS}},
    "many": {"settings": IDLE, "profiles": MANY},
}


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FormSite]:
    """Serve one of :data:`SITES`; without a name, profiles alone, whose T4 is in use."""
    options = dict(SITES[getattr(request, "param", "alone")])
    sections = {"KubeSpawner": {"profile_list": options.pop("profiles", PROFILES)}}
    with form_site(tmp_path, nodes=NODES, **options, **sections) as site:
        yield site


limited = pytest.mark.parametrize("site", ["limited"], indirect=True)
beside = pytest.mark.parametrize("site", ["beside"], indirect=True)
each_site = pytest.mark.parametrize("site", SITES, indirect=True)


def card(page: Page, slug: str) -> Locator:
    return page.locator(f".gs-profile[data-profile={slug}]")


def outlook(page: Page, slug: str) -> Locator:
    return card(page, slug).locator(".gs-outlook")


def start(page: Page, slug: str) -> Locator:
    return card(page, slug).locator("[name=profile]")


async def open_form(page: Page, site: FormSite) -> None:
    await page.goto(f"{site.url}/hub/spawn")


def container(site: FormSite) -> dict[str, Any]:
    notebook: dict[str, Any] = site.pods[-1]["spec"]["containers"][0]
    return notebook


async def test_each_card_says_what_it_gives_and_when_it_starts(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    await expect(page.locator(".feedback-container")).to_be_hidden()
    await expect(page.locator(".gs-name b")).to_have_text(["Small", "Training", "Course"])
    await expect(page.locator(".gs-holds")).to_have_text(
        ["No GPU · 2 CPUs · 4 GiB", "1 × A100 80 GB · 8 CPUs · 32 GiB", "1 × T4"]
    )
    await expect(outlook(page, "training")).to_contain_text("Starts now")
    await expect(outlook(page, "course")).to_contain_text("Will wait")


async def test_the_verdict_follows_the_picked_choice(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    await card(page, "training").get_by_label("GPUs").select_option("8")
    await expect(outlook(page, "training")).to_have_attribute("data-outcome", "never")
    await expect(card(page, "training").locator(".gs-holds")).to_have_text("8 × A100 80 GB · 8 CPUs · 32 GiB")
    await card(page, "training").get_by_label("GPUs").select_option("2")
    await expect(outlook(page, "training")).to_contain_text("Starts now")


async def test_a_button_starts_its_profile_with_what_is_picked(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    await card(page, "training").get_by_label("GPUs").select_option("2")
    await card(page, "training").get_by_label("Image", exact=True).select_option("r")
    await start(page, "training").click()
    await expect(page.locator("body")).to_have_text("Sent")
    notebook = container(site)
    assert (notebook["image"], notebook["resources"]["limits"][GPU]) == ("r:1", "2")


@pytest.mark.window(java_script_enabled=False)
async def test_a_card_works_without_scripts(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    await card(page, "training").get_by_label("Image", exact=True).select_option("")
    text = card(page, "training").get_by_label("Your image")
    await text.fill("quay.io/a/b:1")
    sent = len(site.pods)
    await text.press("Enter")  # starts nothing: the form's first button is disabled
    assert len(site.pods) == sent
    await start(page, "training").click()
    await expect(page.locator("body")).to_have_text("Sent")
    assert container(site)["image"] == "quay.io/a/b:1"


async def test_the_text_field_is_there_where_its_list_leaves_it_to_the_user(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    text = card(page, "training").get_by_label("Your image")
    await expect(text).to_be_hidden()
    await card(page, "training").get_by_label("Image", exact=True).select_option("")
    await text.fill("docker.io/x")
    await expect(outlook(page, "training")).to_contain_text("this text cannot be used")
    await text.fill("quay.io/x:1")
    await expect(outlook(page, "training")).to_contain_text("Starts now")
    await text.press("Enter")
    await expect(page.locator("body")).to_have_text("Sent")
    assert container(site)["image"] == "quay.io/x:1"


@limited
async def test_a_refused_start_is_said_at_its_card_and_keeps_what_was_picked(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    await card(page, "training").get_by_label("GPUs").select_option("2")
    await start(page, "training").click()
    await expect(card(page, "training").locator(".gs-error")).to_contain_text("You don't have access to GPUs.")
    await expect(card(page, "training").get_by_label("GPUs")).to_have_value("2")
    await expect(page.locator("#gpuspawner-errors a")).to_have_attribute("href", "#gpuspawner-profile-2-start")


async def test_the_link_of_a_card_names_what_is_picked(page: Page, site: FormSite) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_form(page, site)
    await card(page, "training").get_by_label("GPUs").select_option("2")
    await card(page, "training").locator(".gs-name").click()
    await card(page, "training").get_by_role("button", name="Copy link").click()
    link = await page.evaluate("navigator.clipboard.readText()")
    query = {name.removeprefix("opt-"): texts for name, texts in parse_qs(urlsplit(link).query).items()}
    assert query == {
        "profile": ["training"],
        "profile-option-training--count": ["2"],
        "profile-option-training--image": ["lab"],
    }


@beside
async def test_profiles_and_fields_start_what_they_say(page: Page, site: FormSite) -> None:
    await open_form(page, site)
    await expect(card(page, "training")).to_be_visible()
    await page.locator("#gpuspawner-custom > summary").click()
    await page.locator("#gpuspawner-cpu").fill("3")
    await page.get_by_role("button", name="Start", exact=True).last.click()
    await expect(page.locator("body")).to_have_text("Sent")
    assert container(site)["resources"]["limits"]["cpu"] == 3
    await open_form(page, site)
    await start(page, "small").click()
    await expect(page.locator("body")).to_have_text("Sent")
    assert container(site)["resources"]["limits"]["cpu"] == 2


async def test_an_open_form_hears_what_changes(page: Page, site: FormSite) -> None:
    await page.clock.install()
    await open_form(page, site)
    async with page.expect_request("**/spawn") as asked:
        await page.clock.run_for(15_000)
    header = json.loads((await (await asked.value).all_headers())["gpuspawner-choice"])
    assert header == {
        "image": "",
        "gpu": "",
        "profile": "small",
        "profile-option-training--count": "1",
        "profile-option-training--image": "lab",
        "profile-option-training--image--unlisted-choice": "",
    }


@each_site
@pytest.mark.window(**NARROW, **DARK)
async def test_nothing_is_wrong_in_dark_and_narrow(
    page: Page, site: FormSite, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    await open_form(page, site)
    await expect(page.locator(".gs-profile").first).to_be_visible()
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert (width, await complaints(page)) == (360, [])
    picture = await shoot(page, f"profiles-{request.node.callspec.params['site']}-narrow", tmp_path)
    assert 0 < picture.stat().st_size < MOST_BYTES


@each_site
@pytest.mark.window(viewport={"width": 1100, "height": 480})
async def test_nothing_is_wrong_in_light(page: Page, site: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    await open_form(page, site)
    await expect(page.locator(".gs-profile").first).to_be_visible()
    assert await complaints(page) == []
    picture = await shoot(page, f"profiles-{request.node.callspec.params['site']}", tmp_path)
    assert 0 < picture.stat().st_size < MOST_BYTES


def in_language(locale: str, told: str) -> Any:
    """Return a case of a test: the language, and how the waiting card begins in it."""
    return pytest.param(locale, told, id=locale, marks=pytest.mark.window(locale=locale, **NARROW))


@pytest.mark.parametrize(("locale", "told"), [in_language("de-DE", "Muss warten"), in_language("zh-CN", "需等待")])
async def test_the_cards_speak_the_users_language(
    page: Page, site: FormSite, locale: str, told: str, tmp_path: Path
) -> None:
    await open_form(page, site)
    await expect(page.locator("#gpuspawner-form")).to_have_attribute("lang", locale.removesuffix("-DE"))
    await expect(outlook(page, "course")).to_contain_text(told)
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert (width, await complaints(page)) == (360, [])
    await shoot(page, f"profiles-{locale}", tmp_path)
