"""``make demo CONTEXT=name``: on a cluster that was there before, which is left as it was."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.client import ApiClient, CoreV1Api, RbacAuthorizationV1Api

from devcluster import Cluster
from devcluster.demo.local import PASSWORD
from devcluster.demo.own_cluster import NAMESPACE, OwnClusterDemo
from devcluster.hub import PROXY_SCRIPT
from devcluster.ports import free_ports
from tests.cluster.support.demo import is_free, refusal
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

CONTEXT = "mine"


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the kubeconfig of someone who has a cluster: one context, with a name of their own."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["contexts"][0]["name"] = CONTEXT
    config["current-context"] = CONTEXT
    path = tmp_path_factory.mktemp("own") / "config"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def values(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write values whose images are on the test cluster's node; no registry is within reach there."""
    volumes, mounts = cluster.notebook_volumes()
    name, _, tag = cluster.notebook_image.rpartition(":")
    kubespawner = {
        "image": cluster.notebook_image,
        "image_pull_policy": "Never",
        "cmd": ["python3", "-m", "jupyterhub.singleuser"],
        "environment": {"HOME": "/home/jovyan", "PATH": path_of(mounts)},
        "volumes": [*volumes, {"name": "home", "emptyDir": {}}],
        "volume_mounts": [*mounts, {"name": "home", "mountPath": "/home/jovyan"}],
    }
    offer = {
        "images": {"lab": {"display_name": "Lab", "image": cluster.notebook_image}},
        "cpu": {"min": 0.5, "max": 2, "step": 0.5, "default": 0.5, "guarantee": 0.05},
        "memory": {"min": "512M", "max": "2G", "step": "512M", "default": "1G", "guarantee": 0.05},
    }
    image = {"name": name, "tag": tag}
    content = {
        "hub": {"image": image, "config": {"GPUSpawner": offer, "KubeSpawner": kubespawner}},
        "proxy": {"chp": {"image": image}},
    }
    path = tmp_path_factory.mktemp("values") / "values.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def path_of(mounts: list[dict[str, Any]]) -> str:
    """Return the search path that finds the virtual environment's python3 first."""
    environment = next(mount["mountPath"] for mount in mounts if mount["mountPath"].endswith("venv"))
    return f"{environment}/bin:/opt/demo/bin:/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Started:
    """A demo that was started, and where."""

    demo: OwnClusterDemo
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def started(cluster: Cluster, kubeconfig: Path, values: Path) -> Iterator[Started]:
    """Run the demo on the test cluster; its hub's pod gets the node's Python and Node instead of public images."""

    def adapt(pod: dict[str, Any]) -> dict[str, Any]:
        pod = copy.deepcopy(pod)
        volumes, mounts = cluster.notebook_volumes()
        server = urlsplit(cluster.server)
        proxy = {"name": "proxy", "hostPath": {"path": str(PROXY_SCRIPT.parents[2])}}
        pod["spec"]["volumes"] += [*volumes, proxy]
        # Where pods without a GPU would go on this cluster, nothing runs them.
        pod["spec"]["nodeName"] = cluster.real_node
        for container in pod["spec"]["containers"]:
            container["imagePullPolicy"] = "Never"
            container["env"] += [
                {"name": "PATH", "value": path_of(mounts)},
                # Nothing on the test cluster routes the addresses of Services.
                {"name": "KUBERNETES_SERVICE_HOST", "value": server.hostname},
                {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
            ]
            container.setdefault("volumeMounts", []).extend(mounts)
        hub_proxy = pod["spec"]["containers"][1]
        hub_proxy["volumeMounts"].append({"name": "proxy", "mountPath": str(PROXY_SCRIPT.parents[2])})
        hub_proxy["command"][:1] = ["node", str(PROXY_SCRIPT)]
        return pod

    (port,) = free_ports(["127.0.0.1"])
    demo = OwnClusterDemo(context=CONTEXT, port=port, report=print, values=values, adapt=adapt, kubeconfig=kubeconfig)
    try:
        demo.start()
        yield Started(demo, port)
    finally:
        demo.stop()


def test_a_server_starts_in_the_cluster_with_the_chosen_gpus(started: Started, api: ApiClient) -> None:
    pods = Pods(api, NAMESPACE)
    visitor = visit(started.url, "ada", PASSWORD)
    fields = visitor.get("/hub/spawn").fields()

    answer = visitor.post("/hub/spawn/ada", {**fields, "gpu": WHOLE_CARD.slug, "gpu_count": "2"})

    assert "/hub/spawn-pending/" in answer.url, answer.text
    wait_for(lambda: "JupyterLab" in str(visitor.get("/user/ada/lab").soup.title), "JupyterLab", timeout_s=120)
    assert pods.gpus_listed("ada") == 2


def test_what_the_demo_created_is_gone_when_it_ends(started: Started, api: ApiClient) -> None:
    rbac = RbacAuthorizationV1Api(api)

    started.demo.stop()

    left = [
        found.metadata.name
        for listed in (CoreV1Api(api).list_namespace(), rbac.list_cluster_role(), rbac.list_cluster_role_binding())
        for found in listed.items
        if NAMESPACE in found.metadata.name
    ]
    assert (left, is_free(started.port)) == ([], True)


def test_an_unknown_context_or_file_is_refused_in_one_line(kubeconfig: Path, tmp_path: Path) -> None:
    unknown = refusal("--context", "nope", kubeconfig=kubeconfig)
    status, lines = refusal("--context", "nope", kubeconfig=tmp_path / "nothing")

    assert unknown == (1, ["demo: your kubeconfig has no context 'nope'; there are mine"])
    assert (status, len(lines), "kubeconfig" in lines[0]) == (1, 1, True)
