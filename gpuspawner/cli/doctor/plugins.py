"""What makes Kubernetes know of GPUs: device plugins and their helpers, and the labels that they put on nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuspawner.cli.doctor.facts import Facts, Kind, Object, name_of
from gpuspawner.cli.doctor.finding import Finding, Severity, on_nodes, some
from gpuspawner.cli.doctor.pod_troubles import trouble_of
from gpuspawner.core.catalog.node_gpus import divided_models, read_offer, vendor_of
from gpuspawner.core.catalog.stocks import may_have, units
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.rawjson import mapping, mappings, text, whole
from gpuspawner.core.units.words import vendor_name

_VENDORS = r"nvidia|nvdp|amd|amdgpu|rocm|intel"
_WORKS = (
    "device-plugin|gpu-plugin|kubelet-plugin|feature-discovery|driver|container-toolkit|validator|mig-manager|labell?er"
)
_PLUGIN = re.compile(rf"(^|[-/])({_VENDORS})[a-z0-9-]*({_WORKS})", re.ASCII)
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


def is_plugin(daemon_set: Object) -> bool:
    """Tell whether a DaemonSet is one that GPUs hang on."""
    return bool(_PLUGIN.search(name_of(daemon_set)))


def failing_plugins(facts: Facts) -> Iterator[Finding]:
    """Yield DaemonSets for GPUs of which not all pods run."""
    for found in filter(is_plugin, facts.of(Kind.DAEMON_SETS)):
        status = mapping(found.get("status"))
        wanted = whole(status.get("desiredNumberScheduled")) or 0
        # The pods themselves: the DaemonSet calls one available for a moment each time that it crashes.
        troubles = dict(_troubles(facts, found))
        if not troubles:
            continue
        namespace, name = text(mapping(found.get("metadata")).get("namespace")), name_of(found)
        reasons = some(sorted(set(troubles.values())))
        yield Finding(
            severity=Severity.FAULT,
            code="device-plugin-failing",
            what=f"DaemonSet {namespace}/{name} does not run on {len(troubles)} of {wanted} nodes "
            f"({some(list(troubles))}): {reasons}.",
            why="Kubernetes loses sight of the GPUs there: running servers keep theirs, new ones get none.",
            fix=f"kubectl -n {namespace} get pods -o wide | grep {name}\n"
            f"kubectl -n {namespace} logs daemonset/{name} --all-containers --previous --tail=50",
            objects=(f"{namespace}/{name}", *troubles),
        )


def missing_plugins(facts: Facts) -> Iterator[Finding]:
    """Yield nodes that have GPUs by labels which say nothing of a model, and no GPU for pods."""
    found: dict[str, list[str]] = {}
    for node in facts.nodes:
        label = next((key for key in _OTHER_LABELS if _has(node, key)), None)
        if label is not None and node.ready and not any(map(vendor_of, (*node.capacity, *node.uncounted))):
            found.setdefault(label, []).append(node.name)
    for label, names in found.items():
        yield Finding(
            severity=Severity.FAULT,
            code="device-plugin-missing",
            what=f"{on_nodes(names)}: There are GPUs by the label {label}, and no resource for them.",
            why="Kubernetes knows of no GPU there, so no server gets one.",
            fix=_ADVICE["nvidia"],
            objects=tuple(names),
        )


def unlabelled_gpus(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose labels do not say which GPUs they have, where the settings don't either."""
    found: dict[tuple[str, str], list[str]] = {}
    ambiguous = divided_models(facts.nodes)
    for node in facts.nodes:
        for resource in node.capacity:
            vendor = vendor_of(resource)
            if vendor is None or not units(node, resource) or _is_described(facts, node, resource=resource):
                continue
            offer = read_offer(node, resource, table=facts.table, ambiguous=ambiguous)
            if offer is not None and offer.model is None:
                found.setdefault((vendor, resource), []).append(node.name)
    for (vendor, resource), names in found.items():
        yield Finding(
            severity=Severity.WARNING,
            code="gpu-unlabelled",
            what=f"{on_nodes(names)}: No label says which {vendor_name(vendor)} GPUs {resource} stands for.",
            why="The form can offer them only as GPUs of any model, and beside types that are described not at all.",
            fix="\n".join(filter(None, (_ADVICE.get(vendor), _BY_HAND))),
            objects=tuple(names),
        )


def _is_described(facts: Facts, node: Node, *, resource: str) -> bool:
    types = (*facts.configured.gpus.values(), *facts.configured.hidden_gpus)
    return any(gpu.resource == resource and gpu.is_on(node.labels) and may_have(node, resource) for gpu in types)


def _has(node: Node, key: str) -> bool:
    value = node.labels.get(key)
    passed_on = node.labels.get(_PASSED_ON, "container") != "container"
    told = any(label.startswith(("nvidia.com/gpu.p", "cloud.google.com/gke-accel")) for label in node.labels)
    return value is not None and value != "false" and _OTHER_LABELS[key] in ("", value) and not passed_on and not told


def _troubles(facts: Facts, daemon_set: Object) -> Iterator[tuple[str, str]]:
    """Yield the nodes on which a DaemonSet's pod does not run, with why."""
    uid = mapping(daemon_set.get("metadata")).get("uid")
    for pod in facts.of(Kind.PLUGIN_PODS):
        owners = mappings(mapping(pod.get("metadata")).get("ownerReferences"))
        if any(owner.get("uid") == uid for owner in owners) and (trouble := trouble_of(pod, now=facts.now)):
            yield text(mapping(pod.get("spec")).get("nodeName")) or name_of(pod), trouble
