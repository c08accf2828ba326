"""CPU and memory that are suggested for the GPUs in the form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Bounds, Catalog
from gpuspawner.core.catalog.policy_model import AmountRange, Person, Policy, Rule
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import Usage
from tests.unit.core.form.test_build import CATALOG, GIB, INVENTORY, LIVE
from tests.unit.islands import build_view

ONE_GPU = {"gpu": "a100-80gb", "gpu_count": 1}


def suggestion(options: dict[str, Any], catalog: Catalog = CATALOG, **more: Any) -> str:
    return build_view(catalog, INVENTORY, options=options, live=LIVE, **more).suggestion


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(ONE_GPU, "1 × A100 80 GB: 7.5 CPUs · 60 GiB RAM", id="one GPU"),
        pytest.param({**ONE_GPU, "gpu_count": 3}, "3 × A100 80 GB: 22.5 CPUs · 180 GiB RAM", id="three GPUs"),
        pytest.param({**ONE_GPU, "cpu": 7.5}, "1 × A100 80 GB: 60 GiB RAM", id="one amount that is there"),
        pytest.param({**ONE_GPU, "memory": "128G"}, "1 × A100 80 GB: 7.5 CPUs", id="one amount that is less"),
    ],
)
def test_the_share_of_the_node_is_suggested(options: dict[str, Any], said: str):
    assert suggestion(options) == f"Suggested for {said} (share of the node)"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="no GPU"),
        pytest.param({"gpu": "mi210", "image": "plain"}, id="a type whose nodes are unknown"),
        pytest.param({**ONE_GPU, "cpu": 7.5, "memory": "60G"}, id="what the fields hold already"),
        pytest.param({**ONE_GPU, "cpu": 8, "memory": "61G"}, id="less than the fields hold"),
    ],
)
def test_where_there_is_nothing_to_suggest_nothing_is_said(options: dict[str, Any]):
    assert suggestion(options, replace(CATALOG, presets={})) == ""


def test_nothing_below_the_default_is_suggested():
    bounds = {"cpu": Bounds(min=250, max=32_000, step=250, default=8000), "memory": CATALOG.memory}
    smaller = {**ONE_GPU, "cpu": 1}
    assert suggestion(smaller, replace(CATALOG, **bounds)) == (
        "Suggested for 1 × A100 80 GB: 60 GiB RAM (share of the node)"
    )


def test_no_amount_is_suggested_where_there_is_no_limit():
    bounds = {name: Bounds(min=1, max=1 << 40, step=1, default=1, is_optional=True) for name in ("cpu", "memory")}
    assert suggestion(ONE_GPU, replace(CATALOG, **bounds)) == ""


def test_what_the_form_does_not_ask_for_is_not_suggested():
    assert suggestion(ONE_GPU, replace(CATALOG, cpu=None)) == (
        "Suggested for 1 × A100 80 GB: 60 GiB RAM (share of the node)"
    )
    assert suggestion(ONE_GPU, replace(CATALOG, cpu=None, memory=None)) == ""


def test_the_suggestion_keeps_to_the_limits_of_the_user():
    policy = Policy(default=Rule(cpu=AmountRange(max=4000), memory=AmountRange(max=32 * GIB)))
    allowance = resolve_allowance(replace(CATALOG, policy=policy), Person(name="ada"), usage=Usage())
    assert suggestion(ONE_GPU, allowance.full_catalog, allowance=allowance) == (
        "Suggested for 1 × A100 80 GB: 4 CPUs · 32 GiB RAM (share of the node)"
    )


def test_with_a_wrong_field_nothing_is_suggested():
    view = build_view(CATALOG, INVENTORY, typed={**ONE_GPU, "gpu_count": "lots"}, live=LIVE)
    assert view.suggestion == ""
