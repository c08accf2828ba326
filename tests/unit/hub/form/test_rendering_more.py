"""The rarely used fields under "More", which is open where a field was changed or is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.form.views import NumberView
from tests.unit.hub.form.test_rendering import one, page
from tests.unit.hub.views import MORE, VIEW, WRONG


def test_the_rarer_fields_are_behind_a_door_of_their_own_after_the_images():
    soup = page(MORE)
    assert [each["id"] for each in soup.select("details")] == ["gpuspawner-custom", "gpuspawner-more"]
    door = one(soup, "#gpuspawner-custom > details")
    assert [each.text for each in door.select("summary > *")] == ["More", "run time, shared memory, priority"]
    assert [each["name"] for each in door.select("input")] == ["run_time", "shared_memory", "priority", "priority"]
    assert [each["id"] for each in door.find_previous_siblings("fieldset")][:1] == ["gpuspawner-images"]
    assert one(page(replace(MORE, presets=())), "details")["id"] == "gpuspawner-more"


def test_a_run_time_is_written_with_its_unit_and_says_what_it_means():
    soup = page(MORE)
    field = one(soup, "#gpuspawner-run_time")
    assert (field["value"], field.has_attr("required")) == ("8h", True)
    assert field.find_next_siblings(class_="gs-unit") == []
    assert " ".join(one(soup, "#gpuspawner-run_time-help").text.split()) == (
        "30m to 2d, in steps of 30m. Your server is then stopped; files in your home directory stay. "
        "A number alone means hours."
    )


def test_memory_without_a_limit_may_be_left_empty():
    memory = NumberView(min="1", max="64", step="1", default="8", is_optional=True)
    soup = page(replace(VIEW, memory=memory, values={**VIEW.values, "memory": ""}))
    field = one(soup, "#gpuspawner-memory")
    assert (field["value"], field.has_attr("required")) == ("", False)
    assert one(soup, "#gpuspawner-cpu").has_attr("required")
    assert " ".join(one(soup, "#gpuspawner-memory-help").text.split()) == (
        "1 to 64 GiB, in steps of 1. You can also write 8G, 8GiB or 8192M. Leave empty for no limit."
    )


def test_shared_memory_may_be_left_empty():
    soup = page(MORE)
    field = one(soup, "#gpuspawner-shared_memory")
    assert (field["value"], field.has_attr("required")) == ("", False)
    assert [each.text for each in field.find_next_siblings(class_="gs-unit")] == ["GiB"]
    assert " ".join(one(soup, "#gpuspawner-shared_memory-help").text.split()) == (
        "0.25 to 16 GiB, in steps of 0.25. Part of the memory, for programs that use /dev/shm. "
        "Leave empty for the GPU type's default (otherwise 64 MiB)."
    )


@pytest.mark.parametrize(
    ("kept", "name"), [("run_time", "run_time"), ("shared_memory", "shared_memory"), ("choices", "priority")]
)
def test_each_of_the_rarer_fields_may_be_offered_alone(kept: str, name: str):
    nothing: dict[str, Any] = {"run_time": None, "shared_memory": None, "choices": ()}
    soup = page(replace(MORE, **{**nothing, kept: getattr(MORE, kept)}))
    assert one(soup, "#gpuspawner-more summary .gs-text").text == name.replace("_", " ")
    assert {each["name"] for each in soup.select("#gpuspawner-more input")} == {name}
    assert "and more" in one(soup, "#gpuspawner-custom > summary").text


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, False),
        ({"values": {**MORE.values, "run_time": "4h"}}, True),
        ({"values": {**MORE.values, "shared_memory": "2"}}, True),
        ({"values": {**MORE.values, "priority": "low"}}, True),
        ({"errors": {"run_time": "Too long."}}, True),
        ({"notices": {"run_time": "It is gone."}}, True),
        ({"errors": {"cpu": "Too many."}}, False),
    ],
)
def test_the_rarer_fields_are_shown_where_there_is_something_to_see(changes: dict[str, Any], is_open: bool):
    assert one(page(replace(MORE, **changes)), "#gpuspawner-more").has_attr("open") is is_open


def test_where_none_of_the_rarer_fields_is_offered_nothing_speaks_of_them():
    assert page(VIEW).select("#gpuspawner-more") == []
    assert "more" not in one(page(VIEW), "#gpuspawner-custom > summary").text
    assert "and more" in one(page(MORE), "#gpuspawner-custom > summary").text


@pytest.mark.parametrize("name", ["run_time", "shared_memory"])
def test_the_error_of_each_links_to_its_field(name: str):
    soup = page(WRONG)
    assert f"#gpuspawner-{name}" in [each["href"] for each in soup.select("#gpuspawner-errors a")]
    field = one(soup, f"#gpuspawner-{name}")
    said = [f"gpuspawner-{name}-error", f"gpuspawner-{name}-notice"]
    assert (field["aria-invalid"], str(field["aria-describedby"]).split()[:2]) == ("true", said)
    assert soup.select("[role=note]") == []


def test_a_priority_is_picked_with_a_radio_button():
    soup = page(MORE)
    radios = soup.select("#gpuspawner-priorities input[type=radio][name=priority]")
    assert [(radio["value"], radio.has_attr("checked")) for radio in radios] == [("normal", True), ("low", False)]
    rows = [
        [" ".join(part.text.split()) for part in row.select("b, small")]
        for row in soup.select("#gpuspawner-priorities label")
    ]
    assert rows == [["Normal", ""], ["Low", "It may be stopped."]]


def test_the_error_of_a_priority_links_to_its_first_button():
    soup = page(WRONG)
    assert "#gpuspawner-priority-1" in [each["href"] for each in soup.select("#gpuspawner-errors a")]
    for radio in soup.select("input[name=priority]"):
        said = ["gpuspawner-priority-error", "gpuspawner-priority-notice"]
        assert (radio["aria-invalid"], str(radio["aria-describedby"]).split()) == ("true", said)
