from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.settings.profiles.converted import require_presets
from gpuspawner.settings.profiles.notes import NOT_VALID
from gpuspawner.settings.profiles.profile_list import ProfileListError
from tests.unit.settings.profiles.conftest import Convert

GPU = {"extra_resource_limits": {"nvidia.com/gpu": 1}}
OPTIONS = {
    "size": {
        "choices": {
            "s": {"kubespawner_override": {"image": "q/small:1"}},
            "s.m": {"kubespawner_override": {"image": "q/medium:1", **GPU}},
        }
    }
}
PROFILES = [
    {"display_name": "P", "profile_options": OPTIONS},
    {"display_name": "P.Q", "slug": "p.q", "kubespawner_override": {"image": "q/other:1"}},
]


@pytest.mark.parametrize(
    ("field", "options", "kept", "label"),
    [
        pytest.param(
            "presets.p.choices.size.entries.s.m.memory",
            {"profile": "p", "size": "s.m"},
            ["p", "p.q"],
            "P · size: s.m",
            id="entry",
        ),
        pytest.param("presets.p.cpu", {"profile": "p"}, ["p.q"], "P", id="preset"),
        pytest.param("presets.p.q.cpu", {"profile": "p.q"}, ["p"], "P.Q", id="preset with a dot"),
    ],
)
def test_what_the_hub_refuses_is_left_out_with_a_note(
    convert: Convert, field: str, options: Any, kept: list[str], label: str
):
    found = convert(*PROFILES).leave_out(field, "is wrong")
    assert found is not None
    assert (list(found.settings["presets"]), found.convert_options(options)) == (kept, None)
    assert [(each.cause, each.profile, each.detail) for each in found.notes] == [(NOT_VALID, label, "is wrong")]


def test_what_only_the_entry_needed_is_left_out_too(convert: Convert):
    found = convert(*PROFILES).leave_out("presets.p.choices.size.entries.s.m.gpu", "is wrong")
    assert found is not None
    assert (list(found.settings["images"]), "gpus" in found.settings, "discover_gpus" in found.settings) == (
        ["small-1", "other-1"],
        False,
        False,
    )
    assert found.convert_options({"profile": "p", "size": "s"}) is not None


@pytest.mark.parametrize(
    "field", [pytest.param("images.x", id="image"), pytest.param("presets.unknown.cpu", id="unknown preset")]
)
def test_other_problems_leave_nothing_out(convert: Convert, field: str):
    assert convert(*PROFILES).leave_out(field, "is wrong") is None


def test_settings_without_a_preset_are_refused(convert: Convert):
    found = convert(PROFILES[1]).leave_out("presets.p.q", "is wrong")
    assert found is not None
    with pytest.raises(ProfileListError, match=r"could start\. P\.Q: gpuspawner does not accept"):
        require_presets(found)
