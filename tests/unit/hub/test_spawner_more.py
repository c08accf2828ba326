"""Rarely used options, from the form, a link or the REST API to the pod."""

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

RUN_TIME = {**SETTINGS, "run_time": {"min": "30m", "max": "24h", "step": "30m", "default": "8h"}}
FORM = {"image": ["minimal"], "cpu": ["2"], "memory": ["4"], "gpu": [""]}


async def read_form(spawner: GPUSpawner, form: dict[str, list[str]]) -> dict[str, Any]:
    options: dict[str, Any] = await maybe_future(spawner.run_options_from_form(form))
    return options


async def shown(spawner: GPUSpawner) -> BeautifulSoup:
    return BeautifulSoup(await spawner.get_options_form(), "html.parser")


# -- an open form asks for a newer one -------------------------------------------------------------------------------


async def test_two_open_forms_of_a_person_that_ask_at_once_keep_their_own_values(make_spawner: MakeSpawner):
    spawner, both_asked = make_spawner(), asyncio.Barrier(2)

    async def ask(cpu: str) -> str:
        request = SimpleNamespace(headers={CHOICE_HEADER: json.dumps({"cpu": cpu})}, method="GET", query_arguments={})
        spawner.handler = SimpleNamespace(request=request, current_user=None)
        await both_asked.wait()
        page = await shown(spawner)
        return page.select_one("[name=cpu]")["value"]

    assert await asyncio.gather(ask("3"), ask("5")) == ["3", "5"]


async def test_a_form_that_another_request_opens_has_no_values_of_the_last_one(make_spawner: MakeSpawner):
    spawner = make_spawner()

    async def ask() -> None:
        request = SimpleNamespace(headers={CHOICE_HEADER: '{"cpu": "3"}'}, method="GET", query_arguments={})
        spawner.handler = SimpleNamespace(request=request, current_user=None)

    async def look() -> str:
        return (await shown(spawner)).select_one("[name=cpu]")["value"]

    await asyncio.create_task(ask())
    assert await asyncio.create_task(look()) == "2"


# -- how long a server runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "deadline_s"), [({"run_time": "90m"}, 5400), ({}, 28_800), ({"gpu": "a100", "run_time": "1h"}, 3600)]
)
async def test_kubernetes_ends_the_pod_after_its_run_time(
    make_spawner: MakeSpawner, options: dict[str, Any], deadline_s: int
):
    pod = await pod_of(make_spawner(settings=RUN_TIME), options)
    assert pod["spec"]["activeDeadlineSeconds"] == deadline_s


async def test_without_the_setting_a_pod_runs_on(make_spawner: MakeSpawner):
    assert "activeDeadlineSeconds" not in (await pod_of(make_spawner(), {}))["spec"]
    with pytest.raises(web.HTTPError, match="run_time: The run time cannot be chosen here"):
        await begin(make_spawner(), {"run_time": "8h"})


@pytest.mark.parametrize("name", ["activeDeadlineSeconds", "active_deadline_seconds"])
@pytest.mark.parametrize(("run_time", "deadline_s"), [("1h", 3600), ("4h", 7200)])
async def test_no_choice_is_longer_than_what_the_admin_set(
    make_spawner: MakeSpawner, name: str, run_time: str, deadline_s: int
):
    spawner = make_spawner(settings=RUN_TIME, kubespawner={"extra_pod_config": {name: 7200}})
    assert (await pod_of(spawner, {"run_time": run_time}))["spec"]["activeDeadlineSeconds"] == deadline_s


async def test_the_run_time_of_one_start_is_not_that_of_the_next(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=RUN_TIME)
    await begin(spawner, {"run_time": "1h"})
    spawner.clear_state()
    assert spawner.extra_pod_config == {}
    assert (await pod_of(spawner, {}))["spec"]["activeDeadlineSeconds"] == 28_800


@pytest.mark.parametrize(("typed", "stored"), [("8", "8h"), ("90 min", "1h30m"), ("0.5h", "30m")])
async def test_a_form_says_for_how_long(make_spawner: MakeSpawner, typed: str, stored: str):
    options = await read_form(make_spawner(settings=RUN_TIME), {**FORM, "run_time": [typed]})
    assert options["run_time"] == stored


@pytest.mark.parametrize("prefix", ["", "opt-"])
async def test_a_link_says_for_how_long(make_spawner: MakeSpawner, prefix: str):
    query = {f"{prefix}run_time": ["2"]}
    options = await maybe_future(make_spawner(settings=RUN_TIME).options_from_query(query))
    assert options["run_time"] == "2h"


@pytest.mark.parametrize("typed", ["", "for ever", "2d", "20m", "NaN", "9" * 100])
async def test_a_wrong_run_time_comes_back_with_the_message_at_the_field(make_spawner: MakeSpawner, typed: str):
    spawner = make_spawner(settings={**RUN_TIME, "presets": {"p": {"cpu": 1}}})
    with pytest.raises(web.HTTPError, match="run_time: "):
        await read_form(spawner, {**FORM, "run_time": [typed]})
    page = await shown(spawner)
    field = page.find(id="gpuspawner-run_time")
    assert (field["value"], field["aria-invalid"]) == (typed, "true")
    assert page.find(id="gpuspawner-run_time-error") is not None
    assert [page.find(id=f"gpuspawner-{door}").has_attr("open") for door in ("custom", "more")] == [True, True]


async def test_the_last_run_time_stands_in_the_form_the_next_time(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=RUN_TIME)
    spawner.user_options = {"run_time": "1h30m"}
    assert (await shown(spawner)).find(id="gpuspawner-run_time")["value"] == "1h30m"
    spawner.user_options = {"run_time": "36h", "cpu": 4}
    page = await shown(spawner)
    assert [page.find(id=f"gpuspawner-{name}")["value"] for name in ("run_time", "cpu")] == ["8h", "4"]
    assert "(36h) is no longer offered: 8h is filled in" in page.find(id="gpuspawner-run_time-notice").text


async def test_a_preset_may_hold_a_run_time(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={**RUN_TIME, "presets": {"short": {"run_time": "30m"}}})
    assert "up to 30 minutes" in (await shown(spawner)).select(".gs-preset")[0].text
    assert (await pod_of(spawner, {"preset": "short"}))["spec"]["activeDeadlineSeconds"] == 1800


# -- shared memory ---------------------------------------------------------------------------------------------------

SHARED = {**SETTINGS, "shared_memory": {"min": "1G", "max": "32G", "step": "1G"}}


def shared_memory_of(pod: dict[str, Any]) -> list[Any]:
    """Return the volumes that are mounted at /dev/shm, and their sizes."""
    mounts = [each for each in pod["spec"]["containers"][0]["volumeMounts"] if each["mountPath"] == "/dev/shm"]
    volumes = {each["name"]: each["emptyDir"] for each in pod["spec"]["volumes"]}
    return [volumes[each["name"]] for each in mounts]


@pytest.mark.parametrize(
    ("options", "gib"),
    [
        ({"shared_memory": "2G"}, 2),
        ({"shared_memory": "4G", "memory": "4G"}, 4),
        ({"gpu": "a100", "memory": "16G", "shared_memory": "2G"}, 2),
        ({"gpu": "a100", "memory": "16G"}, 8),
        ({"gpu": "a100", "memory": "16G", "shared_memory": ""}, 8),
    ],
)
async def test_the_pod_has_the_shared_memory_that_was_asked_for_or_its_types(
    make_spawner: MakeSpawner, options: dict[str, Any], gib: int
):
    pod = await pod_of(make_spawner(settings=SHARED), options)
    assert shared_memory_of(pod) == [{"medium": "Memory", "sizeLimit": str(gib * 2**30)}]


async def test_without_a_size_and_a_type_that_has_one_there_is_no_volume(make_spawner: MakeSpawner):
    assert shared_memory_of(await pod_of(make_spawner(settings=SHARED), {"shared_memory": None})) == []


async def test_without_the_setting_no_size_can_be_chosen(make_spawner: MakeSpawner):
    with pytest.raises(web.HTTPError, match="shared_memory: Shared memory cannot be chosen here"):
        await begin(make_spawner(), {"shared_memory": "2G"})


@pytest.mark.parametrize("typed", ["5", "0.5", "1.5", "33", "lots", "NaN", "-1"])
async def test_a_wrong_size_comes_back_with_the_message_at_the_field(make_spawner: MakeSpawner, typed: str):
    spawner = make_spawner(settings=SHARED)
    with pytest.raises(web.HTTPError, match="shared_memory: "):
        await read_form(spawner, {**FORM, "shared_memory": [typed]})
    page = await shown(spawner)
    field = page.find(id="gpuspawner-shared_memory")
    assert (field["value"], field["aria-invalid"]) == (typed, "true")
    assert page.find(id="gpuspawner-shared_memory-error") is not None
    assert page.find(id="gpuspawner-more").has_attr("open")


@pytest.mark.parametrize(("typed", "stored"), [("2", {"shared_memory": "2G"}), (" ", {}), ("", {})])
async def test_a_size_may_be_left_out_of_the_form(make_spawner: MakeSpawner, typed: str, stored: dict[str, str]):
    spawner = make_spawner(settings=SHARED)
    options = await read_form(spawner, {**FORM, "shared_memory": [typed]})
    assert {name: value for name, value in options.items() if name == "shared_memory"} == stored
    await shown(spawner)  # once more what was typed
    spawner.user_options = options
    field = (await shown(spawner)).find(id="gpuspawner-shared_memory")
    assert field["value"] == typed.strip()


async def test_a_size_that_has_no_room_any_more_is_left_empty_with_a_notice(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=SHARED)
    spawner.user_options = {"memory": "4T", "shared_memory": "32G", "cpu": 4}
    page = await shown(spawner)
    assert [page.find(id=f"gpuspawner-{name}")["value"] for name in ("shared_memory", "cpu")] == ["", "4"]
    assert "the field is left empty" in page.find(id="gpuspawner-shared_memory-notice").text
    assert page.find(id="gpuspawner-more").has_attr("open")


# -- priority --------------------------------------------------------------------------------------------------------

RANKS = {
    "normal": {"display_name": "Normal", "class": "site-normal", "value": 100},
    "low": {"display_name": "Low", "class": "site-low", "value": -10},
}
RANKED = {**SETTINGS, "priorities": RANKS}


@pytest.mark.parametrize(
    "admins", [{}, {"priority_class_name": "own"}, {"extra_pod_config": {"priorityClassName": "own"}}]
)
@pytest.mark.parametrize(("options", "expected"), [({}, "site-normal"), ({"priority": "low"}, "site-low")])
async def test_the_pod_has_the_priority_class_that_was_picked(
    make_spawner: MakeSpawner, admins: dict[str, Any], options: dict[str, Any], expected: str
):
    pod = await pod_of(make_spawner(settings=RANKED, kubespawner=admins), options)
    assert pod["spec"]["priorityClassName"] == expected


async def test_without_the_setting_the_admins_priority_stays(make_spawner: MakeSpawner):
    spawner = make_spawner(kubespawner={"priority_class_name": "own"})
    assert (await pod_of(spawner, {}))["spec"]["priorityClassName"] == "own"
    with pytest.raises(web.HTTPError, match="priority: There is no priority 'low'"):
        await begin(make_spawner(), {"priority": "low"})


async def test_a_wrong_priority_comes_back_with_the_message_at_the_field(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=RANKED)
    with pytest.raises(web.HTTPError, match="priority: "):
        await read_form(spawner, {**FORM, "priority": ["system-cluster-critical"]})
    page = await shown(spawner)
    assert page.find(id="gpuspawner-priority-error") is not None
    assert page.find(id="gpuspawner-more").has_attr("open")
    assert page.select("input[name=priority][checked]") == []


async def test_the_last_priority_stands_in_the_form_the_next_time(make_spawner: MakeSpawner):
    spawner = make_spawner(settings=RANKED)
    spawner.user_options = {"priority": "low"}
    assert [each["value"] for each in (await shown(spawner)).select("input[name=priority][checked]")] == ["low"]
