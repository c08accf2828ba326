"""The admin's values stay apart from what is put over them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpuspawner.hub.trait_overrides import TraitOverrides


@pytest.fixture
def owner() -> SimpleNamespace:
    return SimpleNamespace(image="base", volumes=[{"name": "home"}])


@pytest.fixture
def base(owner: SimpleNamespace) -> TraitOverrides:
    return TraitOverrides(owner)


def test_an_assigned_value_can_be_changed_without_touching_the_base(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"volumes": base["volumes"]})
    owner.volumes[0]["name"] = "changed"
    base.restore()
    assert owner.volumes == [{"name": "home"}]


def test_a_twin_has_the_same_base_and_leaves_the_owner_alone(owner: SimpleNamespace, base: TraitOverrides):
    base.assign({"image": "chosen"})
    twin = SimpleNamespace(**vars(owner))
    base.copy_for(twin).assign({"image": "other"})
    assert (twin.image, base.copy_for(twin)["image"], owner.image, base["image"]) == ("other", "base", "chosen", "base")
