from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.isolation import leaks, unprobed
from gpuspawner.cli.doctor.leaks import Sight
from tests.unit.cli.doctor.cases import codes, facts


def saw(way: str, *devices: str) -> Sight:
    return Sight(node="n", way=way, devices=devices)


@pytest.mark.parametrize(
    ("seen", "severity", "told"),
    [
        ([saw("unset", "/dev/nvidia0"), saw("void")], "warning", "sees /dev/nvidia0, by its image alone."),
        ([saw("unset"), saw("all", "/dev/nvidia0"), saw("void")], "warning", "where NVIDIA_VISIBLE_DEVICES is all"),
        ([saw("all", "/dev/nvidia0"), saw("void", "/dev/nvidia0")], "fault", "even with NVIDIA_VISIBLE_DEVICES=void."),
    ],
)
def test_a_leak_is_told_with_how_it_comes_about(seen: list[Sight], severity: str, told: str):
    (found,) = leaks(facts(sights=tuple(seen)))
    assert (found.severity.value, found.code, found.objects) == (severity, "gpu-leak", ("n",))
    assert told in found.what


def test_pods_that_saw_nothing_are_no_finding():
    assert codes(leaks, facts(sights=(saw("unset"), saw("all"), saw("void")))) == []
    assert codes(unprobed, facts(sights=(saw("unset"),))) == []


def test_a_probe_that_could_not_look_is_noted():
    found = facts(sights=(Sight(node="n", way="unset", trouble="ErrImagePull"),))
    assert codes(unprobed, found) == [("note", "probe-failed", ("n",))]
