"""Any process may be killed at any time: a cluster heals, the next `up` replaces it, and `down` leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client

from devcluster import Cluster
from devcluster.gpus import KINDS
from devcluster.processes import Process, every_pid, poll
from devcluster.run_dir import RunDir
from tests.cluster.support.footprint import NOTHING, Footprint, all_links, links_on
from tests.cluster.support.own_pods import running_pod, start_pod
from tests.cluster.support.state import state
from tests.cluster.support.waiting import wait_for

__all__ = ["state"]

ROOT = Path(__file__).parents[2]
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS = (*CONTROL_PLANE, "containerd", "device-plugin", "kubelet", "kwok")


@pytest.fixture(scope="module")
def sturdy(state: Path) -> Cluster:
    return Cluster.up("sturdy")


@pytest.fixture
def doomed(state: Path) -> Iterator[Cluster]:
    """Start a cluster for one test to kill."""
    yield Cluster.up("doomed")
    Cluster.remove("doomed")


def process(cluster: Cluster, name: str) -> Process:
    found = Process.load(RunDir(cluster.run_dir).pids / name)
    assert found is not None
    return found


def kill(cluster: Cluster, name: str) -> Process:
    """Kill one program with SIGKILL and return what it was."""
    victim = process(cluster, name)
    assert victim.kill()
    assert victim.wait(5)
    return victim


def shims(cluster: Cluster) -> list[Process]:
    """Return containerd's shims, each the parent of one pod's containers."""
    mark = f"GPUSPAWNER_DEVCLUSTER={cluster.run_dir}".encode()
    found = []
    for pid in every_pid():
        folder = Path("/proc") / str(pid)
        try:
            is_shim = b"containerd-shim-runc-v2" in (folder / "cmdline").read_bytes()
            if is_shim and mark in (folder / "environ").read_bytes() and (one := Process.of(pid)):
                found.append(one)
        except OSError:
            continue
    return found


def gpus_of(cluster: Cluster) -> dict[str, str]:
    with cluster.api_client() as api:
        allocatable = client.CoreV1Api(api).read_node(cluster.real_node).status.allocatable
    return {kind.resource: allocatable.get(kind.resource, "0") for kind in KINDS}


def test_every_program_that_is_killed_comes_back(sturdy: Cluster) -> None:
    victims = {name: kill(sturdy, name) for name in PROGRAMS}
    Cluster.up("sturdy")
    assert {name: process(sturdy, name).alive() for name in PROGRAMS} == dict.fromkeys(PROGRAMS, True)
    assert {name for name in PROGRAMS if process(sturdy, name) == victims[name]} == set()


def test_a_pod_outlives_kubelet_and_containerd(sturdy: Cluster) -> None:
    with running_pod(sturdy, "survivor", limits={"nvidia.com/gpu": "1"}) as before:
        kill(sturdy, "containerd")
        kill(sturdy, "kubelet")
        Cluster.up("sturdy")
        with sturdy.api_client() as api:
            after = client.CoreV1Api(api).read_namespaced_pod("survivor", "default")
    container = after.status.container_statuses[0]
    assert (after.metadata.uid, container.restart_count) == (before.metadata.uid, 0)
    assert container.state.running is not None


def test_the_device_plugin_registers_again_with_a_new_kubelet(sturdy: Cluster) -> None:
    plugin = process(sturdy, "device-plugin")
    kill(sturdy, "kubelet")
    Cluster.up("sturdy")
    with running_pod(sturdy, "after", limits={"nvidia.com/mig-1g.5gb": "7"}):
        assert gpus_of(sturdy) == {kind.resource: str(kind.count) for kind in KINDS}
    assert plugin == process(sturdy, "device-plugin")


def test_down_leaves_nothing_after_everything_but_the_supervisor_was_killed(sturdy: Cluster) -> None:
    # The last test on this cluster: it is gone afterwards.
    folder = RunDir(sturdy.run_dir)
    start_pod(sturdy, "pod", limits={"nvidia.com/mig-1g.5gb": "1"})
    links, victims = links_on(folder), shims(sturdy)
    for victim in victims:
        victim.kill()
    for name in PROGRAMS:
        kill(sturdy, name)
    sturdy.down()
    assert (bool(links), bool(victims)) == (True, True)
    assert Footprint.of(folder) == NOTHING
    assert links & all_links() == set()


@pytest.mark.parametrize("name", ["supervisor", "init"])
def test_the_kernel_takes_everything_along_with(doomed: Cluster, name: str) -> None:
    folder = RunDir(doomed.run_dir)
    start_pod(doomed, "pod", limits={"amd.com/gpu": "2"})
    kill(doomed, name)
    wait_for(lambda: not Footprint.of(folder).processes, "no process of the cluster", timeout_s=10)
    assert Cluster.find("doomed") is None
    assert Footprint.of(folder).mounts == frozenset()
    doomed.down()
    assert Footprint.of(folder) == NOTHING


def bridge_exists(folder: RunDir) -> bool:
    return folder.bridge in all_links()


def supervisor_runs(folder: RunDir) -> bool:
    return (folder.pids / "supervisor").exists()


def kubelet_runs(folder: RunDir) -> bool:
    return (folder.pids / "kubelet").exists()


@pytest.mark.parametrize("moment", [bridge_exists, kubelet_runs])
def test_down_leaves_nothing_of_an_up_that_was_killed_when(state: Path, moment: Callable[[RunDir], bool]) -> None:
    folder = kill_up_when(moment)
    gone = Cluster.remove("halfway")
    assert gone
    assert Footprint.of(folder) == NOTHING


@pytest.mark.parametrize("moment", [bridge_exists, supervisor_runs])
def test_up_completes_what_an_up_left_that_was_killed_when(state: Path, moment: Callable[[RunDir], bool]) -> None:
    kill_up_when(moment)
    cluster = Cluster.up("halfway")
    gpus = gpus_of(cluster)
    cluster.down()
    assert gpus == {kind.resource: str(kind.count) for kind in KINDS}


def kill_up_when(moment: Callable[[RunDir], bool]) -> RunDir:
    """Kill the `up` of a new cluster, in a process of its own, as soon as the condition holds."""
    folder = RunDir.named("halfway")
    command = [sys.executable, "-m", "devcluster", "up", "--name", "halfway"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as up:
        reached = poll(lambda: moment(folder), timeout_s=20, interval_s=0.001)
        up.send_signal(signal.SIGKILL)
    assert (reached, up.returncode) == (True, -signal.SIGKILL)
    return folder
