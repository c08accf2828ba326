"""Probe pods, which test whether a pod that requests no GPU sees GPUs.

CUDA images set NVIDIA_VISIBLE_DEVICES=all. If NVIDIA's runtime is a node's default runtime, it exposes all GPUs to
containers of such images, regardless of their requests (NVIDIA/k8s-device-plugin, README, "Running GPU Jobs").
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from gpuspawner.cli.cluster.connection import ClusterConnection
from gpuspawner.cli.doctor.api import REQUEST_TIMEOUT_S
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.discovery.discover import SIMULATED_LABEL, group_nodes_by_kind
from gpuspawner.core.json_access import as_dict, as_dicts, as_message, as_text
from gpuspawner.kube.client.api_requests import APIUnavailableError, read_body, send_request

VISIBLE_DEVICES_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
UNSET, ALL_DEVICES, VOID = "unset", "all", "void"
_VARIABLE_VALUES = {UNSET: None, ALL_DEVICES: "all", VOID: "void"}
"""Name of a probe pod's container → NVIDIA_VISIBLE_DEVICES in that container; None keeps the image's value."""

PROBE_LABEL = "gpuspawner.jupyter.org/probe"
"""Label of probe pods, by which the admin finds pods that were not deleted."""
_PROBE_DEADLINE_S = 120
"""Seconds after a probe pod's start at which the kubelet stops the pod, in case ``doctor`` was killed.

If ``doctor`` is not killed, it deletes the pod earlier.
"""
_MAX_PROBE_NODES = 5

_PROBE_SCRIPT = (
    'seen=""; for each in /dev/nvidia[0-9]* /dev/nvidiactl /dev/dxg; do '
    '[ -e "$each" ] && seen="$seen $each"; done; '
    f'printf "%s\\n%s\\n" "${{{VISIBLE_DEVICES_VARIABLE}-}}" "$seen" > /dev/termination-log'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """GPU devices that one container of a probe pod sees without requesting a GPU.

    :param node: name of the pod's node.
    :param way: name of the container: :data:`UNSET`, :data:`ALL_DEVICES` or :data:`VOID`.
    :param variable: value of NVIDIA_VISIBLE_DEVICES in the container.
    :param devices: GPU device files in the container.
    :param trouble: why the container gave no result, or empty.
    """

    node: str
    way: str
    variable: str = ""
    devices: tuple[str, ...] = ()
    trouble: str = ""


def choose_probe_nodes(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the names of at most five nodes on which to run probe pods.

    These nodes have NVIDIA GPUs, are neither cordoned nor simulated (label :data:`SIMULATED_LABEL`), and each has a
    different combination of extended resources, taints and GPU labels.
    """
    fit = [
        node
        for node in nodes
        if node.ready
        and not node.unschedulable
        and node.labels.get(SIMULATED_LABEL) != "true"
        and any(find_vendor(name) == "nvidia" for name in node.capacity)
    ]
    return tuple(group[0].name for group in group_nodes_by_kind(fit))[:_MAX_PROBE_NODES]


def build_probe_pod(node: str, *, name: str, image: str, pull_policy: str = "") -> dict[str, object]:
    """Return the manifest of a probe pod for one node."""
    policy = {"imagePullPolicy": pull_policy} if pull_policy else {}
    containers = [
        {
            "name": way,
            "image": image,
            "command": ["/bin/sh", "-c", _PROBE_SCRIPT],
            "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **({} if value is None else {"env": [{"name": VISIBLE_DEVICES_VARIABLE, "value": value}]}),
            **policy,
        }
        for way, value in _VARIABLE_VALUES.items()
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {PROBE_LABEL: "true"}},
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _PROBE_DEADLINE_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": containers,
        },
    }


def parse_probe_results(pod: Mapping[str, object], *, node: str) -> tuple[ProbeResult, ...]:
    """Return a result for each container of a probe pod; for a container that did not succeed, ``trouble`` says why.

    If the pod's status lists no containers, return one result, whose ``trouble`` says why the pod did not start.
    """
    status = as_dict(pod.get("status"))
    found = []
    for container in as_dicts(status.get("containerStatuses")):
        state, way = as_dict(container.get("state")), as_text(container.get("name"))
        ended, waiting = as_dict(state.get("terminated")), as_dict(state.get("waiting"))
        if ended.get("exitCode") == 0:
            variable, _, devices = as_message(ended.get("message")).partition("\n")
            found.append(ProbeResult(node=node, way=way, variable=variable, devices=tuple(devices.split())))
        else:
            reason = as_text(ended.get("reason")) or as_text(waiting.get("reason")) or "it did not end"
            found.append(ProbeResult(node=node, way=way, trouble=reason))
    if not found:
        reason = as_text(status.get("reason")) or _describe_unscheduled(status) or "it was not started"
        found = [ProbeResult(node=node, way=UNSET, trouble=reason)]
    return tuple(found)


def _describe_unscheduled(status: Mapping[str, object]) -> str:
    for condition in as_dicts(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return as_message(condition.get("message"))
    return ""


_ENDED_PHASES = frozenset({"Succeeded", "Failed"})
_POLL_S = 0.5
_REMOVE_ATTEMPTS = 4


async def run_probe_pods(
    cluster: ClusterConnection,
    nodes: Iterable[str],
    *,
    image: str,
    leftover: list[str],
    pull_policy: str = "",
    timeout_s: float = 90.0,
) -> tuple[ProbeResult, ...]:
    """Run a probe pod on each node, delete it, and return the results.

    :param cluster: the connection to the cluster; the pods run in its namespace.
    :param image: an image with /bin/sh.
    :param leftover: list to which the function adds the names of pods that may still exist when the function ends.
    :param pull_policy: ``imagePullPolicy``, empty for Kubernetes' default.
    :param timeout_s: seconds that all pods together may take, including image pulls.
    """
    pods = [_ProbePod(cluster, node) for node in nodes]
    # Each name stays in the list until its pod is deleted: a second Ctrl-C may stop the deletion.
    leftover += [pod.name for pod in pods]
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*(pod.run(image, pull_policy) for pod in pods))
    except TimeoutError:
        pass  # after the timeout, return the results of the containers that have ended
    finally:
        # Delete the pods even if Ctrl-C cancels this function.
        await asyncio.gather(*(_remove_probe(pod, leftover) for pod in pods))
    return tuple(result for pod in pods for result in pod.list_results())


async def _remove_probe(pod: _ProbePod, leftover: list[str]) -> None:
    if await pod.remove():
        leftover.remove(pod.name)


class _ProbePod:
    def __init__(self, cluster: ClusterConnection, node: str) -> None:
        self._cluster = cluster
        self._node = node
        # Don't use generateName: remove() needs the name even if the API server's answer to the creation is lost.
        self.name = f"gpuspawner-probe-{secrets.token_hex(4)}"
        self._pod: dict[str, object] = {}
        self._trouble = ""
        self._is_under_way = False
        """True while the request to create the pod is unanswered: the API server may still create the pod."""

    async def run(self, image: str, pull_policy: str) -> None:
        manifest = build_probe_pod(self._node, name=self.name, image=image, pull_policy=pull_policy)
        core: Any = self._cluster.core
        place = {"namespace": self._cluster.namespace, "_request_timeout": REQUEST_TIMEOUT_S}
        try:
            self._is_under_way = True
            await read_body(await send_request(core.create_namespaced_pod, body=manifest, **place))
            self._is_under_way = False
            while as_text(as_dict(self._pod.get("status")).get("phase")) not in _ENDED_PHASES:
                await asyncio.sleep(_POLL_S)
                answer = await read_body(await send_request(core.read_namespaced_pod, name=self.name, **place))
                self._pod = as_dict(json.loads(answer))
        except (APIUnavailableError, ValueError) as error:
            self._trouble = str(error)
            if getattr(error, "status", None) is not None:
                self._is_under_way = False  # the API server answered with an error, so it will not create the pod

    async def remove(self) -> bool:
        """Delete the pod; return True if the API server has accepted the deletion or says that there is no such pod."""
        core: Any = self._cluster.core
        place = {"name": self.name, "namespace": self._cluster.namespace, "_request_timeout": REQUEST_TIMEOUT_S}
        is_gone = False
        for _ in range(_REMOVE_ATTEMPTS):
            try:
                await read_body(await send_request(core.delete_namespaced_pod, grace_period_seconds=0, **place))
            except APIUnavailableError as error:
                is_gone = error.status == HTTPStatus.NOT_FOUND
                if is_gone and not self._is_under_way:
                    return True
                await asyncio.sleep(_POLL_S)
            else:
                return True
        return is_gone

    def list_results(self) -> tuple[ProbeResult, ...]:
        if self._trouble and not self._pod:
            return (ProbeResult(node=self._node, way=UNSET, trouble=self._trouble),)
        return parse_probe_results(self._pod, node=self._node)
