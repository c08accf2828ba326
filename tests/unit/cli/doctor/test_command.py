from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster.demo.values import LOCAL, OWN_CLUSTER
from gpuspawner.cli.main import main
from tests.unit.cli.conftest import calls, gpu_node, settings
from tests.unit.kube.watch_server import NODES, WatchServer

Doctor = Callable[..., Any]


@pytest.fixture
def doctor(kubeconfig: str, tmp_path: Path) -> Doctor:
    """Call the program; it has an event loop of its own, so it runs beside the one that serves."""

    async def call(*arguments: str, values: Any = None) -> int:
        return await asyncio.to_thread(main, ["doctor", *calls(kubeconfig, tmp_path, values), *arguments])

    return call


async def test_faults_are_reported_with_exit_code_1(
    server: WatchServer, doctor: Doctor, capsys: pytest.CaptureFixture[str]
):
    server.put(NODES, gpu_node("gpu-2", working=3))
    server.put("/api/v1/namespaces", {"metadata": {"name": "jhub"}})
    assert await doctor("--output", "json") == 1
    told = json.loads(capsys.readouterr().out)
    found = told["findings"]
    assert told["unread"] == []
    assert [(each["severity"], each["code"], each["objects"]) for each in found] == [
        ("fault", "gpu-unhealthy", ["gpu-2"]),
        ("note", "hub-missing", []),
        ("note", "new-nodes-unlikely", []),
    ]


@pytest.mark.parametrize("values", [LOCAL, OWN_CLUSTER], ids=lambda path: path.name)
async def test_the_demo_lacks_no_storage(
    server: WatchServer, doctor: Doctor, capsys: pytest.CaptureFixture[str], values: Path
):
    server.put("/api/v1/namespaces", {"metadata": {"name": "jhub"}})
    await doctor("-f", str(values), "--output", "json")
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {each["code"] for each in found if "type" not in each["code"]} <= {
        "hub-missing",
        "limit-too-large",
        "new-nodes-unlikely",
    }


async def test_notes_are_no_fault(server: WatchServer, doctor: Doctor, capsys: pytest.CaptureFixture[str]):
    server.put("/api/v1/namespaces", {"metadata": {"name": "jhub"}})
    server.status["/apis/apps/v1/deployments"] = 403
    assert await doctor() == 0
    told = capsys.readouterr()
    assert (told.out.splitlines()[0], told.out.splitlines()[-1]) == ("NOTE  hub-missing", "1 note")
    assert told.err == "not checked: deployments (HTTP status 403)\n"
    assert await doctor("--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["unread"] == [{"kind": "deployments", "reason": "HTTP status 403"}]


async def test_what_cannot_be_looked_at_is_3_and_wrong_settings_are_1(
    server: WatchServer, doctor: Doctor, capsys: pytest.CaptureFixture[str]
):
    assert await doctor(values=settings(cpu={"max": "many"})) == 1
    assert "cpu.max" in capsys.readouterr().err
    server.status[NODES] = 403
    assert await doctor() == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "arguments", [["--hub-account", "hub"], ["--hub-account", "a:b:c"], ["--probe-pull-policy", "x"]]
)
def test_a_wrong_call_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["doctor", *arguments])
    assert (left.value.code, "usage: gpuspawner doctor" in capsys.readouterr().err) == (2, True)


def test_a_probe_needs_an_image(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "--probe"]) == 2
    assert "--probe needs --probe-image" in capsys.readouterr().err
