from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, Preset
from gpuspawner.core.request.selection import find_preset_errors
from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind
from gpuspawner.core.warnings.presets_and_policy import find_preset_warnings

T4 = GPUType(slug="t4", display_name="Tesla T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4)
CATALOG = Catalog(
    images={
        "lab": Image(slug="lab", display_name="JupyterLab", image="lab:1"),
        "plain": Image(slug="plain", display_name="Plain", image="plain:1", vendors=("amd",)),
    },
    cpu=Bounds(min=1000, max=8000, step=1000, default=1000),
    memory=None,
    gpus={"t4": T4},
)


def presets(**options: dict[str, Any]) -> dict[str, Preset]:
    return {slug: Preset(slug=slug, display_name=slug, options=each) for slug, each in options.items()}


def test_presets_that_can_be_started_are_not_flagged():
    fine = presets(small={"cpu": 2}, train={"gpu": "t4", "gpu_count": 4})
    assert (find_preset_errors(fine, CATALOG), find_preset_warnings(fine, CATALOG)) == ({}, ())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"gpu": "a100", "gpu_count": 8}, "There is no GPU type 'a100'."),
        ({"gpu": "t4", "gpu_count": 8}, "The number of GPUs (Tesla T4) in one server must be 1 to 4, not 8."),
        (
            {"gpu": "t4", "image": "plain"},
            "Plain is made for AMD GPUs. Choose another image, or a GPU other than Tesla T4.",
        ),
        ({"gpu": "a100", "cpu": 16}, "CPU must be 1 to 8 CPUs, not 16 CPUs. There is no GPU type 'a100'."),
    ],
)
def test_a_preset_that_cannot_is_flagged_with_all_reasons(options: dict[str, Any], reason: str):
    assert find_preset_warnings(presets(train=options, small={}), CATALOG) == (
        AdminWarning(
            kind=WarningKind.PRESET,
            resource="",
            message=f"Not in the form at the moment. {reason}",
            presets=("train",),
        ),
    )


def test_other_types_do_not_change_the_warning():
    missing = presets(train={"gpu": "t5"})
    others = replace(CATALOG, gpus={"t4": T4, "l4": replace(T4, slug="l4")})
    assert find_preset_warnings(missing, CATALOG) == find_preset_warnings(missing, others)


def test_presets_of_which_the_same_is_to_say_are_one_flag():
    found = find_preset_warnings(presets(b={"gpu": "x"}, a={"gpu": "x", "cpu": 2}, c={"gpu": "y"}), CATALOG)
    assert [flag.presets for flag in found] == [("b", "a"), ("c",)]
