"""``make demo`` without make: it starts quickly, shows what it promises, and leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from devcluster import Cluster
from devcluster.demo.local import ADMIN, NAMESPACE, PASSWORD
from devcluster.hub import CHECKOUT
from devcluster.ports import free_ports
from tests.cluster.support.demo import Demo, demo, is_free, refusal
from tests.cluster.support.pages import Visitor, visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

WARM_LIMIT_S = 40.0
NAME = f"demo-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Running:
    """A demo that is ready.

    :param seconds: from the command to a form that answers.
    """

    demo: Demo
    port: int
    seconds: float

    def visitor(self, name: str) -> Visitor:
        return visit(f"http://127.0.0.1:{self.port}", name, PASSWORD)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    (port,), began = free_ports(["127.0.0.1"]), time.monotonic()
    with demo("--name", NAME, "--port", str(port)) as started:
        started.wait_ready(timeout_s=120)
        assert "a100-40gb" in visit(f"http://127.0.0.1:{port}", "first", PASSWORD).get("/hub/spawn").offered()
        yield Running(started, port, time.monotonic() - began)


@pytest.fixture(scope="module")
def demo_pods(running: Running) -> Iterator[Pods]:
    cluster = Cluster.find(NAME)
    assert cluster is not None
    with cluster.api_client() as api:
        yield Pods(api, NAMESPACE)


def test_a_warm_start_to_a_form_that_answers_is_quick(running: Running) -> None:
    assert running.seconds < WARM_LIMIT_S


def test_the_printed_admin_sees_the_admins_notes_beside_a_users_login(running: Running) -> None:
    (address,) = re.findall(rf"http://localhost:{running.port}(?=/hub/spawn)", running.demo.printed)
    (password,) = re.findall(rf"the user name is {ADMIN}, the password (\S+)", running.demo.printed)
    admin = visit(address, ADMIN, password)

    visitors = (admin, running.visitor("reader"))
    notes = [each.get("/hub/spawn").soup.select("#gpuspawner-admin li") for each in visitors]

    assert [len(each) > 0 for each in notes] == [True, False]
    assert admin.get("/hub/admin").status == 200


def test_simulated_types_are_taken_and_real_ones_free(running: Running) -> None:
    offered = running.visitor("reader").get("/hub/spawn").offered()
    real = {"a100-40gb": 4, "a100-40gb-mig-1g.5gb": 7, "mi300x": 2}

    assert {slug: gpu["free"] for slug, gpu in offered.items()} == {**dict.fromkeys(offered, 0), **real}


@pytest.mark.parametrize("preset", ["look-around", "one-gpu"])
def test_a_preset_starts_on_the_node_that_runs_pods(running: Running, demo_pods: Pods, preset: str) -> None:
    visitor = running.visitor(preset)

    visitor.post("/hub/spawn", {"start_preset": preset})

    assert demo_pods.wait_bound(preset) == Cluster.real_node
    lab = wait_for(lambda: _lab(visitor, preset), "JupyterLab's page", timeout_s=120)
    assert "JupyterLab" in lab


def test_each_vendors_program_lists_its_own_gpus_and_no_others(running: Running, demo_pods: Pods) -> None:
    running.visitor("painter").post("/hub/spawn", {"image": "jupyterlab", "gpu": "mi300x", "gpu_count": "1"})
    wait_for(lambda: demo_pods.of("painter").status.phase == "Running", "the server runs", timeout_s=60)

    listed = {name: demo_pods.run("painter", name).out.splitlines() for name in ("nvidia-smi", "rocm-smi")}

    assert listed["nvidia-smi"][1:] == ["No devices were found"]
    assert [re.sub(r"\d+\)$", "N)", line) for line in listed["rocm-smi"][1:]] == [
        "GPU 0: AMD Instinct MI300X OAM (/dev/dri/renderDN)"
    ]


def test_a_server_with_a_simulated_type_waits(running: Running, demo_pods: Pods) -> None:
    running.visitor("patient").post("/hub/spawn", {"gpu": "h100-80gb", "gpu_count": "1"})

    assert "Insufficient nvidia.com/gpu" in demo_pods.wait_unschedulable("patient")


def test_ctrl_c_stops_everything_and_says_so(running: Running, demo_pods: Pods) -> None:
    status = running.demo.stop(signal.SIGINT)

    assert status == 130
    assert (Cluster.find(NAME), NAME in Cluster.names(), is_free(running.port)) == (None, False, True)
    assert "stopping JupyterHub" in running.demo.printed
    assert "stopping Kubernetes" in running.demo.printed


def test_a_taken_port_is_refused_in_one_line_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        status, lines = refusal("--name", f"{NAME}-two", "--port", str(port))

    assert (status, len(lines), f"port {port} is taken" in lines[0]) == (1, 1, True)
    assert Cluster.find(f"{NAME}-two") is None


def test_settings_that_cannot_be_read_are_refused_in_one_line() -> None:
    status, lines = refusal("--values", str(CHECKOUT / "no-such-file.yaml"))

    assert (status, len(lines), "no-such-file.yaml" in lines[0]) == (1, 1, True)


def _lab(visitor: Visitor, user: str) -> str:
    page = visitor.get(f"/user/{user}/lab")
    return str(page.soup.title) if page.status == 200 and "/user/" in page.url else ""
