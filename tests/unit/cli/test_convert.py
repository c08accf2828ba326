from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.main import main

SMALL = {"cpu_limit": 1, "mem_limit": "1G", "storage_class": "x"}
PROFILES = [{"display_name": "Small", "kubespawner_override": SMALL}]
SETTINGS = {
    "cpu": {"min": 1, "max": 1, "step": 1},
    "memory": {"min": "1G", "max": "1G", "step": "1G"},
    "presets": {"small": {"display_name": "Small", "cpu": 1, "memory": "1G"}},
    "discover_gpus": False,
}
ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))])
"""Some 48 million values in a few lines."""
NOTE = "note: Small: storage_class cannot differ by choice here; set it on KubeSpawner for all.\n"


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["convert", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


CONFIG = {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}, "GPUSpawner": SETTINGS}
VALUES = {"hub": {"config": CONFIG}}
IN_THE_CHART = {"singleuser": {"profileList": PROFILES}}
IN_THE_CONFIG = {"hub": {"config": {"KubeSpawner": {"profile_list": PROFILES}}}}
WITHOUT_IT_IN_THE_CHART = {**VALUES, "singleuser": {"profileList": []}}
WITHOUT_IT_IN_THE_CONFIG = {"hub": {"config": {**CONFIG, "KubeSpawner": {"profile_list": []}}}}


@pytest.mark.parametrize(
    ("document", "result"),
    [
        pytest.param(PROFILES, VALUES, id="bare list"),
        pytest.param({"profileList": PROFILES}, VALUES, id="singleuser section"),
        pytest.param({"config": {"KubeSpawner": {"profile_list": PROFILES}}}, VALUES, id="hub section"),
        pytest.param(IN_THE_CHART, WITHOUT_IT_IN_THE_CHART, id="chart"),
        pytest.param(IN_THE_CONFIG, WITHOUT_IT_IN_THE_CONFIG, id="hub's config"),
        pytest.param(
            {**IN_THE_CHART, **IN_THE_CONFIG}, {**WITHOUT_IT_IN_THE_CHART, **WITHOUT_IT_IN_THE_CONFIG}, id="both"
        ),
        pytest.param({"jupyterhub": IN_THE_CHART}, {"jupyterhub": WITHOUT_IT_IN_THE_CHART}, id="parent"),
        pytest.param({"lab": IN_THE_CONFIG, "other": {}}, {"lab": WITHOUT_IT_IN_THE_CONFIG}, id="parent's config"),
    ],
)
def test_a_profile_list_is_found_wherever_it_may_be_and_taken_away_there(
    document: Any, result: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(document))
    status, out, notes = run(str(file), capsys=capsys)
    assert (status, notes) == (0, NOTE)
    assert yaml.safe_load(out) == result


GPU_PROFILES = [{"display_name": "GPU", "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": 1}}}]


@pytest.mark.parametrize(
    "document",
    [
        {"singleuser": {"profileList": GPU_PROFILES}},
        {"hub": {"config": {"KubeSpawner": {"profile_list": GPU_PROFILES}}}},
        {"jupyterhub": {"singleuser": {"profileList": GPU_PROFILES}}},
    ],
)
def test_check_finds_nothing_in_the_old_values_with_the_result_over_them(
    document: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    old, new = tmp_path / "values.yaml", tmp_path / "converted.yaml"
    old.write_text(yaml.safe_dump(document))
    _, out, _ = run(str(old), capsys=capsys)
    new.write_text(out)
    status = main(["check", "--strict", str(old), str(new)])
    assert status == 0, capsys.readouterr()


def test_the_result_is_written_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(IN_THE_CHART))
    status, out, _ = run(str(file), "--output", "json", capsys=capsys)
    assert (status, json.loads(out)) == (0, WITHOUT_IT_IN_THE_CHART)


@pytest.mark.parametrize(
    "document",
    [
        {"singleuser": {"image": {"name": "q/base", "tag": "1"}, "profileList": PROFILES}},
        {"hub": {"config": {"KubeSpawner": {"image": "q/base:1", "profile_list": PROFILES}}}},
    ],
)
def test_the_image_of_profiles_without_one_is_the_files(
    document: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(document))
    _, out, _ = run(str(file), capsys=capsys)
    images = yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]["images"]
    assert images == {"base-1": {"display_name": "base:1", "image": "q/base:1"}}


IN_THE_SPAWNERS = {"KubeSpawner": {"cpu_limit": 8, "mem_guarantee": "4G"}, "Spawner": {"cpu_limit": 2}}


@pytest.mark.parametrize(
    "document",
    [
        {"singleuser": {"cpu": {"limit": 8}, "memory": {"limit": "16G", "guarantee": "4G"}}},
        {"singleuser": {"cpu": {"limit": 3}, "memory": {"limit": "16G"}}, "hub": {"config": IN_THE_SPAWNERS}},
        {"singleuser": {"memory": {"limit": "16G"}}, **IN_THE_SPAWNERS},
    ],
)
def test_amounts_of_profiles_without_their_own_are_the_files(
    document: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "values.yaml"
    document["singleuser"]["profileList"] = [{"display_name": "P"}]
    file.write_text(yaml.safe_dump(document))
    status, out, notes = run(str(file), capsys=capsys)
    found = yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]
    assert (status, notes, found["cpu"]["max"]) == (0, "", 8)
    assert found["memory"] == {"min": "16G", "max": "16G", "step": "16G", "guarantee": 0.25}


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(PROFILES)))
    status, out, _ = run("-", capsys=capsys)
    assert (status, yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]) == (0, SETTINGS)


def test_a_python_config_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(f"c = get_config()\nc.KubeSpawner.profile_list = {PROFILES!r}\n")
    status, out, _ = run(str(file), capsys=capsys)
    assert (status, yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]) == (0, SETTINGS)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("values.yaml", "hub: {}", "has no profile list (singleuser.profileList, hub.config.KubeSpawner.profile_list)"),
        ("values.yaml", "a: [", "is no YAML:"),
        ("values.yaml", "profileList: text", "must be a list of mappings"),
        ("config.py", "c.KubeSpawner.profile_list = lambda spawner: []", "a function cannot be converted"),
        ("config.py", "import no_such_module", "cannot be run here: ModuleNotFoundError"),
        ("config.py", "raise SystemExit", "cannot be run here: SystemExit"),
        ("values.yaml", "a: !!float ''", "is no number that can be read"),
        ("values.yaml", "profileList: []\nprofileList: [{}]", "is written twice, first on line 1"),
        ("values.yaml", "- {slug: a, slug: b}", "values.yaml:1:13: 0.slug: is written twice"),
        ("values.yaml", ALIASES, "aliases of aliases multiply"),
        ("values.yaml", "a" * (4 * 1024**2 + 1), "has more than 4 MiB, so it was not read"),
        ("values.yaml", "a: \udcff", "is no text in UTF-8: byte 4 fits nowhere"),
        ("missing.py", None, "No such file or directory"),
    ],
)
def test_what_holds_none_is_refused_with_the_reason(
    name: str, text: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / name
    if text is not None:
        file.write_text(text, errors="surrogateescape")
    status, out, err = run(str(file), capsys=capsys)
    assert (status, out, told in err) == (1 if text is not None else 3, "", True), err


def test_what_a_file_says_controls_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "values.yaml"
    override = {"volumes": [], "image": "a"}
    profile = {"display_name": "\x1b[31mred", "kubespawner_override": override}
    file.write_text(json.dumps({"profileList": [profile]}))
    status, _, err = run(str(file), capsys=capsys)
    assert (status, "?[31mred" in err, "\x1b" in err) == (0, True, False)
