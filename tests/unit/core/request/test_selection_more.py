"""Rarely used options: how long a server runs, and the size of its /dev/shm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Preset
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.selection import (
    build_options,
    summarize_selection,
    validate,
)
from tests.unit.core.request.test_selection import CATALOG, GIB, RANKED, SHARING, TIMED, codes


@pytest.mark.parametrize(
    ("options", "run_time_s"),
    [
        ({}, 8 * 3600),
        ({"run_time": None}, 8 * 3600),
        ({"run_time": "2h30m"}, 9000),
        ({"run_time": "90 minutes"}, 5400),
        ({"preset": "short"}, 1800),
        ({"preset": "short", "run_time": "1h"}, 3600),
    ],
)
def test_a_server_runs_for_as_long_as_was_asked_at_most(options: dict[str, object], run_time_s: int):
    short = Preset(slug="short", display_name="Short", options={"run_time": "30m"})
    catalog = replace(TIMED, presets={"short": short})
    assert validate(options, catalog).run_time_s == run_time_s


@pytest.mark.parametrize(
    ("run_time", "code", "message"),
    [
        ("36h", "out_of_range", "The run time must be 15 minutes to 24 hours, not 36 hours."),
        ("0m", "out_of_range", "The run time must be 15 minutes to 24 hours, not 0 minutes."),
        (f"{'9' * 60}d", "out_of_range", f"The run time must be 15 minutes to 24 hours, not {'9' * 60} days."),
        ("20m", "off_step", "The run time must be 15 minutes to 24 hours in steps of 15 minutes, not 20 minutes."),
        ("0.01h", "off_step", "The run time must be 15 minutes to 24 hours in steps of 15 minutes, not '0.01h'."),
        (28800, "not_a_number", "The run time must be a duration with a unit, such as 30m, 8h or 2d, not 28800."),
        ("", "not_a_number", "The run time must be a duration with a unit, such as 30m, 8h or 2d, not ''."),
        (["8h"], "wrong_type", "The run time must be a number or a text, not a list."),
        ("h" * 201, "too_long", "The run time is longer than 200 characters."),
    ],
)
def test_a_run_time_that_is_not_offered_is_refused_with_what_is(run_time: object, code: str, message: str):
    with pytest.raises(SelectionError) as caught:
        validate({"run_time": run_time}, TIMED)
    assert [(each.field, each.code, each.message) for each in caught.value.problems] == [("run_time", code, message)]


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, None),
        ({"shared_memory": None}, None),
        ({"shared_memory": ""}, None),
        ({"shared_memory": "2G"}, 2 * GIB),
        ({"shared_memory": 2 * GIB}, 2 * GIB),
        ({"shared_memory": "8 GiB"}, 8 * GIB),
        ({"preset": "shared"}, 4 * GIB),
        ({"preset": "shared", "shared_memory": "1G", "memory": "1G"}, GIB),
    ],
)
def test_shared_memory_is_what_was_asked_or_left_to_others(options: dict[str, object], size: int | None):
    shared = Preset(slug="shared", display_name="Shared", options={"shared_memory": "4G"})
    assert validate(options, replace(SHARING, presets={"shared": shared})).shared_memory_bytes == size


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            {"shared_memory": "9G"},
            "out_of_range",
            "Shared memory is a part of the memory: it must be at most 8 GiB, not 9 GiB.",
        ),
        (
            {"memory": "2G", "preset": "shared"},
            "out_of_range",
            "Shared memory is a part of the memory: it must be at most 2 GiB, not 4 GiB.",
        ),
        (
            {"memory": "256G", "shared_memory": "65G"},
            "out_of_range",
            "Shared memory must be 1 GiB to 64 GiB, not 65 GiB.",
        ),
        ({"shared_memory": "65G"}, "out_of_range", "Shared memory must be 1 GiB to 64 GiB, not 65 GiB."),
        ({"shared_memory": 0}, "out_of_range", "Shared memory must be 1 GiB to 64 GiB, not 0 B."),
        (
            {"shared_memory": "1.5G"},
            "off_step",
            "Shared memory must be 1 GiB to 64 GiB in steps of 1 GiB, not 1.5 GiB.",
        ),
        (
            {"shared_memory": "2"},
            "not_a_number",
            "Shared memory must be an amount of memory with a unit, such as 512M or 16G, not '2'.",
        ),
        ({"shared_memory": ["2G"]}, "wrong_type", "Shared memory must be a number or a text, not a list."),
        ({"shared_memory": False}, "wrong_type", "Shared memory must be a number or a text, not false."),
    ],
)
def test_shared_memory_that_cannot_be_is_refused_with_what_can(options: dict[str, object], code: str, message: str):
    shared = Preset(slug="shared", display_name="Shared", options={"shared_memory": "4G"})
    with pytest.raises(SelectionError) as caught:
        validate(options, replace(SHARING, presets={"shared": shared}))
    found = [(each.field, each.code, each.message) for each in caught.value.problems]
    assert found == [("shared_memory", code, message)]


def test_beside_an_amount_of_memory_that_is_wrong_nothing_is_said_of_its_part():
    assert codes({"memory": "x", "shared_memory": "64G"}, SHARING) == {"memory": "not_a_number"}
    assert codes({"memory": "0.5G", "shared_memory": "64G"}, SHARING) == {"memory": "out_of_range"}


def test_where_the_memory_is_left_to_the_spawner_its_part_is_bounded_alone():
    catalog = replace(SHARING, memory=None)
    assert validate({"shared_memory": "64G"}, catalog).shared_memory_bytes == 64 * GIB


@pytest.mark.parametrize("nothing", [None, ""])
def test_where_shared_memory_is_left_to_the_gpu_types_none_can_be_chosen(nothing: object):
    assert validate({"shared_memory": nothing}, CATALOG).shared_memory_bytes is None
    assert codes({"shared_memory": "2G"}) == {"shared_memory": "unknown_field"}


@pytest.mark.parametrize(
    ("options", "priority"),
    [
        ({}, "normal"),
        ({"priority": None}, "normal"),
        ({"priority": ""}, "normal"),
        ({"priority": "low"}, "low"),
        ({"preset": "patient"}, "low"),
        ({"preset": "patient", "priority": "normal"}, "normal"),
    ],
)
def test_a_priority_is_the_one_that_was_picked_or_the_first(options: dict[str, object], priority: str):
    patient = Preset(slug="patient", display_name="Patient", options={"priority": "low"})
    assert validate(options, replace(RANKED, presets={"patient": patient})).choices == {"priority": priority}


@pytest.mark.parametrize(
    ("priority", "code"),
    [("high", "unknown_choice"), (100, "wrong_type"), (["low"], "wrong_type"), ("x" * 201, "too_long")],
)
def test_a_priority_that_is_not_offered_is_refused(priority: object, code: str):
    assert codes({"priority": priority}, RANKED) == {"priority": code}


def test_only_an_unusual_priority_is_in_the_summary():
    usual, low = (validate({"image": "plain", "priority": each}, RANKED) for each in ("normal", "low"))
    assert [build_options(each, RANKED)["priority"] for each in (usual, low)] == ["normal", "low"]
    assert summarize_selection(low, RANKED) == f"{summarize_selection(usual, RANKED)} · priority Low"
