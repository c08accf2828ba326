"""Fixed presets on the form: what their cards show, what they start, and what a refused start looks like."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from jupyterhub.utils import format_exception, maybe_future
from tornado import web

from gpuspawner.core.request.selection import validate
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.form.live import find_startable_alternatives
from gpuspawner.hub.request.context import CHOICE_HEADER, build_prefill_url
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.alternatives import add_alternatives
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.request.test_context_prefill import asked
from tests.unit.hub.starts import begin
from tests.unit.islands import faults
from tests.unit.kube.watch_server import NODES, PODS, WatchServer, pod

LAB = {
    "order": 1,
    "display_name": "Lab",
    "image": "pytorch",
    "cpu": 1,
    "memory": "1G",
    "kubespawner_override": {"working_dir": "/lab"},
    "choices": {
        "size": {
            "order": 1,
            "display_name": "GPUs",
            "entries": {
                "none": {"order": 1, "display_name": "No GPU"},
                "one": {"order": 2, "display_name": "One GPU", "gpu": "a100", "gpu_count": 1},
                "all": {"order": 3, "display_name": "Four GPUs", "gpu": "a100", "gpu_count": 4},
            },
        },
        "image": {
            "order": 2,
            "display_name": "Image",
            "entries": {"pytorch": {"display_name": "PyTorch", "image": "pytorch"}},
            "custom_image": {
                "display_name": "Your image",
                "pattern": "^quay.io/.+",
                "message": "It must be of quay.io.",
            },
        },
    },
}
STAFF = {"order": 2, "display_name": "Staff", "cpu": "unlimited", "memory": "8G", "allowed_users": ["bob"]}
ONLY = {**SETTINGS, "only_presets": True, "presets": {"lab": LAB, "staff": STAFF}}
MIXED = {**SETTINGS, "presets": {"lab": LAB, "plain": {"cpu": 1}}}
ALL = {"preset": "lab", "preset_choices": {"size": "all", "image": "pytorch"}}
SENT = {"start_preset": ["lab"], "preset:lab:size": ["all"], "preset:lab:image": [""]}


def asking(query: dict[str, list[bytes]] | None = None, header: dict[str, str] | None = None) -> Any:
    headers = {} if header is None else {CHOICE_HEADER: json.dumps(header)}
    request = SimpleNamespace(method="GET", headers=headers, query_arguments=query or {})
    return SimpleNamespace(request=request, current_user=None)


async def opened(spawner: GPUSpawner, handler: Any = None) -> BeautifulSoup:
    """Open a form as JupyterHub does, in a request of its own."""

    async def get() -> str:
        spawner.handler = handler or asking()
        return str(await spawner.get_options_form())

    return BeautifulSoup(await asyncio.create_task(get()), "html.parser")


async def sent(spawner: GPUSpawner, form: dict[str, list[str]]) -> BeautifulSoup:
    """Send a form that is refused, and return the form that is shown again."""

    async def post() -> str:
        spawner.handler = None
        with pytest.raises(web.HTTPError):
            await maybe_future(spawner.run_options_from_form(form))
        return str(await spawner.get_options_form())

    return BeautifulSoup(await asyncio.create_task(post()), "html.parser")


def card(page: BeautifulSoup, slug: str = "lab") -> Tag:
    (found,) = page.select(f".gs-fixed[data-preset={slug}]")
    return found


def picked(page: BeautifulSoup, name: str) -> str:
    (option,) = page.select(f"select[name='{name}'] option[selected]")
    return str(option["value"])


def outlook(found: Tag) -> str:
    return found.select(".gs-outlook")[0].text


async def test_the_form_shows_presets_and_nothing_else(make_spawner: MakeSpawner):
    page = await opened(make_spawner(settings=ONLY))
    assert [each["data-preset"] for each in page.select(".gs-fixed")] == ["lab", "staff"]
    names = {str(each["name"]) for each in page.select("[name]")}
    assert names == {"start_preset", "preset:lab:size", "preset:lab:image", "preset-image:lab:image"}
    assert outlook(card(page)).startswith("Starts now")
    assert outlook(card(page, "staff")) == "You don't have access to the preset Staff."
    assert faults(json.loads(page.select("#gpuspawner-data")[0].text)) == []


async def test_its_button_starts_it_with_what_is_picked(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=ONLY)
    form = {**SENT, "preset:lab:image": ["pytorch"], "preset-image:lab:image": [""]}
    options = await maybe_future(spawner.run_options_from_form(form))
    assert {name: options[name] for name in ALL} == ALL


async def test_a_refused_start_is_said_at_its_card_and_keeps_what_was_picked(make_spawner: MakeSpawner):
    page = await sent(make_spawner(settings=ONLY), {**SENT, "preset-image:lab:image": ["docker.io/x"]})
    (link,) = page.select("#gpuspawner-errors a")
    assert link.text == "It must be of quay.io."
    assert page.select(str(link["href"]))[0]["value"] == "lab"
    assert card(page).select(".gs-error")[0].text.split(maxsplit=1)[1].strip() == "It must be of quay.io."
    assert (picked(page, "preset:lab:size"), picked(page, "preset:lab:image")) == ("all", "")
    assert page.select("[name='preset-image:lab:image']")[0]["value"] == "docker.io/x"


async def test_beside_fields_a_refused_start_is_no_error_of_a_field(make_spawner: MakeSpawner):
    form = {**SENT, "preset-image:lab:image": ["docker.io/x"], "image": ["minimal"], "cpu": ["3"], "gpu": [""]}
    page = await sent(make_spawner(settings=MIXED), form)
    assert len(page.select(".gs-error:not([hidden])")) == 1
    assert page.select("input[name=cpu]")[0]["value"] == "3"
    assert not page.select("#gpuspawner-custom[open]") or page.select("input[name=image][value=minimal][checked]")


async def test_the_last_start_is_marked_and_restored(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=ONLY)
    spawner.user_options = {"v": 1, **ALL}
    page = await opened(spawner)
    assert card(page).select(".gs-last")[0].text == "Last time"
    assert picked(page, "preset:lab:size") == "all"


async def test_the_verdict_is_about_what_is_picked(make_spawner: MakeSpawner, server: WatchServer):
    server.put(PODS, pod("other", on="gpu-1", gpus=2))
    spawner = make_spawner(settings=ONLY)
    assert outlook(card(await opened(spawner))).startswith("Starts now")
    header = {"start_preset": "lab", "preset:lab:size": "all", "preset:lab:image": "pytorch"}
    page = await opened(spawner, asking(header=header))
    assert (outlook(card(page)), picked(page, "preset:lab:size")) == ("Will wait: you'd be next", "all")
    assert "4 × A100" in card(page).select(".gs-holds")[0].text


async def test_the_card_in_use_is_judged_first(make_spawner: MakeSpawner):
    presets = {f"p{number}": {"order": number, "image": "minimal", "cpu": 1} for number in range(20)}
    spawner = make_spawner(settings={**SETTINGS, "only_presets": True, "presets": presets})
    assert outlook(card(await opened(spawner), "p19")) == ""
    page = await opened(spawner, asking(header={"start_preset": "p19"}))
    assert outlook(card(page, "p19")).startswith("Starts now")


async def test_an_unknown_verdict_is_shown_at_the_current_card(make_spawner: MakeSpawner, server: WatchServer):
    server.status[NODES] = 403
    page = await opened(make_spawner(settings=ONLY, name="bob"))
    assert (outlook(card(page)), outlook(card(page, "staff"))) == ("Availability unknown", "")


@pytest.mark.parametrize("settings", [ONLY, MIXED], ids=["only presets", "beside fields"])
async def test_a_link_opens_the_form_with_a_preset_and_its_entries(make_spawner: MakeSpawner, settings: Any):
    spawner = make_spawner(settings=settings)
    catalog = (await spawner.make_offer()).catalog
    link = build_prefill_url(spawner, validate({**ALL, "preset_choices": {"size": "one"}}, catalog))
    assert link == "/spawn/ada?fill-preset=lab&fill-preset_choices=size%3Aone%2Cimage%3Apytorch"
    page = await opened(spawner, asking(asked(link)))
    assert picked(page, "preset:lab:size") == "one"
    assert card(page).has_attr("data-picked")


async def test_a_link_with_an_image_of_ones_own_fills_it_in(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=ONLY)
    catalog = (await spawner.make_offer()).catalog
    link = build_prefill_url(spawner, validate({"preset": "lab", "custom_image": "quay.io/a/b:1"}, catalog))
    page = await opened(spawner, asking(asked(link)))
    assert page.select("[name='preset-image:lab:image']")[0]["value"] == "quay.io/a/b:1"


async def test_a_refused_link_shows_the_card_that_it_names(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=ONLY)

    async def get() -> str:
        with pytest.raises(web.HTTPError):
            await spawner.options_from_query({"preset": ["lab"], "preset_choices": ["size:one"], "custom_image": ["x"]})
        return str(await spawner.get_options_form())

    page = BeautifulSoup(await asyncio.create_task(get()), "html.parser")
    assert picked(page, "preset:lab:size") == "one"
    assert len(card(page).select(".gs-error")) == 1


async def test_what_could_start_instead_is_another_entry_or_preset(make_spawner: MakeSpawner, server: WatchServer):
    server.put(PODS, pod("other", on="gpu-1", gpus=2))
    spawner = make_spawner(settings=ONLY, name="bob")
    offer = await spawner.make_offer()
    found = await find_startable_alternatives(spawner, offer, selection=validate(ALL, offer.catalog))
    assert [(each.preset, each.preset_choices.get("size")) for each in found] == [
        ("lab", "none"),
        ("lab", "one"),
        ("staff", None),
    ]


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("rejected_by_node", "Try Lab: No GPU or Lab: One GPU instead."),
        ("out_of_memory", ""),
        ("image_not_found", ""),
    ],
    ids=["node", "memory", "image"],
)
async def test_a_failed_start_offers_what_the_user_may_have(make_spawner: MakeSpawner, reason: str, advice: str):
    spawner = make_spawner(settings=ONLY)
    await begin(spawner, ALL)
    error = await add_alternatives(RefusedStart("It failed.", reason=reason, status_code=409), spawner)
    text, _ = format_exception(error)
    assert text == f"It failed. {advice}".strip()
