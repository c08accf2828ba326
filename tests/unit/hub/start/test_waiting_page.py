"""The page of a server that starts, as the hub sends it: before its script runs, or without one."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup

from gpuspawner._resources import data_dir
from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.core.text.i18n import use_language
from gpuspawner.hub.request.languages import load_languages
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.stream import Alternative
from gpuspawner.hub.start.waiting_page import WaitingPages
from tests.unit.clocks import Clock
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.pages import text
from tests.unit.hub.real_hub import real_hub
from tests.unit.hub.starts import GPU_OPTIONS, begin
from tests.unit.kube.watch_server import WatchServer

ASSETS = ("waiting.css", "language.js", "waiting.js")
PROGRESS = "/hub/api/users/ada/server/progress?_xsrf=x"
WAITS = Report(
    stage=Stage.WAITING,
    sentence="Waiting for 2 × A100: all <4> are in use. You're next. Gives up in 14 min.",
    percent=10,
    detail="All <4> are in use.",
    place="You're next.",
    lacks_room=True,
    is_alarm=True,
    since_s=4,
)


@pytest.fixture
async def spawner(make_spawner: MakeSpawner, clock: Clock) -> GPUSpawner:
    """Return a server that has started 130 s ago."""
    spawner = make_spawner()
    await begin(spawner, GPU_OPTIONS)
    spawner.start_state.feed.clock = clock
    spawner.start_state.feed.begin()
    clock.now += 130
    return spawner


async def page_of(spawner: Any) -> tuple[str, BeautifulSoup]:
    page = await WaitingPages().build(spawner, PROGRESS)
    assert page is not None
    return page.title, BeautifulSoup(page.content, "html.parser")


def data_of(page: BeautifulSoup) -> dict[str, Any]:
    return dict(json.loads(text(page, "#gpuspawner-data")))


async def test_it_says_what_the_server_waits_for_and_the_time(spawner: GPUSpawner):
    spawner.start_state.feed.publish([WAITS], percent=10)
    title, page = await page_of(spawner)
    assert title == "Waiting · 2 × A100"
    assert text(page, "h1") == "Waiting for 2 × A100"
    assert text(page, ".gs-choice") == "PyTorch · 4 CPUs · 16 GiB RAM · 2 × A100"
    assert text(page, "#gpuspawner-time") == "2 min 10 s of at most 15 min"
    assert (text(page, "#gpuspawner-detail"), text(page, "#gpuspawner-place")) == (WAITS.detail, WAITS.place)
    assert text(page, "[aria-current=step]") == "Find a node"


@pytest.mark.parametrize(
    ("stage", "headline", "title", "step", "share"),
    [
        (Stage.CHECKING, "Starting PyTorch · 2 × A100", "Starting · 2 × A100", "Set up", None),
        (Stage.QUEUED, "Waiting for 2 × A100", "Waiting · 2 × A100", "Find a node", None),
        (Stage.SCALING, "Waiting for 2 × A100", "Waiting · 2 × A100", "Find a node", None),
        (Stage.SCHEDULED, "Starting PyTorch · 2 × A100", "Starting · 2 × A100", "Fetch the image", "2"),
        (Stage.PULLING, "Starting PyTorch · 2 × A100", "Starting · 2 × A100", "Fetch the image", "2"),
        (Stage.STARTING, "Starting PyTorch · 2 × A100", "Starting · 2 × A100", "Start the program", "3"),
        (Stage.READY, "Starting PyTorch · 2 × A100", "Starting · 2 × A100", "Open", "4"),
        (Stage.FAILED, "Your server didn't start", "Failed · 2 × A100", "Set up", None),
    ],
    ids=str,
)
async def test_each_stage_has_a_headline_a_title_and_a_step(
    spawner: GPUSpawner, stage: Stage, headline: str, title: str, step: str, share: str | None
):
    spawner.start_state.feed.publish([Report(stage=stage, sentence="It is so.", percent=10)], percent=10)
    told, page = await page_of(spawner)
    bar = page.select_one("#progress-bar")
    assert bar is not None
    assert (told, text(page, "h1"), text(page, "[aria-current=step]")) == (title, headline, step)
    assert (bar.get("aria-valuenow"), bar["aria-valuetext"]) == (share, step)


async def test_a_server_without_a_gpu_waits_for_a_node(make_spawner: MakeSpawner):
    spawner = make_spawner()
    await begin(spawner, {"image": "minimal"})
    spawner.start_state.feed.publish([WAITS], percent=10)
    title, page = await page_of(spawner)
    assert (title, text(page, "h1")) == ("Waiting · Minimal", "Waiting for a free node")


async def test_a_page_of_a_start_that_has_just_begun_has_no_message_yet(make_spawner: MakeSpawner):
    spawner = make_spawner()
    await begin(spawner, GPU_OPTIONS)
    title, page = await page_of(spawner)
    assert (title, text(page, "#gpuspawner-time")) == ("Starting · 2 × A100", "0 s of at most 15 min")
    assert page.select("#progress-log li") == []


async def test_nothing_that_is_said_is_html(spawner: GPUSpawner):
    spawner.orm_spawner = SimpleNamespace(name="<b>lab</b>", server=None)
    hostile = Report(stage=Stage.WAITING, sentence="</script><script>alert(1)</script>", percent=1)
    spawner.start_state.feed.publish([hostile], percent=10)
    spawner.start_state.feed.suggest((Alternative("</script><i>", "/hub/spawn?a=</script>"),))
    _, page = await page_of(spawner)
    assert (len(page.select("script")), page.select("b b, i")) == (2, [])
    assert data_of(page)["status"]["alternatives"] == [["</script><i>", "/hub/spawn?a=</script>"]]
    assert text(page, "#gpuspawner-detail") == hostile.sentence


async def test_the_log_repeats_nothing_within_half_a_minute(spawner: GPUSpawner):
    def say(detail: str, since_s: float) -> Report:
        return Report(stage=Stage.WAITING, sentence=detail, detail=detail, percent=10, since_s=since_s)

    told = [("A", 1), ("B", 5), ("A", 9), ("B", 20), ("A", 40), ("A", 90)]
    spawner.start_state.feed.publish([say(detail, since_s) for detail, since_s in told], percent=10)
    _, page = await page_of(spawner)
    assert [span.get_text() for span in page.select("#progress-log li span")] == ["A", "B", "A"]
    time = page.select_one("#progress-log time")
    assert time is not None
    ago = datetime.now(UTC) - datetime.fromisoformat(str(time["datetime"]))
    assert 88 < ago.total_seconds() < 95


async def test_the_script_gets_the_addresses_of_a_named_server(make_spawner: MakeSpawner):
    spawner = make_spawner()
    await begin(spawner, GPU_OPTIONS)
    spawner.orm_spawner = SimpleNamespace(name="lab", server=None)
    _, page = await page_of(spawner)
    data = data_of(page)
    base = spawner.hub.base_url
    assert data["progress_url"] == PROGRESS
    assert data["server_url"] == f"{base}api/users/ada/servers/lab"
    assert (data["user_url"], data["home_url"]) == (f"{base}api/users/ada", f"{base}home")
    assert data["change_url"].startswith(f"{base}spawn/ada/lab?fill-image=pytorch&")
    assert "fill-gpu=a100&fill-gpu_count=2" in data["change_url"]


async def test_the_page_is_in_the_language_of_the_person_who_starts(spawner: GPUSpawner):
    with use_language(load_languages()["de"]):
        spawner.start_state.feed.begin()
    spawner.start_state.feed.publish([WAITS], percent=10)
    title, page = await page_of(spawner)
    content = page.select_one("#gpuspawner-waiting")
    assert content is not None
    assert (content["lang"], text(page, "h1"), title) == ("de", "Wartet auf 2 × A100", "Wartet · 2 × A100")


async def test_a_choice_that_is_no_longer_offered_is_left_out(spawner: GPUSpawner):
    spawner.user_options = {"gpu": "gone"}
    spawner.start_state.feed.publish([WAITS], percent=10)
    title, page = await page_of(spawner)
    assert (title, text(page, "h1")) == ("Waiting", "Waiting for a free node")
    assert page.select(".gs-choice, #gpuspawner-change") == []


@pytest.mark.parametrize("other", [SimpleNamespace(), None], ids=["another class", "none"])
async def test_jupyterhubs_own_page_is_right_for_other_spawners(other: object):
    assert await WaitingPages().build(other, PROGRESS) is None


async def test_an_error_leaves_jupyterhubs_own_page(spawner: GPUSpawner):
    async def broken() -> None:
        raise ZeroDivisionError

    spawner.make_offer = broken
    assert await WaitingPages().build(spawner, PROGRESS) is None


async def test_the_page_holds_its_style_sheet_and_script(spawner: GPUSpawner):
    page = await WaitingPages().build(spawner, PROGRESS)
    assert page is not None
    folder = data_dir("templates")
    assert [name for name in ASSETS if (folder / name).read_text().strip() not in page.content] == []


def test_the_style_sheet_changes_nothing_outside_of_the_page():
    text = re.sub(r"/\*.*?\*/", "", (data_dir("templates") / "waiting.css").read_text(), flags=re.DOTALL)
    while "{" in text:
        text = re.sub(r"\{[^{}]*\}", ";", text)
    assert text.split() == [".gpuspawner-waiting", ";", "@keyframes", "gs-unknown", ";"]


def test_the_page_loads_nothing_but_the_hubs_own_addresses():
    script = (data_dir("templates") / "waiting.js").read_text()
    assert set(re.findall(r"(?:fetch|EventSource)\(([^,)(]*)", script)) == {
        "data.progress_url",
        "data.server_url + xsrf",
        "data.user_url + xsrf",
    }
    assert re.findall(r"https?:|@import|\bimport\b|XMLHttpRequest|sendBeacon", script) == []


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_jupyterhub_shows_our_page_unless_a_site_has_one_of_its_own(server: WatchServer, tmp_path: Path):
    own = tmp_path / "pages"
    own.mkdir()
    config = {"GPUSpawner": SETTINGS, "KubeSpawner": {"namespace": "default"}}
    hub_config = {"JupyterHub": {"template_paths": [str(own)]}}
    async with real_hub(tmp_path, api=server.url, config={**config, **hub_config}) as hub:
        await hub.begin("ada", {**GPU_OPTIONS})
        await hub.follow("ada", "set up")
        (page,) = await hub.read_pages("ada", "/hub/spawn-pending/ada")
        found = BeautifulSoup(page, "html.parser")
        assert (text(found, "title"), text(found, "h1")) == ("Starting · 2 × A100", "Starting PyTorch · 2 × A100")
        assert len(found.select("noscript meta[http-equiv=refresh]")) == 1
        assert (len(found.select("#gpuspawner-waiting")), "evtSource" in page) == (1, False)

        (own / "spawn_pending.html").write_text('{% extends "templates/spawn_pending.html" %}')
        await hub.kill()
        await hub.start()
        await hub.begin("bob", {**GPU_OPTIONS})
        await hub.follow("bob", "set up")
        (page,) = await hub.read_pages("bob", "/hub/spawn-pending/bob")
        found = BeautifulSoup(page, "html.parser")
        assert (text(found, "title"), len(found.select("#gpuspawner-waiting"))) == ("JupyterHub", 0)
        assert "evtSource" in page
