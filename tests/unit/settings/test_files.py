"""Files of settings: what they say, whether they changed, and which one is to blame."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.settings import Settings
from gpuspawner.settings.files import (
    SettingsFile,
    attribute_problems,
    compute_fingerprint,
    merge_settings_files,
    read_settings_files,
)
from tests.unit.settings.mounts import Mount


def told(*paths: Path) -> list[str]:
    with pytest.raises(SettingsError) as wrong:
        read_settings_files([str(path) for path in paths])
    return [f"{problem.field}: {problem.message}" for problem in wrong.value.problems]


def written(folder: Path, text: str | bytes, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# -- what they say -----------------------------------------------------------------------------------------------------


def test_files_are_read_in_their_order(tmp_path: Path):
    first, second = written(tmp_path, "cpu: {max: 4}", "b.yaml"), written(tmp_path, "", "a.yaml")
    assert read_settings_files([str(first), str(second)]) == [
        SettingsFile(path=str(first), content={"cpu": {"max": 4}}),
        SettingsFile(path=str(second), content={}),
    ]


def test_a_folder_stands_for_its_files_by_name(tmp_path: Path):
    for name in ("20-b.yml", "10-a.yaml", "30-c.json", ".hidden.yaml", "10-a.yaml~", "README"):
        written(tmp_path, "discover_gpus: false", name)
    (tmp_path / "folder").mkdir()
    names = ["10-a.yaml", "20-b.yml", "30-c.json"]
    assert [file.path for file in read_settings_files([str(tmp_path)])] == [str(tmp_path / name) for name in names]


def test_helm_values_with_the_settings_alone_are_settings(tmp_path: Path):
    path = written(tmp_path, "hub: {config: {GPUSpawner: {cpu: {max: 4}}}}")
    assert [file.content for file in read_settings_files([str(path)])] == [{"cpu": {"max": 4}}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "settings_files: {} is no YAML: "),
        (b"a: \xff", "settings_files: {} is no YAML: "),
        ("a: 2026-13-45", "settings_files: {} is no YAML: "),
        ("a: 1\n---\nb: 2", "settings_files: {} is no YAML: "),
        ("- 1", "settings_files: {} must hold a mapping"),
        ("&a {gpus: *a}", "settings_files: {} settings are nested more than 40 deep"),
        ("cpu: {max: 4}\ngpus: {}\ncpu: {max: 5}", "cpu: is there twice, in lines 1 and 3 ({})"),
        ("gpus: {a: {match: {b: [c], b: [d]}}}", "gpus.a.match.b: is there twice, in lines 1 and 1 ({})"),
        ("presets: [{a: 1, a: 1}]", "presets.0.a: is there twice, in lines 1 and 1 ({})"),
        ("hub: {config: {GPUSpawner: {}}}\ncpu: {}", "cpu: is not read from here; only hub.config.GPUSpawner is ({})"),
        ("hub: {config: {GPUSpawner: {}, KubeSpawner: {}}}", "hub.config.KubeSpawner: is not read from here"),
        ("hub: {config: {GPUSpawner: }}", "hub.config.GPUSpawner: must hold a mapping ({})"),
        ("hub: 1", "hub: must hold a mapping ({})"),
        ("cpu: {max: !!float ''}", "settings_files: {} is no YAML: "),
        ("cpu: {max: !!int ''}", "settings_files: {} is no YAML: "),
        ("discover_gpus: !!bool perhaps", "settings_files: {} is no YAML: "),
        ("a: !!timestamp then", "settings_files: {} is no YAML: "),
    ],
)
def test_a_document_that_holds_no_settings_is_reported_with_its_file(tmp_path: Path, text: str | bytes, expected: str):
    path = written(tmp_path, text)
    (problem,) = told(path)
    assert problem.startswith(expected.format(path))


def test_of_thousands_of_mistakes_a_hundred_are_reported(tmp_path: Path):
    paths = [
        str(written(tmp_path, "gpus: {" + "".join(f"{name}{n}: 1, " for n in range(900)) + "}", name)) for name in "abc"
    ]
    with pytest.raises(SettingsError) as wrong:
        merge_settings_files({}, paths, parse=Settings.parse)
    first, *_, last = wrong.value.problems
    assert (len(wrong.value.problems), first.message, last) == (
        101,
        f"must be a mapping, not 1 ({paths[0]})",
        Problem(field="", code="bad_value", message="and 2,600 more mistakes"),
    )


def test_anchors_are_as_good_as_what_they_stand_for(tmp_path: Path):
    path = written(tmp_path, "cpu: &bounds {max: 4}\nx: [*bounds, *bounds]\ny: {<<: *bounds, min: 1}")
    (file,) = read_settings_files([str(path)])
    assert (file.content["x"], file.content["y"]) == ([{"max": 4}, {"max": 4}], {"max": 4, "min": 1})


def test_all_wrong_files_are_reported_at_once(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert told(tmp_path / "none", pipe, written(tmp_path, "a: [")) == [
        f"settings_files: {tmp_path}/none cannot be read: No such file or directory",
        f"settings_files: {pipe} cannot be read: it is no file",
        told(tmp_path / "a.yaml")[0],
    ]


# -- whether they changed ----------------------------------------------------------------------------------------------


def test_a_rewritten_file_has_another_fingerprint(tmp_path: Path):
    path = written(tmp_path, "a: 1")
    before = compute_fingerprint([str(path)])
    assert before == compute_fingerprint([str(path)])
    os.utime(path, ns=(0, 1))
    assert compute_fingerprint([str(path)])[0] != before[0]
    assert compute_fingerprint([str(path)])[1] == 1e-9


def test_a_file_that_comes_or_goes_changes_its_folder(tmp_path: Path):
    seen = [compute_fingerprint([str(tmp_path / "mount")])[0]]
    (tmp_path / "mount").mkdir()
    seen.append(compute_fingerprint([str(tmp_path / "mount")])[0])
    path = written(tmp_path / "mount", "")
    seen.append(compute_fingerprint([str(tmp_path / "mount")])[0])
    path.unlink()
    assert compute_fingerprint([str(tmp_path / "mount")])[0] == seen[1]
    assert len(set(seen)) == 3


def test_a_mount_is_read_through_the_link_that_kubelet_swaps(tmp_path: Path):
    mount = Mount(tmp_path / "mount", {"a.yaml": "cpu: {max: 4}", "b.yaml": ""})
    paths = [str(mount.folder)]
    before = compute_fingerprint(paths)[0]
    mount.swap({"a.yaml": "cpu: {max: 5}", "c.yaml": "memory: {max: 1G}"}, finish=False)
    assert compute_fingerprint(paths)[0] != before
    assert {file.path.removeprefix(f"{mount.folder}/"): file.content for file in read_settings_files(paths)} == {
        "a.yaml": {"cpu": {"max": 5}},
        "c.yaml": {"memory": {"max": "1G"}},
    }


def test_a_file_of_a_mount_changes_with_the_link(tmp_path: Path):
    mount = Mount(tmp_path / "mount", {"a.yaml": "cpu: {max: 4}"})
    paths = [str(mount.folder / "a.yaml")]
    before = compute_fingerprint(paths)[0]
    mount.swap({"a.yaml": "cpu: {max: 4}"})
    assert compute_fingerprint(paths)[0] != before


# -- which one is to blame ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "file"),
    [
        ("gpus.a.max_count", "upper"),
        ("gpus.a.resource", "lower"),
        ("gpus.a", "upper"),
        ("gpus.b.c.match.nvidia.com/gpu.product", "lower"),
        ("cpu.max", ""),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_the_last_file_that_says_most_of_a_path_is_named(field: str, file: str):
    layers = [
        SettingsFile(path="", content={"cpu": {"max": 4}, "gpus": {}}),
        SettingsFile(
            path="lower", content={"gpus": {"a": {"resource": 1}, "b.c": {"match": {"nvidia.com/gpu.product": []}}}}
        ),
        SettingsFile(path="upper", content={"gpus": {"a": {"max_count": 0}}, "images": {}}),
    ]
    error = attribute_problems(SettingsError(Problem(field=field, code="c", message="is wrong.")), layers)
    assert error.problems[0].message == (f"is wrong. ({file})" if file else "is wrong.")
