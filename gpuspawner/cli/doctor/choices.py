"""Rules of ``doctor`` about choices that no node can satisfy (GPU types, presets, images, limits), and autoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, make_diagnosis, name_nodes, shorten_list
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.core.autoscaling.cluster_autoscaler import decode_autoscaler_status
from gpuspawner.core.autoscaling.karpenter import decode_node_pools
from gpuspawner.core.catalog.model import GPUType, Image
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.catalog.nodes_by_type import count_units, may_have_units
from gpuspawner.core.catalog.software import Misfit, find_misfit, read_platform
from gpuspawner.core.cluster.dra import decode_resource_slice
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.json_access import as_dict, as_dicts, as_message, as_text
from gpuspawner.core.warnings.nodes import describe_devices

_CONTROL_PLANE_TAINT_PREFIX = "node-role.kubernetes.io/"
_AUTOSCALERS = ("cluster-autoscaler", "karpenter")
"""A Deployment whose name contains one of these texts counts as an autoscaler."""
_CLOUD_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/compute-type",
    "kubernetes.azure.com/agentpool",
    "kops.k8s.io/instancegroup",
    "worker.gardener.cloud/pool",
    "node.cluster.x-k8s.io/machine-deployment",
    "magnum.openstack.org/nodegroup",
    "doks.digitalocean.com/node-pool",
    "k8s.scaleway.com/pool",
    "lke.linode.com/pool-id",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "alibabacloud.com/nodepool-id",
    "node.openshift.io/os_id",
    "topology.kubernetes.io/region",
)
"""Node labels of clouds that may run the autoscaler outside the cluster, where ``doctor`` cannot see it.

The cloud-controller-manager of any cloud sets the region; zones are often set by hand
(https://kubernetes.io/docs/reference/labels-annotations-taints/#topologykubernetesioregion)."""


def can_scale_up(facts: ClusterFacts, *, new_nodes: bool = True) -> bool:
    """Return whether the cluster has or may have an autoscaler.

    The cluster may have an autoscaler if ``doctor`` cannot read Deployments, or if a node has a label of a cloud that
    may run the autoscaler outside the cluster.

    :param new_nodes: False if the settings say that no nodes are added besides those that NodePools describe.
    """
    if facts.list_objects(ObjectKind.NODE_POOLS):
        return True
    if not new_nodes:
        return False
    return (
        ObjectKind.DEPLOYMENTS not in facts.read
        or bool(_find_autoscalers(facts))
        or any(label in node.labels for node in facts.nodes for label in _CLOUD_LABELS)
    )


def _find_autoscalers(facts: ClusterFacts) -> list[str]:
    names = map(get_object_name, facts.list_objects(ObjectKind.DEPLOYMENTS))
    found = [f"Deployment {name}" for name in names if any(part in name for part in _AUTOSCALERS)]
    found += [f"ConfigMap {get_object_name(status)}" for status in facts.list_objects(ObjectKind.AUTOSCALER_STATUS)]
    return found + ["its events"] * bool(facts.list_objects(ObjectKind.AUTOSCALER_EVENTS))


def check_autoscaler(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if settings promise new nodes (``scale_up`` of a GPU type) but the cluster has no autoscaler."""
    types = [slug for slug, gpu in facts.configured.gpus.items() if gpu.scale_up is not None]
    if types and not can_scale_up(facts):
        yield make_diagnosis("autoscaler-missing", objects=types, slugs=", ".join(types))


def check_new_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if ``new_nodes`` does not match what ``doctor`` sees of autoscalers."""
    configured = facts.configured
    denied = [slug for slug, gpu in configured.gpus.items() if not gpu.new_nodes and gpu.scale_up is None]
    signs = _find_autoscalers(facts)
    if configured.new_nodes and ObjectKind.AUTOSCALER_STATUS in facts.read and not can_scale_up(facts):
        yield make_diagnosis("new-nodes-unlikely")
    elif signs and not facts.list_objects(ObjectKind.NODE_POOLS) and (denied or not configured.new_nodes):
        yield make_diagnosis("new-nodes-denied", objects=denied, signs=shorten_list(signs))


def check_node_groups(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings if node groups of the cluster-autoscaler have reached their largest size, or do not work."""
    groups = [
        group
        for status in facts.list_objects(ObjectKind.AUTOSCALER_STATUS)
        for group in decode_autoscaler_status(status)
        if group.name
    ]
    full = {group.name: f"{group.name} ({group.target} of {group.most})" for group in groups if group.is_full}
    failing = {group.name: f"{group.name} ({group.trouble})" for group in groups if group.trouble}
    for row, affected in (("node-group-full", full), ("node-group-failing", failing)):
        if affected:
            yield make_diagnosis(row, objects=list(affected), groups=shorten_list(list(affected.values())))


def check_node_pools(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each Karpenter NodePool that is not ready or has reached its limits."""
    for pool in facts.list_objects(ObjectKind.NODE_POOLS):
        name = get_object_name(pool)
        if (reason := _describe_unready(pool)) is not None:
            yield make_diagnosis("nodepool-not-ready", objects=[name], pool=name, reason=reason)
        elif spent := _list_spent_limits(pool):
            yield make_diagnosis(
                "nodepool-exhausted",
                objects=[name],
                pool=name,
                limits=", ".join(f"{key}: {limit}" for key, limit in spent.items()),
                more=", ".join(f'"{key}": "MORE"' for key in spent),
            )


def _describe_unready(pool: KubernetesObject) -> str | None:
    for condition in as_dicts(as_dict(pool.get("status")).get("conditions")):
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            reason = as_message(condition.get("message")) or as_text(condition.get("reason"))
            return f": {reason.rstrip('.')}" if reason else ""
    return None


def _list_spent_limits(pool: KubernetesObject) -> dict[str, object]:
    limits = as_dict(as_dict(pool.get("spec")).get("limits"))
    machines = [scalable.machines for scalable in decode_node_pools([pool]) if scalable.machines is not None]
    remaining = (limit for constraints in machines for limit in constraints.remaining.items())
    return {key: limits[key] for key, left in remaining if left <= 0 and key in limits}


_GIB = 1024**3


def check_any_gpu(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if no node has a GPU, nor devices of a DRA driver.

    The finding is a note if a GPU type of the settings has ``scale_up`` or if the cluster may have an autoscaler,
    because new nodes may have GPUs. Otherwise, the finding is a fault.
    """
    if any(
        find_vendor(name) for node in facts.nodes for name in (*node.capacity, *node.uncounted, *node.published_by_dra)
    ):
        return
    if describe_devices(map(decode_resource_slice, facts.list_objects(ObjectKind.RESOURCE_SLICES))):
        return  # check_hub_flags says what the slices hold
    row = "no-gpu"
    if any(gpu.scale_up is not None for gpu in facts.configured.gpus.values()):
        row = "no-gpu/described"
    elif can_scale_up(facts, new_nodes=facts.configured.new_nodes):
        row = "no-gpu/growing"
    yield make_diagnosis(row, number=len(facts.nodes))


def check_types_exist(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each GPU type of the settings that no node has.

    Types with ``scale_up`` are left out: for these types, the settings say that an autoscaler adds nodes.

    The finding is a warning if the cluster may have an autoscaler, else a fault.
    """
    for slug, gpu in facts.configured.gpus.items():
        may_grow = can_scale_up(facts, new_nodes=gpu.new_nodes)
        if any(gpu.matches_labels(node.labels) and may_have_units(node, gpu.resource) for node in facts.nodes):
            continue
        if gpu.scale_up is not None:
            continue
        matching = [node.name for node in facts.nodes if gpu.matches_labels(node.labels)] if gpu.match else []
        if matching:
            lacking = f"{name_nodes(matching)} match, and have no {gpu.resource}."
        else:
            lacking = f"no node has {_describe_demand(gpu)}.{_find_nearest_type(facts, gpu)}"
        yield make_diagnosis(
            "type-without-node/growing" if may_grow else "type-without-node",
            objects=[slug],
            slug=slug,
            lacking=lacking,
            labels=",".join(gpu.match) or gpu.resource,
        )


def check_drivers(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each image whose CUDA version needs a newer NVIDIA driver than some nodes have.

    The function checks only nodes with NVIDIA GPUs that servers with the image may use.
    """
    for slug, image in facts.configured.images.items():
        nodes = [node for node in facts.nodes if _can_meet(facts, node, image=image)]
        old = [node for node in nodes if _is_too_old(image, node)]
        if old:
            names = [node.name for node in old]
            drivers = sorted({read_platform(node.labels).driver or 0 for node in old} - {0})
            yield make_diagnosis(
                "driver-too-old" if len(old) == len(nodes) else "driver-too-old/some",
                nodes=names,
                objects=[slug, *names],
                versions=f" {shorten_list([str(driver) for driver in drivers])}" if drivers else "",
                slug=slug,
                cuda=image.cuda,
            )


def check_bounds(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each maximum of CPU, memory or GPUs in the settings that no node can satisfy.

    Yield nothing if an autoscaler may add nodes, because a new node may be larger.
    """
    may_grow = can_scale_up(facts, new_nodes=facts.configured.new_nodes)
    if not facts.nodes or may_grow or any(gpu.scale_up for gpu in facts.configured.gpus.values()):
        return
    yield from _check_amounts(facts)
    yield from _check_counts(facts)


def _check_amounts(facts: ClusterFacts) -> Iterator[Diagnosis]:
    usable = [
        node
        for node in facts.nodes
        if not any(taint.key.startswith(_CONTROL_PLANE_TAINT_PREFIX) for taint in node.taints)
    ]
    for name, bounds, unit, shown in (
        ("cpu", facts.configured.cpu, 1000, "CPUs"),
        ("memory", facts.configured.memory, _GIB, "GiB"),
    ):
        most = max((node.allocatable.get(name, 0) for node in usable), default=0)
        if bounds is None or not usable or bounds.max * bounds.guarantee <= most:
            continue
        yield make_diagnosis(
            "limit-too-large",
            severity=DiagnosisSeverity.FAULT if bounds.default * bounds.guarantee > most else None,
            objects=[name],
            field=name,
            request=f"{bounds.max * bounds.guarantee / unit:g}",
            unit=shown,
            most=f"{most / unit:.4g}",
            whole=f"{most // unit}{'Gi' if unit == _GIB else ''}",
        )


def _check_counts(facts: ClusterFacts) -> Iterator[Diagnosis]:
    for slug, gpu in facts.configured.gpus.items():
        own = [node for node in facts.nodes if gpu.matches_labels(node.labels)]
        # Count broken GPUs as well: the admin should not have to lower max_count after each failure of a GPU.
        most = max((count_units(node, gpu.resource) for node in own), default=0)
        is_uncounted = any(gpu.resource in node.uncounted for node in own)
        if slug not in facts.configured.uncounted and not is_uncounted and 0 < most < gpu.max_count:
            yield make_diagnosis(
                "limit-too-large/count",
                objects=[slug],
                slug=slug,
                count=gpu.max_count,
                most=most,
                resource=gpu.resource,
            )


def _describe_demand(gpu: GPUType) -> str:
    if not gpu.match:
        return gpu.resource
    return " and ".join(
        f"{key} = {' or '.join(values)}" if values else f"no {key}" for key, values in gpu.match.items()
    )


def _find_nearest_type(facts: ClusterFacts, gpu: GPUType) -> str:
    for key, values in gpu.match.items():
        known = {node.labels[key] for node in facts.nodes if key in node.labels}
        near = [close for value in values for close in get_close_matches(value, known - {*values}, n=1)]
        if near and not known.intersection(values):
            return f" Did you mean {near[0]!r}?"
    return ""


def _can_meet(facts: ClusterFacts, node: Node, *, image: Image) -> bool:
    """Return whether servers with the image may use an NVIDIA GPU of the node."""
    if image.vendors is not None and "nvidia" not in image.vendors:
        return False
    return any(
        gpu.vendor == "nvidia" and gpu.matches_labels(node.labels) and may_have_units(node, gpu.resource)
        for gpu in facts.catalog.gpus.values()
    )


def _is_too_old(image: Image, node: Node) -> bool:
    return find_misfit(image, read_platform(node.labels), vendor="nvidia") in (Misfit.DRIVER, Misfit.CUDA)
