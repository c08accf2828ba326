"""Whether pods without a GPU see GPUs: what a probe pod is, and what it saw.

Images made for CUDA ask for all GPUs by the variable NVIDIA_VISIBLE_DEVICES. Where NVIDIA's runtime is the default one
of a node it hands them out, whatever the pod requests (NVIDIA/k8s-device-plugin, README, "Running GPU Jobs").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuspawner.core.catalog.node_gpus import vendor_of
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.discovery.discovery import SIMULATED_LABEL
from gpuspawner.core.discovery.node_kinds import kinds
from gpuspawner.core.rawjson import mapping, mappings, text

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
UNSET, ALL, VOID = "unset", "all", "void"
_WAYS = {UNSET: None, ALL: "all", VOID: "void"}
"""Container → what the variable is set to in it; unset, it has what the image says."""

LABEL = "gpuspawner.jupyter.org/probe"
"""The label of probe pods, to find one that was left behind."""
_SECONDS = 120
"""After which the kubelet stops a probe pod, whatever became of whoever started it."""
_MOST = 5
"""Nodes that are looked at, each of another kind."""

_LOOK = (
    'seen=""; for each in /dev/nvidia[0-9]* /dev/nvidiactl /dev/dxg; do '
    '[ -e "$each" ] && seen="$seen $each"; done; '
    f'printf "%s\\n%s\\n" "${{{VARIABLE}-}}" "$seen" > /dev/termination-log'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a container without a GPU saw on a node.

    :param way: which container, :data:`UNSET`, :data:`ALL` or :data:`VOID`.
    :param variable: what NVIDIA_VISIBLE_DEVICES was in it.
    :param devices: device files of GPUs that it had.
    :param trouble: why it could not look; empty where it could.
    """

    node: str
    way: str
    variable: str = ""
    devices: tuple[str, ...] = ()
    trouble: str = ""


def chosen(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the names of nodes to probe: one of each kind that has NVIDIA's GPUs and runs pods."""
    fit = [
        node
        for node in nodes
        if node.schedulable
        and node.labels.get(SIMULATED_LABEL) != "true"
        and any(vendor_of(name) == "nvidia" for name in node.capacity)
    ]
    return tuple(group[0].name for group in kinds(fit))[:_MOST]


def probe_pod(node: str, *, name: str, image: str, pull_policy: str = "") -> dict[str, object]:
    """Return the manifest of a pod that looks on one node."""
    policy = {"imagePullPolicy": pull_policy} if pull_policy else {}
    containers = [
        {
            "name": way,
            "image": image,
            "command": ["/bin/sh", "-c", _LOOK],
            "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **({} if value is None else {"env": [{"name": VARIABLE, "value": value}]}),
            **policy,
        }
        for way, value in _WAYS.items()
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    only = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: "true"}},
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}},
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": containers,
        },
    }


def sights(pod: Mapping[str, object], *, node: str) -> tuple[Sight, ...]:
    """Return what the containers of a probe pod saw, as far as they have ended."""
    status = mapping(pod.get("status"))
    found = []
    for each in mappings(status.get("containerStatuses")):
        state, way = mapping(each.get("state")), text(each.get("name"))
        ended, waiting = mapping(state.get("terminated")), mapping(state.get("waiting"))
        if ended.get("exitCode") == 0:
            variable, _, devices = text(ended.get("message")).partition("\n")
            found.append(Sight(node=node, way=way, variable=variable, devices=tuple(devices.split())))
        else:
            reason = text(ended.get("reason")) or text(waiting.get("reason")) or "it did not end"
            found.append(Sight(node=node, way=way, trouble=reason))
    if not found:
        reason = text(status.get("reason")) or _unscheduled(status) or "it was not started"
        found = [Sight(node=node, way=UNSET, trouble=reason)]
    return tuple(found)


def _unscheduled(status: Mapping[str, object]) -> str:
    for each in mappings(status.get("conditions")):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return text(each.get("message"))
    return ""
