"""The cards of profiles in the form's view, and a form that has nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.policy_model import AmountRange, Policy, Rule
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.form.build import add_profiles, build_view_without_fields
from gpuspawner.core.form.views import PolicyView, ProfileView
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.field_definitions import FORM_FIELDS
from tests.unit.core.form.test_build import CATALOG, INVENTORY
from tests.unit.core.policies import allowed, server
from tests.unit.islands import build_view, faults, island_of

LAB, BIG = (ProfileView(slug=slug, display_name=slug.title()) for slug in ("lab", "big"))
VIEW = build_view(CATALOG, INVENTORY, typed={"cpu": "x"})


def test_cards_of_profiles_stand_beside_the_fields():
    view = add_profiles(VIEW, (LAB, BIG), problem="They could not be loaded.")
    assert view == replace(VIEW, profiles=(LAB, BIG), profiles_problem="They could not be loaded.")


def test_why_a_profile_did_not_start_is_an_error_of_the_form():
    wrong = replace(VIEW, errors={"cpu": "Odd."})
    refused = replace(BIG, error="Too much.")
    assert add_profiles(wrong, (LAB, refused), problem="").errors == {"cpu": "Odd.", "profile": "Too much."}
    assert add_profiles(wrong, (LAB, BIG), problem="").errors == {"cpu": "Odd."}


def without_fields(allowance: Allowance, inventory: Inventory = INVENTORY) -> Any:
    view = build_view_without_fields(inventory, allowance=allowance)
    assert faults(island_of(view)) == []
    return view


def test_a_form_without_fields_has_no_field_and_offers_nothing_for_one():
    view = without_fields(allowed())
    assert not view.has_fields
    assert (view.images, view.vendors, view.presets, view.choices) == ((), (), (), ())
    assert (view.cpu, view.memory, view.run_time, view.shared_memory, view.custom_image) == (None,) * 5
    assert (view.values, view.policy, view.verdict) == (dict.fromkeys(FORM_FIELDS, ""), None, None)


@pytest.mark.parametrize(
    ("allowance", "expected"),
    [
        pytest.param(
            allowed(Rule(max_gpus=4), servers=[server()]), PolicyView(in_use="1 of 4 GPUs in use by you"), id="limits"
        ),
        pytest.param(
            allowed(left={"pods": 0}),
            PolicyView(blocked="The cluster's quota leaves no room for one more server."),
            id="nothing may be started",
        ),
        # Profiles may have other images, and more CPUs, than those that the fields would offer.
        pytest.param(allowed(Rule(images=("gone",))), PolicyView(), id="no image"),
        pytest.param(allowed(Policy(default=Rule(cpu=AmountRange(min=32_000)))), PolicyView(), id="no amount"),
    ],
)
def test_a_form_without_fields_says_what_its_user_may_have(allowance: Allowance, expected: PolicyView):
    assert without_fields(allowance).policy == expected
