"""The fields that few people change: behind a door of their own, which is open where there is something to see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.hub.test_rendering import one, page
from tests.unit.hub.views import MORE, VIEW, WRONG


def test_the_rarer_fields_are_behind_a_door_of_their_own_after_the_gpus():
    soup = page(MORE)
    assert [each["id"] for each in soup.select("details")] == ["gpuspawner-custom", "gpuspawner-more"]
    door = one(soup, "#gpuspawner-custom > details")
    assert [each.text for each in door.select("summary > *")] == ["More", "run time"]
    assert [each["name"] for each in door.select("input")] == ["run_time"]
    assert [each["id"] for each in door.find_previous_siblings("fieldset")][:1] == ["gpuspawner-gpus"]
    assert one(page(replace(MORE, presets=())), "details")["id"] == "gpuspawner-more"


def test_a_run_time_is_written_with_its_unit_and_says_what_it_means():
    soup = page(MORE)
    field = one(soup, "#gpuspawner-run_time")
    assert (field["value"], field.has_attr("required")) == ("8h", True)
    assert one(soup, "#gpuspawner-more").select(".gs-unit") == []
    assert " ".join(one(soup, "#gpuspawner-run_time-help").text.split()) == (
        "30m to 2d, in steps of 30m. Your server is then stopped; files in your home directory stay. "
        "A number alone means hours."
    )


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, False),
        ({"values": {**MORE.values, "run_time": "4h"}}, True),
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


def test_what_is_wrong_with_a_run_time_leads_to_its_field():
    soup = page(WRONG)
    assert one(soup, "#gpuspawner-errors a")["href"] == "#gpuspawner-run_time"
    field = one(soup, "#gpuspawner-run_time")
    said = ["gpuspawner-run_time-error", "gpuspawner-run_time-notice"]
    assert (field["aria-invalid"], str(field["aria-describedby"]).split()[:2]) == ("true", said)
    assert soup.select("[role=note]") == []
