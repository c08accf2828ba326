"""Who may choose an image, a GPU type or a preset: allowed groups and users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.policy_model import Access, AccessKey, Policy
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy.admission import admit
from gpuspawner.core.policy.allowance import Allowance
from tests.unit.core.policies import CATALOG, allowed

STAFF, ADA = Access(groups=frozenset({"staff"})), Access(users=frozenset({"ada"}))
BIG = {"preset": "big"}  # with the image torch and the type a100


def restrict(access: Mapping[AccessKey, Access], **others: Any) -> Allowance:
    return allowed(Policy(access=access), **others)


def refusal(allowance: Allowance, options: Any) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        admit(options, allowance)
    return {problem.field: problem.code for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("access", "groups", "is_admitted"),
    [
        pytest.param(None, (), True, id="open"),
        pytest.param(STAFF, (), False, id="no group"),
        pytest.param(STAFF, ("students",), False, id="another group"),
        pytest.param(STAFF, ("students", "Staff"), True, id="upper and lower case"),
        pytest.param(ADA, (), True, id="a user"),
        pytest.param(replace(STAFF, users=frozenset({"bob"})), (), False, id="another user"),
        pytest.param(replace(STAFF, users=frozenset({"ada"})), (), True, id="a user beside a group"),
        pytest.param(Access(), ("staff",), False, id="no user"),
    ],
)
@pytest.mark.parametrize(
    ("key", "denials"),
    [
        pytest.param(("preset", "big"), {"preset": "preset_not_allowed"}, id="preset"),
        pytest.param(("image", "torch"), {"image": "image_not_allowed"}, id="image"),
        pytest.param(("gpu", "a100"), {"gpu": "gpu_not_allowed"}, id="GPU type"),
    ],
)
def test_a_preset_and_what_it_consists_of_may_be_for_some_users(
    access: Access | None, groups: Iterable[str], is_admitted: bool, key: AccessKey, denials: dict[str, str]
):
    allowance = restrict({} if access is None else {key: access}, groups=groups)
    assert ("big" in allowance.catalog.presets) is is_admitted
    if is_admitted:
        assert admit(BIG, allowance).selection.gpu == "a100"
    else:
        assert refusal(allowance, BIG) == denials


def test_what_a_preset_stands_for_can_be_chosen_without_it():
    allowance = restrict({("preset", "big"): STAFF})
    assert admit(CATALOG.presets["big"].options, allowance).selection.gpu_count == 4


@pytest.mark.parametrize("groups", [None, (), ("staff",)], ids=["unknown", "none", "one"])
def test_groups_that_are_unknown_admit_no_user(groups: Iterable[str] | None):
    allowance = restrict({("preset", "long"): STAFF}, groups=groups)
    assert (allowance.blocked is None) == (groups is not None)
    if groups is None:
        assert refusal(allowance, BIG) == {"": "policy_unreadable"}


def test_unknown_groups_are_no_matter_where_only_users_are_named():
    assert admit(BIG, restrict({("preset", "big"): ADA}, groups=None)).selection.gpu == "a100"


@pytest.mark.parametrize(
    ("key", "offered"),
    [
        (("gpu", "t4"), ["a100"]),
        (("gpu", "a100"), ["t4"]),
        (("gpu", "either"), ["t4", "a100"]),
    ],
    ids=["a member", "the other member", "itself"],
)
def test_a_combined_type_is_for_those_who_may_have_all_that_it_stands_for(key: AccessKey, offered: list[str]):
    allowance = restrict({key: STAFF})
    assert ([*allowance.catalog.gpus], refusal(allowance, {"gpu": "either"})) == (offered, {"gpu": "gpu_not_allowed"})
    assert {gpu.slug for gpu in allowance.catalog.hidden} == ({key[1]} - {"either"})


@pytest.mark.parametrize(("access", "is_admitted"), [(STAFF, False), (ADA, True)], ids=["others", "the user"])
def test_an_image_that_is_for_others_is_so_by_its_reference(access: Access, is_admitted: bool):
    images = {**CATALOG.images, "torch": replace(CATALOG.images["torch"], image="quay.io/torch:1")}
    allowance, options = restrict({("image", "torch"): access}, images=images), {"custom_image": "quay.io/torch:1"}
    if is_admitted:
        assert admit(options, allowance).placement.image == "quay.io/torch:1"
    else:
        assert refusal(allowance, options) == {"custom_image": "custom_image_not_allowed"}


def test_an_unknown_preset_is_no_matter_of_policy():
    with pytest.raises(SelectionError) as caught:
        admit({"preset": "gone"}, restrict({("preset", "big"): STAFF}))
    assert type(caught.value) is SelectionError
