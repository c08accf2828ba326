from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.main import main
from gpuspawner.cli.values.yaml_reader import read_yaml

SMALL = {"cpu_limit": 1, "mem_limit": "1G", "image": "q/x:1"}
PROFILES = [{"display_name": "Small", "kubespawner_override": SMALL}]
PRESET = {
    "order": 1,
    "display_name": "Small",
    "default": True,
    "image": "x-1",
    "cpu": 1,
    "cpu_guarantee": 1,
    "memory": "1G",
    "memory_guarantee": "1G",
}
SETTINGS = {
    "only_presets": True,
    "images": {"x-1": {"display_name": "x:1", "image": "q/x:1"}},
    "presets": {"small": PRESET},
}
ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))])
"""Some 48 million values in a few lines."""


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["convert", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


def make_values(settings: Any) -> dict[str, Any]:
    return {"hub": {"config": {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}, "GPUSpawner": settings}}}


VALUES = make_values(SETTINGS)
IN_THE_CHART = {"singleuser": {"profileList": PROFILES}}
IN_THE_CONFIG = {"hub": {"config": {"KubeSpawner": {"profile_list": PROFILES}}}}
WITHOUT_IT_IN_THE_CHART = {**VALUES, "singleuser": {"profileList": []}}
CONFIG = {**VALUES["hub"]["config"], "KubeSpawner": {"profile_list": []}}
WITHOUT_IT_IN_THE_CONFIG = {"hub": {"config": CONFIG}}


@pytest.mark.parametrize(
    ("document", "result", "told"),
    [
        pytest.param(PROFILES, VALUES, ["list-only"], id="bare list"),
        pytest.param({"profileList": PROFILES}, VALUES, ["list-only"], id="singleuser section"),
        pytest.param({"config": {"KubeSpawner": {"profile_list": PROFILES}}}, VALUES, ["list-only"], id="hub section"),
        pytest.param({"KubeSpawner": {"profile_list": PROFILES}}, VALUES, [], id="JupyterHub's config"),
        pytest.param({"profile_list": PROFILES}, VALUES, ["list-only"], id="KubeSpawner's config"),
        pytest.param(IN_THE_CHART, WITHOUT_IT_IN_THE_CHART, [], id="chart"),
        pytest.param(IN_THE_CONFIG, WITHOUT_IT_IN_THE_CONFIG, [], id="hub's config"),
        pytest.param(
            {**IN_THE_CHART, **IN_THE_CONFIG},
            {**WITHOUT_IT_IN_THE_CHART, **WITHOUT_IT_IN_THE_CONFIG},
            ["unused-list"],
            id="both",
        ),
        pytest.param({"jupyterhub": IN_THE_CHART}, {"jupyterhub": WITHOUT_IT_IN_THE_CHART}, [], id="parent"),
        pytest.param({"lab": IN_THE_CONFIG, "x": {}}, {"lab": WITHOUT_IT_IN_THE_CONFIG}, [], id="parent's config"),
        pytest.param(
            {"daskhub": {"basehub": {"jupyterhub": IN_THE_CHART}}},
            {"daskhub": {"basehub": {"jupyterhub": WITHOUT_IT_IN_THE_CHART}}},
            [],
            id="three parents",
        ),
        pytest.param(
            {"base": {"lab": IN_THE_CHART}}, {"base": {"lab": WITHOUT_IT_IN_THE_CHART}}, [], id="parents of any name"
        ),
    ],
)
def test_a_profile_list_is_found_wherever_it_may_be_and_taken_away_there(
    document: Any, result: Any, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status, out, notes = run(write(tmp_path / "values.yaml", document), capsys=capsys)
    assert (status, yaml.safe_load(out)) == (0, result)
    assert [line.split(": ")[1] for line in notes.splitlines() if not line.startswith(" ")] == told


def test_files_are_merged_as_helm_merges_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    common = {"singleuser": {"image": {"name": "q/base", "tag": "1"}, "cpu": {"limit": 2}, "memory": {"limit": "2G"}}}
    own = {"singleuser": {"cpu": {"limit": None}, "profileList": [{"display_name": "P"}]}}
    files = [write(tmp_path / "a.yaml", common), write(tmp_path / "b.yaml", own)]
    _, out, _ = run(*files, capsys=capsys)
    assert yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]["presets"]["p"] == {
        "order": 1,
        "display_name": "P",
        "default": True,
        "image": "base-1",
        "cpu": "unlimited",
        "memory": "2G",
        "memory_guarantee": "1G",
    }


def test_the_last_of_two_equal_keys_counts_and_a_warning_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = "singleuser:\n  profileList: [{display_name: A}]\n  profileList: [{display_name: B}]\n"
    file = write(tmp_path / "values.yaml", text)
    status, out, notes = run(file, capsys=capsys)
    assert (status, list(yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]["presets"])) == (0, ["b"])
    assert notes.startswith(f"warning: {file}:3:3: singleuser.profileList: is written twice, first on line 2")
    assert notes.endswith(" Helm drops the first. Remove one of them: `gpuspawner check` takes it for an error.\n")
    assert main(["check", file]) == 1


def test_anchors_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = "custom:\n  p: &p {display_name: A}\nsingleuser:\n  profileList: [{<<: *p, slug: b}]\n"
    status, out, _ = run(write(tmp_path / "values.yaml", text), capsys=capsys)
    assert (status, list(yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]["presets"])) == (0, ["b"])


GPU = {
    "extra_resource_limits": {"nvidia.com/gpu": 1},
    "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"singleuser": {"profileList": [{"display_name": "G", "kubespawner_override": GPU}]}}, id="GPU"),
        pytest.param(IN_THE_CHART, id="no GPU"),
        pytest.param(IN_THE_CONFIG, id="hub's config"),
        pytest.param({"jupyterhub": IN_THE_CHART}, id="parent"),
        pytest.param({"singleuser": {"image": {"name": "q/y", "tag": "1"}, "profileList": PROFILES}}, id="image"),
        pytest.param(
            {"singleuser": {"image": {"name": "q/y"}, "profileList": [*PROFILES, {"display_name": "O"}]}},
            id="image without tag",
        ),
        pytest.param(
            {"singleuser": {"extraResource": {"limits": {"nvidia.com/gpu": 1}}, "profileList": PROFILES}},
            id="hub's GPU",
        ),
    ],
)
def test_check_finds_nothing_in_the_result_alone_and_over_the_old_values(
    document: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    old, new = write(tmp_path / "values.yaml", document), tmp_path / "converted.yaml"
    new.write_text(run(old, capsys=capsys)[1])
    assert main(["check", "--strict", str(new)]) == 0, capsys.readouterr()
    status = main(["check", "--strict", old, str(new)])
    told = capsys.readouterr().out
    # The chart's own tag is not known here, which check says of the old values as well.
    assert status == 0 or "has no tag beside it" in told, told


def test_the_result_is_written_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write(tmp_path / "values.yaml", IN_THE_CHART)
    status, out, _ = run(file, "--output", "json", capsys=capsys)
    assert (status, json.loads(out)) == (0, WITHOUT_IT_IN_THE_CHART)


WORDS = ["1e3", "0o17", "yes", "n", "017", "1_000", "12:30", "null", "", "0x1F", ".5"]


def test_texts_stay_texts_for_helm(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    environment = {f"A{number}": word for number, word in enumerate(WORDS)}
    document = [{"display_name": "P", "kubespawner_override": {"environment": environment}}]
    _, out, _ = run(write(tmp_path / "list.json", json.dumps(document)), capsys=capsys)
    read: Any = read_yaml(out, file="").tree.plain
    preset = read["hub"]["config"]["GPUSpawner"]["presets"]["p"]
    assert preset["kubespawner_override"]["environment"] == environment


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(IN_THE_CHART)))
    status, out, _ = run("-", capsys=capsys)
    assert (status, yaml.safe_load(out)) == (0, WITHOUT_IT_IN_THE_CHART)


def test_a_python_config_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = f"c = get_config()\nc.KubeSpawner.profile_list = {PROFILES!r}\nc.KubeSpawner.volumes.append({{}})\n"
    status, out, _ = run(write(tmp_path / "jupyterhub_config.py", text), "--verify", capsys=capsys)
    assert (status, yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]) == (0, SETTINGS)


MEMORY = "must be a number of bytes, or a text such as 4G (K, M, G or T, without an i)"


@pytest.mark.parametrize(
    ("trait", "value", "told"),
    [
        pytest.param("mem_limit", "4Gi", f"{MEMORY}, not '4Gi'", id="memory limit"),
        pytest.param("mem_guarantee", "1000Mi", f"{MEMORY}, not '1000Mi'", id="memory guarantee"),
        pytest.param("cpu_limit", "500m", "must be a number of CPUs such as 0.5, not '500m'", id="CPU limit"),
        pytest.param("cpu_guarantee", "1m", "must be a number of CPUs such as 0.5, not '1m'", id="CPU guarantee"),
        pytest.param("start_timeout", "5m", "must be an int", id="another trait"),
    ],
)
def test_an_amount_that_kubespawner_does_not_read_is_reported_with_what_it_reads(
    trait: str, value: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    profiles = [*PROFILES, {"display_name": "P", "kubespawner_override": {trait: value}}]
    status, _, notes = run(write(tmp_path / "values.yaml", {"singleuser": {"profileList": profiles}}), capsys=capsys)
    assert (status, notes.splitlines()[-1]) == (4, f"  - P: {trait}: {told}")


RESTRICTED = {"display_name": "R", "only_for": "tutors"}
TWO_KINDS = {
    "display_name": "T",
    "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": 1, "google.com/tpu": 1}},
}
TUTORS = {"display_name": "A", "allowed_groups": ["tutors"]}
LONGER = {"display_name": "T · B", "allowed_groups": ["tutors"]}
EMPTY_ACCESS = {"display_name": "None", "allowed_groups": []}
ROUNDED = {"display_name": "C", "kubespawner_override": {"cpu_limit": 0.0005}}


@pytest.mark.parametrize(
    ("profiles", "flags", "status", "told"),
    [
        pytest.param([ROUNDED], [], 0, "note: cpu-rounded: ", id="same pods"),
        pytest.param([*PROFILES, EMPTY_ACCESS], [], 4, "differs: no-user-allowed: ", id="a difference"),
        pytest.param([{**PROFILES[0], "badge": "x"}], [], 4, "differs: unread-key: ", id="an unread key"),
        pytest.param([RESTRICTED], [], 5, "To accept it: --accept access-key\n", id="wider access"),
        pytest.param([TWO_KINDS], [], 5, "To accept it: --accept several-accelerators\n", id="other resources"),
        pytest.param([RESTRICTED], ["--accept", "access-key"], 4, "accepted: access-key: ", id="accepted"),
        pytest.param(
            [RESTRICTED, TWO_KINDS],
            ["--accept", "access-key"],
            5,
            "To accept it: --accept several-accelerators\n",
            id="one of two accepted",
        ),
        pytest.param(
            [RESTRICTED, TWO_KINDS],
            ["--accept", "access-key"],
            5,
            "refused: access-key: ",
            id="not accepted yet",
        ),
    ],
)
def test_the_exit_status_says_how_much_differs(
    profiles: Any, flags: list[str], status: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(tmp_path / "values.yaml", {"singleuser": {"profileList": profiles}})
    found, out, notes = run(file, *flags, capsys=capsys)
    assert (found, bool(out), told in notes) == (status, status != 5, True), notes


def test_verify_compares_the_servers_of_all_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    unlisted = {"enabled": True, "kubespawner_override": {"default_url": "{value}"}}
    options = {
        "size": {"choices": {"l": {"kubespawner_override": {"mem_limit": "8G"}}, "s": {}}, "unlisted_choice": unlisted}
    }
    profiles = [{**PROFILES[0], "profile_options": options}]
    file = write(tmp_path / "values.yaml", {"singleuser": {"profileList": profiles}})
    status, _, notes = run(file, "--verify", capsys=capsys)
    assert (status, notes.splitlines()[-1]) == (4, "4 choices: 3 same, 1 no equivalent.")
    assert "left out: the notes above say why" in notes


def test_verify_refuses_what_the_conversion_did_not_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gpuspawner.settings.profiles.presets._format_access", lambda access: {})
    profiles = [{**PROFILES[0], "allowed_groups": ["tutors"]}]
    file = write(tmp_path / "values.yaml", {"singleuser": {"profileList": profiles}})
    status, out, notes = run(file, "--verify", capsys=capsys)
    assert (status, out, notes.splitlines()[-1].endswith(" --accept verification")) == (5, "", True)
    assert run(file, "--verify", "--accept", "verification", capsys=capsys)[0] == 4


@pytest.mark.parametrize(
    ("profiles", "accepted", "missing"),
    [
        pytest.param([TWO_KINDS, RESTRICTED], ["several-accelerators", "access-key"], [], id="all named"),
        pytest.param([TWO_KINDS], ["several-accelerators"], [], id="named for the choice, so for no choice too"),
        pytest.param([TWO_KINDS, TUTORS], ["several-accelerators"], ["verification"], id="cause of another profile"),
        pytest.param([TWO_KINDS, TUTORS], [], ["several-accelerators", "verification"], id="both missing"),
        pytest.param([TWO_KINDS, TUTORS], ["several-accelerators", "verification"], [], id="both accepted"),
        pytest.param([TWO_KINDS, LONGER], ["several-accelerators"], ["verification"], id="name that begins alike"),
    ],
)
def test_an_accepted_cause_hides_nothing_else_that_verify_finds(
    profiles: Any,
    accepted: list[str],
    missing: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("gpuspawner.settings.profiles.presets._format_access", lambda access: {})
    file = write(tmp_path / "values.yaml", {"singleuser": {"profileList": profiles}})
    flags = [word for name in accepted for word in ("--accept", name)]
    status, out, notes = run(file, "--verify", *flags, capsys=capsys)
    told = " ".join(f"--accept {name}" for name in missing)
    assert (status, bool(out)) == ((5, False) if missing else (4, True)), notes
    assert notes.splitlines()[-1].partition("To accept it: ")[2] == told


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        pytest.param("acces-key", 2, "gpuspawner convert: --accept: there is no cause acces-key here\n", id="no cause"),
        pytest.param("several-accelerators", 2, "there is no cause several-accelerators here\n", id="other cause"),
        pytest.param("cpu-rounded", 0, "note: cpu-rounded: ", id="cause"),
        pytest.param("verification", 0, "note: cpu-rounded: ", id="verification"),
    ],
)
def test_only_causes_of_this_run_can_be_accepted(
    name: str, status: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(tmp_path / "values.yaml", {"singleuser": {"profileList": [ROUNDED]}})
    found, out, notes = run(file, "--accept", name, capsys=capsys)
    assert (found, bool(out), told in notes) == (status, not status, True), notes


TEMPLATE = "singleuser:\n  profileList:\n  - display_name: P\n    kubespawner_override:\n"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param(
            "values.yaml",
            "hub: {}",
            "values.yaml: has no profile list (singleuser.profileList, hub.config.KubeSpawner.profile_list)",
            id="no list",
        ),
        pytest.param(
            "values.yaml",
            "hub:\n  extraConfig:\n    my: c.KubeSpawner.profile_list = f",
            "values.yaml:3:9: hub.extraConfig.my: makes the profile list in Python",
            id="list of Python code",
        ),
        pytest.param(
            "values.yaml",
            json.dumps({"p1": {"jupyterhub": IN_THE_CHART}, "p2": {"jupyterhub": IN_THE_CONFIG}}),
            "p1.jupyterhub.singleuser.profileList and p2.jupyterhub.hub.config.KubeSpawner.profile_list: convert each",
            id="two charts",
        ),
        pytest.param("values.yaml", "a: [", "is no YAML:", id="no YAML"),
        pytest.param("values.yaml", "profileList: text", "1:14: must be a list or mapping of profiles", id="text"),
        pytest.param("values.yaml", "- {}", "values.yaml:1:3: 0: has no display_name", id="no name"),
        pytest.param(
            "values.yaml",
            "- display_name: P\n  profile_options:\n    o: 1\n",
            "values.yaml:3:8: 0.profile_options.o: must be a mapping",
            id="option",
        ),
        pytest.param(
            "values.yaml",
            f"{TEMPLATE}      image: {{{{ .Values.image }}}}\n",
            "values.yaml:5:",
            id="template that is no YAML",
        ),
        pytest.param(
            "values.yaml",
            f'{TEMPLATE}      image: "{{{{ .Values.image }}}}"\n',
            "values.yaml:5:14: singleuser.profileList.0.kubespawner_override.image: is a template",
            id="template",
        ),
        pytest.param(
            "values.yaml",
            f"{TEMPLATE}      image: q/x:${{TAG}}\n",
            "values.yaml:5:14: singleuser.profileList.0.kubespawner_override.image: is a template",
            id="variable",
        ),
        pytest.param(
            "values.yaml",
            "singleuser: {profileList: [{display_name: A, kubespawner_override: {default_url: 1}}]}",
            "1:14: has no profile with which a server could start. A: KubeSpawner",
            id="no server starts",
        ),
        pytest.param(
            "values.yaml",
            "singleuser: {cpu: 1, profileList: [{display_name: A}]}",
            "values.yaml:1:19: singleuser.cpu: must be a mapping",
            id="no mapping",
        ),
        pytest.param(
            "values.yaml",
            "singleuser:\n  memory: {limit: 4Gi}\n  profileList: [{display_name: A}]",
            "values.yaml:2:19: singleuser.memory.limit: must be a number of bytes, or a text such as 4G",
            id="amount",
        ),
        pytest.param(
            "values.yaml",
            "singleuser: {extraResource: {limits: {nvidia.com/gpu: 1.5}}, profileList: [{display_name: A}]}",
            "values.yaml:1:30: singleuser.extraResource.limits: must be a whole number",
            id="one and a half GPUs for all",
        ),
        pytest.param("config.py", "c.KubeSpawner.profile_list = lambda s: []", "is a function", id="function"),
        pytest.param(
            "config.py",
            "c.KubeSpawner.profile_list = [dict(display_name='P', kubespawner_override=dict(image=len))]",
            "0.kubespawner_override.image: is a Python function",
            id="function of an override",
        ),
        pytest.param("config.py", "import no_such_module", "cannot be run here: ModuleNotFoundError", id="module"),
        pytest.param("config.py", "raise SystemExit", "cannot be run here: SystemExit", id="exit"),
        pytest.param("config.py", "c.X.y = 1", "has no profile list (c.KubeSpawner.profile_list)", id="no list of .py"),
        pytest.param("values.yaml", "a: !!float ''", "is no number that can be read", id="number"),
        pytest.param("values.yaml", ALIASES, "aliases of aliases multiply", id="aliases"),
        pytest.param("values.yaml", "a" * (4 * 1024**2 + 1), "has more than 4 MiB, so it was not read", id="large"),
        pytest.param("values.yaml", "a: \udcff", "is no text in UTF-8: byte 4 fits nowhere", id="no text"),
    ],
)
def test_input_that_cannot_be_used_is_refused_with_the_reason(
    name: str, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / name
    file.write_text(text, errors="surrogateescape")
    status, out, err = run(str(file), capsys=capsys)
    assert (status, out, told in err, len(err.splitlines())) == (2, "", True, 1), err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("default_url", "/user/{username}/lab", id="KubeSpawner's field"),
        pytest.param("environment", {"HOME_OF": "/home/${username}"}, id="field after a dollar sign"),
        pytest.param("environment", {"JSON": '{{"a": 1}}'}, id="doubled braces"),
        pytest.param("lifecycle_hooks", {"postStart": {"exec": {"command": ["sh", "-c", "cp a ${HOME}"]}}}, id="shell"),
    ],
)
def test_braces_of_kubespawner_are_no_template(
    key: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(tmp_path / "l.yaml", [{"display_name": "P", "kubespawner_override": {key: value}}])
    status, out, err = run(file, capsys=capsys)
    assert status == 0, err
    assert yaml.safe_load(out)["hub"]["config"]["GPUSpawner"]["presets"]["p"]["kubespawner_override"] == {key: value}


def test_a_missing_file_and_python_among_others_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(str(tmp_path / "missing.py"), capsys=capsys)[0] == 3
    files = [write(tmp_path / "a.yaml", IN_THE_CHART), write(tmp_path / "b.py", "")]
    status, _, err = run(*files, capsys=capsys)
    assert (status, "a .py file cannot be merged with other files" in err) == (2, True)


def test_what_a_file_says_controls_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    profile = {"display_name": "\x1b[31mred", "badge": 1}
    status, _, err = run(write(tmp_path / "values.yaml", json.dumps({"profileList": [profile]})), capsys=capsys)
    assert (status, "?[31mred" in err, "\x1b" in err) == (4, True, False)


def note_code(code: str, tmp_path: Path, *, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    values = {**IN_THE_CHART, "hub": {"extraConfig": {"mine": code}}}
    status, _, notes = run(write(tmp_path / "values.yaml", values), capsys=capsys)
    return status, notes


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        pytest.param("c.KubeSpawner.profile_list = make()", "refused", id="assigned"),
        pytest.param("c['KubeSpawner']['profile_list'] += [{}]", "refused", id="added to"),
        pytest.param("spawner.profile_list[0]['slug'] = 'x'", "refused", id="a part assigned"),
        pytest.param("c.KubeSpawner.profile_list.append({})", "refused", id="appended"),
        pytest.param("setattr(spawner, 'profile_list', [])", "refused", id="setattr"),
        pytest.param("c.KubeSpawner.update({'profile_list': []})", "refused", id="in a dict"),
        pytest.param("print(c.KubeSpawner.profile_list)", "differs", id="read"),
        pytest.param("if spawner.profile_list == []: pass", "differs", id="compared"),
        pytest.param("# c.KubeSpawner.profile_list = []", "", id="comment"),
    ],
)
def test_code_that_names_the_list_is_reported_by_what_it_does(
    code: str, effect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status, notes = note_code(code, tmp_path, capsys=capsys)
    expected = f"{effect}: python-code: "
    assert (status, not effect or expected in notes) == ({"refused": 5, "differs": 4}.get(effect, 0), True), notes


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("print(spawner.user_options['profile'])", id="choice"),
        pytest.param("c.KubeSpawner.pre_spawn_hook = hook", id="hook before the start"),
        pytest.param("c.KubeSpawner.modify_pod_hook = hook", id="hook of the pod"),
        pytest.param("c.KubeSpawner.options_form = make", id="form"),
        pytest.param("c.KubeSpawner.options_from_form = read", id="answers of the form"),
    ],
)
def test_code_that_may_read_the_choice_is_reported(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status, notes = note_code(code, tmp_path, capsys=capsys)
    assert (status, "differs: hooks: Code of hub" in notes, "  - hub.extraConfig.mine\n" in notes) == (4, True, True)


@pytest.mark.parametrize(
    ("keys", "code", "told"),
    [
        pytest.param({"allowed_groups": ["a"]}, "", 1, id="groups"),
        pytest.param({"profile_options": {"o": {"choices": {"c": {"allowed_users": ["a"]}}}}}, "", 1, id="choice"),
        pytest.param({}, "", 0, id="open to all"),
        pytest.param({"allowed_groups": ["a"]}, "is_allowed(groups, each['allowed_groups'])", 0, id="read by code"),
    ],
)
def test_a_hub_that_may_not_read_who_is_allowed_is_reported_once(
    keys: Any, code: str, told: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    profiles = [{**PROFILES[0], **keys}, {**PROFILES[0], "slug": "other", **keys}]
    values = {"singleuser": {"profileList": profiles}, "hub": {"extraConfig": {"mine": code}}}
    status, _, notes = run(write(tmp_path / "values.yaml", values), capsys=capsys)
    assert (status, notes.count("KubeSpawner itself does not read")) == (0, told), notes
