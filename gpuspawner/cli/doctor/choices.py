"""Rules of ``doctor`` about choices that no node can satisfy (GPU types, presets, images, limits), and autoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from gpuspawner.cli.check.cluster_warnings import list_worker_nodes
from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, name_nodes, shorten_list
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

_VALUES = "# Helm values:\nhub:\n  config:\n    GPUSpawner:\n"
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

    :param facts: the facts about the cluster and the settings.
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
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="autoscaler-missing",
            what=f"scale_up is set for {', '.join(types)}, and there is no autoscaler: neither Karpenter nor a "
            "cluster-autoscaler, nor nodes of a cloud that has its own.",
            why="The form says that a server starts after a new node, and none comes.",
            fix="kubectl get deployments -A | grep -e autoscaler -e karpenter\n"
            "# Without one take scale_up away. Helm values:\nhub:\n  config:\n    GPUSpawner:\n      gpus:\n"
            + "\n".join(f"        {slug}:\n          scale_up: null" for slug in types),
            objects=tuple(types),
        )


def check_new_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if ``new_nodes`` does not match what ``doctor`` sees of autoscalers."""
    configured = facts.configured
    denied = [slug for slug, gpu in configured.gpus.items() if not gpu.new_nodes and gpu.scale_up is None]
    signs = _find_autoscalers(facts)
    if configured.new_nodes and ObjectKind.AUTOSCALER_STATUS in facts.read and not can_scale_up(facts):
        yield Diagnosis(
            severity=DiagnosisSeverity.NOTE,
            code="new-nodes-unlikely",
            what="new_nodes is possible, and nothing here seems to add nodes: there is no Karpenter, no "
            "cluster-autoscaler, and no node of a cloud.",
            why="A server that no node could take waits until its start timeout, instead of being refused at once.",
            fix=f"# If nothing adds nodes:\n{_VALUES}      new_nodes: none",
        )
    elif signs and not facts.list_objects(ObjectKind.NODE_POOLS) and (denied or not configured.new_nodes):
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="new-nodes-denied",
            what=f"new_nodes is none, and there is an autoscaler: {shorten_list(signs)}.",
            why="The hub refuses servers for a node group without nodes, and the group stays empty, unless scale_up "
            "describes it.",
            fix="kubectl get configmap -n kube-system cluster-autoscaler-status -o yaml\n"
            "# If it may add nodes for servers: take new_nodes away, or describe these nodes in gpus.<slug>.scale_up",
            objects=tuple(denied),
        )


def check_node_groups(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield findings if node groups of the cluster-autoscaler have reached their largest size, or do not work."""
    groups = [
        group
        for status in facts.list_objects(ObjectKind.AUTOSCALER_STATUS)
        for group in decode_autoscaler_status(status)
        if group.name
    ]
    fix = "kubectl get configmap -n kube-system cluster-autoscaler-status -o jsonpath='{.data.status}'"
    full = [group for group in groups if group.is_full]
    if full:
        yield Diagnosis(
            severity=DiagnosisSeverity.NOTE,
            code="node-group-full",
            what="The cluster-autoscaler may not add nodes to "
            f"{shorten_list([f'{group.name} ({group.target} of {group.most})' for group in full])}.",
            why="Servers that need a node from this group wait until one is free.",
            fix=fix,
            objects=tuple(group.name for group in full),
        )
    failing = [group for group in groups if group.trouble]
    if failing:
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="node-group-failing",
            what="The cluster-autoscaler reports trouble with "
            f"{shorten_list([f'{group.name} ({group.trouble})' for group in failing])}.",
            why="Servers that need a new node from this group can't start.",
            fix=fix,
            objects=tuple(group.name for group in failing),
        )


def check_node_pools(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each Karpenter NodePool that is not ready or has reached its limits."""
    for pool in facts.list_objects(ObjectKind.NODE_POOLS):
        name = get_object_name(pool)
        if (reason := _describe_unready(pool)) is not None:
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT,
                code="nodepool-not-ready",
                what=f"NodePool {name} is not ready{reason}.",
                why="Karpenter adds no node of it.",
                fix=f"kubectl describe nodepool {name}",
                objects=(name,),
            )
        elif spent := _list_spent_limits(pool):
            limits = ", ".join(f"{key}: {of}" for key, of in spent.items())
            yield Diagnosis(
                severity=DiagnosisSeverity.WARNING,
                code="nodepool-exhausted",
                what=f"NodePool {name} has reached its limits ({limits}).",
                why="Karpenter adds no node of it: servers that need one wait.",
                fix=f"kubectl get nodepool {name} -o jsonpath='{{.status.resources}}'\n"
                f"kubectl patch nodepool {name} --type=merge "
                f"""-p '{{"spec": {{"limits": {{{", ".join(f'"{key}": "MORE"' for key in spent)}}}}}}}'""",
                objects=(name,),
            )


def _describe_unready(pool: KubernetesObject) -> str | None:
    for each in as_dicts(as_dict(pool.get("status")).get("conditions")):
        if each.get("type") == "Ready" and each.get("status") == "False":
            reason = as_message(each.get("message")) or as_text(each.get("reason"))
            return f": {reason.rstrip('.')}" if reason else ""
    return None


def _list_spent_limits(pool: KubernetesObject) -> dict[str, object]:
    limits = as_dict(as_dict(pool.get("spec")).get("limits"))
    machines = [scalable.machines for scalable in decode_node_pools([pool]) if scalable.machines is not None]
    remaining = (each for constraints in machines for each in constraints.remaining.items())
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
    if any(gpu.scale_up is not None for gpu in facts.configured.gpus.values()):
        severity, why = DiagnosisSeverity.NOTE, "GPU types are those of the settings with a scale_up."
    elif can_scale_up(facts, new_nodes=facts.configured.new_nodes):
        severity, why = DiagnosisSeverity.NOTE, "No server gets a GPU unless an autoscaler adds nodes with GPUs."
    else:
        severity, why = DiagnosisSeverity.FAULT, "No server gets a GPU."
    yield Diagnosis(
        severity=severity,
        code="no-gpu",
        what=f"None of {len(facts.nodes)} nodes has a GPU.",
        why=why,
        fix="# Are there GPUs, and does a device plugin run?\nkubectl get nodes -L nvidia.com/gpu.present "
        "-o custom-columns='NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu'\n"
        "# A pool that may have no node now: say what it adds, in hub.config.GPUSpawner.gpus.<slug>.scale_up",
    )


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
            what = f"GPU type {slug}: {name_nodes(matching)} match, and have no {gpu.resource}."
        else:
            what = f"GPU type {slug}: no node has {_describe_demand(gpu)}.{_find_nearest_type(facts, gpu)}"
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING if may_grow else DiagnosisSeverity.FAULT,
            code="type-without-node",
            what=what,
            why="A server with it waits for an autoscaler, if that adds such nodes."
            if may_grow
            else "No server gets it.",
            fix=f"kubectl get nodes -L {','.join(gpu.match) or gpu.resource}\n"
            f"# Correct gpus.{slug}.match or .resource; or, where an autoscaler adds such nodes:\n"
            f"{_VALUES}      gpus:\n        {slug}:\n"
            "          scale_up: {max_nodes: 2, gpus_per_node: 1, minutes: 10}",
            objects=(slug,),
        )


def check_drivers(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each image whose CUDA version needs a newer NVIDIA driver than some nodes have.

    The function checks only nodes with NVIDIA GPUs that servers with the image may use.
    """
    for slug, image in facts.configured.images.items():
        nodes = [node for node in facts.nodes if _can_meet(facts, node, image=image)]
        old = [node for node in nodes if _is_too_old(image, node)]
        if old:
            everywhere = len(old) == len(nodes)
            drivers = sorted({read_platform(node.labels).driver or 0 for node in old} - {0})
            versions = f" {shorten_list([str(driver) for driver in drivers])}" if drivers else ""
            yield Diagnosis(
                severity=DiagnosisSeverity.FAULT if everywhere else DiagnosisSeverity.WARNING,
                code="driver-too-old",
                what=f"{name_nodes([node.name for node in old])}: NVIDIA's driver{versions} is too old for image "
                f"{slug}, which has CUDA {image.cuda}.",
                why=(
                    "No GPU can be used with the image."
                    if everywhere
                    else "The form does not offer these GPUs with the image."
                ),
                fix="# Update the driver: https://docs.nvidia.com/deploy/cuda-compatibility/\n"
                "kubectl get nodes -L nvidia.com/cuda.driver-version.full\n"
                "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge "
                """-p '{"spec": {"driver": {"version": "580.95.05"}}}'\n"""
                f"# or offer an image with an older CUDA beside images.{slug}",
                objects=(slug, *(node.name for node in old)),
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
    usable = list_worker_nodes(facts.nodes)
    for name, bounds, unit, shown in (
        ("cpu", facts.configured.cpu, 1000, "CPUs"),
        ("memory", facts.configured.memory, _GIB, "GiB"),
    ):
        most = max((node.allocatable.get(name, 0) for node in usable), default=0)
        if bounds is None or not usable or bounds.max * bounds.guarantee <= most:
            continue
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT if bounds.default * bounds.guarantee > most else DiagnosisSeverity.WARNING,
            code="limit-too-large",
            what=f"{name}.max lets a server request {bounds.max * bounds.guarantee / unit:g} {shown}, and no node has "
            f"more than {most / unit:.4g} for pods.",
            why="A server that asks for that much is refused, or waits forever.",
            fix=f"{_VALUES}      {name}:\n        max: {_format_whole(most, unit)}",
            objects=(name,),
        )


def _check_counts(facts: ClusterFacts) -> Iterator[Diagnosis]:
    for slug, gpu in facts.configured.gpus.items():
        own = [node for node in facts.nodes if gpu.matches_labels(node.labels)]
        # Count broken GPUs as well: the admin should not have to lower max_count after each failure of a GPU.
        most = max((count_units(node, gpu.resource) for node in own), default=0)
        is_uncounted = any(gpu.resource in node.uncounted for node in own)
        if slug not in facts.configured.uncounted and not is_uncounted and 0 < most < gpu.max_count:
            yield Diagnosis(
                severity=DiagnosisSeverity.WARNING,
                code="limit-too-large",
                what=f"gpus.{slug}.max_count is {gpu.max_count}, and no node has more than {most} {gpu.resource}.",
                why="A server gets all its GPUs from one node, so more can be chosen and never be had.",
                fix=f"{_VALUES}      gpus:\n        {slug}:\n          max_count: {most}",
                objects=(slug,),
            )


def _format_whole(most: int, unit: int) -> str:
    return f"{most // unit}{'Gi' if unit == _GIB else ''}"


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
