from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Image
from gpuspawner.core.catalog.policy_model import ANY, UNLIMITED, Access, GPUTypeRule, Policy, Rule
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.form.build import LiveState
from gpuspawner.core.form.views import (
    FormView,
    GPUTypeView,
    MisfitView,
    NumberView,
    PolicyView,
    TimeView,
    VerdictView,
)
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.core.policies import A100, CATALOG, GIB, HOUR_S, T4, allowed, pool, server
from tests.unit.islands import build_view, island_of

FREE = Availability(total=8, healthy=8, free=8, largest=4, waiting=0)
MINE = {"gpus": {"t4": GPUTypeRule()}}
THEIRS = "You don't have access to A100."


def view_for(allowance: Allowance, **asked: Any) -> FormView:
    counts = (FREE,) * len(allowance.full_catalog.gpus)
    live = asked.pop("live", LiveState(availabilities=counts))
    return build_view(allowance.full_catalog, Inventory(), allowance=allowance, live=live, **asked)


def types(view: FormView) -> dict[str, GPUTypeView]:
    return {gpu.slug: gpu for vendor in view.vendors for gpu in vendor.types}


def told(view: FormView) -> dict[str, tuple[str, str]]:
    return {slug: (gpu.state.value, gpu.reason) for slug, gpu in types(view).items()}


def policy_of(view: FormView) -> PolicyView:
    assert view.policy is not None
    return view.policy


def test_without_limits_the_form_is_the_same_as_ever():
    without = build_view(CATALOG, Inventory(), live=LiveState(availabilities=(FREE,) * 3))
    assert view_for(allowed()) == without
    assert (without.policy, island_of(without)["policy"]) == (None, None)


def test_a_type_that_is_not_for_this_person_is_denied_with_its_reason():
    view = view_for(allowed(Rule(**MINE)))
    assert told(view) == {
        "t4": ("free", ""),
        "a100": ("denied", THEIRS),
        "either": ("denied", "You don't have access to EITHER."),
    }
    rows = {gpu["slug"]: (gpu["state"], gpu["reason"]) for gpu in island_of(view)["gpus"]}
    assert rows == told(view)


def test_an_image_that_is_not_for_this_person_comes_last_with_its_reason_and_stays_out_of_the_script():
    view = view_for(allowed(Rule(images=("r", "torch"))))
    assert [(image.slug, image.denied) for image in view.images] == [
        ("torch", ""),
        ("r", ""),
        ("minimal", "You don't have access to the image Minimal."),
    ]
    assert [image["slug"] for image in island_of(view)["images"]] == ["torch", "r"]
    assert view.values["image"] == "torch"


def test_an_image_of_ones_own_that_is_not_allowed_is_a_card_without_a_field():
    view = view_for(allowed(Rule(custom_images=False)))
    card = policy_of(view).custom_image
    assert (view.custom_image, card.slug, card.denied) == (None, "", "You may only use images from the list.")
    assert policy_of(view_for(allowed(Rule(custom_images=False), custom_images=None))).custom_image is None


def test_choices_denied_for_good_are_left_out_where_the_admin_says_so():
    images = {
        "torch": Image(slug="torch", display_name="Torch", image="t"),
        "cpu": Image(slug="cpu", display_name="CPU", image="c", vendors=()),
        "r": Image(slug="r", display_name="R", image="r"),
    }
    rule = Rule(images=("torch", "cpu"), custom_images=False, **MINE)
    view = view_for(allowed(Policy(default=rule, hide=True), images=images))
    assert (list(types(view)), [image.slug for image in view.images]) == (["t4"], ["torch", "cpu"])
    assert (view.custom_image, policy_of(view).custom_image) == (None, None)
    assert [preset.slug for preset in view.presets] == ["long", "plain"]
    assert view.images[1].misfits == (MisfitView(text="CPU can't be used with a GPU.", gpus=("t4",)),)


def test_types_denied_only_for_now_are_never_left_out():
    rule = Rule(max_gpus=2)
    view = view_for(allowed(Policy(default=rule, hide=True), servers=[server("a100", 2)]))
    reason = "You may have 2 GPUs at a time. 2 are in use by your server other. Stop it first."
    assert told(view) == dict.fromkeys(("t4", "a100", "either"), ("denied", reason))
    assert policy_of(view).in_use == "2 of 2 GPUs in use by you"


def test_a_quota_of_the_namespace_is_shown_where_it_is_tighter():
    view = view_for(allowed(left={"requests.nvidia.com/gpu": 2}))
    assert policy_of(view).in_use == "The cluster's quota leaves 2 GPUs for one more server."
    assert types(view)["a100"].max_count == 2
    assert policy_of(view_for(allowed(left={"requests.nvidia.com/gpu": 8}))).in_use == ""
    slice_ = replace(T4, slug="slice", resource="nvidia.com/mig-1g.5gb")
    mixed = allowed(left={"requests.nvidia.com/gpu": 2}, gpus={"t4": T4, "slice": slice_})
    assert policy_of(view_for(mixed)).in_use == ""
    none = view_for(allowed(left={"requests.nvidia.com/gpu": 0}))
    assert set(told(none).values()) == {("denied", "The cluster's quota leaves no GPU for one more server.")}


@pytest.mark.parametrize(
    ("left", "cpu", "memory"),
    [
        pytest.param({"requests.cpu": 5_000, "limits.memory": 19 * GIB}, ("10", True), ("19", True), id="both"),
        pytest.param({"limits.cpu": 16_000}, ("16", False), ("64", False), id="as much as the hub offers"),
        pytest.param({}, ("16", False), ("64", False), id="no quota of theirs"),
    ],
)
def test_the_form_knows_which_of_its_bounds_a_quota_sets(
    left: dict[str, int], cpu: tuple[str, bool], memory: tuple[str, bool]
):
    view = view_for(allowed(left=left))
    assert view.cpu is not None
    assert view.memory is not None
    assert [(each.max, each.is_left_by_quota) for each in (view.cpu, view.memory)] == [cpu, memory]


def test_members_see_pools_as_far_as_they_may_have_their_gpus():
    policy = Policy(pools={"physics": pool(), "astro": pool("astro", groups=["astro"])})
    policy = replace(policy, pools={**policy.pools, "free": pool("free", most=UNLIMITED)})
    holding = [server("a100", 1, owner="bea", pools=("physics",))]
    member = view_for(allowed(policy, groups=["Physics"], servers=holding))
    assert policy_of(member).in_use == "Physics: 4 GPUs for all members together. 1 is in use."
    assert policy_of(view_for(allowed(policy, servers=holding))).in_use == ""
    barred = replace(policy, default=Rule(**MINE))
    assert policy_of(view_for(allowed(barred, groups=["physics"]))).in_use == ""
    assert policy_of(view_for(allowed(policy, groups=["physics"], known=False))).in_use == ""


def test_each_type_says_how_long_a_server_with_it_runs():
    rule = Rule(gpus={"a100": GPUTypeRule(max_runtime_s=4 * HOUR_S), ANY: GPUTypeRule()})
    view = view_for(allowed(rule))
    narrower = NumberView(min="15m", max="4h", step="15m", default="4h")
    assert {slug: gpu.longest_text for slug, gpu in types(view).items()} == {
        "t4": "",
        "a100": "up to 4 hours",
        "either": "up to 4 hours",
    }
    assert policy_of(view).times == tuple(
        TimeView(slug=slug, longest="4h", run_time=narrower) for slug in ("a100", "either")
    )
    assert policy_of(view).ending == ""


@pytest.mark.parametrize(
    ("gpu", "ending"),
    [
        ("a100", "Your server is stopped after 4 hours at the latest."),
        ("t4", "Your server is stopped after 10 hours at the latest."),
        ("", "Your server is stopped after 10 hours at the latest."),
    ],
)
def test_without_a_field_for_the_run_time_the_end_is_shown(gpu: str, ending: str):
    gpus = {"t4": T4, "a100": replace(A100, max_runtime_s=4 * HOUR_S)}
    allowance = allowed(gpus=gpus, run_time=None, max_runtime_s=10 * HOUR_S)
    view = view_for(allowance, typed={"gpu": gpu})
    assert policy_of(view).ending == ending
    assert policy_of(view).times == (
        TimeView(slug="", longest="10h"),
        TimeView(slug="t4", longest="10h"),
        TimeView(slug="a100", longest="4h"),
    )
    assert [each.longest_text for each in types(view).values()] == ["", "up to 4 hours"]


def test_a_preset_out_of_reach_says_why_and_the_others_can_start():
    allowance = allowed(Rule(max_gpus=3))
    verdicts = {"plain": Verdict(outcome=Outcome.NOW), "big": Verdict(outcome=Outcome.NOW)}
    view = view_for(allowance, live=LiveState(availabilities=(FREE,) * 3, presets=verdicts))
    outlooks = {each.slug: each.outlook and (each.outlook.outcome, each.outlook.sentence) for each in view.presets}
    assert outlooks == {
        "big": ("never", "You may have 3 GPUs at a time."),
        "long": None,
        "plain": ("now", "Starts now"),
    }
    assert [each.slug for each in view.presets if each.is_denied] == ["big"]
    assert island_of(view)["policy"]["presets"] == ["big"]


def test_a_preset_for_others_says_so_or_is_hidden():
    policy = Policy(access={("preset", "plain"): Access(users=frozenset({"bob"}))})
    shown = {preset.slug: preset for preset in view_for(allowed(policy)).presets}
    reason = VerdictView(outcome="never", sentence="You don't have access to the preset plain.")
    assert (shown["plain"].is_denied, shown["plain"].outlook) == (True, reason)
    hidden = view_for(allowed(replace(policy, hide=True)))
    assert [preset.slug for preset in hidden.presets] == ["big", "long"]


def test_where_nothing_may_be_started_it_is_said_once_and_nothing_is_lost():
    unknown = allowed(Policy(groups={"ml": Rule()}), groups=None)
    saved = {"image": "r", "gpu": "a100", "gpu_count": 2, "cpu": 4}
    view = view_for(unknown, options=saved)
    reason = policy_of(view).blocked
    assert reason.startswith("What you may start depends on your groups")
    assert (view.verdict.outcome, view.verdict.sentence, view.notices) == ("never", reason, {})
    assert [view.values[name] for name in ("image", "gpu", "gpu_count", "cpu")] == ["r", "a100", "2", "4"]
    assert set(told(view).values()) == {("free", "")}
    assert [(each.is_denied, each.outlook) for each in view.presets] == [(True, None)] * 3
    assert [image.denied for image in view.images] == ["", "", ""]
