"""Warnings for admins about GPU types that rules name and that do not exist."""

from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.catalog.policy_model import ANY, GPUTypeRule, Policy, Rule
from gpuspawner.core.warnings.presets_and_policy import find_dropped_gpu_warnings, find_policy_warnings
from tests.unit.core.policies import A100, catalog, pool


def told(policy: Policy | None) -> dict[tuple[str, ...], str]:
    found = find_policy_warnings(policy, replace(catalog(), gpus={"t4": catalog().gpus["t4"]}, hidden=(A100,)))
    return {flag.names: flag.message for flag in found}


def test_types_that_there_are_need_no_word():
    rule = Rule(gpus={"t4": GPUTypeRule(), "a100": GPUTypeRule(), ANY: GPUTypeRule()})
    assert told(Policy(default=rule, pools={"physics": pool(gpus=frozenset({ANY}))})) == {}
    assert told(None) == {}


def test_a_type_that_there_is_not_is_reported_once_with_all_places_that_name_it():
    wrong = Rule(gpus={"a10": GPUTypeRule(), "t4": GPUTypeRule()})
    policy = Policy(groups={"ml": wrong}, users={"ada": wrong}, pools={"physics": pool(gpus=frozenset({"a10", "zzz"}))})
    assert told(policy) == {
        ("policy.groups.ml.gpus", "policy.users.ada.gpus", "pools.physics.gpus"): (
            "There is no GPU type 'a10' at the moment. Did you mean 'a100'?"
        ),
        ("pools.physics.gpus",): "There is no GPU type 'zzz' at the moment.",
    }


def test_gpus_of_every_server_that_no_type_offers_are_reported_by_resource():
    found = find_dropped_gpu_warnings(replace(catalog(), dropped_gpus={"amd.com/gpu": 2}))
    assert {flag.names: flag.message for flag in found} == {
        ("extra_resource_limits",): (
            "2 amd.com/gpu are dropped from each server: no GPU type stands for them. A server gets the GPUs that its "
            "user chooses."
        )
    }


def test_gpus_of_a_second_type_are_reported_as_what_the_default_choice_leaves_out():
    known = catalog()
    amd = replace(known.gpus["t4"], slug="mi300", resource="amd.com/gpu")
    both = replace(
        known,
        gpus={**known.gpus, "mi300": amd},
        default_gpus=(("t4", 1), ("mi300", 2)),
        dropped_gpus={"amd.com/gpu": 2},
    )
    assert [flag.message for flag in find_dropped_gpu_warnings(both)] == [
        "2 amd.com/gpu are dropped from each server: the form's default choice has only one GPU type. A server gets "
        "the GPUs that its user chooses."
    ]
