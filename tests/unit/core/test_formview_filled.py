from __future__ import annotations

from gpuspawner.core.formview_filled import fill
from gpuspawner.core.selection import validate
from tests.unit.core.test_formview import CATALOGUE, DEFAULTS


def test_what_is_typed_is_shown_as_it_was_typed_and_wins_over_what_was_saved():
    typed = {**DEFAULTS, "image": "plain", "cpu": " 64 cores", "memory": "<b>", "gpu": "a100-80gb", "gpu_count": "007"}
    typed |= {"run_time": "for ever", "shared_memory": "all", "priority": "first"}
    filled = fill(CATALOGUE, options={"image": "gone", "cpu": 4}, typed=typed)
    assert (filled.values, filled.notices) == (typed, {})


def test_a_field_that_was_not_sent_back_keeps_its_saved_value():
    filled = fill(CATALOGUE, options={"cpu": 4}, typed={"memory": "16"})
    assert filled.values == {**DEFAULTS, "cpu": "4", "memory": "16"}


def test_a_count_that_was_not_sent_does_not_stay_with_another_gpu_type():
    saved = {"gpu": "a100-80gb", "gpu_count": 3}
    assert fill(CATALOGUE, options=saved, typed={"gpu": ""}).values["gpu_count"] == ""
    assert fill(CATALOGUE, options=saved, typed={"gpu": "a100-80gb"}).values["gpu_count"] == "3"


def test_a_preset_in_a_link_fills_in_what_the_link_does_not_name():
    filled = fill(CATALOGUE, options={"cpu": 4}, typed={"preset": "train", "memory": "x"})
    changed = {"cpu": "8", "memory": "x", "gpu": "a100-80gb", "gpu_count": "2"}
    assert filled.values == {**DEFAULTS, **changed}


def test_a_reference_in_a_link_takes_the_place_of_the_image_that_stands_there():
    values = fill(CATALOGUE, typed={"preset": "small", "custom_image": "python"}).values
    assert (values["image"], values["custom_image"], values["cpu"]) == ("", "python", "1")


def test_the_selection_is_what_stands_in_the_fields():
    typed = {"image": "plain", "cpu": "1", "memory": "512M", "gpu": "mi210", "gpu_count": "", "run_time": "8"}
    assert fill(CATALOGUE).selection == validate({}, CATALOGUE)
    assert fill(CATALOGUE, options={"cpu": 4}).selection == validate({"cpu": 4}, CATALOGUE)
    wanted = validate({"image": "plain", "cpu": 1, "memory": "512M", "gpu": "mi210"}, CATALOGUE)
    assert fill(CATALOGUE, options={"cpu": 4}, typed=typed).selection == wanted
    assert fill(CATALOGUE, typed={"cpu": "lots"}).selection is None
