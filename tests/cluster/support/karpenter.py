"""Karpenter beside a cluster, with its own cloud of simulated machines: KWOK keeps its nodes alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client import ApiClient, V1Node

from devcluster import Cluster, build
from devcluster.namespaces import die_with_parent
from devcluster.simulated import SIMULATED
from tests.cluster.support.waiting import wait_for

GROUP = "karpenter.sh"
NODE_CLASSES = {"group": "karpenter.kwok.sh", "version": "v1alpha1", "plural": "kwoknodeclasses"}
NODE_POOLS = {"group": GROUP, "version": "v1", "plural": "nodepools"}
NODE_CLAIMS = {"group": GROUP, "version": "v1", "plural": "nodeclaims"}
STOP_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Karpenter:
    """Karpenter while it runs.

    :param log: its output.
    """

    api: ApiClient
    log: Path

    @contextmanager
    def pool(
        self, name: str, *, labels: Mapping[str, str], requirements: Iterable[Mapping[str, Any]], **spec: Any
    ) -> Any:
        """Let Karpenter add nodes of one kind inside the block; afterwards wait until all of them are gone.

        :param labels: labels of the nodes; KWOK's mark is added.
        """
        objects = client.CustomObjectsApi(self.api)
        template = {
            "metadata": {"labels": {SIMULATED: "true", **labels}},
            "spec": {
                "requirements": list(requirements),
                "nodeClassRef": {"group": NODE_CLASSES["group"], "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
            },
        }
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": template, "disruption": {"consolidateAfter": "Never"}, **spec},
        }
        objects.create_cluster_custom_object(**NODE_POOLS, body=body)
        try:
            wait_for(lambda: self._is_ready(name), f"NodePool {name} ready", timeout_s=30)
            yield
        finally:
            objects.delete_cluster_custom_object(**NODE_POOLS, name=name)
            wait_for(lambda: not self.nodes(name), f"no node of NodePool {name}", timeout_s=60)

    def nodes(self, pool: str) -> list[V1Node]:
        """Return the nodes of a NodePool."""
        return list(client.CoreV1Api(self.api).list_node(label_selector=f"{GROUP}/nodepool={pool}").items)

    def limit(self, pool: str, limits: Mapping[str, str]) -> None:
        """Change what the nodes of a NodePool may have together."""
        body = {"spec": {"limits": dict(limits)}}
        client.CustomObjectsApi(self.api).patch_cluster_custom_object(**NODE_POOLS, name=pool, body=body)

    def _is_ready(self, name: str) -> bool:
        found = client.CustomObjectsApi(self.api).get_cluster_custom_object(**NODE_POOLS, name=name)
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", [])}
        return conditions.get("Ready") == "True"


@contextmanager
def running_karpenter(
    cluster: Cluster, api: ApiClient, folder: Path, *, machines: Iterable[Mapping[str, Any]]
) -> Iterator[Karpenter]:
    """Run Karpenter inside the block, and leave nothing of it.

    :param folder: for its log and its machines.
    :param machines: instance types, as the examples in Karpenter's ``kwok/examples`` hold them.
    """
    program = build.ensure(["karpenter"]) / "karpenter"
    types, log = folder / "instance-types.json", folder / "karpenter.log"
    types.write_text(json.dumps(list(machines)))
    with ExitStack() as stack:
        stack.enter_context(kinds_served(api))
        body = {
            "apiVersion": "{group}/{version}".format(**NODE_CLASSES),
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
        }
        client.CustomObjectsApi(api).create_cluster_custom_object(**NODE_CLASSES, body=body)
        stack.enter_context(_process(program, cluster, types=types, log=log))
        yield Karpenter(api, log)


@contextmanager
def kinds_served(api: ApiClient) -> Iterator[None]:
    """Have Karpenter's kinds of objects inside the block, without Karpenter."""
    with ExitStack() as stack:
        for path in sorted(build.sources("karpenter").glob("*/apis/crds/*.yaml")):
            stack.enter_context(definition(api, yaml.safe_load(path.read_text())))
        yield


@contextmanager
def definition(api: ApiClient, body: dict[str, Any]) -> Iterator[None]:
    """Have a kind of custom objects inside the block; its objects go with it."""
    extensions, name = client.ApiextensionsV1Api(api), body["metadata"]["name"]
    extensions.create_custom_resource_definition(body)

    def is_established() -> bool:
        conditions = extensions.read_custom_resource_definition(name).status.conditions or []
        return any(each.type == "Established" and each.status == "True" for each in conditions)

    try:
        wait_for(is_established, f"{name} served", timeout_s=30)
        yield
    finally:
        _forget_finalizers(api, body)
        extensions.delete_custom_resource_definition(name)
        wait_for(lambda: name not in _names(extensions), f"{name} gone", timeout_s=30)


def _forget_finalizers(api: ApiClient, body: dict[str, Any]) -> None:
    """Let the objects of a kind go: their controller has ended, so nothing else removes the finalizers."""
    objects = client.CustomObjectsApi(api)
    version = next(each["name"] for each in body["spec"]["versions"] if each["storage"])
    kind = {"group": body["spec"]["group"], "version": version, "plural": body["spec"]["names"]["plural"]}
    for found in objects.list_cluster_custom_object(**kind)["items"]:
        if found["metadata"].get("finalizers"):
            bare = {"metadata": {"finalizers": None}}
            objects.patch_cluster_custom_object(**kind, name=found["metadata"]["name"], body=bare)


def _names(extensions: client.ApiextensionsV1Api) -> set[str]:
    return {each.metadata.name for each in extensions.list_custom_resource_definition().items}


@contextmanager
def _process(program: Path, cluster: Cluster, *, types: Path, log: Path) -> Iterator[None]:
    environment = {
        "PATH": os.defpath,
        "KUBECONFIG": str(cluster.kubeconfig),
        "INSTANCE_TYPES_FILE_PATH": str(types),
        "SYSTEM_NAMESPACE": "default",
        "DISABLE_LEADER_ELECTION": "true",
        # Any free ones: nothing connects to them.
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        # A test has one pod at a time, and no others to wait for.
        "BATCH_IDLE_DURATION": "200ms",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(program)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - a call into the C library only
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
