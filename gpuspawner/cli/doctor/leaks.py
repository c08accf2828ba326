"""Whether pods without a GPU see GPUs: what a probe pod is, and what it saw.

Images made for CUDA ask for all GPUs by the variable NVIDIA_VISIBLE_DEVICES. Where NVIDIA's runtime is the default one
of a node it hands them out, whatever the pod requests (NVIDIA/k8s-device-plugin, README, "Running GPU Jobs").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuspawner.core.catalog.node_gpus import find_vendor
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.discovery.discovery import SIMULATED_LABEL
from gpuspawner.core.discovery.node_kinds import group_nodes_by_kind
from gpuspawner.core.rawjson import as_dict, as_dicts, as_text

VISIBLE_DEVICES_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
UNSET, ALL_DEVICES, VOID = "unset", "all", "void"
_VARIABLE_VALUES = {UNSET: None, ALL_DEVICES: "all", VOID: "void"}
"""Container → what the variable is set to in it; unset, it has what the image says."""

PROBE_LABEL = "gpuspawner.jupyter.org/probe"
"""The label of probe pods, to find one that was left behind."""
_PROBE_DEADLINE_S = 120
"""After which the kubelet stops a probe pod, whatever became of whoever started it."""
_MAX_PROBE_NODES = 5
"""Nodes that are looked at, each of another kind."""

_PROBE_SCRIPT = (
    'seen=""; for each in /dev/nvidia[0-9]* /dev/nvidiactl /dev/dxg; do '
    '[ -e "$each" ] && seen="$seen $each"; done; '
    f'printf "%s\\n%s\\n" "${{{VISIBLE_DEVICES_VARIABLE}-}}" "$seen" > /dev/termination-log'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What a container without a GPU saw on a node.

    :param way: which container, :data:`UNSET`, :data:`ALL_DEVICES` or :data:`VOID`.
    :param variable: what NVIDIA_VISIBLE_DEVICES was in it.
    :param devices: device files of GPUs that it had.
    :param trouble: why it could not look; empty where it could.
    """

    node: str
    way: str
    variable: str = ""
    devices: tuple[str, ...] = ()
    trouble: str = ""


def choose_probe_nodes(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the names of nodes to probe: one of each kind that has NVIDIA's GPUs and runs pods."""
    fit = [
        node
        for node in nodes
        if node.schedulable
        and node.labels.get(SIMULATED_LABEL) != "true"
        and any(find_vendor(name) == "nvidia" for name in node.capacity)
    ]
    return tuple(group[0].name for group in group_nodes_by_kind(fit))[:_MAX_PROBE_NODES]


def build_probe_pod(node: str, *, name: str, image: str, pull_policy: str = "") -> dict[str, object]:
    """Return the manifest of a pod that looks on one node."""
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
    only = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {PROBE_LABEL: "true"}},
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}},
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _PROBE_DEADLINE_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": containers,
        },
    }


def parse_probe_results(pod: Mapping[str, object], *, node: str) -> tuple[ProbeResult, ...]:
    """Return what the containers of a probe pod saw, as far as they have ended."""
    status = as_dict(pod.get("status"))
    found = []
    for each in as_dicts(status.get("containerStatuses")):
        state, way = as_dict(each.get("state")), as_text(each.get("name"))
        ended, waiting = as_dict(state.get("terminated")), as_dict(state.get("waiting"))
        if ended.get("exitCode") == 0:
            variable, _, devices = as_text(ended.get("message")).partition("\n")
            found.append(ProbeResult(node=node, way=way, variable=variable, devices=tuple(devices.split())))
        else:
            reason = as_text(ended.get("reason")) or as_text(waiting.get("reason")) or "it did not end"
            found.append(ProbeResult(node=node, way=way, trouble=reason))
    if not found:
        reason = as_text(status.get("reason")) or _describe_unscheduled(status) or "it was not started"
        found = [ProbeResult(node=node, way=UNSET, trouble=reason)]
    return tuple(found)


def _describe_unscheduled(status: Mapping[str, object]) -> str:
    for each in as_dicts(status.get("conditions")):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return as_text(each.get("message"))
    return ""
