"""A `kubespawner_override` is laid over the admin's values as KubeSpawner lays that of a profile."""

from __future__ import annotations

import copy
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubespawner import KubeSpawner

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.hub.pod.merge import OverriddenValues
from gpuspawner.hub.pod.trait_values import PodChoice, build_trait_values
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.pod.test_trait_values import EMPTY

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["x", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
TRAITS = st.dictionaries(KEYS, VALUES, max_size=3)


def lay_as_kubespawner(base: dict[str, Any], layers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the traits after KubeSpawner's own code, or None if it fails (a mapping laid over what is none)."""
    spawner = SimpleNamespace(log=logging.getLogger("unused"), **copy.deepcopy(base))
    for layer in layers:
        try:
            KubeSpawner._apply_overrides(spawner, copy.deepcopy(layer))
        except (AttributeError, TypeError):
            return None
    return {name: value for name, value in vars(spawner).items() if name != "log"}


@given(base=st.fixed_dictionaries(dict.fromkeys("abc", VALUES)), layers=st.lists(TRAITS, max_size=4))
def test_it_is_what_kubespawner_makes_of_them(base: dict[str, Any], layers: list[dict[str, Any]]):
    before = copy.deepcopy((base, layers))
    found = OverriddenValues(base, layers)
    result = {name: found[name] for name in base}
    expected = lay_as_kubespawner(base, layers)
    assert expected is None or result == expected
    assert found.changed.keys() == {name for layer in layers for name in layer}
    assert (base, layers) == before


@given(base=st.fixed_dictionaries(dict.fromkeys("abc", VALUES)), layers=st.lists(TRAITS, max_size=3))
def test_nothing_of_the_admin_or_the_settings_is_shared(base: dict[str, Any], layers: list[dict[str, Any]]):
    before = copy.deepcopy((base, layers))
    for value in OverriddenValues(base, layers).changed.values():
        _empty(value)
    assert (base, layers) == before


def _empty(value: Any) -> None:
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _empty(inside)
    if isinstance(value, dict | list):
        value.clear()


def test_a_null_in_a_new_mapping_is_left_out():
    found = OverriddenValues({"a": {"x": "no mapping"}}, [{"a": {"new": {"b": None, "c": {"d": None}}, "x": {"y": 1}}}])
    assert found["a"] == {"new": {"c": {}}, "x": {"y": 1}}


ADMINS: dict[str, Any] = {
    "environment": {"A": "1", "B": "2"},
    "node_selector": {"pool": "users", "zone": "a"},
    "tolerations": [{"key": "users", "operator": "Exists"}],
    "volumes": {"10-home": {"name": "home", "emptyDir": {}}},
    "extra_pod_config": {"dnsPolicy": "Default", "hostNetwork": False},
    "extra_resource_limits": {"example.com/fpga": "1"},
    "default_url": "/tree",
    "uid": 1000,
}
OVERRIDE: dict[str, Any] = {
    "environment": {"A": None, "C": "3"},
    "node_selector": {"pool": "big", "zone": None},
    "tolerations": [{"key": "big", "operator": "Exists"}],
    "volumes": {"20-data": {"name": "data", "emptyDir": {}}},
    "extra_pod_config": {"hostNetwork": None, "securityContext": {"fsGroup": 7}},
    "extra_resource_limits": {"rdma/hca": "1"},
    "default_url": "/lab",
    "uid": 0,
    "working_dir": "/data",
    "image_pull_policy": "Always",
    "cmd": ["start.sh"],
    "http_timeout": 77,
    "lifecycle_hooks": {"postStart": {"exec": {"command": ["true"]}}},
}


@pytest.mark.parametrize("trait", [*OVERRIDE])
async def test_each_trait_of_a_spawner_has_the_value_that_a_profile_gives_it(make_spawner: MakeSpawner, trait: str):
    layer = {trait: OVERRIDE[trait]}
    of_profile, ours = make_spawner(kubespawner=ADMINS), make_spawner(kubespawner=ADMINS)
    before = copy.deepcopy(getattr(ours, trait))
    of_profile._apply_overrides(copy.deepcopy(layer))
    ours.trait_overrides.assign(OverriddenValues(ours.trait_overrides, [layer]).changed)
    assert getattr(ours, trait) == getattr(of_profile, trait) != before
    ours.trait_overrides.restore()
    assert getattr(ours, trait) == before


def values(*layers: dict[str, Any], **placed: Any) -> dict[str, Any]:
    amounts = dict.fromkeys(["cpu_limit_millis", "cpu_request_millis", "memory_limit_bytes", "memory_request_bytes"])
    placement = PodRequirements(**{"image": "chosen", **amounts, "overrides": layers, **placed})
    return build_trait_values(PodChoice(placement=placement), {**EMPTY, "lifecycle_hooks": {}, **ADMINS})


def test_the_choice_lies_on_top_of_the_override():
    found = values(
        OVERRIDE,
        node_selector={"gpu": "t4"},
        tolerations=(Toleration(key="gpu", operator="Exists"),),
        environment={"NVIDIA_VISIBLE_DEVICES": "void"},
        extended_resources={"nvidia.com/gpu": 1},
        required=(MatchExpression(key="k", operator="In", values=("v",)),),
    )
    assert found["node_selector"] == {"pool": "big", "gpu": "t4"}
    assert [each["key"] for each in found["tolerations"]] == ["big", "gpu"]
    assert found["environment"] == {"B": "2", "C": "3", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert found["extra_resource_limits"] == {"example.com/fpga": "1", "rdma/hca": "1", "nvidia.com/gpu": "1"}
    assert (found["working_dir"], found["uid"], found["cmd"]) == ("/data", 0, ["start.sh"])
    assert found["image"] == "chosen"


@pytest.mark.parametrize(
    ("override", "trait", "expected"),
    [
        pytest.param({"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "environment", "void", id="environment"),
        pytest.param(
            {"extra_container_config": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}},
            "extra_container_config",
            "void",
            id="container",
        ),
    ],
)
def test_no_override_shows_gpus(override: dict[str, Any], trait: str, expected: str):
    found = values(override, environment={"NVIDIA_VISIBLE_DEVICES": expected})[trait]
    variables = {each["name"]: each["value"] for each in found["env"]} if "env" in found else found
    assert variables["NVIDIA_VISIBLE_DEVICES"] == expected


def test_containers_of_an_override_get_no_gpus():
    container = {"name": "init", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    (found,) = values({"init_containers": [container]})["init_containers"]
    assert found["resources"]["limits"] == {}
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in found["env"]


def test_the_start_timeout_is_set_before_the_start_and_not_with_the_other_traits():
    assert "start_timeout" not in values({"start_timeout": 900, "http_timeout": 5})


@pytest.mark.parametrize("trait", ["environment", "node_selector", "tolerations", "volumes", "extra_pod_config"])
def test_a_null_empties_a_trait(trait: str):
    assert not values({trait: None})[trait]
