from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.chart_warnings import find_chart_warnings
from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import paths, section, written

CPU = "cpu: {max: 4}"
CLASS = "hub.config.JupyterHub.spawner_class"


def found(folder: Path, text: str) -> list[tuple[str, str]]:
    return paths(list(find_chart_warnings(written(folder, text))))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("gpuspawner.GPUSpawner", []),
        ("gpu", []),
        ("kubespawner.KubeSpawner", [(Severity.ERROR, "must be gpuspawner.GPUSpawner, not 'kubespawner.KubeSpawner'")]),
        ("gpuspawner.GpuSpawner", [(Severity.ERROR, "must be gpuspawner.GPUSpawner, not 'gpuspawner.GpuSpawner'")]),
        (
            "mine.OurSpawner",
            [(Severity.WARNING, "is not gpuspawner.GPUSpawner: is 'mine.OurSpawner' a subclass of it?")],
        ),
    ],
)
def test_the_spawners_class_is_looked_at(given: str, told: list[tuple[Severity, str]], tmp_path: Path):
    values = written(tmp_path, f"hub: {{config: {{JupyterHub: {{spawner_class: {given}}}, GPUSpawner: {{{CPU}}}}}}}")
    assert [(each.severity, each.message) for each in find_chart_warnings(values)] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hub: {config: {GPUSpawner: {cpu: {max: 4}}}}", [(CLASS, "missing")]),
        (
            "hub: {extraConfig: {a: import gpuspawner}, config: {GPUSpawner: {a: 1}}}",
            [],
        ),
        ("hub: {extraConfig: {a: 'import gpuspawner; gpuspawner.configure(c)'}}", []),
        ("hub: {extraConfig: {a: c.JupyterHub.x = 1}}", [("hub.config.GPUSpawner", "missing")]),
        ("singleuser: {}", [("hub.config.GPUSpawner", "missing")]),
        ("hub: {config: {JupyterHub: {spawner_class: gpu}}}", []),
        ("hub: {config: {KubeSpawner: {cpu: {max: 4}}}}", [(CLASS, "missing")]),
        ("hub: {config: {KubeSpawner: {cpu_limit: 4}}}", [("hub.config.GPUSpawner", "missing")]),
    ],
)
def test_settings_that_nothing_reads_are_told(text: str, told: list[tuple[str, str]], tmp_path: Path):
    assert found(tmp_path, text) == told


def test_profiles_beside_settings_are_told(tmp_path: Path):
    beside = "singleuser: {profileList: [{display_name: a}]}"
    assert found(tmp_path, section(CPU, beside=beside)) == [("singleuser.profileList", "unused")]
    assert found(tmp_path, section(CPU, beside="singleuser: {profileList: []}")) == []


def test_gpus_for_everybody_are_told(tmp_path: Path):
    beside = "singleuser: {extraResource: {limits: {nvidia.com/gpu: 1, example.com/fpga: 1}}}"
    assert found(tmp_path, section(CPU, beside=beside)) == [
        ("singleuser.extraResource.limits.nvidia.com/gpu", "unused")
    ]
