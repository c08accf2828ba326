"""What makes Kubernetes know of GPUs: device plugins and their helpers, and the labels that they put on nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuspawner.cli.doctor.diagnosis import Diagnosis, DiagnosisSeverity, name_nodes, shorten_list
from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.doctor.pod_health import find_pod_trouble
from gpuspawner.core.catalog.node_labels import find_divided_models, find_vendor, read_node_gpu
from gpuspawner.core.catalog.nodes_by_type import count_units, may_have_units
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text
from gpuspawner.core.units.formatting import format_vendor

_VENDORS = r"nvidia|nvdp|amd|amdgpu|rocm|intel"
_WORKLOAD_NAMES = (
    "device-plugin|gpu-plugin|kubelet-plugin|feature-discovery|driver|container-toolkit|validator|mig-manager|labell?er"
)
_PLUGIN = re.compile(rf"(^|[-/])({_VENDORS})[a-z0-9-]*({_WORKLOAD_NAMES})", re.ASCII)
"""DaemonSets that a node's GPUs hang on, by their names in the vendors' charts and in GKE."""

_OTHER_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "kubernetes.azure.com/accelerator": "nvidia",
    "k8s.amazonaws.com/accelerator": "",
}
"""What else nodes with GPUs carry before a device plugin runs there; an empty value is any."""
_PASSED_ON = "nvidia.com/gpu.workload.config"
"""GPUs that virtual machines get whole have no device plugin for pods (NVIDIA GPU Operator)."""

_ADVICE = {
    "nvidia": "# GPU Feature Discovery comes with NVIDIA's device plugin, and with the GPU Operator:\n"
    "helm upgrade --install nvdp nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin \\\n"
    "  --namespace nvidia-device-plugin --create-namespace --set gfd.enabled=true",
    # The chart's labeller is not told to write the product's name (its templates/labeller.yaml).
    "amd": "# AMD's node labeller, which has to be told to write the product's name:\n"
    "helm upgrade --install amd-gpu amd-gpu --repo https://rocm.github.io/k8s-device-plugin \\\n"
    "  --namespace kube-system --set labeller.enabled=true \\\n"
    "  --set 'tolerations[0].key=amd.com/gpu' --set 'tolerations[0].operator=Exists'\n"
    "kubectl patch daemonset amd-gpu-labeller-daemonset --namespace kube-system --type json --patch \\\n"
    """  '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "-product-name"}]'""",
}
_BY_HAND = "# or describe the type by a label of your own, in hub.config.GPUSpawner.gpus.<slug>.match"


def is_device_plugin(daemon_set: KubernetesObject) -> bool:
    """Tell whether a DaemonSet is one that GPUs hang on."""
    return bool(_PLUGIN.search(get_object_name(daemon_set)))


def check_plugins_run(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield DaemonSets for GPUs of which not all pods run."""
    for found in filter(is_device_plugin, facts.list_objects(ObjectKind.DAEMON_SETS)):
        status = as_dict(found.get("status"))
        wanted = as_int(status.get("desiredNumberScheduled")) or 0
        # The pods themselves: the DaemonSet calls one available for a moment each time that it crashes.
        troubles = dict(_list_troubles(facts, found))
        if not troubles:
            continue
        namespace, name = as_text(as_dict(found.get("metadata")).get("namespace")), get_object_name(found)
        reasons = shorten_list(sorted(set(troubles.values())))
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="device-plugin-failing",
            what=f"DaemonSet {namespace}/{name} does not run on {len(troubles)} of {wanted} nodes "
            f"({shorten_list(list(troubles))}): {reasons}.",
            why="Kubernetes loses sight of the GPUs there: running servers keep theirs, new ones get none.",
            fix=f"kubectl -n {namespace} get pods -o wide | grep {name}\n"
            f"kubectl -n {namespace} logs daemonset/{name} --all-containers --previous --tail=50",
            objects=(f"{namespace}/{name}", *troubles),
        )


def check_plugins_exist(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes that have GPUs by labels which say nothing of a model, and no GPU for pods."""
    found: dict[str, list[str]] = {}
    for node in facts.nodes:
        label = next((key for key in _OTHER_LABELS if _has_resource(node, key)), None)
        if label is not None and node.ready and not any(map(find_vendor, (*node.capacity, *node.uncounted))):
            found.setdefault(label, []).append(node.name)
    for label, names in found.items():
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT,
            code="device-plugin-missing",
            what=f"{name_nodes(names)}: There are GPUs by the label {label}, and no resource for them.",
            why="Kubernetes knows of no GPU there, so no server gets one.",
            fix=_ADVICE["nvidia"],
            objects=tuple(names),
        )


def check_gpu_labels(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes whose labels do not say which GPUs they have, where the settings don't either."""
    found: dict[tuple[str, str], list[str]] = {}
    ambiguous = find_divided_models(facts.nodes)
    for node in facts.nodes:
        for resource in node.capacity:
            vendor = find_vendor(resource)
            if vendor is None or not count_units(node, resource) or _is_described(facts, node, resource=resource):
                continue
            offer = read_node_gpu(node, resource, table=facts.table, ambiguous=ambiguous)
            if offer is not None and offer.model is None:
                found.setdefault((vendor, resource), []).append(node.name)
    for (vendor, resource), names in found.items():
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="gpu-unlabelled",
            what=f"{name_nodes(names)}: No label says which {format_vendor(vendor)} GPUs {resource} stands for.",
            why="The form can offer them only as GPUs of any model, and beside types that are described not at all.",
            fix="\n".join(filter(None, (_ADVICE.get(vendor), _BY_HAND))),
            objects=tuple(names),
        )


def _is_described(facts: ClusterFacts, node: Node, *, resource: str) -> bool:
    types = (*facts.configured.gpus.values(), *facts.configured.hidden_gpus)
    return any(
        gpu.resource == resource and gpu.matches_labels(node.labels) and may_have_units(node, resource) for gpu in types
    )


def _has_resource(node: Node, key: str) -> bool:
    value = node.labels.get(key)
    passed_on = node.labels.get(_PASSED_ON, "container") != "container"
    told = any(label.startswith(("nvidia.com/gpu.p", "cloud.google.com/gke-accel")) for label in node.labels)
    return value is not None and value != "false" and _OTHER_LABELS[key] in ("", value) and not passed_on and not told


def _list_troubles(facts: ClusterFacts, daemon_set: KubernetesObject) -> Iterator[tuple[str, str]]:
    """Yield the nodes on which a DaemonSet's pod does not run, with why."""
    uid = as_dict(daemon_set.get("metadata")).get("uid")
    for pod in facts.list_objects(ObjectKind.PLUGIN_PODS):
        owners = as_dicts(as_dict(pod.get("metadata")).get("ownerReferences"))
        if any(owner.get("uid") == uid for owner in owners) and (trouble := find_pod_trouble(pod, now=facts.now)):
            yield as_text(as_dict(pod.get("spec")).get("nodeName")) or get_object_name(pod), trouble
