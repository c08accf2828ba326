"""Rules of ``doctor`` about GPU nodes: their conditions, device plugins and labels, and the hub's warnings to admins.

The hub shows these warnings in the form and in its log (:mod:`gpuspawner.core.warnings.nodes`). ``doctor`` shows them
with a consequence and a fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import yaml

from gpuspawner.cli.doctor.diagnosis import Diagnosis, make_diagnosis, name_nodes, shorten_list
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.doctor.pod_health import find_pod_trouble
from gpuspawner.core.catalog.node_gpus import NodeGPU, read_node_gpu
from gpuspawner.core.catalog.node_labels import find_vendor, format_vendor
from gpuspawner.core.catalog.nodes_by_type import count_units, may_have_units
from gpuspawner.core.cluster.dra import decode_resource_slice
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.taints import is_transient_taint
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_message, as_text
from gpuspawner.core.progress.images import is_store_damaged
from gpuspawner.core.progress.runtime_errors import RuntimeFault, classify_runtime_error
from gpuspawner.core.warnings.nodes import AdminWarning, WarningKind, describe_devices, find_node_warnings
from gpuspawner.core.warnings.presets_and_policy import (
    find_dropped_gpu_warnings,
    find_policy_warnings,
    find_preset_warnings,
)

_MAX_QUOTED = 300
_TROUBLES = {
    "AcceleratedHardwareReady": "False",
    "DiskPressure": "True",
    "MemoryPressure": "True",
    "PIDPressure": "True",
}
"""Type of a node's condition → status with which the condition reports a problem."""


def check_nodes_ready(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if GPU nodes are not Ready."""
    names = [node.name for node in facts.nodes if _has_gpus(node) and not node.ready]
    if names:
        is_all = len(names) == sum(map(_has_gpus, facts.nodes))
        row = "node-not-ready" if is_all else "node-not-ready/some"
        yield make_diagnosis(row, nodes=names, reason=_describe_reasons(facts, names))


def check_cordoned_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if GPU nodes are cordoned."""
    names = [node.name for node in facts.nodes if _has_gpus(node) and node.unschedulable]
    if names:
        yield make_diagnosis("node-cordoned", nodes=names)


def check_node_conditions(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each problem that the conditions of GPU nodes report, such as DiskPressure."""
    gpu_nodes = {node.name for node in facts.nodes if _has_gpus(node)}
    names: dict[str, list[str]] = {}
    for raw in facts.list_objects(ObjectKind.NODES):
        for condition in as_dicts(as_dict(raw.get("status")).get("conditions")):
            kind = as_text(condition.get("type"))
            is_problem = kind in _TROUBLES and condition.get("status") == _TROUBLES[kind]
            if is_problem and get_object_name(raw) in gpu_nodes:
                names.setdefault(kind, []).append(get_object_name(raw))
    for kind, affected in names.items():
        yield make_diagnosis(f"node-in-trouble/{kind}", nodes=affected, condition=kind, status=_TROUBLES[kind])


_START_FAULTS: Mapping[RuntimeFault, str] = {
    RuntimeFault.DEVICE: "containers do not get a device, because it or its driver is out of order",
    RuntimeFault.DISK: "a disk or file that containers need is gone",
    RuntimeFault.IMAGE_STORE: "the store of images is damaged",
    RuntimeFault.OLD_DRIVER: "the GPU driver is too old for an image",
}


def check_start_faults(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each fault of nodes that kept a server from starting in the last hour."""
    found: dict[RuntimeFault, dict[str, str]] = {}
    for event in facts.list_objects(ObjectKind.FAILURE_EVENTS):
        source, message = as_dict(event.get("source")), as_message(event.get("message"))
        fault, node = _find_start_fault(message), as_text(source.get("host"))
        if source.get("component") == "kubelet" and node and fault in _START_FAULTS:
            found.setdefault(fault, {})[node] = message
    for fault, messages in found.items():
        yield make_diagnosis(
            "driver-too-old/start" if fault is RuntimeFault.OLD_DRIVER else "node-faulty",
            nodes=list(messages),
            fault=_START_FAULTS[fault],
            message=" ".join([*messages.values()][-1].split())[:_MAX_QUOTED],
        )


def _find_start_fault(message: str) -> RuntimeFault:
    # The name of an image that cannot be pulled may contain words such as nvidia-container-toolkit.
    if message.startswith("Failed to pull image"):
        return RuntimeFault.IMAGE_STORE if is_store_damaged(message) else RuntimeFault.OTHER
    return classify_runtime_error(message)


def _has_gpus(node: Node) -> bool:
    return any(find_vendor(name) for name in (*node.capacity, *node.uncounted))


def _describe_reasons(facts: ClusterFacts, names: list[str]) -> str:
    reasons = {
        as_text(condition.get("reason"))
        for raw in facts.list_objects(ObjectKind.NODES)
        if get_object_name(raw) in names
        for condition in as_dicts(as_dict(raw.get("status")).get("conditions"))
        if condition.get("type") == "Ready"
    }
    return f" ({reason})" if len(reasons) == 1 and (reason := next(iter(reasons))) else ""


_ROWS_BY_KIND = {
    WarningKind.PRESET: "preset-invalid",
    WarningKind.POLICY: "policy-type-unknown",
    WarningKind.DROPPED_GPUS: "gpu-dropped",
    WarningKind.MIG_INVALID: "mig-invalid",
    WarningKind.CONTRADICTION: "gpu-labels-contradict",
    WarningKind.NO_TYPE: "gpu-not-offered",
    WarningKind.UNTOLERATED: "taint-untolerated",
    WarningKind.BROKEN: "gpu-unhealthy",
    WarningKind.NO_RESOURCE: "device-plugin-missing",
    WarningKind.NO_DEVICE_CLASS: "device-class-missing",
    WarningKind.UNCOUNTED: "devices-uncounted",
}


def check_hub_flags(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each warning that the hub gives admins about GPUs, presets or policy rules."""
    slices = map(decode_resource_slice, facts.list_objects(ObjectKind.RESOURCE_SLICES))
    nodes = find_node_warnings(
        facts.nodes, facts.catalog, table=facts.table, tolerations=facts.tolerations, slices=slices
    )
    presets = find_preset_warnings(facts.configured.presets, facts.catalog) if facts.nodes else ()
    rules = find_policy_warnings(facts.configured.policy, facts.catalog) if facts.nodes else ()
    dropped = find_dropped_gpu_warnings(facts.catalog) if facts.nodes else ()
    for flag in (*presets, *rules, *dropped, *nodes):
        yield make_diagnosis(
            _ROWS_BY_KIND[flag.kind],
            nodes=flag.nodes,
            objects=flag.names,
            subject=_describe_subject(flag),
            message=flag.message,
            values=_format_tolerations(facts, flag) if flag.kind is WarningKind.UNTOLERATED else "",
        )


def _describe_subject(flag: AdminWarning) -> str:
    if flag.nodes:
        return name_nodes(flag.nodes)
    return f"{'Preset' if flag.presets else 'Setting'} {shorten_list(flag.names)}"


def _format_tolerations(facts: ClusterFacts, flag: AdminWarning) -> str:
    first = next(node for node in facts.nodes if node.name == flag.nodes[0])
    own = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in first.taints
        if not is_transient_taint(taint)
    ]
    types = [
        gpu for gpu in facts.catalog.gpus.values() if gpu.resource == flag.resource and gpu.matches_labels(first.labels)
    ]
    described = next((gpu for gpu in types if gpu.slug in facts.configured.gpus), None)
    values: dict[str, object] = {"singleuser": {"extraTolerations": own}}
    if described is not None:
        before = [
            {
                "key": toleration.key,
                "operator": toleration.operator,
                "value": toleration.value,
                "effect": toleration.effect,
            }
            for toleration in described.tolerations
        ]
        kept = [{key: value for key, value in toleration.items() if value} for toleration in before]
        gpus = {described.slug: {"tolerations": [*kept, *(toleration for toleration in own if toleration not in kept)]}}
        values = {"hub": {"config": {"GPUSpawner": {"gpus": gpus}}}}
    return yaml.safe_dump(values, sort_keys=False).rstrip()


_VENDORS = r"nvidia|nvdp|amd|amdgpu|rocm|intel"
_WORKLOAD_NAMES = (
    "device-plugin|gpu-plugin|kubelet-plugin|feature-discovery|driver|container-toolkit|validator|mig-manager|labell?er"
)
_PLUGIN_NAMES = re.compile(rf"(^|[-/])({_VENDORS})[a-z0-9-]*({_WORKLOAD_NAMES})", re.ASCII)
"""Pattern of the names that GPU vendors' charts and GKE give to the DaemonSets of device plugins and their helpers."""

_OTHER_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "kubernetes.azure.com/accelerator": "nvidia",
    "k8s.amazonaws.com/accelerator": "",
}
"""Node label → value that the label has on GPU nodes, even if no device plugin runs on the node.

An empty value stands for any value except ``false``.
"""
_WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
"""Node label of the NVIDIA GPU Operator.

With the value ``container``, containers get the node's GPUs. With any other value, virtual machines get them.
"""

_LABELLED_VENDORS = ("nvidia", "amd")
"""Vendors with a chart that labels nodes with the names of GPU models."""


def is_device_plugin(daemon_set: KubernetesObject) -> bool:
    """Return whether a DaemonSet is a device plugin or a helper of one, such as GPU Feature Discovery."""
    return bool(_PLUGIN_NAMES.search(get_object_name(daemon_set)))


def check_plugins_run(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each DaemonSet that belongs to a device plugin and has at least one pod that doesn't run."""
    for found in filter(is_device_plugin, facts.list_objects(ObjectKind.DAEMON_SETS)):
        desired = as_int(as_dict(found.get("status")).get("desiredNumberScheduled")) or 0
        # Look at the pods, because the DaemonSet's status counts a crashing pod as available between two crashes.
        troubles = dict(_list_troubles(facts, found))
        if not troubles:
            continue
        namespace, name = as_text(as_dict(found.get("metadata")).get("namespace")), get_object_name(found)
        yield make_diagnosis(
            "device-plugin-failing",
            objects=[f"{namespace}/{name}", *troubles],
            namespace=namespace,
            daemon_set=name,
            failing=len(troubles),
            desired=desired,
            which=shorten_list(list(troubles)),
            reasons=shorten_list(sorted(set(troubles.values()))),
        )


def check_plugins_exist(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each label of :data:`_OTHER_LABELS` on ready nodes that have no GPU resource.

    The label shows that such a node has GPUs, so the device plugin is missing. The devices of a DRA driver need none.
    """
    published = describe_devices(map(decode_resource_slice, facts.list_objects(ObjectKind.RESOURCE_SLICES)))
    found: dict[str, list[str]] = {}
    for node in facts.nodes:
        label = next((key for key in _OTHER_LABELS if _has_gpu_label(node, key)), None)
        has_resource = any(map(find_vendor, (*node.capacity, *node.uncounted)))
        if label is not None and node.ready and not has_resource and node.name not in published:
            found.setdefault(label, []).append(node.name)
    for label, names in found.items():
        yield make_diagnosis("device-plugin-missing/label", nodes=names, label=label)


def check_gpu_labels(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each GPU resource on nodes whose labels do not name the GPU model.

    Nodes that match a GPU type of the settings with this resource are left out.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for node in facts.nodes:
        for resource in node.capacity:
            vendor = find_vendor(resource)
            if vendor is None or not count_units(node, resource) or _is_described(facts, node, resource=resource):
                continue
            judged = read_node_gpu(node, resource, table=facts.table)
            if isinstance(judged, NodeGPU) and judged.descriptions[0].model is None:
                found.setdefault((vendor, resource), []).append(node.name)
    for (vendor, resource), names in found.items():
        row = f"gpu-unlabelled/{vendor}" if vendor in _LABELLED_VENDORS else "gpu-unlabelled"
        yield make_diagnosis(row, nodes=names, vendor=format_vendor(vendor), resource=resource)


def _is_described(facts: ClusterFacts, node: Node, *, resource: str) -> bool:
    types = (*facts.configured.gpus.values(), *facts.configured.hidden_gpus)
    return any(
        gpu.resource == resource and gpu.matches_labels(node.labels) and may_have_units(node, resource) for gpu in types
    )


def _has_gpu_label(node: Node, key: str) -> bool:
    value = node.labels.get(key)
    if value in (None, "false") or _OTHER_LABELS[key] not in ("", value):
        return False
    # Return False if the node also has a GPU label of GPU Feature Discovery or GKE: check_hub_flags reports such nodes.
    has_model = any(label.startswith(("nvidia.com/gpu.p", "cloud.google.com/gke-accel")) for label in node.labels)
    return node.labels.get(_WORKLOAD_LABEL, "container") == "container" and not has_model


def _list_troubles(facts: ClusterFacts, daemon_set: KubernetesObject) -> Iterator[tuple[str, str]]:
    uid = as_dict(daemon_set.get("metadata")).get("uid")
    for pod in facts.list_objects(ObjectKind.PLUGIN_PODS):
        owners = as_dicts(as_dict(pod.get("metadata")).get("ownerReferences"))
        if any(owner.get("uid") == uid for owner in owners) and (trouble := find_pod_trouble(pod, now=facts.now)):
            yield as_text(as_dict(pod.get("spec")).get("nodeName")) or get_object_name(pod), trouble
