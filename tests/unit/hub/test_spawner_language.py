"""The language of the hub's answers, from the request to the page and to the pod."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future
from tornado import web

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.pages import opened_by
from tests.unit.hub.starts import begin

GERMAN, CHINESE, ENGLISH = "Keine GPU", "不使用 GPU", "No GPU"
WRONG = {"image": ["minimal"], "cpu": ["99"], "memory": ["4"], "gpu": [""]}


def asking(accepted: str, *, admin: bool = False) -> Any:
    user = SimpleNamespace(name="viewer", admin=admin)
    return SimpleNamespace(current_user=user, request=SimpleNamespace(headers={"Accept-Language": accepted}))


async def sent(spawner: GPUSpawner, form: dict[str, list[str]]) -> tuple[str, BeautifulSoup]:
    """Send a form that is wrong as JupyterHub does; return its message and the form that is shown again."""

    async def post() -> tuple[str, str]:
        with pytest.raises(web.HTTPError) as refused:
            await maybe_future(spawner.run_options_from_form(form))
        return refused.value.jupyterhub_message, str(await spawner.get_options_form())

    message, page = await asyncio.create_task(post())
    return message, BeautifulSoup(page, "html.parser")


def no_gpu(page: BeautifulSoup) -> str:
    (radio,) = page.select("input[name=gpu][value='']")
    return radio.find_next("b").text  # type: ignore[union-attr]


async def test_one_spawner_answers_each_request_in_its_language(make_spawner: MakeSpawner):
    spawner = make_spawner()
    pages = await asyncio.gather(*(opened_by(asking(accepted), spawner) for accepted in ("de", "zh", "en")))
    assert [no_gpu(page) for page in pages] == [GERMAN, CHINESE, ENGLISH]


async def test_the_admin_may_choose_one_for_all(make_spawner: MakeSpawner):
    assert no_gpu(await opened_by(asking("zh-CN"), make_spawner(settings={**SETTINGS, "language": "de"}))) == GERMAN


async def test_a_wrong_form_comes_back_in_its_language(make_spawner: MakeSpawner):
    message, page = await sent(make_spawner(), {**WRONG, "_language": ["de"]})
    (error,) = page.select("#gpuspawner-cpu-error")
    told = "CPU muss 1 bis 8 CPUs betragen, nicht 99 CPUs."
    assert (message, error.text, no_gpu(page)) == (
        "Nicht gestartet. Das Formular zeigt, was zu korrigieren ist.",
        told,
        GERMAN,
    )


async def test_a_refused_start_is_explained_in_the_language_of_its_request(make_spawner: MakeSpawner):
    spawner = make_spawner()

    async def start() -> str:
        spawner.handler = asking("zh-CN")
        with pytest.raises(web.HTTPError) as refused:
            await begin(spawner, {"gpu": "a100", "gpu_count": 9})
        return refused.value.jupyterhub_message

    told = await asyncio.create_task(start())
    assert told.startswith("gpu_count: 一个服务器中的 GPU")


async def test_stored_texts_are_in_english(make_spawner: MakeSpawner):
    spawner = make_spawner()

    async def start() -> object:
        spawner.handler = asking("de")
        await begin(spawner, {"gpu": "a100", "gpu_count": 2, "cpu": 2, "memory": "4G"})
        return spawner.user_options["profile"]

    assert await asyncio.create_task(start()) == "PyTorch · 2 CPUs · 4 GiB · 2 × A100"


async def test_the_admins_part_of_the_form_is_in_english(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={"presets": {"train": {"gpu": "b200"}}})
    page = await opened_by(asking("de", admin=True), spawner)
    (part,) = page.select("#gpuspawner-admin")
    assert (part["lang"], "Not in the form at the moment. There is no GPU type 'b200'." in part.text) == ("en", True)
