"""Every trait can be set by an admin and says how."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import yaml
from kubespawner import KubeSpawner
from traitlets.config import Config, SingletonConfigurable

from gpuspawner.hub.config.shared_dict import share_settings
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
    assert Settings.parse({name: example(name) for name in SETTING_TRAITS}).changed


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
        "policy": {},
        "pools": {},
        "accelerators": {},
        "discover_gpus": True,
        "new_nodes": "possible",
        "queue": {},
    }


def test_without_configuration_the_settings_are_empty():
    assert Settings.parse(GPUSpawnerTraits().collect_settings()).changed == frozenset()


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


# -- one object for the settings of all spawners -----------------------------------------------------------------------


def make_traits(**settings: Any) -> GPUSpawnerTraits:
    traits = GPUSpawnerTraits(config=Config({"GPUSpawnerTraits": settings}))
    share_settings(traits, SETTING_TRAITS)
    return traits


def peek(traits: GPUSpawnerTraits, name: str) -> Any:
    """Return what the object holds, as no reading of the trait does."""
    return traits._trait_values[name]


def test_spawners_with_the_same_settings_share_them():
    rules = {"users": {"ada": {"max_gpus": 1}}}
    one, same, other = make_traits(policy=rules), make_traits(policy=rules), make_traits(policy={"default": {}})
    assert (peek(one, "policy") is peek(same, "policy"), peek(one, "policy") is peek(other, "policy")) == (True, False)
    assert [each.collect_settings()["policy"] for each in (one, same)] == [rules, rules]
    assert peek(one, "policy") is peek(same, "policy")


@pytest.mark.parametrize("values", [{"max": True}, {"max": 1}, {"max": 1.0}])
def test_values_that_python_takes_for_equal_are_not_shared(values: dict[str, object]):
    make_traits(cpu={"max": True}), make_traits(cpu={"max": 1}), make_traits(cpu={"max": 1.0})
    assert repr(make_traits(cpu=values).collect_settings()["cpu"]) == repr(values)


def test_a_hook_that_changes_a_setting_in_place_changes_it_for_one_spawner():
    rules = {"users": {"ada": {"max_gpus": 1}}}
    one, other = make_traits(policy=rules), make_traits(policy=rules)
    one.policy["users"]["ada"]["max_gpus"] = 8
    assert [each.collect_settings()["policy"]["users"]["ada"] for each in (one, other, make_traits(policy=rules))] == [
        {"max_gpus": 8},
        {"max_gpus": 1},
        {"max_gpus": 1},
    ]


def test_a_setting_that_is_assigned_is_read_back():
    one, rules = make_traits(policy={"default": {"max_gpus": 1}}), {"default": {"max_gpus": 2}}
    one.policy = rules
    assert (one.policy, one.collect_settings()["policy"]) == (rules, rules)


def test_one_more_spawner_costs_little_however_many_users_have_rules():
    rules = {"users": {f"user{number}": {"max_gpus": 2} for number in range(5000)}}

    def measure(**settings: Any) -> float:
        first = make_traits(**settings)
        tracemalloc.start()
        try:
            kept = [make_traits(**settings) for _ in range(4)]
            return tracemalloc.get_traced_memory()[0] / len([*kept, first])
        finally:
            tracemalloc.stop()

    most_more_bytes = 100e6 / 5000
    assert measure(policy=rules) - measure() < most_more_bytes
