"""The admin's values stay apart from what is put over them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpuspawner.hub.trait_overrides import TraitOverrides, copy_nested


@pytest.fixture
def owner() -> SimpleNamespace:
    return SimpleNamespace(image="base", volumes=[{"name": "home"}])


@pytest.fixture
def base(owner: SimpleNamespace) -> TraitOverrides:
    return TraitOverrides(owner)


def test_without_an_assignment_the_base_is_what_is_there(base: TraitOverrides):
    assert base["image"] == "base"


def test_assigned_values_are_not_the_base(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"image": "chosen"})
    assert (owner.image, base["image"]) == ("chosen", "base")


def test_until_an_assignment_a_hook_changes_the_base(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"image": "chosen"})
    owner.volumes.append({"name": "hook"})
    assert [volume["name"] for volume in base["volumes"]] == ["home", "hook"]


def test_an_assigned_value_can_be_changed_without_touching_the_base(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"volumes": base["volumes"]})
    owner.volumes[0]["name"] = "changed"
    base.restore()
    assert owner.volumes == [{"name": "home"}]


def test_restoring_gives_back_the_value_before_the_first_assignment(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"image": "first"})
    base.assign({"image": "second", "volumes": []})
    base.restore()
    assert (owner.image, base["image"], owner.volumes) == ("base", "base", [{"name": "home"}])


def test_functions_and_models_are_not_copied():
    model = object()
    assert copy_nested({"a": [model, len]}) == {"a": [model, len]}


def test_dicts_and_lists_are_copied():
    value = {"a": [{"b": 1}]}
    copy = copy_nested(value)
    copy["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}]}


def test_a_twin_has_the_same_base_and_leaves_the_owner_alone(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"image": "chosen"})
    twin = SimpleNamespace(**vars(owner))
    base.copy_for(twin).assign({"image": "other"})
    assert (twin.image, base.copy_for(twin)["image"], owner.image, base["image"]) == ("other", "base", "chosen", "base")
