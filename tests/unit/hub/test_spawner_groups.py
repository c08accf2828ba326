"""``group_overrides`` for a group: the form shows them, the gate holds to them, the start has them."""

from __future__ import annotations

import copy
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future
from tornado import web

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import GPU_NODE, SETTINGS, MakeSpawner
from tests.unit.hub.starts import begin, pod_of
from tests.unit.kube.watch_server import NODES as NODES_PATH
from tests.unit.kube.watch_server import WatchServer

FORM = {"image": ["pytorch"], "cpu": ["2"], "memory": ["4"], "gpu": [""]}
COURSE = {"display_name": "Course", "image": "registry.example/course:1"}


def override(**traits: Any) -> dict[str, Any]:
    return {"for ml": {"groups": ["ml"], "spawner_override": traits}}


def member(make_spawner: MakeSpawner, group_overrides: Any, *, group: str = "ml", **keys: Any) -> GPUSpawner:
    spawner = make_spawner(**keys)
    spawner.user.groups = [SimpleNamespace(name=group)]
    spawner.group_overrides = group_overrides
    return spawner


async def send(spawner: GPUSpawner, **form: str) -> Any:
    return await maybe_future(spawner.run_options_from_form({**FORM, **{name: [text] for name, text in form.items()}}))


async def values_of(spawner: GPUSpawner, field: str) -> list[str]:
    page = BeautifulSoup(await spawner.get_options_form(), "html.parser")
    return [each["value"] for each in page.find_all(attrs={"name": field})]


async def most_cpus(spawner: GPUSpawner) -> str:
    page = BeautifulSoup(await spawner.get_options_form(), "html.parser")
    return str(page.find(id="gpuspawner-cpu-help").get_text(strip=True).split()[2])  # "1 to 8 cores, in …"


async def later(_: GPUSpawner) -> dict[str, Any]:
    return override(images={"course": COURSE})


@pytest.mark.parametrize(
    "overrides",
    [
        override(images={"course": COURSE}),
        override(images=lambda _: {"course": COURSE}),
        lambda _: override(images={"course": COURSE}),
        later,
    ],
    ids=["a dict", "a callable value", "a callable", "a coroutine"],
)
async def test_a_form_offers_what_the_start_takes(make_spawner: MakeSpawner, overrides: Any):
    spawner = member(make_spawner, overrides)
    assert await values_of(spawner, "image") == ["pytorch", "minimal", "course"]
    options = await send(spawner, image="course")
    pod = await pod_of(spawner, options)
    assert pod["spec"]["containers"][0]["image"] == "registry.example/course:1"


async def test_what_the_start_refuses_the_form_refuses(make_spawner: MakeSpawner):
    spawner = member(make_spawner, override(images={"pytorch": None}, cpu={"max": 4}))
    with pytest.raises(web.HTTPError) as refused:
        await send(spawner, cpu="8")
    assert "image: " in str(refused.value)
    assert "cpu: " in str(refused.value)
    assert (await values_of(spawner, "image"), await most_cpus(spawner)) == (["minimal"], "4")


async def test_a_policy_for_a_group_is_the_forms(make_spawner: MakeSpawner):
    spawner = member(make_spawner, override(policy={"default": {"gpus": ["mi210"]}}))
    with pytest.raises(web.HTTPError) as refused:
        await send(spawner, gpu="a100")
    assert refused.value.status_code == 403


async def test_traits_of_kubespawner_count_in_the_verdict(make_spawner: MakeSpawner, server: WatchServer):
    tainted = {**GPU_NODE, "spec": {"taints": [{"key": "course", "value": "ml", "effect": "NoSchedule"}]}}
    server.put(NODES_PATH, tainted)
    tolerations = [{"key": "course", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}]
    assert "4 of 4 free" in await member(make_spawner, override(tolerations=tolerations)).get_options_form()
    assert "4 of 4 free" not in await member(make_spawner, {}).get_options_form()


async def test_without_settings_the_image_for_a_group_is_offered(make_spawner: MakeSpawner):
    image = {"image": "registry.example/base:1"}
    spawner = member(make_spawner, override(image="registry.example/course:2"), settings={}, kubespawner=image)
    assert "course:2" in await spawner.get_options_form()
    assert spawner.image == "registry.example/base:1"


async def test_without_settings_the_amounts_for_a_group_are_the_default(make_spawner: MakeSpawner):
    amounts = {"mem_limit": "3G", "cpu_limit": 1}
    spawner = member(make_spawner, override(mem_limit="5G", cpu_limit=2), settings={}, kubespawner=amounts)
    assert [await values_of(spawner, name) for name in ("memory", "cpu")] == [["5"], ["2"]]
    assert (spawner.mem_limit, spawner.cpu_limit) == (3 * 2**30, 1)
    (container,) = (await pod_of(spawner, await send(spawner, image="default", memory="5")))["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": 2.0, "memory": 5 * 2**30}


async def test_forms_change_nothing_of_the_spawner(make_spawner: MakeSpawner):
    doubled = override(cpu=lambda spawner: {"max": spawner.cpu["max"] * 2}, images={"course": COURSE})
    spawner = member(make_spawner, doubled)
    before = copy.deepcopy(spawner.collect_settings())
    assert [await most_cpus(spawner), (await send(spawner, cpu="16"))["cpu"], await most_cpus(spawner)] == [
        "16",
        16,
        "16",
    ]
    assert (spawner.collect_settings(), spawner.config.GPUSpawner) == (before, SETTINGS)
    pod = await pod_of(spawner, await send(spawner, cpu="16"))
    assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == 16


async def test_a_form_is_not_logged_as_a_start(make_spawner: MakeSpawner, caplog: pytest.LogCaptureFixture):
    spawner = member(make_spawner, override(images={"course": COURSE}))
    caplog.set_level(logging.INFO, logger=spawner.log.name)
    await spawner.get_options_form()
    assert not [each for each in caplog.messages if "group_override" in each]
    await pod_of(spawner, {})
    assert [each for each in caplog.messages if "group_override" in each]


class Calls:
    """Functions of an admin, which note the spawners that they get and change what they get."""

    def __init__(self) -> None:
        self.whole: list[GPUSpawner] = []
        self.value: list[GPUSpawner] = []

    def override(self, spawner: GPUSpawner) -> dict[str, Any]:
        self.whole.append(spawner)
        spawner.environment["FROM"] = "override"
        return override(images=self.images)

    def images(self, spawner: GPUSpawner) -> dict[str, Any]:
        self.value.append(spawner)
        spawner.cpu_limit = 3
        return {"course": COURSE}

    def take(self) -> list[int]:
        """Return how often each function ran since the last time."""
        found = [len(self.whole), len(self.value)]
        self.whole, self.value = [], []
        return found


async def test_callables_run_once_for_each_form_and_once_for_a_start(make_spawner: MakeSpawner):
    calls = Calls()
    spawner = member(make_spawner, calls.override)
    await spawner.get_options_form()
    shown = calls.take()
    options = await send(spawner, image="course")
    sent = calls.take()
    with pytest.raises(web.HTTPError):
        await send(spawner, cpu="900")
    await spawner.get_options_form()
    sent_back = calls.take()
    await pod_of(spawner, options)
    assert (shown, sent, sent_back, calls.take()) == ([1, 1], [1, 1], [2, 2], [1, 1])


async def test_callables_get_a_copy_of_the_spawner_for_a_form(make_spawner: MakeSpawner):
    calls = Calls()
    spawner = member(make_spawner, calls.override)
    await spawner.get_options_form()
    await send(spawner, image="course")
    assert (spawner in calls.whole + calls.value, spawner.cpu_limit, spawner.environment) == (False, None, {})
    calls.take()
    await begin(spawner, {})
    assert (calls.whole, calls.value) == ([spawner], [spawner])
    assert spawner.environment["FROM"] == "override"


async def test_callables_for_other_groups_do_not_run(make_spawner: MakeSpawner):
    calls = Calls()
    spawner = member(make_spawner, override(images=calls.images), group="art")
    await spawner.get_options_form()
    await pod_of(spawner, {})
    assert calls.take() == [0, 0]


async def test_a_form_of_profiles_asks_for_its_verdicts_and_keeps_nothing(make_spawner: MakeSpawner):
    asked: list[GPUSpawner] = []
    profiles = [{"display_name": "Small", "slug": "small"}]
    spawner = member(
        make_spawner, lambda each: asked.append(each) or {}, settings={}, kubespawner={"profile_list": profiles}
    )
    before = dict(spawner._trait_values)
    await spawner.get_options_form()
    await maybe_future(spawner.run_options_from_form({"profile": ["small"]}))
    assert (len(asked), spawner in asked) == (2, False)
    assert {name: value for name, value in spawner._trait_values.items() if name in before} == before
