"""Rules about device plugins, and about the node labels that say which GPUs a node has."""

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
"""Pattern of the names that GPU vendors' charts and GKE give to the DaemonSets of device plugins and their helpers."""

_OTHER_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "kubernetes.azure.com/accelerator": "nvidia",
    "k8s.amazonaws.com/accelerator": "",
}
"""Node label → value by which the label marks a GPU node, even if no device plugin runs on the node.

An empty value stands for any value except ``false``.
"""
_WORKLOAD_LABEL = "nvidia.com/gpu.workload.config"
"""Node label of the NVIDIA GPU Operator: ``container`` if containers get the node's GPUs, else virtual machines do."""

_ADVICE = {
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
    return bool(_PLUGIN.search(get_object_name(daemon_set)))


def check_plugins_run(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield a finding for each DaemonSet of a device plugin with pods that don't run."""
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
    """Yield a finding for nodes that have the label of a GPU node but no GPU resource."""
    found: dict[str, list[str]] = {}
    for node in facts.nodes:
        label = next((key for key in _OTHER_LABELS if _has_gpu_label(node, key)), None)
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
    """Yield a finding for GPU nodes whose GPU model neither their labels nor the settings name."""
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


def _has_gpu_label(node: Node, key: str) -> bool:
    value = node.labels.get(key)
    if value in (None, "false") or _OTHER_LABELS[key] not in ("", value):
        return False
    # Leave out nodes that GPU Feature Discovery or GKE has labeled: node_health.check_hub_flags reports them.
    has_model = any(label.startswith(("nvidia.com/gpu.p", "cloud.google.com/gke-accel")) for label in node.labels)
    return node.labels.get(_WORKLOAD_LABEL, "container") == "container" and not has_model


def _list_troubles(facts: ClusterFacts, daemon_set: KubernetesObject) -> Iterator[tuple[str, str]]:
    uid = as_dict(daemon_set.get("metadata")).get("uid")
    for pod in facts.list_objects(ObjectKind.PLUGIN_PODS):
        owners = as_dicts(as_dict(pod.get("metadata")).get("ownerReferences"))
        if any(owner.get("uid") == uid for owner in owners) and (trouble := find_pod_trouble(pod, now=facts.now)):
            yield as_text(as_dict(pod.get("spec")).get("nodeName")) or get_object_name(pod), trouble
