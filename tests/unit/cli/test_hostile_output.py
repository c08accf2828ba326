"""No command writes what a terminal would obey, whatever a cluster or file holds. Programs read texts unchanged."""

from __future__ import annotations

import asyncio
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.cli.common.output import Paint, SafeOutput, dump_json, dump_yaml
from gpuspawner.cli.main import main, make_parser
from tests.unit.cli.conftest import calls, gpu_node, gpu_pod
from tests.unit.kube.watch_server import NODES, PODS, WatchServer

# Sets a title, colors, moves, rings, reverses the direction of what follows, and begins lines.
EVIL = "a\x1b]0;b\x07\x1b[31m\x9b2J\u202ec\u2066\u200b\u2028d\r\n\te"
TEXTS = st.text() | st.lists(st.sampled_from([*EVIL, "\x1b[31m", "\x1b[0m", "\x1b[8m", "\x1b[H\x1b[2J", "é"])).map(
    "".join
)
IMAGE = {"image": "quay.io/jupyter/base:1", "display_name": EVIL, "description": EVIL}
VALUES = {
    "hub": {
        "config": {
            "JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"},
            "KubeSpawner": {EVIL: EVIL, "extra_annotations": {EVIL: EVIL}},
            "GPUSpawner": {
                "images": {"lab": IMAGE, EVIL: {"image": EVIL}},
                "presets": {"small": {"image": "lab", "display_name": EVIL, "cpu": EVIL}},
                "policy": {"groups": {EVIL: {"gpus": [EVIL]}}},
                EVIL: EVIL,
            },
        },
        EVIL: EVIL,
    }
}
GOOD = {
    "hub": {
        "config": {
            "JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"},
            "KubeSpawner": {"extra_annotations": {"site": EVIL}, "environment": {"SITE": EVIL}},
            "GPUSpawner": {
                "images": {"lab": IMAGE},
                "gpus": {
                    "own": {
                        "resource": "nvidia.com/gpu",
                        "display_name": EVIL,
                        "match": {"nvidia.com/gpu.present": "true"},
                    }
                },
                "policy": {"groups": {EVIL: {"gpus": ["own"]}}},
            },
        }
    },
    "singleuser": {
        "profileList": [
            {
                "display_name": EVIL,
                "slug": "one",
                "kubespawner_override": {"environment": {"A": EVIL}},
                "profile_options": {EVIL: {"display_name": EVIL, "choices": {EVIL: {"display_name": EVIL}}}},
            }
        ]
    },
}
PROFILES = {
    "singleuser": {
        "profileList": [
            {
                "display_name": EVIL,
                "description": EVIL,
                "slug": "one",
                "kubespawner_override": {EVIL: EVIL, "environment": {EVIL: EVIL}, "mem_limit": EVIL},
            },
            {"display_name": "Two", "kubespawner_override": {"environment": {"A": EVIL}, "image": "quay.io/a/b:1"}},
        ]
    }
}
WITHOUT_CLUSTER = {
    "check": [["bad.yaml"], ["good.yaml"], [f"no{EVIL}.yaml"]],
    "diff": [["profiles.yaml", "good.yaml"], ["bad.yaml", "good.yaml"]],
    "schema": [[]],
    "version": [[]],
    "demo": [["--checkout", f"/no{EVIL}"]],
}
WITH_CLUSTER = {
    "inventory": [["--nodes"]],
    "doctor": [[]],
    "explain": [
        ["--gpu", "own"],
        ["--image", EVIL, "--user", EVIL],
        ["--user-options", json.dumps({EVIL: EVIL})],
        ["--profile", "one", "--option", f"{EVIL}={EVIL}"],
        ["--profile", EVIL],
    ],
}
FORMATS = ("table", "json", "yaml")


def is_safe(text: str) -> bool:
    return all(each == "\n" or each.isprintable() or unicodedata.category(each) == "Zs" for each in text)


def written(command: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return what a command wrote to standard output and standard error."""
    try:
        code = main([command, *arguments])
    except SystemExit as left:
        # The call was wrong, such as a format that the command does not have.
        code = int(left.code or 0)
    told = capsys.readouterr()
    return ("", "") if code == 2 and "usage: " in told.err else (told.out, told.err)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, values in (("bad", VALUES), ("good", GOOD), ("profiles", PROFILES)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(values))
    return tmp_path


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("command", WITHOUT_CLUSTER)
def test_what_a_command_says_of_hostile_files_is_safe(
    files: Path, command: str, output: str, capsys: pytest.CaptureFixture[str]
):
    formats = [] if output == "table" else ["--output", output]
    told = [written(command, *arguments, *formats, capsys=capsys) for arguments in WITHOUT_CLUSTER[command]]
    assert [text for text in sum(told, ()) if not is_safe(text)] == []


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("command", WITH_CLUSTER)
async def test_what_a_command_says_of_a_hostile_cluster_is_safe(
    server: WatchServer, kubeconfig: str, tmp_path: Path, command: str, output: str, capsys: pytest.CaptureFixture[str]
):
    node = gpu_node(EVIL, working=3, taints=[{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}])
    node["metadata"]["labels"] |= {"nvidia.com/gpu.product": EVIL, "site": EVIL, EVIL: EVIL}
    node["status"]["conditions"].append({"type": EVIL, "status": "True", "reason": EVIL, "message": EVIL})
    server.put(NODES, node)
    server.put(PODS, gpu_pod(EVIL, on=EVIL), gpu_pod(f"{EVIL}2", on=None))
    server.put("/api/v1/namespaces", {"metadata": {"name": EVIL, "labels": {EVIL: EVIL}}})
    told = []
    for arguments in WITH_CLUSTER[command]:
        given = [*calls(kubeconfig, tmp_path, GOOD), *arguments, "--output", output]
        told.append(await asyncio.to_thread(written, command, *given, capsys=capsys))
    assert ([text for text in sum(told, ()) if not is_safe(text)], told[0][0] != "") == ([], True)


async def test_programs_read_the_names_of_nodes_unchanged(
    server: WatchServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]
):
    server.put(NODES, gpu_node(EVIL))
    read = {"json": json.loads, "yaml": yaml.safe_load}
    names = {}
    for output, load in read.items():
        given = ("--kubeconfig", kubeconfig, "--nodes", "--output", output)
        told, _ = await asyncio.to_thread(written, "inventory", *given, capsys=capsys)
        names[output] = sorted(node["name"] for node in load(told)["nodes"])
    assert names == {output: [EVIL, "gpu-1"] for output in read}


def test_every_command_is_among_them():
    (commands,) = (action.choices for action in make_parser()._actions if action.dest == "command")
    assert {*WITHOUT_CLUSTER, *WITH_CLUSTER} == {*commands}


@given(text=TEXTS)
def test_a_stream_is_safe_and_a_terminal_gets_only_our_own_colors(text: str):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        SafeOutput(stream).write(text + Paint(is_on=stream is terminal).style_error("é\n"))
    own = ("\x1b[31m", "\x1b[0m", "\x1b[H\x1b[2J")
    rest = terminal.getvalue()
    for sequence in own:
        rest = rest.replace(sequence, "")
    assert (is_safe(plain.getvalue()), is_safe(rest)) == (True, True)
    assert (plain.getvalue().endswith("é\n"), terminal.getvalue().endswith("\x1b[31mé\n\x1b[0m")) == (True, True)


VALUE: st.SearchStrategy[Any] = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from([EVIL, None, True]) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=5,
)


@given(value=VALUE)
def test_documents_are_safe_and_read_as_they_were(value: Any):
    as_json, as_yaml = dump_json(value, indent=2), dump_yaml(value)
    assert (is_safe(as_json), json.loads(as_json)) == (True, value)
    assert (is_safe(as_yaml), yaml.safe_load(as_yaml)) == (True, value)
