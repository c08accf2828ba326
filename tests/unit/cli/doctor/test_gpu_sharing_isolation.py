from __future__ import annotations

import pytest

from gpuspawner.cli.doctor.gpu_sharing import (
    check_environment_sources,
    check_gpu_leaks,
    check_privileged_containers,
    check_unprobed_nodes,
)
from gpuspawner.cli.doctor.isolation_probe import ProbeResult
from gpuspawner.cli.values.chart_config import ChartRequirements
from tests.unit.cli.doctor.cases import codes, facts


def saw(way: str, *devices: str) -> ProbeResult:
    return ProbeResult(node="n", way=way, devices=devices)


@pytest.mark.parametrize(
    ("seen", "severity", "told"),
    [
        ([saw("unset", "/dev/nvidia0"), saw("void")], "warning", "sees /dev/nvidia0, by its image alone."),
        ([saw("unset"), saw("all", "/dev/nvidia0"), saw("void")], "warning", "where NVIDIA_VISIBLE_DEVICES is all"),
        ([saw("all", "/dev/nvidia0"), saw("void", "/dev/nvidia0")], "fault", "even with NVIDIA_VISIBLE_DEVICES=void."),
    ],
)
def test_a_leak_is_reported_with_how_it_comes_about(seen: list[ProbeResult], severity: str, told: str):
    (found,) = check_gpu_leaks(facts(probe_results=tuple(seen)))
    assert (found.severity.value, found.code, found.objects) == (severity, "gpu-leak", ("n",))
    assert told in found.what


def test_pods_that_saw_nothing_are_no_finding():
    assert codes(check_gpu_leaks, facts(probe_results=(saw("unset"), saw("all"), saw("void")))) == []
    assert codes(check_unprobed_nodes, facts(probe_results=(saw("unset"),))) == []


def test_a_probe_that_could_not_look_is_noted():
    found = facts(probe_results=(ProbeResult(node="n", way="unset", trouble="ErrImagePull"),))
    assert codes(check_unprobed_nodes, found) == [("note", "probe-failed", ("n",))]


def test_privileged_containers_are_warned_of():
    wishes = ChartRequirements(privileged=("notebook", "mount"))
    (found,) = check_privileged_containers(facts(requirements=wishes))
    assert (found.severity.value, found.code, found.objects) == ("warning", "privileged", ("notebook", "mount"))
    assert "every device of its node" in found.why
    assert codes(check_privileged_containers, facts(requirements=ChartRequirements())) == []
    assert codes(check_privileged_containers, facts()) == []


def test_variables_that_may_override_the_device_plugins_are_noted():
    found = facts(requirements=ChartRequirements(environment_sources=("ConfigMap site", "Secret keys")))
    assert codes(check_environment_sources, found) == [
        ("note", "environment-source", ("ConfigMap site", "Secret keys"))
    ]
    (note,) = check_environment_sources(found)
    assert note.fix.splitlines() == [
        "kubectl get configmap site -n jhub -o yaml | grep _VISIBLE_DEVICES",
        "kubectl get secret keys -n jhub -o yaml | grep _VISIBLE_DEVICES",
    ]
    assert codes(check_environment_sources, facts()) == []
