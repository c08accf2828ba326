from __future__ import annotations

from typing import Any

import pytest
from kubespawner import KubeSpawner

from gpuspawner.cli.check.misplaced_values import describe_expected_type, is_number_or_bool

TRAITS = KubeSpawner.class_traits(config=True)
BYTES = "a number of bytes, or a text such as 4G (K, M, G or T, without an i)"


@pytest.mark.parametrize("value", ["4G", "0.5G", "512M", "2T", 1024, 1.5, None])
def test_amounts_of_memory_are_taken_as_jupyterhub_takes_them(value: Any):
    assert describe_expected_type(TRAITS["mem_limit"], value) == ""


@pytest.mark.parametrize(
    "value", ["4Gi", "4g", "512m", "lots", "4", "", "nanG", float("inf"), float("nan"), [], {}, [1]]
)
def test_a_wrong_amount_of_memory_is_reported_with_the_possible_units(value: Any):
    assert describe_expected_type(TRAITS["mem_limit"], value) == BYTES


def test_other_traits_say_themselves_what_they_take():
    assert describe_expected_type(TRAITS["cpu_limit"], "many") == "a float"
    assert describe_expected_type(TRAITS["node_selector"], []) == "a mapping"


def test_numbers_and_booleans_are_amounts():
    names = ("mem_limit", "cpu_limit", "start_timeout", "events_enabled", "environment", "service_account")
    assert [name for name in names if is_number_or_bool(TRAITS[name])] == [*names[:4]]
