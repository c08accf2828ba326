"""What zero-to-jupyterhub makes of an admin's values: the sections of the hub's configuration.

Of ``singleuser`` only what says where a server goes and how much it gets, as the chart's ``jupyterhub_config.py`` reads
it (https://github.com/jupyterhub/zero-to-jupyterhub-k8s). Its own scheduler, which packs servers closer, is not here:
kube-scheduler with its defaults binds the same pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.hub_config import HubSettings
from gpuspawner.cli.values import Values

_TRAITS = {
    "node_selector": ("nodeSelector",),
    "node_affinity_required": ("extraNodeAffinity", "required"),
    "node_affinity_preferred": ("extraNodeAffinity", "preferred"),
    "pod_affinity_required": ("extraPodAffinity", "required"),
    "pod_affinity_preferred": ("extraPodAffinity", "preferred"),
    "pod_anti_affinity_required": ("extraPodAntiAffinity", "required"),
    "pod_anti_affinity_preferred": ("extraPodAntiAffinity", "preferred"),
    "extra_labels": ("extraLabels",),
    "extra_pod_config": ("extraPodConfig",),
    "cpu_limit": ("cpu", "limit"),
    "cpu_guarantee": ("cpu", "guarantee"),
    "mem_limit": ("memory", "limit"),
    "mem_guarantee": ("memory", "guarantee"),
    "extra_resource_limits": ("extraResource", "limits"),
    "extra_resource_guarantees": ("extraResource", "guarantees"),
    "start_timeout": ("startTimeout",),
}
"""Trait of KubeSpawner → where its value stands below ``singleuser``."""

_DEDICATED = [
    {"key": key, "operator": "Equal", "value": "user", "effect": "NoSchedule"}
    for key in ("hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated")
]
"""``scheduling.userPods.tolerations``, unless the values say otherwise."""

_FOR_USERS = {"matchExpressions": [{"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": ["user"]}]}
_WEIGHT = 100


def hub_settings(values: Values, *, namespace: str, hub: Mapping[str, Any]) -> HubSettings:
    """Return the settings of a hub that was installed with these values.

    :param hub: more of the section ``JupyterHub``.
    """
    config = _at(values.merged, "hub", "config") or {}
    return HubSettings(
        namespace=namespace,
        gpuspawner=values.settings,
        spawner_class=_at(config, "JupyterHub", "spawner_class") or "kubespawner.KubeSpawner",
        extra={"JupyterHub": hub, "KubeSpawner": {**_kubespawner(values.merged), **config.get("KubeSpawner", {})}},
    )


def _kubespawner(values: Mapping[str, Any]) -> dict[str, Any]:
    singleuser = values.get("singleuser") or {}
    user_pods = _at(values, "scheduling", "userPods") or {}
    # The chart's own defaults, where they say anything at all.
    traits: dict[str, Any] = {"mem_guarantee": "1G", "start_timeout": 300}
    found = {trait: _at(singleuser, *path) for trait, path in _TRAITS.items()}
    traits |= {trait: value for trait, value in found.items() if value is not None}
    traits["tolerations"] = [*user_pods.get("tolerations", _DEDICATED), *singleuser.get("extraTolerations", [])]
    required, preferred = _purpose(_at(user_pods, "nodeAffinity", "matchNodePurpose") or "prefer")
    traits["node_affinity_required"] = [*traits.get("node_affinity_required", []), *required]
    traits["node_affinity_preferred"] = [*traits.get("node_affinity_preferred", []), *preferred]
    return traits


def _purpose(match: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the required and the preferred terms that keep servers on nodes for users."""
    match match:
        case "require":
            return [_FOR_USERS], []
        case "prefer":
            return [], [{"weight": _WEIGHT, "preference": _FOR_USERS}]
        case _:
            return [], []


def _at(values: Any, *path: str) -> Any:
    """Return what stands at a path, None where there is nothing."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values
