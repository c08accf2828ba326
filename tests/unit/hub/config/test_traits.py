"""Every trait can be set by an admin and says how."""

from __future__ import annotations

import pytest
import yaml
from kubespawner import KubeSpawner
from traitlets.config import Config, SingletonConfigurable

from gpuspawner.hub.config.traits import SETTING_TRAITS, GPUSpawnerTraits
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.settings import Settings

TRAITS = GPUSpawnerTraits.class_own_traits()
OWN = sorted(TRAITS)


def example(name: str) -> object:
    """Return the value a trait's help text shows."""
    help_text = TRAITS[name].help
    block = help_text.partition("::\n")[2]
    lines = [line for line in block.splitlines() if line.startswith(" " * 12) or not line.strip()]
    return yaml.safe_load("\n".join(lines))["hub"]["config"]["GPUSpawner"][name]


def test_the_settings_are_traits():
    assert set(SETTING_TRAITS) <= set(OWN)


@pytest.mark.parametrize("name", OWN)
def test_a_trait_can_be_configured_and_says_since_when(name: str):
    trait = TRAITS[name]
    assert trait.metadata["config"]
    assert ".. versionadded::" in trait.help


@pytest.mark.parametrize("name", OWN)
def test_the_example_of_a_trait_can_be_set(name: str):
    value = example(name)
    traits = GPUSpawnerTraits(config=Config({"GPUSpawnerTraits": {name: value}}))
    assert getattr(traits, name) == value


def test_the_examples_are_right_together():
    assert not Settings.parse({name: example(name) for name in SETTING_TRAITS}).is_empty


def test_null_is_the_same_as_nothing():
    assert GPUSpawnerTraits(gpus=None, cpu={"max": 4}).collect_settings() == {
        "images": {},
        "custom_images": {},
        "cpu": {"max": 4},
        "memory": {},
        "run_time": {},
        "shared_memory": {},
        "priorities": {},
        "presets": {},
        "only_presets": False,
        "policy": {},
        "pools": {},
        "accelerators": {},
        "discover_gpus": True,
        "new_nodes": "possible",
        "queue": {},
    }


def test_without_configuration_the_settings_are_empty():
    assert Settings.parse(GPUSpawnerTraits().collect_settings()).is_empty


def test_no_name_of_ours_takes_the_place_of_one_of_kubespawners_by_accident():
    """A later KubeSpawner may come to use a name of ours; what is meant to take its place says so."""
    meant = {"_options_form_default", "_options_from_form_default"}
    taken = {
        name
        for kind in GPUSpawner.__mro__
        if kind.__module__.startswith("gpuspawner.")
        for name, value in vars(kind).items()
        if hasattr(KubeSpawner, name) and not hasattr(SingletonConfigurable, name)
        if not getattr(value.fget if isinstance(value, property) else value, "__override__", False)
    }
    assert {name for name in taken if not name.startswith("__")} == meant
