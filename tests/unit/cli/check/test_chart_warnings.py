from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.chart_warnings import find_chart_warnings, find_dropped_gpus
from gpuspawner.cli.common.findings import Severity
from gpuspawner.cli.values.helm_values import merge_settings
from gpuspawner.settings import Settings
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
        ("hub: {extraConfig: {a: c.JupyterHub.x = 1}}", [(CLASS, "missing")]),
        ("singleuser: {}", [(CLASS, "missing")]),
        ("hub: {config: {JupyterHub: {spawner_class: gpu}}}", []),
        ("hub: {config: {KubeSpawner: {cpu: {max: 4}}}}", [(CLASS, "missing")]),
        ("hub: {config: {KubeSpawner: {cpu_limit: 4}}}", [(CLASS, "missing")]),
    ],
)
def test_settings_that_nothing_reads_are_reported(text: str, told: list[tuple[str, str]], tmp_path: Path):
    assert found(tmp_path, text) == told


def test_settings_of_the_base_class_without_effect_are_reported(tmp_path: Path):
    spawner = "{start_timeout: 900, cmd: own, http_timeout: 60, mem_limit: 4G}"
    values = written(
        tmp_path,
        f"hub: {{config: {{JupyterHub: {{spawner_class: gpu}}, GPUSpawner: {{{CPU}}}, Spawner: {spawner}}}}}",
    )
    assert [(each.severity, each.path, each.message) for each in find_chart_warnings(values)] == [
        (
            Severity.WARNING,
            "hub.config.Spawner.start_timeout",
            "has no effect, because the chart says it of KubeSpawner: say singleuser.startTimeout, or "
            "hub.config.KubeSpawner.start_timeout",
        )
    ]


LIMITS = "singleuser: {extraResource: {limits: {nvidia.com/gpu: 1, example.com/fpga: 1}}}"
GUARANTEES = "singleuser: {extraResource: {guarantees: {nvidia.com/gpu: 1}}}"
GPUS = "gpus: {t4: {resource: nvidia.com/gpu, match: {nvidia.com/gpu.product: Tesla-T4}}}"


@pytest.mark.parametrize(
    ("settings", "beside", "expected"),
    [
        pytest.param(CPU, LIMITS, [("hint", "limits", "gpu_default")], id="the nodes may have a type"),
        pytest.param(f"{CPU}\ndiscover_gpus: false", LIMITS, [("warning", "limits", "unused")], id="no type"),
        pytest.param(f"{GPUS}\ndiscover_gpus: false", LIMITS, [], id="a type of the settings"),
        pytest.param(CPU, LIMITS.replace("gpu: 1", "gpu: 0"), [], id="zero"),
        pytest.param(CPU, GUARANTEES, [("warning", "guarantees", "unused")], id="a guarantee alone"),
        pytest.param("discover_gpus: false", f"{LIMITS[:-1]}, profileList: [{{display_name: a}}]}}", [], id="profiles"),
    ],
)
def test_gpus_of_every_server_are_the_default_or_dropped(
    settings: str, beside: str, expected: list[tuple[str, str, str]], tmp_path: Path
):
    values = written(tmp_path, section(settings, beside=beside))
    configured = Settings.parse(merge_settings(values)).configured
    found = [(each.severity, each.path, each.code) for each in find_dropped_gpus(values, configured)]
    assert found == [
        (severity, f"singleuser.extraResource.{kind}.nvidia.com/gpu", code) for severity, kind, code in expected
    ]


IN_CONTAINER = "extra_container_config: {resources: {limits: {nvidia.com/gpu: 1, example.com/fpga: 1}}}"
BESIDE = "{name: s, image: s, resources: {requests: {amd.com/gpu: 1}, limits: {amd.com/gpu: 1}}}"


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        pytest.param("", ("hub.config.GPUSpawner.extra_container_config", "1 nvidia.com/gpu"), id="notebook"),
        pytest.param(
            f"singleuser: {{extraContainers: [{BESIDE}]}}", ("singleuser.extraContainers", "1 amd.com/gpu"), id="side"
        ),
        pytest.param(
            f"singleuser: {{initContainers: {{a: {BESIDE}}}}}",
            ("singleuser.initContainers", "1 amd.com/gpu"),
            id="init",
        ),
    ],
)
def test_gpus_of_containers_are_dropped(beside: str, expected: tuple[str, str], tmp_path: Path):
    values = written(tmp_path, section(CPU if beside else f"{CPU}\n{IN_CONTAINER}", beside=beside))
    configured = Settings.parse(merge_settings(values)).configured
    (found,) = find_dropped_gpus(values, configured)
    assert (found.severity, found.code, found.path) == ("warning", "unused", expected[0])
    assert expected[1] in found.message


REPLACED = """
singleuser:
  cpu: {limit: 2, guarantee: 0.5}
  memory: {limit: 4G, guarantee: 1G}
  image: {name: a/b, tag: "1"}
  extraEnv: {NVIDIA_VISIBLE_DEVICES: all, OTHER: x, AMD_VISIBLE_DEVICES: all, HABANA_VISIBLE_DEVICES: all}
"""
IMAGE = "images: {lab: {image: 'q/lab:1'}}"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param("cpu: {max: 4}", ["cpu.limit", "cpu.guarantee"], id="cpu"),
        pytest.param("memory: {max: 4G}", ["memory.limit", "memory.guarantee"], id="memory"),
        pytest.param(IMAGE, ["image.name", "image.tag"], id="images"),
        pytest.param("images: {b: {image: 'a/b:1'}}", [], id="an image that is offered"),
        pytest.param("discover_gpus: true", [], id="nothing of theirs"),
    ],
)
def test_values_that_a_setting_replaces_are_listed_by_key(settings: str, expected: list[str], tmp_path: Path):
    told = [path for path, code in found(tmp_path, section(settings, beside=REPLACED)) if code == "unused"]
    variables = [f"extraEnv.{vendor}_VISIBLE_DEVICES" for vendor in ("NVIDIA", "AMD", "HABANA")]
    assert told == [f"singleuser.{key}" for key in (*expected, *variables)]


PROFILES = "  profileList: [{display_name: a}]\n"


@pytest.mark.parametrize(("profiles", "expected"), [(PROFILES, 0), ("  profileList: []\n", 5), ("", 5)])
def test_what_the_servers_of_profiles_keep_is_not_called_replaced(profiles: str, expected: int, tmp_path: Path):
    told = [path for path, code in found(tmp_path, section(CPU, beside=REPLACED + profiles)) if code == "unused"]
    assert expected == len(told)


def test_traits_that_a_setting_replaces_are_listed_by_key(tmp_path: Path):
    settings = f"{IMAGE}\nmemory: {{max: 4G}}\npriorities: {{low: {{class: low, value: 1}}}}"
    own = "    KubeSpawner: {image: a/b:1, mem_limit: 2G, priority_class_name: high}"
    assert found(tmp_path, f"{section(settings)}{own}") == [
        ("hub.config.KubeSpawner.mem_limit", "unused"),
        ("hub.config.KubeSpawner.image", "unused"),
        ("hub.config.KubeSpawner.priority_class_name", "unused"),
    ]


@pytest.mark.parametrize(
    ("image", "is_told"),
    [
        ("{name: quay.io/jupyter/scipy-notebook}", True),
        ("{name: quay.io/jupyter/scipy-notebook, pullPolicy: Always}", True),
        ("{name: quay.io/jupyter/scipy-notebook, tag: '2026'}", False),
        ("{name: 'quay.io/jupyter/scipy-notebook:2026', tag: null}", False),
        ("{name: quay.io/jupyterhub/k8s-singleuser-sample}", False),
        ("{tag: '2026'}", False),
        ("null", False),
        ("5", False),
    ],
)
def test_an_image_that_gets_the_charts_own_tag_is_reported(image: str, is_told: bool, tmp_path: Path):
    values = section(CPU, beside=f"singleuser: {{image: {image}}}")
    assert found(tmp_path, values) == ([("singleuser.image.name", "missing")] if is_told else [])
