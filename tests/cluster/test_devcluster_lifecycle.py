"""Starting, finding and stopping local clusters: what a developer relies on every day."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from kubernetes import client, config

from devcluster import Cluster
from devcluster.gpus import KINDS
from devcluster.processes import Process
from devcluster.run_dir import RunDir
from tests.cluster.support.footprint import NOTHING, Footprint, Machine, all_links, links_on
from tests.cluster.support.own_pods import log_of, running_pod, start_pod
from tests.cluster.support.state import state

__all__ = ["state"]

FLEET = Path(__file__).parents[2] / "devcluster" / "fleet.yaml"
UP_LIMIT_S = 20.0
FOUND_LIMIT_S = 2.0
ALL_FOUR = {"nvidia.com/gpu": "4"}


def without(program: str) -> tuple[str, ...]:
    """Return what to put before a command that shall not find a program."""
    hide = f'for path in $(which -a {program}); do mount --bind /dev/null "$path"; done; exec "$@"'
    return ("unshare", "--mount", "sh", "-c", hide, "sh")


@pytest.fixture(scope="module")
def untouched() -> Machine:
    """Return what the machine was like before the first cluster of this module."""
    return Machine.now()


@pytest.fixture(scope="module")
def started(untouched: Machine, state: Path) -> tuple[Cluster, float]:
    begin = time.monotonic()
    cluster = Cluster.up("first", FLEET)
    return cluster, time.monotonic() - begin


@pytest.fixture(scope="module")
def first(started: tuple[Cluster, float]) -> Cluster:
    return started[0]


@pytest.fixture(scope="module")
def second(state: Path) -> Cluster:
    return Cluster.up("second")


def devcluster(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    command = (*prefix, sys.executable, "-m", "devcluster", *arguments)
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=FLEET.parents[1])


def supervisor(cluster: Cluster) -> Process | None:
    return Process.load(RunDir(cluster.run_dir).pids / "supervisor")


def test_a_warm_up_takes_at_most_20_seconds_to_allocatable_gpus(started: tuple[Cluster, float]) -> None:
    cluster, seconds = started
    with cluster.api_client() as api:
        allocatable = client.CoreV1Api(api).read_node(cluster.real_node).status.allocatable
    assert {kind.resource: str(kind.count) for kind in KINDS}.items() <= allocatable.items()
    assert seconds <= UP_LIMIT_S


def test_every_pool_of_the_fleet_has_its_ready_nodes(first: Cluster) -> None:
    with first.api_client() as api:
        nodes = client.CoreV1Api(api).list_node(label_selector="gpuspawner.jupyter.org/simulated=true").items
    ready = {node.metadata.name for node in nodes for condition in node.status.conditions if condition.type == "Ready"}
    assert ready == {
        "a100-80gb-1", "a100-80gb-2", "cpu-1", "cpu-2", "gke-k80-1", "h100-1", "l4-tainted-1", "mig-invalid-1",
        "mixed-models-1", "t4-1", "v100-1",
    }  # fmt: skip


def test_a_second_up_finds_the_running_cluster_at_once(first: Cluster) -> None:
    before = supervisor(first)
    begin = time.monotonic()
    again = Cluster.up("first", FLEET)
    seconds = time.monotonic() - begin
    assert (first, before) == (again, supervisor(again))
    assert seconds <= FOUND_LIMIT_S


def test_a_pod_sees_exactly_the_gpu_it_asked_for(first: Cluster) -> None:
    script = "nvidia-smi; ls /dev | grep -c nvidia; echo done"
    with running_pod(first, "one-gpu", limits={"nvidia.com/gpu": "1"}, script=script):
        lines = log_of(first, "one-gpu", until="done")
    assert "demo stand-in, not NVIDIA's tool" in lines[0]
    assert lines[1].startswith("GPU 0: NVIDIA A100-SXM4-40GB (/dev/nvidia")
    assert lines[2].startswith("NVIDIA_VISIBLE_DEVICES=GPU-")
    assert lines[3:] == ["1"]


def test_a_pod_on_a_simulated_node_is_said_to_run_and_goes_when_deleted(first: Cluster) -> None:
    product = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    with running_pod(first, "simulated", limits={"nvidia.com/gpu": "8"}, where=product) as pod:
        assert pod.spec.node_name in {"a100-80gb-1", "a100-80gb-2"}


def test_host_and_pods_reach_each_other(first: Cluster) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the host\n")

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.HTTPServer((first.gateway, 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{first.gateway}:{server.server_port}/"
        serve = "printf 'HTTP/1.0 200 OK\\r\\n\\r\\nthe pod' | nc -l -p 8000 &"
        with running_pod(first, "neighbour", script=f"wget -q -O - {url}; echo done; {serve} true") as pod:
            lines = log_of(first, "neighbour", until="done")
            with urllib.request.urlopen(f"http://{pod.status.pod_ip}:8000/", timeout=10) as answer:
                body = answer.read()
        server.shutdown()
    assert (lines, body) == (["the host"], b"the pod")


def test_a_service_account_has_its_own_name_and_no_rights(first: Cluster) -> None:
    path = first.service_account_kubeconfig("hub", "hub")
    with config.new_client_from_config(config_file=str(path)) as api:
        review = client.AuthenticationV1Api(api).create_self_subject_review({})
        with pytest.raises(client.ApiException, match="Forbidden"):
            client.CoreV1Api(api).list_node()
    assert review.status.user_info.username == "system:serviceaccount:hub:hub"


def test_two_clusters_have_their_own_gpus_and_addresses(first: Cluster, second: Cluster) -> None:
    with running_pod(first, "here", limits=ALL_FOUR) as here, running_pod(second, "there", limits=ALL_FOUR) as there:
        subnets = [pod.status.pod_ip.rpartition(".")[0] for pod in (here, there)]
    assert subnets == [cluster.gateway.rpartition(".")[0] for cluster in (first, second)]
    assert subnets[0] != subnets[1]


def test_down_leaves_nothing_behind_and_the_other_cluster_running(
    untouched: Machine, first: Cluster, second: Cluster
) -> None:
    # The last test on the second cluster: it is gone afterwards.
    folder = RunDir(second.run_dir)
    start_pod(second, "there", limits=ALL_FOUR)
    links = links_on(folder)
    with running_pod(first, "here", limits=ALL_FOUR):
        second.down()
        with first.api_client() as api:
            phase = client.CoreV1Api(api).read_namespaced_pod("here", "default").status.phase
    assert links
    assert links & all_links() == set()
    assert Footprint.of(folder) == NOTHING
    assert untouched == Machine.now()
    assert phase == "Running"


def test_status_names_each_program_of_the_cluster(first: Cluster) -> None:
    shown = devcluster("status", "--name", "first")
    assert shown.returncode == 0
    assert f"first: {first.server}" in shown.stdout
    assert {line.split()[0] for line in shown.stdout.splitlines()[1:]} >= {"containerd", "kubelet", "kube-apiserver"}


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (("unshare", "--user"), "a local cluster needs root"),
        (without("runc"), "packages are missing: apt-get install --no-install-recommends runc"),
        (without("busybox"), "packages are missing: apt-get install --no-install-recommends busybox-static"),
        (
            ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /usr/lib/cni && exec "$@"', "sh"),
            "packages are missing: apt-get install --no-install-recommends containernetworking-plugins",
        ),
    ],
)
def test_up_says_in_one_line_what_the_machine_lacks_and_starts_nothing(
    state: Path, prefix: tuple[str, ...], message: str
) -> None:
    done = devcluster("up", "--name", "never", prefix=prefix)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert message in done.stderr
    assert Footprint.of(RunDir.named("never")) == NOTHING
