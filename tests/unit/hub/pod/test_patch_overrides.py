"""A `kubespawner_override` is laid over the admin's values as KubeSpawner lays that of a profile, for one start."""

from __future__ import annotations

import copy
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_asyncio.client import V1EnvVar
from kubespawner import KubeSpawner

from gpuspawner.core.catalog.model import NO_LIMIT
from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.hub.pod.patch import apply_choice, lay_over, merge_overrides, patch_pod, serialize_models
from gpuspawner.hub.trait_overrides import TraitOverrides
from tests.unit.hub.pod.pods import UNCHOSEN, PodBuilder, make_choice

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["x", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
TRAITS = st.dictionaries(KEYS, VALUES, max_size=3)
BASES = st.fixed_dictionaries(dict.fromkeys("abc", VALUES))


class AnySpawner(SimpleNamespace):
    """A spawner with traits of any type, which takes overrides as KubeSpawner does."""

    log = logging.getLogger("unused")
    _apply_overrides = KubeSpawner._apply_overrides

    def __init__(self, base: dict[str, Any]) -> None:
        super().__init__(**base)
        self.trait_overrides = TraitOverrides(self)

    def read(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "trait_overrides"}


def lay_as_kubespawner(base: dict[str, Any], layers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the traits after KubeSpawner's own code, or None if it fails (a mapping laid over what is none)."""
    spawner = AnySpawner(copy.deepcopy(base))
    for layer in layers:
        try:
            spawner._apply_overrides(copy.deepcopy(layer))
        except (AttributeError, TypeError):
            return None
    return spawner.read()


@given(base=BASES, layers=st.lists(TRAITS, max_size=3))
def test_nothing_of_the_admin_or_the_settings_is_shared(base: dict[str, Any], layers: list[dict[str, Any]]):
    if lay_as_kubespawner(base, layers) is None:
        return
    before = copy.deepcopy((base, layers))
    spawner = AnySpawner(base)
    for layer in layers:
        lay_over(spawner, layer)
    for trait in {trait for layer in layers for trait in layer}:
        empty(getattr(spawner, trait))
    for value in merge_overrides(layers).values():
        empty(value)
    assert (base, layers) == before
    spawner.trait_overrides.restore()
    assert spawner.read() == before[0]


def empty(value: Any) -> None:
    """Remove what is in nested dicts and lists, in place."""
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        empty(inside)
    if isinstance(value, dict | list):
        value.clear()


@given(layers=st.lists(TRAITS, max_size=4))
def test_several_overrides_together_are_what_kubespawner_makes_of_them_one_after_another(
    layers: list[dict[str, Any]],
):
    expected = lay_as_kubespawner(dict.fromkeys("abc"), layers)
    if expected is None:
        return
    changed = {trait for layer in layers for trait in layer}
    assert merge_overrides(layers) == {trait: value for trait, value in expected.items() if trait in changed}


def test_a_mapping_replaces_a_text_in_a_trait():
    shown = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    spawner = AnySpawner({"environment": {"A": "text"}})
    lay_over(spawner, {"environment": {"A": shown}})
    assert spawner.environment == {"A": shown}


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


# -- the choice on top of overrides ------------------------------------------------------------------------------------


def start(*layers: dict[str, Any], traits: dict[str, Any] | None = None, **choice: Any) -> PodBuilder:
    """Return a spawner with an admin's traits, over which a choice with overrides is put."""
    spawner = PodBuilder(copy.deepcopy(ADMINS if traits is None else traits))
    apply_choice(spawner, make_choice(**{"overrides": layers, **UNCHOSEN, **choice}))
    return spawner


def find_environment(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_the_choice_lies_on_top_of_the_override():
    spawner = start(
        OVERRIDE,
        node_selector={"gpu": "t4"},
        tolerations=(Toleration(key="gpu", operator="Exists"),),
        environment={"NVIDIA_VISIBLE_DEVICES": "void"},
        extended_resources={"nvidia.com/gpu": 1},
        required=(MatchExpression(key="k", operator="In", values=("v",)),),
    )
    spec = serialize_models(spawner.build())["spec"]
    (notebook,) = spec["containers"]
    assert spec["nodeSelector"] == {"pool": "big", "gpu": "t4"}
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["big", "gpu"]
    assert find_environment(notebook) == {"B": "2", "C": "3", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert notebook["resources"]["limits"] == {"example.com/fpga": "1", "rdma/hca": "1", "nvidia.com/gpu": "1"}
    assert [volume["name"] for volume in spec["volumes"]] == ["home", "data"]
    assert (notebook["workingDir"], notebook["securityContext"]["runAsUser"]) == ("/data", 0)
    assert (notebook["args"], notebook["image"]) == (["start.sh"], "chosen")


@pytest.mark.parametrize(
    "override",
    [
        pytest.param({"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}, id="environment"),
        pytest.param(
            {"extra_container_config": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}}, id="container"
        ),
    ],
)
def test_no_override_shows_gpus(override: dict[str, Any]):
    pod = serialize_models(start(override, environment={"NVIDIA_VISIBLE_DEVICES": "void"}).build())
    assert find_environment(pod["spec"]["containers"][0])["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_the_start_timeout_is_set_before_the_start_and_not_with_the_other_traits():
    spawner = start({"start_timeout": 900, "http_timeout": 5}, traits={"start_timeout": 77}, start_timeout_s=800)
    assert (spawner.start_timeout, spawner.http_timeout) == (77, 5)


# -- image and amounts -------------------------------------------------------------------------------------------------

AMOUNT_TRAITS = ("image", "cpu_limit", "cpu_guarantee", "mem_limit", "mem_guarantee")
OWN_AMOUNTS = {"image": "own", "cpu_limit": 3.0, "cpu_guarantee": 2.0, "mem_limit": 99, "mem_guarantee": 98}


def read_amounts(spawner: PodBuilder) -> list[Any]:
    return [getattr(spawner, trait) for trait in AMOUNT_TRAITS]


def test_image_and_amounts_of_the_choice_are_the_spawners_for_hooks_and_the_environment():
    spawner = PodBuilder(OWN_AMOUNTS)
    apply_choice(spawner, make_choice())
    assert read_amounts(spawner) == ["chosen", 1.5, 0.75, 8, 4]


def test_an_amount_that_was_not_chosen_is_the_admins_or_that_of_an_override():
    spawner = start({"mem_limit": 50}, traits=OWN_AMOUNTS, cpu_limit_millis=NO_LIMIT)
    assert read_amounts(spawner) == ["chosen", 0, 2.0, 50, 98]


def test_the_choice_lies_over_the_amounts_of_an_override():
    spawner = start({"cpu_limit": 7, "image": "x"}, traits={}, cpu_limit_millis=1500)
    assert read_amounts(spawner)[:2] == ["chosen", 1.5]


def test_after_restoring_the_admins_values_and_kubespawners_pod_are_back():
    plain = PodBuilder(copy.deepcopy({**ADMINS, **OWN_AMOUNTS}))
    spawner = start(OVERRIDE, traits={**ADMINS, **OWN_AMOUNTS}, node_selector={"gpu": "t4"}, shm_bytes=5, run_time_s=60)
    assert serialize_models(spawner.build()) != serialize_models(plain.build())
    spawner.trait_overrides.restore()
    traits = (*ADMINS, *OVERRIDE, *AMOUNT_TRAITS)
    assert {trait: getattr(spawner, trait) for trait in traits} == {trait: getattr(plain, trait) for trait in traits}
    assert serialize_models(spawner.build()) == serialize_models(plain.build())


def test_a_function_in_an_override_is_the_value_and_is_not_called():
    def hook(_spawner: object, pod: object) -> object:
        return pod

    spawner = PodBuilder({"environment": {"A": "a"}})
    lay_over(spawner, {"modify_pod_hook": hook, "environment": {"B": "b"}})
    assert (spawner.modify_pod_hook, spawner.environment) == (hook, {"A": "a", "B": "b"})
    spawner.trait_overrides.restore()
    assert (spawner.modify_pod_hook, spawner.environment) == (None, {"A": "a"})


@pytest.mark.parametrize(
    ("traits", "kind"),
    [
        ({}, V1EnvVar),
        ({"environment": {"A": "a"}}, V1EnvVar),
        ({"extra_container_config": {"env": [{"name": "A", "value": "a"}]}}, dict),
    ],
)
def test_a_hook_finds_variables_of_one_type(traits: dict[str, Any], kind: type):
    pod = patch_pod(PodBuilder(traits).build(), make_choice(environment={"B": "b"}))
    assert {type(variable) for variable in pod.spec.containers[0].env} == {kind}


def test_a_hook_finds_variables_of_side_containers_as_kubespawner_has_them():
    side = {"name": "side", "image": "x", "env": [{"name": "A", "value": "a"}]}
    pod = patch_pod(PodBuilder({"extra_containers": [side]}).build(), make_choice())
    assert {type(variable) for variable in pod.spec.containers[1].env} == {dict}
