"""Other choices that are suggested to a user whose start failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from jupyterhub.utils import format_exception

from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.start import alternatives
from gpuspawner.hub.start.alternatives import AlternativesFinder, add_alternatives
from gpuspawner.hub.start.observer import WorkThrottle
from gpuspawner.hub.start.stream import ProgressFeed
from tests.unit.clocks import Clock
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import GPU_OPTIONS, begin
from tests.unit.kube.watch_server import NODES, WatchServer

IMAGES = {
    f"image-{n}": {"display_name": f"Image <{n}>", "image": f"registry.example/{n}:1", "vendors": ["nvidia"]}
    for n in range(5)
}


async def refused(spawner: Any, reason: str, options: dict[str, Any] = GPU_OPTIONS) -> RefusedStart:
    await begin(spawner, options)
    return await add_alternatives(RefusedStart("It <failed>.", reason=reason, status_code=409), spawner)


async def test_the_nearest_choices_that_start_now_are_links(make_spawner: MakeSpawner):
    error = await refused(make_spawner(), "rejected_by_node", {**GPU_OPTIONS, "gpu_count": 4})
    text, html = format_exception(error)
    assert (error.reason, error.status_code) == ("rejected_by_node", 409)
    assert text.startswith("It <failed>. Try 3 × A100")
    assert html.startswith("It &lt;failed&gt;.<br>You could choose this instead:<br><a href=")
    assert html.count("<a href=") <= 3


async def test_an_image_that_is_not_there_is_replaced_by_three_others_at_most(make_spawner: MakeSpawner):
    settings = {**SETTINGS, "images": IMAGES}
    options = {**GPU_OPTIONS, "image": "image-1"}
    text, html = format_exception(await refused(make_spawner(settings=settings), "image_not_found", options))
    assert text.endswith("Try Image <0>, Image <2> or Image <3> instead.")
    assert "Image &lt;0&gt;</a>" in html
    assert "fill-gpu=a100&amp;" in html


async def test_an_image_that_was_named_is_replaced_by_those_on_offer(make_spawner: MakeSpawner):
    settings = {**SETTINGS, "custom_images": {"allowed": True}}
    options = {"custom_image": "acme/own:1", "gpu": "a100", "gpu_count": 1}
    text, _ = format_exception(await refused(make_spawner(settings=settings), "image_pull_denied", options))
    assert text.endswith("Try PyTorch or Minimal instead.")


async def test_too_little_memory_is_doubled(make_spawner: MakeSpawner):
    text, html = format_exception(await refused(make_spawner(), "out_of_memory"))
    assert text.endswith("Try 32 GiB instead.")
    assert "fill-memory=32&amp;" in html


@pytest.mark.parametrize(("memory", "advice"), [("40G", " Try 64 GiB instead."), ("64G", "")])
async def test_no_more_memory_is_named_than_is_offered(make_spawner: MakeSpawner, memory: str, advice: str):
    error = await refused(make_spawner(), "out_of_memory", {**GPU_OPTIONS, "memory": memory})
    assert format_exception(error)[0] == f"It <failed>.{advice}"


@pytest.mark.parametrize("reason", ["crashed", "container_config", "hook_failed", "refused_by_admission"])
async def test_where_no_choice_would_help_none_is_named(make_spawner: MakeSpawner, reason: str):
    assert format_exception(await refused(make_spawner(), reason)) == ("It <failed>.", None)


async def test_where_nothing_is_known_to_fit_nothing_is_named(make_spawner: MakeSpawner, server: WatchServer):
    server.status[NODES] = 403
    assert format_exception(await refused(make_spawner(), "evicted")) == ("It <failed>.", None)


async def test_a_choice_that_is_no_longer_offered_has_none_beside_it(make_spawner: MakeSpawner):
    spawner = make_spawner()
    spawner.user_options = {"gpu": "gone"}
    error = await add_alternatives(RefusedStart("No.", reason="evicted", status_code=409), spawner)
    assert format_exception(error) == ("No.", None)


async def test_a_mistake_in_looking_for_others_hides_no_reason(make_spawner: MakeSpawner):
    spawner = make_spawner()

    async def broken() -> None:
        raise ZeroDivisionError

    spawner.make_offer = broken
    error = await add_alternatives(RefusedStart("No.", reason="evicted", status_code=409), spawner)
    assert format_exception(error) == ("No.", None)


async def test_where_many_starts_end_at_once_those_without_patience_get_none(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, clock: Clock
):
    turns = WorkThrottle(0.2, clock=clock)
    monkeypatch.setattr(alternatives, "_throttle", turns)
    with turns.measure():
        clock.now += 1.0
    error = await refused(make_spawner(), "evicted", {**GPU_OPTIONS, "gpu_count": 4})
    assert format_exception(error) == ("It <failed>.", None)
    clock.now += 4.1
    error = await refused(make_spawner(), "evicted", {**GPU_OPTIONS, "gpu_count": 4})
    assert "Try 3 × A100" in format_exception(error)[0]


WAITS = Report(stage=Stage.WAITING, sentence="It waits.", percent=10, lacks_room=True)


@pytest.fixture
async def waiting(make_spawner: MakeSpawner, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AlternativesFinder:
    """Return the search for other choices of a start that waits for four GPUs."""
    monkeypatch.setattr(alternatives, "_waiting_throttle", WorkThrottle(0.05, clock=clock))
    spawner = make_spawner()
    await begin(spawner, {**GPU_OPTIONS, "gpu_count": 4})
    feed = ProgressFeed(clock=clock)
    feed.begin()
    feed.publish([WAITS], percent=10)
    return AlternativesFinder(spawner, feed)


async def test_an_open_page_of_a_server_that_waits_gets_other_choices(waiting: AlternativesFinder):
    with waiting.feed.read():
        await waiting.update()
    assert [each.text.partition(" (")[0] for each in waiting.feed.alternatives][:1] == ["3 × A100"]
    assert "fill-gpu_count=3" in waiting.feed.alternatives[0].url


async def test_no_choices_are_looked_for_where_no_page_is_open(waiting: AlternativesFinder):
    await waiting.update()
    assert waiting.feed.alternatives == ()


async def test_choices_are_looked_for_four_times_a_minute(waiting: AlternativesFinder, clock: Clock):
    spawner, offers = waiting.spawner, []
    look = spawner.make_offer

    async def counted() -> Any:
        offers.append(clock.now)
        return await look()

    spawner.make_offer = counted
    began = clock.now
    with waiting.feed.read():
        for _ in range(60):
            await waiting.update()
            clock.now += 1
    assert [at - began for at in offers] == [0, 15, 30, 45]


async def test_choices_are_withdrawn_once_the_server_has_a_node(waiting: AlternativesFinder):
    with waiting.feed.read():
        await waiting.update()
        assert waiting.feed.alternatives != ()
        waiting.feed.publish([replace(WAITS, lacks_room=False)], percent=50)
        await waiting.update()
    assert waiting.feed.alternatives == ()


async def test_many_servers_that_wait_take_a_small_share_of_the_hubs_time(
    waiting: AlternativesFinder, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    turns = WorkThrottle(0.05, clock=clock)
    monkeypatch.setattr(alternatives, "_waiting_throttle", turns)
    with turns.measure():
        clock.now += 1.0
    with waiting.feed.read():
        clock.now += 18.9
        await waiting.update()
        assert waiting.feed.alternatives == ()
        clock.now += 0.2
        await waiting.update()
        assert waiting.feed.alternatives != ()
