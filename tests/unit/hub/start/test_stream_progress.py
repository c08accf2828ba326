"""Messages to an open page while a server starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import jupyterhub
import pytest
from kubespawner import KubeSpawner
from traitlets import Any as AnyTrait
from traitlets import Type

from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.stream import PAGE_MEMBER, Alternative, ProgressFeed, stream_progress
from tests.unit.clocks import Clock
from tests.unit.hub.conftest import MakeSpawner

RAW = {"type": "Normal", "reason": "Pulling", "message": "Pulling image"}
PULLING = Report(stage=Stage.PULLING, sentence="The image <lab> is loaded.", percent=50, raw_event=RAW)
WAITING = Report(stage=Stage.WAITING, sentence="It waits.", percent=10)


needs_patience = pytest.mark.skipif(
    "slow_spawn_message" not in KubeSpawner.class_traits(), reason="KubeSpawner 7.0 asks for no patience"
)


def messages(events: list[dict[str, Any]]) -> list[str]:
    return [event["message"] for event in events if "message" in event]


def without_status(event: dict[str, Any]) -> dict[str, Any]:
    """Return what pages of JupyterHub's own read of an event."""
    return {name: value for name, value in event.items() if name != PAGE_MEMBER}


async def all_of(events: AsyncGenerator[dict[str, Any]]) -> list[dict[str, Any]]:
    async with asyncio.timeout(5):
        return [event async for event in events]


@pytest.fixture
async def spawner(make_spawner: MakeSpawner) -> GPUSpawner:
    spawner = make_spawner()
    spawner.orm_spawner = SimpleNamespace(name="lab", server=None)
    return spawner


async def test_a_page_that_comes_late_gets_all_messages(spawner: GPUSpawner):
    spawner.start_state.feed.publish([WAITING, PULLING], percent=50)
    spawner.start_state.feed.close()
    first, second = await all_of(spawner.progress())
    assert (first["progress"], first["message"], "raw_event" in first) == (10, "It waits.", False)
    assert (second["progress"], second["raw_event"]) == (50, RAW)
    assert second["html_message"].startswith("The image &lt;lab&gt; is loaded.<")


@pytest.mark.skipif(jupyterhub.version_info < (6,), reason="JupyterHub 5 has no button of its own")
async def test_the_default_servers_page_needs_no_html(make_spawner: MakeSpawner):
    spawner = make_spawner()
    spawner.start_state.feed.publish([WAITING], percent=10)
    spawner.start_state.feed.close()
    assert [without_status(event) for event in await all_of(spawner.progress())] == [
        {"progress": 10, "message": "It waits."}
    ]


async def test_many_pages_get_each_message(spawner: GPUSpawner):
    following = spawner.start_state.feed
    pages = [asyncio.create_task(all_of(spawner.progress())) for _ in range(20)]
    await asyncio.sleep(0.01)
    following.publish([WAITING], percent=10)
    await asyncio.sleep(0.01)
    following.publish([PULLING], percent=50)
    await asyncio.sleep(0.01)
    following.close()
    async with asyncio.timeout(5):
        seen = await asyncio.gather(*pages)
    assert [messages(each) for each in seen] == [["It waits.", PULLING.sentence]] * 20


async def test_the_bar_moves_with_the_last_words(spawner: GPUSpawner):
    following = spawner.start_state.feed
    following.publish([WAITING], percent=10)
    page = spawner.progress()
    words = (await anext(page))["html_message"]
    following.publish([], percent=17)
    moved = await anext(page)
    assert without_status(moved) == {"progress": 17, "message": "It waits.", "html_message": words}
    await page.aclose()


@needs_patience
async def test_every_event_has_a_message(spawner: GPUSpawner, clock: Clock):
    following = ProgressFeed(clock=clock)
    following.begin()
    page = asyncio.create_task(all_of(stream_progress(spawner, following)))
    for percent in range(0, 100, 3):
        reports = {30: [WAITING], 60: [PULLING]}.get(percent, [])
        following.publish(reports, percent=percent)
        clock.now += 10
        await asyncio.sleep(0.001)
    following.close()
    events = await page
    assert ([event for event in events if not event.get("message")], len(events) > 10) == ([], True)


@needs_patience
async def test_a_sites_words_of_patience_are_said_again_and_again(spawner: GPUSpawner, clock: Clock):
    spawner.slow_spawn_message, spawner.slow_spawn_message_threshold = "{seconds} s.", 60
    spawner.slow_spawn_message_frequency = 5
    following = ProgressFeed(clock=clock)
    following.begin()
    following.publish([WAITING], percent=10)
    page = stream_progress(spawner, following)
    assert (await anext(page))["message"] == "It waits."
    clock.now += 61.25
    following.publish([], percent=20)
    assert (await anext(page))["progress"] == 20
    assert (await anext(page))["message"] == "It waits. 61 s."
    clock.now += 5.25
    following.publish([], percent=21)
    assert (await anext(page))["message"] == "It waits. 66 s."
    await page.aclose()


@needs_patience
@pytest.mark.parametrize("threshold", [1, 0])
async def test_a_sites_own_words_of_patience_are_said_when_it_says(spawner: GPUSpawner, clock: Clock, threshold: int):
    spawner.slow_spawn_message = "  Coffee? {seconds} of {timeout}"
    spawner.slow_spawn_message_threshold = threshold
    following = ProgressFeed(clock=clock)
    following.begin()
    page = stream_progress(spawner, following)
    clock.now += 2.25
    if threshold:
        assert (await anext(page))["message"] == "Coffee? 2 of 60"
    else:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await anext(page)
    await page.aclose()


class Formatter:
    def __init__(self, parent: Any = None) -> None: ...

    def format_event(self, event: dict[str, Any]) -> str:
        return f"{event['type']}: {event['message']} of {event['involvedObject']}"


class Newer(GPUSpawner):
    """Has what newer KubeSpawners have."""

    event_formatter_class = Type(object)
    decorate_progress_message = AnyTrait()


def newer(spawner: GPUSpawner, **traits: Any) -> Any:
    """Return the same server with a newer spawner."""
    made = Newer(hub=spawner.hub, user=spawner.user, config=spawner.config, oauth_client_id="x", api_token="x")
    made.orm_spawner = SimpleNamespace(name="lab", server=None)
    for name, value in traits.items():
        setattr(made, name, value)
    made.start_state.feed.publish([WAITING, PULLING], percent=50)
    made.start_state.feed.close()
    return made


async def test_a_sites_formatter_words_an_event(spawner: GPUSpawner):
    events = await all_of(newer(spawner, event_formatter_class=Formatter).progress())
    assert messages(events) == ["It waits.", "Normal: Pulling image of {}"]
    assert events[1]["html_message"].startswith("Normal: Pulling image of {}<")


async def test_a_sites_hook_has_the_last_word(spawner: GPUSpawner):
    def hook(_: Any, event: dict[str, Any], text: str) -> dict[str, str]:
        return {"html_message": f"<b>{event['reason']}</b>", "message": text.upper()}

    (_, event) = await all_of(newer(spawner, decorate_progress_message=hook).progress())
    assert (event["message"], event["html_message"]) == ("THE IMAGE <LAB> IS LOADED.", "<b>Pulling</b>")


async def test_a_hook_that_fails_takes_nothing_away(spawner: GPUSpawner):
    def hook(*_: Any) -> None:
        raise ZeroDivisionError

    events = await all_of(newer(spawner, decorate_progress_message=hook).progress())
    assert messages(events) == ["It waits.", PULLING.sentence]


QUEUED = Report(
    stage=Stage.WAITING,
    sentence="Waiting for 1 × A100: all are in use. You're next. Gives up in 4 min.",
    percent=10,
    detail="All are in use.",
    place="You're next.",
    is_alarm=True,
    since_s=30,
)
LESS = Alternative("1 × T4", "/hub/spawn/ada?fill-gpu=t4")


def is_now(seconds: float) -> bool:
    return abs(datetime.now(UTC).timestamp() - seconds) < 5


async def test_our_own_page_gets_the_place_the_times_and_no_time_in_a_sentence(spawner: GPUSpawner, clock: Clock):
    following = ProgressFeed(clock=clock)
    following.begin()
    clock.now += 30
    following.publish([QUEUED], percent=10)
    page = stream_progress(spawner, following)
    status = (await anext(page))[PAGE_MEMBER]
    assert is_now(status.pop("at"))
    assert status == {
        "stage": "waiting",
        "detail": "All are in use.",
        "place": "You're next.",
        "is_alarm": True,
        "elapsed_s": 30.0,
        "limit_s": 60.0,
        "alternatives": [],
    }
    await page.aclose()


async def test_a_page_that_comes_late_gets_the_time_of_each_message(spawner: GPUSpawner, clock: Clock):
    following = ProgressFeed(clock=clock)
    following.begin()
    clock.now += 30
    following.publish([QUEUED], percent=10)
    clock.now += 100
    page = stream_progress(spawner, following)
    status = (await anext(page))[PAGE_MEMBER]
    assert (status["elapsed_s"], is_now(status["at"] + 100)) == (130.0, True)
    await page.aclose()


async def test_other_choices_reach_an_open_page_once(spawner: GPUSpawner):
    following = spawner.start_state.feed
    following.publish([QUEUED], percent=10)
    page = spawner.progress()
    await anext(page)
    following.suggest((LESS,))
    following.suggest((LESS,))
    event = await anext(page)
    assert event[PAGE_MEMBER]["alternatives"] == [["1 × T4", "/hub/spawn/ada?fill-gpu=t4"]]
    assert event["message"] == QUEUED.sentence
    following.suggest(())
    assert (await anext(page))[PAGE_MEMBER]["alternatives"] == []
    following.close()
    assert await all_of(page) == []


@needs_patience
async def test_our_own_page_gets_a_sites_words_of_patience(spawner: GPUSpawner, clock: Clock):
    spawner.slow_spawn_message = "Coffee?"
    following = ProgressFeed(clock=clock)
    following.begin()
    following.publish([QUEUED], percent=10)
    page = stream_progress(spawner, following)
    await anext(page)
    clock.now += 61
    following.publish([], percent=11)
    status = (await anext(page))[PAGE_MEMBER]
    assert (status["detail"], status["elapsed_s"], status["note"]) == ("All are in use.", 61.0, "Coffee?")
    await page.aclose()


async def test_our_own_page_says_an_event_in_a_sites_words(spawner: GPUSpawner):
    events = await all_of(newer(spawner, event_formatter_class=Formatter).progress())
    assert [event[PAGE_MEMBER]["detail"] for event in events] == ["It waits.", "Normal: Pulling image of {}"]
