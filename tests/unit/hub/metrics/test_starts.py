"""Each start is measured once, however it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Preset
from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.metrics.starts import SpawnMeter, begin_measuring, enter_stage, find_gpu_label, note_gpu, note_pod
from gpuspawner.hub.start.state import StartState
from tests.unit.clocks import Clock
from tests.unit.hub.counts import sample

GPU = GPUType(slug="meter", display_name="M", resource="nvidia.com/gpu", vendor="nvidia")
CATALOG = Catalog(
    images={},
    cpu=None,
    memory=None,
    gpus={"meter": GPU},
    presets={"train": Preset(slug="train", display_name="Train", options={"gpu": "meter"})},
)
BOUND = {
    "metadata": {"creationTimestamp": "2026-11-22T10:00:00Z"},
    "spec": {"nodeName": "n"},
    "status": {"conditions": [{"type": "PodScheduled", "lastTransitionTime": "2026-11-22T10:00:01Z"}]},
}


def fake_spawner(pods: dict[str, Any] | None = None) -> Any:
    reflector = SimpleNamespace(pods=pods or {})
    future = asyncio.get_running_loop().create_future()
    return SimpleNamespace(
        start_state=StartState(),
        _spawn_future=future,
        pod_reflector=reflector,
        namespace="hub",
        pod_name="jupyter-ada",
    )


async def ended(spawner: Any, error: BaseException | None) -> None:
    """End the hub's own future of a start, and let those who wait for that take notice."""
    future = spawner._spawn_future
    if error is None:
        future.set_result(None)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)
    await asyncio.wait([future])
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("error", "outcome"), [(None, "ready"), (TimeoutError(), "timeout"), (asyncio.CancelledError(), "cancelled")]
)
async def test_a_start_is_counted_once_when_the_hubs_own_future_ends(error: BaseException | None, outcome: str):
    before = sample("spawns_total", gpu="meter", outcome=outcome)
    spawner = fake_spawner()
    begin_measuring(spawner, "meter")
    begin_measuring(spawner, "meter")
    await ended(spawner, error)
    assert sample("spawns_total", gpu="meter", outcome=outcome) - before == 1


async def test_a_choice_that_the_gate_refuses_is_a_start_that_ended_with_its_code():
    before = sample("refusals_total", reason="meter_quota")
    spawner = fake_spawner()
    begin_measuring(spawner, "meter")
    await ended(spawner, RefusedStart("No.", reason="meter_quota", status_code=403))
    assert sample("spawns_total", gpu="meter", outcome="meter_quota") == 1
    assert sample("refusals_total", reason="meter_quota") - before == 1


async def test_a_pod_that_is_given_up_is_no_refusal():
    before = sample("refusals_total", reason="meter_hopeless")
    spawner = fake_spawner({"hub/jupyter-ada": {"spec": {}}})
    begin_measuring(spawner, "meter")
    note_pod(spawner)
    await ended(spawner, RefusedStart("No.", reason="meter_hopeless", status_code=409))
    assert sample("refusals_total", reason="meter_hopeless") == before


async def test_a_pod_that_was_there_and_has_gone_was_created():
    before = sample("refusals_total", reason="meter_vanished")
    failed = sample("verdicts_total", verdict="waits", outcome="failed")
    spawner = fake_spawner()
    begin_measuring(spawner, "meter")
    spawner.start_state.meter.note_verdict("waits")
    note_pod(spawner, BOUND)
    note_pod(spawner)
    await ended(spawner, RefusedStart("No.", reason="meter_vanished", status_code=409))
    assert sample("refusals_total", reason="meter_vanished") == before
    assert sample("verdicts_total", verdict="waits", outcome="failed") - failed == 1


def test_that_a_start_failed_lasts_no_time(clock: Clock):
    meter = SpawnMeter("meter", clock=clock)
    meter.enter_stage("failed")
    meter.end(None)
    assert sample("spawn_stage_duration_seconds_count", gpu="meter", stage="failed") == 0


async def test_a_start_whose_gpu_is_known_late_counts_for_that_gpu_with_all_its_stages():
    names = {
        "spawns_total": {"outcome": "ready"},
        "spawn_stage_duration_seconds_count": {"stage": "starting"},
    }
    before = {
        (name, gpu): sample(name, gpu=gpu, **labels) for name, labels in names.items() for gpu in ("meter", "early")
    }
    spawner = fake_spawner()
    begin_measuring(spawner, "early")
    note_gpu(spawner, "meter")
    enter_stage(spawner, "starting")
    await ended(spawner, None)
    counted = {(name, gpu): sample(name, gpu=gpu, **names[name]) - number for (name, gpu), number in before.items()}
    assert counted == {(name, gpu): float(gpu == "meter") for name, gpu in before}


async def test_a_spawner_without_a_start_of_the_hubs_is_not_measured():
    spawner = fake_spawner()
    spawner._spawn_future = None
    begin_measuring(spawner, "none")
    note_pod(spawner)
    note_gpu(spawner, "meter")
    enter_stage(spawner, "starting")
    assert spawner.start_state.meter is None


def test_a_stage_lasts_until_the_next_one_and_the_last_until_the_end(clock: Clock):
    meter = SpawnMeter("meter", clock=clock)
    for stage, lasted_s in (("waiting", 5), ("waiting", 7), ("pulling", 30)):
        meter.enter_stage(stage)
        clock.now += lasted_s
    meter.end(None)
    sums = [sample("spawn_stage_duration_seconds_sum", gpu="meter", stage=each) for each in ("waiting", "pulling")]
    assert sums == pytest.approx([12, 30])
    assert sample("spawn_stage_duration_seconds_count", gpu="meter", stage="waiting") == 1


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({"gpu": "meter"}, "meter"),
        ({"preset": "train"}, "meter"),
        ({"preset": "train", "gpu": ""}, "none"),
        ({}, "none"),
        (None, "none"),
        ({"gpu": "ada's own"}, "other"),
        ({"gpu": ["meter"]}, "other"),
        ({"gpu": {"a": 1}, "preset": ["x"]}, "other"),
    ],
)
def test_only_types_that_are_offered_have_a_name(options: object, label: str):
    assert find_gpu_label(options, CATALOG) == label


@pytest.mark.parametrize(
    ("options", "label"),
    [
        pytest.param(None, "meter", id="no options"),
        pytest.param({}, "meter", id="nothing chosen"),
        pytest.param({"gpu": None}, "none", id="no GPU chosen"),
        pytest.param({"preset": "plain"}, "meter", id="a preset that leaves it out"),
    ],
)
def test_a_default_gpu_counts_for_who_chooses_none(options: object, label: str):
    presets = {"plain": Preset(slug="plain", display_name="Plain", options={})}
    assert find_gpu_label(options, replace(CATALOG, default_gpus=(("meter", 1),), presets=presets)) == label
