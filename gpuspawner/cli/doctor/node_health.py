"""Rules of ``doctor`` about GPU nodes: their conditions, device plugins and labels, and the hub's warnings to admins.

The hub shows these warnings in the form and in its log (:mod:`gpuspawner.core.warnings.nodes`). ``doctor`` shows them
with a consequence and a fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import yaml

from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, format_node_commands, name_nodes, shorten_list
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
_PROBLEM_CONDITIONS: Mapping[tuple[str, str], tuple[DiagnosisSeverity, str]] = {
    ("AcceleratedHardwareReady", "False"): (DiagnosisSeverity.FAULT, "Its GPUs do not work."),
    ("DiskPressure", "True"): (DiagnosisSeverity.WARNING, "It takes no new servers, and removes images and pods."),
    ("MemoryPressure", "True"): (
        DiagnosisSeverity.WARNING,
        "It takes no new servers of the lowest class, and ends others.",
    ),
    ("PIDPressure", "True"): (DiagnosisSeverity.WARNING, "It takes no new servers."),
}
"""Type and status of a node's condition → severity of the finding, and sentence about the consequence."""


def check_nodes_ready(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if GPU nodes are not Ready."""
    found = [node.name for node in facts.nodes if _has_gpus(node) and not node.ready]
    if found:
        is_all = len(found) == sum(map(_has_gpus, facts.nodes))
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT if is_all else DiagnosisSeverity.WARNING,
            code="node-not-ready",
            what=f"{name_nodes(found)}: not Ready{_describe_reasons(facts, found)}.",
            why="No server gets the GPUs there, and servers that run there are lost after some minutes.",
            fix=format_node_commands(found, "kubectl describe node {node}"),
            objects=tuple(found),
        )


def check_cordoned_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding if GPU nodes are cordoned."""
    found = [node.name for node in facts.nodes if _has_gpus(node) and node.unschedulable]
    if found:
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="node-cordoned",
            what=f"{name_nodes(found)}: cordoned.",
            why="No new server gets the GPUs there, although they work.",
            fix="# Once the work there is done:\n" + format_node_commands(found, "kubectl uncordon {node}"),
            objects=tuple(found),
        )


def check_node_conditions(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each problem that the conditions of GPU nodes report, such as DiskPressure."""
    gpu_nodes = {node.name for node in facts.nodes if _has_gpus(node)}
    found: dict[tuple[str, str], list[str]] = {}
    for raw in facts.list_objects(ObjectKind.NODES):
        for each in as_dicts(as_dict(raw.get("status")).get("conditions")):
            key = as_text(each.get("type")), as_text(each.get("status"))
            if key in _PROBLEM_CONDITIONS and get_object_name(raw) in gpu_nodes:
                found.setdefault(key, []).append(get_object_name(raw))
    for (condition, status), names in found.items():
        severity, why = _PROBLEM_CONDITIONS[condition, status]
        yield Diagnosis(
            severity=severity,
            code="node-in-trouble",
            what=f"{name_nodes(names)}: {condition} is {status}.",
            why=why,
            fix=format_node_commands(names, "kubectl describe node {node}"),
            objects=tuple(names),
        )


_START_FAULTS: Mapping[RuntimeFault, str] = {
    RuntimeFault.DEVICE: "containers do not get a device, because it or its driver is out of order",
    RuntimeFault.DISK: "a disk or file that containers need is gone",
    RuntimeFault.IMAGE_STORE: "the store of images is damaged",
    RuntimeFault.OLD_DRIVER: "the GPU driver is too old for an image",
}
_START_FAULT_FIX = """\
# Keep servers off the node until it works, and read what its kubelet and driver write:
kubectl cordon {node}
kubectl get pods -A --field-selector spec.nodeName={node}"""


def check_start_faults(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each fault of nodes that kept a server from starting in the last hour."""
    found: dict[RuntimeFault, dict[str, str]] = {}
    for event in facts.list_objects(ObjectKind.FAILURE_EVENTS):
        source, message = as_dict(event.get("source")), as_message(event.get("message"))
        fault, node = _find_start_fault(message), as_text(source.get("host"))
        if source.get("component") == "kubelet" and node and fault in _START_FAULTS:
            found.setdefault(fault, {})[node] = message
    for fault, messages in found.items():
        last = " ".join([*messages.values()][-1].split())[:_MAX_QUOTED]
        diagnosis = Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="node-faulty",
            what=f"{name_nodes(messages)}: {_START_FAULTS[fault]}. Kubelet writes: {last}",
            why="Servers that get this node do not start.",
            fix="\n".join(
                format_node_commands([*messages], line) if "{node}" in line else line
                for line in _START_FAULT_FIX.splitlines()
            ),
            objects=tuple(messages),
        )
        yield replace(diagnosis, code="driver-too-old") if fault is RuntimeFault.OLD_DRIVER else diagnosis


def _find_start_fault(message: str) -> RuntimeFault:
    # The name of an image that cannot be pulled may contain words such as nvidia-container-toolkit.
    if message.startswith("Failed to pull image"):
        return RuntimeFault.IMAGE_STORE if is_store_damaged(message) else RuntimeFault.OTHER
    return classify_runtime_error(message)


def _has_gpus(node: Node) -> bool:
    return any(find_vendor(name) for name in (*node.capacity, *node.uncounted))


def _describe_reasons(facts: ClusterFacts, names: list[str]) -> str:
    reasons = {
        as_text(each.get("reason"))
        for raw in facts.list_objects(ObjectKind.NODES)
        if get_object_name(raw) in names
        for each in as_dicts(as_dict(raw.get("status")).get("conditions"))
        if each.get("type") == "Ready"
    }
    return f" ({reason})" if len(reasons) == 1 and (reason := next(iter(reasons))) else ""


_UNHEALTHY = """\
# NVIDIA's device plugin takes a card back only when it is restarted; look at the reason first:
kubectl get events -A --field-selector involvedObject.kind=Node
kubectl delete pod -A -l app.kubernetes.io/name=nvidia-device-plugin --field-selector spec.nodeName={node}
kubectl delete pod -A -l app=nvidia-device-plugin-daemonset --field-selector spec.nodeName={node}"""
_INSTALL_PLUGIN = """\
# NVIDIA, GPUs whose driver is on the node:
helm upgrade --install nvdp nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin \\
  --namespace nvidia-device-plugin --create-namespace --set gfd.enabled=true
# NVIDIA, driver and all else: the GPU Operator. AMD: https://github.com/ROCm/k8s-device-plugin
kubectl describe node {node}"""
_MIG = """\
# Slice all GPUs of the node alike, or let the device plugin name each slice:
kubectl label node {node} nvidia.com/mig.config=all-disabled --overwrite
kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge -p '{"spec": {"mig": {"strategy": "mixed"}}}'"""
_CONTRADICTION = """\
# Compare the labels with capacity. Restart GPU Feature Discovery if its labels are old, with the device plugin's
# configuration. Several models on one node: give each its own resource in the device plugin's configuration.
# Or describe the type in hub.config.GPUSpawner.gpus, with unit: shared and max_count: 1 if servers share a GPU.
kubectl describe node {node}"""
_NO_TYPE = """\
# Offer it, with what the node says of itself, or set discover_gpus: true:
kubectl get node {node} --show-labels"""
_UNCOUNTED = "kubectl get deviceclasses,resourceslices,resourceclaims -A"
_NO_CLASS = """\
# Name the resource in the driver's DeviceClass (Kubernetes 1.36, or the feature gate DRAExtendedResource), such as:
kubectl get deviceclasses -o custom-columns=NAME:.metadata.name,RESOURCE:.spec.extendedResourceName
kubectl patch deviceclass gpu.nvidia.com --type=merge -p '{"spec": {"extendedResourceName": "nvidia.com/gpu"}}'"""
_PRESET = "# Change or remove the preset: hub.config.GPUSpawner.presets.{name}"
_DROPPED = """\
# Describe a GPU type with that resource in hub.config.GPUSpawner.gpus, and set the number in:
# singleuser.extraResource.limits, or extra_resource_limits in hub.config
# Or remove the resource there, and from the containers in hub.config and singleuser."""
_POLICY = "# Change the slug at: hub.config.GPUSpawner.{name}"


class _Advice(NamedTuple):
    severity: DiagnosisSeverity
    code: str
    why: str
    fix: str


_ADVICE_BY_CONCERN = {
    WarningKind.PRESET: _Advice(
        DiagnosisSeverity.FAULT, "preset-invalid", "Users cannot find it in the form.", _PRESET
    ),
    WarningKind.POLICY: _Advice(
        DiagnosisSeverity.WARNING, "policy-type-unknown", "The rule allows and limits nothing.", _POLICY
    ),
    WarningKind.DROPPED_GPUS: _Advice(
        DiagnosisSeverity.WARNING, "gpu-dropped", "KubeSpawner would give every server these GPUs.", _DROPPED
    ),
    WarningKind.MIG_INVALID: _Advice(DiagnosisSeverity.FAULT, "mig-invalid", "No server gets these GPUs.", _MIG),
    WarningKind.CONTRADICTION: _Advice(
        DiagnosisSeverity.WARNING, "gpu-labels-contradict", "No server gets these GPUs.", _CONTRADICTION
    ),
    WarningKind.NO_TYPE: _Advice(
        DiagnosisSeverity.WARNING, "gpu-not-offered", "No user can pick these GPUs.", _NO_TYPE
    ),
    WarningKind.UNTOLERATED: _Advice(DiagnosisSeverity.WARNING, "taint-untolerated", "These GPUs stay idle.", ""),
    WarningKind.BROKEN: _Advice(DiagnosisSeverity.FAULT, "gpu-unhealthy", "No server gets these GPUs.", _UNHEALTHY),
    WarningKind.NO_RESOURCE: _Advice(
        DiagnosisSeverity.FAULT,
        "device-plugin-missing",
        "Kubernetes knows of no GPU there, so no server gets one.",
        _INSTALL_PLUGIN,
    ),
    WarningKind.NO_DEVICE_CLASS: _Advice(
        DiagnosisSeverity.WARNING, "device-class-missing", "No user can pick these devices.", _NO_CLASS
    ),
    WarningKind.UNCOUNTED: _Advice(
        DiagnosisSeverity.WARNING, "devices-uncounted", "The form cannot count them.", _UNCOUNTED
    ),
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
        advice = _ADVICE_BY_CONCERN[flag.kind]
        is_untolerated = flag.kind is WarningKind.UNTOLERATED
        yield Diagnosis(
            severity=advice.severity,
            code=advice.code,
            what=f"{_describe_subject(flag)}: {flag.message}",
            why=advice.why,
            fix=_format_tolerations(facts, flag) if is_untolerated else _format_fix(flag, advice.fix),
            objects=flag.names,
        )


def _describe_subject(flag: AdminWarning) -> str:
    if flag.nodes:
        return name_nodes(flag.nodes)
    return f"{'Preset' if flag.presets else 'Setting'} {shorten_list(flag.names)}"


def _format_fix(flag: AdminWarning, fix: str) -> str:
    if "{name}" in fix:
        return "\n".join(fix.format(name=name) for name in flag.names)
    return "\n".join(format_node_commands(flag.nodes, line) if "{node}" in line else line for line in fix.splitlines())


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
            {"key": each.key, "operator": each.operator, "value": each.value, "effect": each.effect}
            for each in described.tolerations
        ]
        kept = [{key: value for key, value in each.items() if value} for each in before]
        gpus = {described.slug: {"tolerations": [*kept, *(each for each in own if each not in kept)]}}
        values = {"hub": {"config": {"GPUSpawner": {"gpus": gpus}}}}
    return "# Helm values:\n" + yaml.safe_dump(values, sort_keys=False).rstrip()


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

_LABEL_ADVICE = {
    "nvidia": "# GPU Feature Discovery comes with NVIDIA's device plugin, and with the GPU Operator:\n"
    "helm upgrade --install nvdp nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin \\\n"
    "  --namespace nvidia-device-plugin --create-namespace --set gfd.enabled=true",
    # The advice contains a kubectl patch, because AMD's chart starts the labeller without -product-name
    # (labeller.yaml). Without this argument, the labeller sets no label with the GPU's name.
    "amd": "# AMD's node labeller, which has to be told to write the product's name:\n"
    "helm upgrade --install amd-gpu amd-gpu --repo https://rocm.github.io/k8s-device-plugin \\\n"
    "  --namespace kube-system --set labeller.enabled=true \\\n"
    "  --set 'tolerations[0].key=amd.com/gpu' --set 'tolerations[0].operator=Exists'\n"
    "kubectl patch daemonset amd-gpu-labeller-daemonset --namespace kube-system --type json --patch \\\n"
    """  '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "-product-name"}]'""",
}
_BY_HAND = "# or describe the type by a label of your own, in hub.config.GPUSpawner.gpus.<slug>.match"


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
        reasons = shorten_list(sorted(set(troubles.values())))
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="device-plugin-failing",
            what=f"DaemonSet {namespace}/{name} does not run on {len(troubles)} of {desired} nodes "
            f"({shorten_list(list(troubles))}): {reasons}.",
            why="Kubernetes loses sight of the GPUs there: running servers keep theirs, new ones get none.",
            fix=f"kubectl -n {namespace} get pods -o wide | grep {name}\n"
            f"kubectl -n {namespace} logs daemonset/{name} --all-containers --previous --tail=50",
            objects=(f"{namespace}/{name}", *troubles),
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
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="device-plugin-missing",
            what=f"{name_nodes(names)}: There are GPUs by the label {label}, and no resource for them.",
            why="Kubernetes knows of no GPU there, so no server gets one.",
            fix=_LABEL_ADVICE["nvidia"],
            objects=tuple(names),
        )


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
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="gpu-unlabelled",
            what=f"{name_nodes(names)}: No label says which {format_vendor(vendor)} GPUs {resource} stands for.",
            why="The form can offer them only as GPUs of any model, and beside types that are described not at all.",
            fix="\n".join(filter(None, (_LABEL_ADVICE.get(vendor), _BY_HAND))),
            objects=tuple(names),
        )


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
