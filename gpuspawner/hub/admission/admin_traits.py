"""Evaluates the admin's KubeSpawner traits that restrict on which nodes a pod can run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.cpu_room import has_room_on_cpu_node
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.hub.pod import overrides
from gpuspawner.hub.pod.trait_values import AdminValues

_PLACING_POD_FIELDS = frozenset(
    {"affinity", "nodeSelector", "node_selector", "nodeName", "node_name", "tolerations"}
    | {"resources", "overhead", "containers", "initContainers", "init_containers"}
)
"""Fields of ``extra_pod_config`` that affect scheduling; this module does not evaluate their values."""


def has_cpu_node_room(placement: PodRequirements, catalog: Catalog, *, inventory: Inventory, base: AdminValues) -> bool:
    """Return whether a pod without a GPU fits on a node without GPUs now; False if unknown.

    Only nodes that match the admin's node selector count. The result is also False if the admin's traits set a required
    node affinity, or resources other than the notebook container's CPU and memory: this function evaluates neither.

    :param placement: what the user's choice adds to the pod.
    :param catalog: the catalog whose GPU types mark GPU nodes.
    :param inventory: nodes and pods of the cluster.
    :param base: the admin's value of each KubeSpawner trait.
    """
    if base["node_affinity_required"] or _PLACING_POD_FIELDS & (base["extra_pod_config"] or {}).keys():
        return False
    if _has_uncounted_resources(catalog, base):
        return False
    selector = base["node_selector"] or {}
    nodes = [node for node in inventory.nodes or () if selector.items() <= dict(node.labels).items()]
    if not nodes:
        return False
    millis = placement.cpu_request_millis
    size = placement.memory_request_bytes
    return has_room_on_cpu_node(
        int((base["cpu_guarantee"] or base["cpu_limit"] or 0) * 1000) if millis is None else millis,
        (base["mem_guarantee"] or base["mem_limit"] or 0) if size is None else size,
        inventory=replace(inventory, nodes=tuple(nodes)),
        catalog=catalog,
        required=placement.required,
        tolerations=parse_admin_tolerations(base["tolerations"]),
    )


def _has_uncounted_resources(catalog: Catalog, base: AdminValues) -> bool:
    """Return whether the admin's traits request resources other than the notebook container's CPU and memory.

    GPUs are ignored, because gpuspawner removes the admin's GPUs from every pod.
    """
    gpus = overrides.list_gpu_resources(catalog)
    amounts = (base[f"extra_resource_{kind}"] for kind in ("limits", "guarantees"))
    if any(overrides.drop_gpu_resources(each, gpus) for each in amounts):
        return True
    others = (base[kind] for kind in ("extra_containers", "init_containers"))
    containers = [
        *(each for some in others for each in (some.values() if isinstance(some, dict) else some or [])),
        base["extra_container_config"] or {},
    ]
    # zero-to-jupyterhub adds an init container without resources to each pod; it must not make the result True.
    return any(
        container.get("resources") if isinstance(container, dict) else container.resources for container in containers
    )


def parse_admin_tolerations(trait: Any) -> tuple[Toleration, ...]:
    """Return the admin's tolerations as :class:`Toleration` objects.

    :param trait: value of KubeSpawner's ``tolerations``: a list of tolerations, or a dict with tolerations as values.
    """
    entries = trait.values() if isinstance(trait, dict) else trait or []
    return tuple(
        Toleration(
            key=entry.get("key") or "",
            operator=entry.get("operator") or "Equal",
            value=entry.get("value") or "",
            effect=entry.get("effect") or "",
        )
        for entry in entries
        if isinstance(entry, dict)
    )
