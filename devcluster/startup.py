"""Starting a cluster, and bringing a started one to where it can be used."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devcluster import certificates, cgroups, gpus, images, kubeconfig, network, simulated, supervisor
from devcluster.api import Api
from devcluster.components import REAL_NODE, Plan
from devcluster.errors import DevclusterError
from devcluster.node import CONTAINERD_SOCKET, STATUS_PERIOD_S
from devcluster.prerequisites import Prerequisites
from devcluster.processes import Process
from devcluster.registration import kubelet_identity, noted, noted_at
from devcluster.run_dir import RunDir
from devcluster.waiting import Waiting


def running(run_dir: RunDir) -> bool:
    """Say whether the cluster's supervisor and its namespaces are alive; single programs it starts again by itself."""
    processes = [Process.load(run_dir.pids / name) for name in ("supervisor", "init")]
    return all(process is not None and process.alive() for process in processes)


def start(run_dir: RunDir, programs: Prerequisites, *, binaries: Path) -> None:
    """Start all programs of a cluster that has nothing on this machine yet.

    Raises DevclusterError where the machine refuses something.
    """
    run_dir.create()
    addresses = network.claim(run_dir)
    run_dir.save(addresses)
    cgroups.create(run_dir)
    gpus.create_devices(run_dir.devices)
    certificates.create(run_dir, addresses, real_node=REAL_NODE)
    kubeconfig.for_certificate(run_dir, addresses, user="admin")
    plan = Plan(run_dir=run_dir, addresses=addresses, binaries=binaries, runc=programs.runc, cni=programs.cni)
    supervisor.start(plan)


def complete(run_dir: RunDir, pools: tuple[simulated.Pool, ...] | None, *, busybox: Path, timeout_s: float) -> None:
    """Wait for the API server, the images and the nodes, and create the simulated ones; can be done again at any time.

    Raises DevclusterError that says what did not come up in time and why.
    """
    addresses = run_dir.load()
    if addresses is None:
        raise DevclusterError(f"{run_dir.path} has lost its addresses: python -m devcluster down --name {run_dir.name}")
    wait = Waiting(run_dir, timeout_s)
    with ThreadPoolExecutor(1) as side, Api(run_dir, addresses) as api:
        imported = side.submit(_import_images, run_dir, busybox, wait=wait)
        wait.until("the API server", api.ready)
        if pools is not None:
            simulated.apply(lambda: Api(run_dir, addresses), pools)
        wait.until("every program", lambda: _all_programs_run(run_dir))
        wait.until("the device plugin", lambda: _gpus_registered(run_dir))
        wait.until("the node and its GPUs", lambda: _real_node_ready(api, run_dir))
        wait.until("the simulated nodes", lambda: _all_nodes_ready(api))
        wait.until("the default ServiceAccount", lambda: _pods_may_start(api))
        imported.result()


def _import_images(run_dir: RunDir, busybox: Path, *, wait: Waiting) -> None:
    done = run_dir.etc / "images"
    archives = images.archives(busybox)
    names = "\n".join(map(str, archives))
    if done.exists() and done.read_text() == names:
        return
    wait.until("containerd", lambda: _ctr(run_dir, "version").returncode == 0)
    for archive in archives:
        result = _ctr(run_dir, "--namespace", "k8s.io", "images", "import", "--local", str(archive))
        if result.returncode != 0:
            raise DevclusterError(f"containerd does not take {archive}: {' '.join(result.stderr.split())}")
    done.write_text(names)


def _ctr(run_dir: RunDir, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run containerd's client in the node's mount namespace, where the socket is."""
    command = (str(supervisor.load_plan(run_dir).binaries / "ctr"), "--address", CONTAINERD_SOCKET, *arguments)
    first = Process.load(run_dir.pids / "init")
    if first is None:
        return subprocess.CompletedProcess(command, 1, "", "the node's namespaces are not there")
    enter = ("nsenter", f"--mount=/proc/{first.pid}/ns/mnt", "--", *command)
    return subprocess.run(enter, check=False, capture_output=True, text=True)


def _all_programs_run(run_dir: RunDir) -> bool:
    # One that was killed shows in the API server only much later, and the supervisor may be about to start it again.
    processes = [Process.load(path) for path in run_dir.pids.iterdir()]
    return all(process is not None and process.alive() for process in processes)


def _gpus_registered(run_dir: RunDir) -> bool:
    """Say whether the device plugin knows the kubelet that runs now, not only the one before it."""
    return noted(run_dir.devices) == kubelet_identity(run_dir.node / "kubelet" / "device-plugins") != ""


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    # The scheduler looks at the taint, which the controller manager removes a moment after the kubelet's word.
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _real_node_ready(api: Api, run_dir: RunDir) -> bool:
    node = api.get(f"/api/v1/nodes/{REAL_NODE}")
    if node is None or not _is_ready(node):
        return False
    allocatable = node["status"].get("allocatable", {})
    return _is_current(node, run_dir) and all(allocatable.get(kind.resource) == str(kind.count) for kind in gpus.KINDS)


def _is_current(node: Mapping[str, Any], run_dir: RunDir) -> bool:
    """Say whether the node's status is the running kubelet's: one that was killed may have written it.

    The next one then writes that there are no GPUs, and in a later update that there are.
    """
    created = datetime.datetime.fromisoformat(node["metadata"]["creationTimestamp"])  # in whole seconds
    started = datetime.datetime.fromtimestamp((run_dir.pids / "kubelet").stat().st_mtime, datetime.UTC)
    if created >= started.replace(microsecond=0):
        return True
    age = datetime.datetime.now(datetime.UTC) - noted_at(run_dir.devices)
    return age.total_seconds() > 2 * STATUS_PERIOD_S


def _all_nodes_ready(api: Api) -> bool:
    return all(_is_ready(node) for node in (api.get("/api/v1/nodes") or {})["items"])


def _pods_may_start(api: Api) -> bool:
    return api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None
