"""The same choice comes through each door: the form, a link and the REST API share one admission."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future
from tornado import web

from gpuspawner.hub.request.context import CHOICE_HEADER
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import begin, pod_of

EVERYTHING = {
    **SETTINGS,
    "custom_images": {"allowed": True, "registries": ["quay.io"]},
    "run_time": {"min": "30m", "max": "24h", "step": "30m", "default": "8h"},
    "shared_memory": {"min": "1G", "max": "32G", "step": "1G"},
    "priorities": {
        "normal": {"display_name": "Normal", "class": "site-normal", "value": 100},
        "low": {"display_name": "Low", "class": "site-low", "value": -10},
    },
    "presets": {"p": {"cpu": 1}},
}
TYPED = {
    "image": "",
    "custom_image": " Quay.io/acme/own:1 ",
    "cpu": "4",
    "memory": "16",
    "gpu": "a100",
    "gpu_count": "2",
    "run_time": "90 min",
    "shared_memory": "2",
    "priority": "low",
}
STORED = {
    "custom_image": "quay.io/acme/own:1",
    "cpu": 4,
    "memory": "16G",
    "gpu": "a100",
    "gpu_count": 2,
    "run_time": "1h30m",
    "shared_memory": "2G",
    "priority": "low",
}


async def through(spawner: GPUSpawner, door: str, typed: dict[str, str]) -> dict[str, Any]:
    """Return what a spawner stores of a choice."""
    if door == "form":
        read = spawner.run_options_from_form({name: [text] for name, text in typed.items()})
    elif door == "REST":
        await begin(spawner, STORED)  # A REST request has no notation: it sends numbers and amounts.
        return dict(spawner.user_options)
    else:
        read = spawner.options_from_query({f"{door.removeprefix('?')}{name}": [text] for name, text in typed.items()})
    options: dict[str, Any] = await maybe_future(read)
    return options


async def shown(spawner: GPUSpawner) -> BeautifulSoup:
    return BeautifulSoup(await spawner.get_options_form(), "html.parser")


@pytest.mark.parametrize("door", ["form", "?", "?opt-", "REST"])
async def test_each_door_stores_the_same_choice(make_spawner: MakeSpawner, door: str):
    options = await through(make_spawner(settings=EVERYTHING), door, TYPED)
    assert {**options, "v": 1, "profile": ""} == {**STORED, "v": 1, "profile": ""}


async def test_the_pod_has_each_part_of_the_choice(make_spawner: MakeSpawner):
    spec = (await pod_of(make_spawner(settings=EVERYTHING), STORED))["spec"]
    (shared,) = (each for each in spec["containers"][0]["volumeMounts"] if each["mountPath"] == "/dev/shm")
    (volume,) = (each for each in spec["volumes"] if each["name"] == shared["name"])
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": str(2 * 2**30)}
    assert (spec["activeDeadlineSeconds"], spec["priorityClassName"]) == (5400, "site-low")
    assert spec["containers"][0]["image"] == "quay.io/acme/own:1"


WRONG = [
    ("custom_image", "", "custom"),
    ("custom_image", "python:3", "custom"),
    ("run_time", "2d", "more"),
    ("shared_memory", "33", "more"),
    ("priority", "system-cluster-critical", "more"),
]


@pytest.mark.parametrize(("field", "typed", "fold_out"), WRONG)
async def test_a_wrong_field_comes_back_as_typed_with_its_message_in_an_open_fold_out(
    make_spawner: MakeSpawner, field: str, typed: str, fold_out: str
):
    spawner = make_spawner(settings=EVERYTHING)
    with pytest.raises(web.HTTPError, match="image: " if field == "custom_image" else f"{field}: "):
        await through(spawner, "form", {**TYPED, field: typed})
    page = await shown(spawner)
    assert page.find(id=f"gpuspawner-{field}-error").text.strip()
    assert {page.find(id=f"gpuspawner-{each}").has_attr("open") for each in ("custom", fold_out)} == {True}
    if field == "priority":
        assert page.select("input[name=priority][checked]") == []
    else:
        box = page.find("input", attrs={"name": field})
        assert (box["value"], box["aria-invalid"]) == (typed, "true")


async def test_the_last_choice_stands_in_the_form_the_next_time(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=EVERYTHING)
    spawner.user_options = STORED
    page = await shown(spawner)
    names = ("custom_image", "cpu", "memory", "gpu_count", "run_time", "shared_memory")
    assert [page.find(id=f"gpuspawner-{name}")["value"] for name in names] == [
        "quay.io/acme/own:1", "4", "16", "2", "1h30m", "2",
    ]  # fmt: skip
    assert page.select_one("input[name=priority][checked]")["value"] == "low"


async def test_what_is_no_longer_offered_is_named_at_its_field(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={**EVERYTHING, "custom_images": {"allowed": False}})
    spawner.user_options = {**STORED, "run_time": "36h", "memory": "4T", "shared_memory": "32G"}
    page = await shown(spawner)
    assert "(quay.io/acme/own:1) is no longer offered" in page.get_text()
    assert "(36h) is no longer offered: 8h is filled in" in page.find(id="gpuspawner-run_time-notice").text
    assert "the field is left empty" in page.find(id="gpuspawner-shared_memory-notice").text


# -- an open form asks for a newer one -------------------------------------------------------------------------------


def asked_by(spawner: GPUSpawner, cpu: str) -> None:
    """Let the spawner's request be that of an open form with this choice."""
    request = SimpleNamespace(headers={CHOICE_HEADER: json.dumps({"cpu": cpu})}, method="GET", query_arguments={})
    spawner.handler = SimpleNamespace(request=request, current_user=None)


async def test_two_open_forms_of_a_person_that_ask_at_once_keep_their_own_values(make_spawner: MakeSpawner):
    spawner, both_asked = make_spawner(), asyncio.Barrier(2)

    async def ask(cpu: str) -> str:
        asked_by(spawner, cpu)
        await both_asked.wait()
        page = await shown(spawner)
        return page.select_one("[name=cpu]")["value"]

    assert await asyncio.gather(ask("3"), ask("5")) == ["3", "5"]


async def test_a_form_that_another_request_opens_has_no_values_of_the_last_one(make_spawner: MakeSpawner):
    spawner = make_spawner()

    async def ask() -> None:
        asked_by(spawner, "3")

    async def look() -> str:
        return (await shown(spawner)).select_one("[name=cpu]")["value"]

    await asyncio.create_task(ask())
    assert await asyncio.create_task(look()) == "2"
