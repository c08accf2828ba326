from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.settings_errors import find_redundant_nulls, find_setting_errors
from gpuspawner.cli.common.findings import Severity
from gpuspawner.cli.values.helm_values import merge_settings
from gpuspawner.cli.values.trait_sources import locate_problems
from gpuspawner.core.errors import Problem
from tests.unit.cli_support import paths, section, told, written

TYPES = """
gpus:
  l40.s:
    resource: nvidia.com/gpu
    match: {nvidia.com/gpu.product: [NVIDIA-L40S, 3]}
    max_cuont: 4
policy:
  default:
    gpus: [t4, Bad Slug]
cpu: {min: 8, max: 4}
"""


def test_each_problem_of_the_hub_has_its_place(tmp_path: Path):
    found = {each.path: each for each in find_setting_errors(written(tmp_path, section(TYPES)))}
    places = {path: (each.place.line, each.place.column) for path, each in found.items() if each.place}
    assert places == {
        "hub.config.GPUSpawner.gpus.l40.s.match.nvidia.com/gpu.product.1": (8, 57),
        "hub.config.GPUSpawner.gpus.l40.s.max_cuont": (9, 11),
        "hub.config.GPUSpawner.policy.default.gpus.1": (12, 22),
        "hub.config.GPUSpawner.cpu.max": (13, 26),
    }
    assert "Did you mean 'max_count'?" in found["hub.config.GPUSpawner.gpus.l40.s.max_cuont"].message


def test_a_conflict_between_settings_is_reported_at_its_place_too(tmp_path: Path):
    text = section(TYPES.replace(", 3]", "]").replace("    max_cuont: 4\n", ""))
    found = [(each.path, each.place and each.place.line) for each in find_setting_errors(written(tmp_path, text))]
    assert found == [
        ("hub.config.GPUSpawner.cpu.max", 12),
        ("hub.config.GPUSpawner.policy.default.gpus.1", 11),
    ]


def test_a_missing_key_is_reported_at_the_section_that_needs_it(tmp_path: Path):
    values = written(tmp_path, section("cpu: {min: 1}\nimages:\n  x:\n    cuda: '12.8'\n"))
    found = {each.path: each.place and (each.place.line, each.place.column) for each in find_setting_errors(values)}
    assert found == {"hub.config.GPUSpawner.cpu.max": (5, 7), "hub.config.GPUSpawner.images.x.image": (7, 9)}


OTHER_CLASS = "hub: {config: {JupyterHub: {spawner_class: mysite.CourseSpawner}}}"
BY_SCRIPT = "hub: {extraConfig: {a: 'class CourseSpawner(GPUSpawner): pass'}}"


@pytest.mark.parametrize(
    ("more", "severity"),
    [(OTHER_CLASS, Severity.WARNING), (BY_SCRIPT, Severity.WARNING), ("hub: {extraConfig: {a: x}}", Severity.ERROR)],
)
def test_a_trait_that_only_the_hubs_own_class_may_have_is_no_error(tmp_path: Path, more: str, severity: Severity):
    text = section("images: {lab: {image: a, kubespawner_override: {course: a, start_timeout: 0}}}")
    found = list(find_setting_errors(written(tmp_path, text, more)))
    assert {each.path.rpartition(".")[2]: each.severity for each in found} == {
        "course": severity,
        "start_timeout": Severity.ERROR,
    }


def test_a_problem_is_found_in_the_file_that_said_it_last(tmp_path: Path):
    lower, upper = section("cpu: {min: 1, max: 4}"), "hub: {config: {GPUSpawner: {cpu: {max: 0.5}}}}"
    (found,) = find_setting_errors(written(tmp_path, lower, upper))
    assert (Path(found.place.file).name if found.place else "", found.path) == (
        "1.yaml",
        "hub.config.GPUSpawner.cpu.max",
    )


def test_settings_of_a_base_class_are_settings(tmp_path: Path):
    text = "hub: {config: {KubeSpawner: {cpu: {max: 2}, gpus: {T4: {resource: a.b/c}}}, GPUSpawner: {cpu: {max: 4}}}}"
    values = written(tmp_path, text)
    assert merge_settings(values) == {"cpu": {"max": 4}, "gpus": {"T4": {"resource": "a.b/c"}}}
    assert "hub.config.KubeSpawner.gpus.T4" in [each.path for each in find_setting_errors(values)]


def test_files_in_the_hubs_pod_are_not_read_here(tmp_path: Path):
    assert list(find_setting_errors(written(tmp_path, section("settings_files: [/nowhere]")))) == []


def test_a_problem_with_a_path_that_the_file_lacks_is_reported_at_the_section(tmp_path: Path):
    (found,) = locate_problems(
        [Problem(field="a.b", code="c", message="m")], written(tmp_path, section("cpu: {max: 4}"))
    )
    assert (found.path, found.place and found.place.line) == ("hub.config.GPUSpawner.a.b", 4)


@pytest.mark.parametrize(
    ("lower", "upper", "fields"),
    [
        ("gpus: {a: {max_count: }}", "", ["gpus.a.max_count"]),
        ("gpus: {a: {max_count: 4}}", "gpus: {a: {max_count: }}", []),
        ("gpus: {a: {max_count: 4}}", "gpus: {b: null}", ["gpus.b"]),
        ("accelerators: {a100-40gb: null}", "", []),
    ],
)
def test_a_null_is_reported_where_it_removes_nothing(lower: str, upper: str, fields: list[str], tmp_path: Path):
    files = [section(text) for text in (lower, upper) if text]
    found = list(find_redundant_nulls(written(tmp_path, *files)))
    assert [each.path.removeprefix("hub.config.GPUSpawner.") for each in found] == fields
    assert {each.severity for each in found} <= {Severity.WARNING}


def test_a_null_of_the_chart_is_no_concern(tmp_path: Path):
    assert list(find_redundant_nulls(written(tmp_path, "singleuser: {memory: {guarantee: null}}"))) == []


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("{node_selectr: {}}", [("node_selectr", "unknown_key")]),
        ("{start_timeout: soon}", [("start_timeout", "bad_value")]),
        ("{tolerations: [gpu]}", [("tolerations", "bad_value")]),
        ("{environment: {A: '{nope}'}}", [("environment", "bad_value")]),
        ("{mem_limit: 4G}", [("mem_limit", "conflict")]),
        ("{environment: {A: '{username}', B: null}, node_selector: {a: null}}", []),
    ],
    ids=["unknown", "type", "pod", "template", "decided", "fine"],
)
def test_an_override_that_kubespawner_rejects_is_an_error(tmp_path: Path, override: str, found: list[tuple[str, str]]):
    below = "images.lab.kubespawner_override."
    values = written(tmp_path, section(f"images: {{lab: {{image: a, kubespawner_override: {override}}}}}"))
    assert [(f"{below}{name}", code) for name, code in found] == paths(told(values))
    assert all(each.severity is Severity.ERROR and each.place is not None for each in told(values))
