from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from gpuspawner.core.catalog.policy_model import ANY, Access, AmountRange, GPUTypeRule, Person, Policy, Rule
from gpuspawner.core.form.fields import FilledFields, fill_fields, try_validate
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.request.options import parse_query
from gpuspawner.core.request.selection import validate
from tests.unit.core.form.test_build import CATALOG, DEFAULTS
from tests.unit.core.policies import GIB, HOUR_S, allowed, server


def test_typed_text_is_shown_as_it_was_typed_and_wins_over_saved_options():
    typed = {**DEFAULTS, "image": "plain", "cpu": " 64 cores", "memory": "<b>", "gpu": "a100-80gb", "gpu_count": "007"}
    typed |= {"run_time": "for ever", "shared_memory": "all", "priority": "first"}
    filled = fill_fields(CATALOG, options={"image": "gone", "cpu": 4}, typed=typed)
    assert (filled.values, filled.notices) == (typed, {})


def test_a_field_that_was_not_sent_back_keeps_its_saved_value():
    filled = fill_fields(CATALOG, options={"cpu": 4}, typed={"memory": "16"})
    assert filled.values == {**DEFAULTS, "cpu": "4", "memory": "16"}


def test_a_count_that_was_not_sent_does_not_stay_with_another_gpu_type():
    saved = {"gpu": "a100-80gb", "gpu_count": 3}
    assert fill_fields(CATALOG, options=saved, typed={"gpu": ""}).values["gpu_count"] == ""
    assert fill_fields(CATALOG, options=saved, typed={"gpu": "a100-80gb"}).values["gpu_count"] == "3"


LINKED = {
    "preset": (None, "small", "train"),
    "image": (None, "plain", "torch"),
    "cpu": (None, "4", "3000m"),
    "gpu": (None, "", "a100-80gb", "mi210"),
    "gpu_count": (None, "2"),
    "run_time": (None, "1h"),
}


def test_a_link_fills_in_what_the_same_options_start():
    links = [
        {name: text for name, text in zip(LINKED, texts, strict=True) if text is not None}
        for texts in product(*LINKED.values())
    ]
    saved = {"v": 1, "image": "plain", "gpu": "mi210", "cpu": 2, "run_time": "2h"}
    started = [try_validate(parse_query({name: [text] for name, text in link.items()}), CATALOG) for link in links]
    filled = [fill_fields(CATALOG, options=saved, typed=link, is_link=True).selection for link in links]
    valid = [place for place, selection in enumerate(started) if selection is not None]
    assert len(valid) > len(links) / 4
    assert [filled[place] for place in valid] == [started[place] for place in valid]


def test_a_run_time_that_a_link_leaves_out_is_one_that_its_gpu_may_have():
    rule = Rule(gpus={"a100": GPUTypeRule(max_runtime_s=4 * HOUR_S), ANY: GPUTypeRule()})
    filled = filled_for(rule, typed={"gpu": "a100"}, is_link=True)
    assert (filled.values["run_time"], filled.selection is not None) == ("4h", True)


def test_a_reference_in_a_link_takes_the_place_of_the_image_that_stands_there():
    values = fill_fields(CATALOG, typed={"preset": "small", "custom_image": "python"}, is_link=True).values
    assert (values["image"], values["custom_image"], values["cpu"]) == ("", "python", "1")


def test_the_selection_is_what_stands_in_the_fields():
    typed = {"image": "plain", "cpu": "1", "memory": "512M", "gpu": "mi210", "gpu_count": "", "run_time": "8"}
    assert fill_fields(replace(CATALOG, presets={})).selection == validate({}, CATALOG)
    assert fill_fields(CATALOG, options={"cpu": 4}).selection == validate({"cpu": 4}, CATALOG)
    wanted = validate({"image": "plain", "cpu": 1, "memory": "512M", "gpu": "mi210"}, CATALOG)
    assert fill_fields(CATALOG, options={"cpu": 4}, typed=typed).selection == wanted
    assert fill_fields(CATALOG, typed={"cpu": "lots"}).selection is None


def test_a_first_visit_is_filled_in_with_the_first_preset():
    filled = fill_fields(CATALOG)
    assert (filled.selection, filled.is_fresh) == (validate(CATALOG.presets["train"].options, CATALOG), True)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"options": {"cpu": 4}}, id="an earlier choice"),
        pytest.param({"typed": {"cpu": "4"}}, id="a link"),
    ],
)
def test_an_earlier_choice_is_not_replaced_by_a_preset(changes: dict[str, Any]):
    filled = fill_fields(CATALOG, **changes)
    assert (filled.values, filled.is_fresh) == ({**DEFAULTS, "cpu": "4"}, False)


@pytest.mark.parametrize(
    ("policy", "slug"),
    [
        pytest.param(Rule(gpus={}), "small", id="no GPU"),
        pytest.param(Policy(access={("preset", "train"): Access()}), "small", id="a preset for others"),
        pytest.param(Rule(cpu=AmountRange(max=500)), None, id="none of them"),
    ],
)
def test_the_first_preset_is_one_that_the_user_may_have(policy: Any, slug: str | None):
    full = replace(CATALOG, policy=policy if isinstance(policy, Policy) else Policy(default=policy))
    allowance = resolve_allowance(full, Person(name="ada"), usage=Usage())
    wanted = {} if slug is None else CATALOG.presets[slug].options
    assert fill_fields(full, allowance=allowance).selection == validate(wanted, allowance.catalog)


def filled_for(
    policy: Any, *, options: Any = None, typed: Any = None, is_link: bool = False, **more: Any
) -> FilledFields:
    allowance = allowed(policy, **more)
    return fill_fields(allowance.full_catalog, options=options, typed=typed, allowance=allowance, is_link=is_link)


LIMITED = Rule(
    images=("torch",),
    custom_images=False,
    gpus={"t4": GPUTypeRule(), "a100": GPUTypeRule(max_gpus_per_server=2, max_runtime_s=4 * HOUR_S)},
    cpu=AmountRange(max=4000),
    memory=AmountRange(max=16 * GIB),
)


@pytest.mark.parametrize(
    ("saved", "value", "notice"),
    [
        ({"image": "r"}, "torch", "You don't have access to the image R. Torch is selected."),
        ({"custom_image": "quay.io/x:1"}, "", "You may only use images from the list. Torch is selected."),
        ({"gpu": "either"}, "", "You don't have access to EITHER. No GPU is selected."),
        ({"cpu": 8}, "2", "You may have 0.5 to 4 CPUs. 2 is filled in."),
        ({"memory": "32G"}, "8", "You may have 1 GiB to 16 GiB of memory. 8 GiB is filled in."),
        ({"gpu": "a100", "gpu_count": 4}, "1", "You may have 2 GPUs (A100) in one server. 1 is filled in."),
        (
            {"gpu": "a100", "run_time": "8h"},
            "4h",
            "A server like this may run for 4 hours at most, not for 8 hours. 4h is filled in.",
        ),
        ({"image": "gone"}, "torch", "The image you had last time (gone) is no longer offered: Torch is selected."),
    ],
)
def test_saved_options_beyond_the_limits_give_way_with_a_reason(saved: dict[str, Any], value: str, notice: str):
    filled = filled_for(LIMITED, options=saved)
    (name,) = filled.notices
    assert filled.notices[name] == notice
    assert filled.values["custom_image" if "custom_image" in saved else name] == value
    assert filled.selection is not None


def test_a_gpu_that_is_in_use_elsewhere_gives_way_until_it_is_free():
    saved = {"gpu": "t4", "gpu_count": 2}
    rule = Rule(max_gpus=2)
    assert filled_for(rule, options=saved).values["gpu"] == "t4"
    filled = filled_for(rule, options=saved, servers=[server("a100", 2)])
    reason = "You may have 2 GPUs at a time. 2 are in use by your server other. Stop it first. No GPU is selected."
    assert (filled.values["gpu"], filled.notices) == ("", {"gpu": reason})


def test_a_run_time_that_the_user_did_not_pick_is_shortened_without_a_word():
    rule = Rule(gpus={"a100": GPUTypeRule(max_runtime_s=4 * HOUR_S), ANY: GPUTypeRule()})
    filled = filled_for(rule, options={"gpu": "a100"})
    assert (filled.values["run_time"], filled.notices) == ("4h", {})
    assert filled_for(rule, options={"gpu": "t4"}).values["run_time"] == "8h"
    assert filled_for(rule, options={"gpu": "a100"}, run_time=None).values["run_time"] == ""


def test_where_nothing_may_be_started_no_choice_stands_for_a_selection():
    policy = Policy(groups={"ml": Rule()})
    filled = filled_for(policy, options={"gpu": "a100"}, groups=None)
    assert (filled.values["gpu"], filled.notices, filled.selection) == ("a100", {}, None)
    assert filled_for(policy, options={"gpu": "a100"}).selection is not None
