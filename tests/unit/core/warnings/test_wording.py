from __future__ import annotations

import pytest

from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind
from gpuspawner.core.warnings.wording import WarningView, build_warnings_view


def flag(*nodes: str, message: str = "It is broken.") -> AdminWarning:
    return AdminWarning(kind=WarningKind.BROKEN, resource="nvidia.com/gpu", message=message, nodes=nodes)


def test_without_flags_there_is_nothing_to_show():
    assert build_warnings_view(()) is None


@pytest.mark.parametrize(
    ("flags", "summary"),
    [
        ([flag("a")], "GPUs of 1 node are not offered or do not work"),
        ([flag("a", "b"), flag("b", "c", message="Odd.")], "GPUs of 3 nodes are not offered or do not work"),
    ],
)
def test_the_summary_counts_each_node_once(flags: list[AdminWarning], summary: str):
    view = build_warnings_view(flags)
    assert view is not None
    assert view.summary == summary


def test_each_flag_names_its_nodes_and_counts_those_beyond_ten():
    view = build_warnings_view([flag("x"), flag(*(f"n{number:02}" for number in range(27)))])
    assert view is not None
    assert view.flags == (
        WarningView("x", "It is broken."),
        WarningView("n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 17 more", "It is broken."),
    )


def test_flags_beyond_twenty_are_counted():
    view = build_warnings_view([flag("x", message=str(number)) for number in range(23)])
    assert view is not None
    assert (len(view.flags), view.more) == (20, "And 3 more of this kind.")


def missing(*presets: str) -> AdminWarning:
    return AdminWarning(kind=WarningKind.PRESET, resource="", message="Not now.", presets=presets)


def named(*settings: str) -> AdminWarning:
    return AdminWarning(kind=WarningKind.POLICY, resource="", message="There is none.", settings=settings)


def dropped(*settings: str) -> AdminWarning:
    return AdminWarning(kind=WarningKind.DROPPED_GPUS, resource="amd.com/gpu", message="No type.", settings=settings)


@pytest.mark.parametrize(
    ("flags", "summary"),
    [
        ([missing("a")], "1 preset is not in the form"),
        ([named("x")], "1 setting names a GPU type that is not there"),
        (
            [missing("a"), named("x", "y")],
            "1 preset is not in the form, and 2 settings name GPU types that are not there",
        ),
        ([dropped("x")], "1 setting adds GPUs that no server gets"),
        (
            [named("x", "y"), dropped("z"), dropped("w")],
            "2 settings name GPU types that are not there, and 2 settings add GPUs that no server gets",
        ),
        ([missing("a", "b"), missing("c")], "3 presets are not in the form"),
        ([missing("a"), flag("a")], "1 preset is not in the form, and GPUs of 1 node are not offered or do not work"),
    ],
)
def test_the_summary_counts_presets_and_settings_by_their_problem(flags: list[AdminWarning], summary: str):
    view = build_warnings_view(flags)
    assert view is not None
    assert view.summary == summary


def test_a_flag_of_presets_says_that_they_are_presets():
    view = build_warnings_view([missing("a"), missing("a", "b")])
    assert view is not None
    assert view.flags == (WarningView("Preset a", "Not now."), WarningView("Presets a, b", "Not now."))


def test_names_of_nodes_are_short_and_on_one_line():
    view = build_warnings_view([flag("a\nb", "c" * 999)])
    assert view is not None
    assert view.flags[0].subject == "a\\nb, " + "c" * 253
