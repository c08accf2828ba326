"""What the form and the hub's log tell admins as well (:mod:`gpuspawner.core.warnings.flags`), with what helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from gpuspawner.cli.doctor.facts import Facts
from gpuspawner.cli.doctor.finding import Finding, Severity, each_node, on_nodes, some
from gpuspawner.core.cluster.node_states import is_passing
from gpuspawner.core.warnings.flags import Concern, Flag, flagged
from gpuspawner.core.warnings.policy_flags import flagged_policy
from gpuspawner.core.warnings.preset_flags import flagged_presets

_UNHEALTHY = """\
# NVIDIA's device plugin takes a card back only when it is restarted; look at the reason first:
kubectl get events -A --field-selector involvedObject.kind=Node
kubectl delete pod -A -l app.kubernetes.io/name=nvidia-device-plugin --field-selector spec.nodeName={node}
kubectl delete pod -A -l app=nvidia-device-plugin-daemonset --field-selector spec.nodeName={node}"""
_PLUGIN = """\
# NVIDIA, GPUs whose driver is on the node:
helm upgrade --install nvdp nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin \\
  --namespace nvidia-device-plugin --create-namespace --set gfd.enabled=true
# NVIDIA, driver and all else: the GPU Operator. AMD: https://github.com/ROCm/k8s-device-plugin
kubectl describe node {node}"""
_MIG = """\
# Have all cards of the node sliced alike, or let the device plugin name each slice:
kubectl label node {node} nvidia.com/mig.config=all-disabled --overwrite
kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge -p '{"spec": {"mig": {"strategy": "mixed"}}}'"""
_MIXED = """\
# Have one model on each node, or give the second model a resource of its own in the device plugin's configuration:
kubectl describe node {node}"""
_NO_TYPE = """\
# Offer it, with what the node says of itself, or set discover_gpus: true:
kubectl get node {node} --show-labels"""
_UNCOUNTED = "kubectl get deviceclasses,resourceslices,resourceclaims -A"
_PRESET = "# Change or remove the preset: hub.config.GPUSpawner.presets.{name}"
_POLICY = "# Change the slug at: hub.config.GPUSpawner.{name}"


class _Telling(NamedTuple):
    severity: Severity
    code: str
    why: str
    fix: str


_TELLINGS = {
    Concern.PRESET: _Telling(Severity.FAULT, "preset-invalid", "People who look for it find nothing.", _PRESET),
    Concern.POLICY: _Telling(Severity.WARNING, "policy-type-unknown", "The rule allows and limits nothing.", _POLICY),
    Concern.MIG_INVALID: _Telling(Severity.FAULT, "mig-invalid", "Nobody gets these GPUs.", _MIG),
    Concern.MIXED_MODELS: _Telling(Severity.WARNING, "gpu-models-mixed", "Nobody gets these GPUs.", _MIXED),
    Concern.NO_TYPE: _Telling(Severity.WARNING, "gpu-not-offered", "Nobody can pick these GPUs.", _NO_TYPE),
    Concern.UNTOLERATED: _Telling(Severity.WARNING, "taint-untolerated", "These GPUs stay idle.", ""),
    Concern.BROKEN: _Telling(Severity.FAULT, "gpu-unhealthy", "These GPUs are given to nobody.", _UNHEALTHY),
    Concern.NO_RESOURCE: _Telling(
        Severity.FAULT, "device-plugin-missing", "Kubernetes knows of no GPU there, so no server gets one.", _PLUGIN
    ),
    Concern.UNCOUNTED: _Telling(Severity.WARNING, "devices-uncounted", "The form cannot count them.", _UNCOUNTED),
}


def told_concerns(facts: Facts) -> Iterator[Finding]:
    """Yield what is the matter with GPUs, presets and rules."""
    nodes = flagged(facts.nodes, facts.catalogue, table=facts.table, tolerations=facts.tolerations)
    presets = flagged_presets(facts.configured.presets, facts.catalogue) if facts.nodes else ()
    rules = flagged_policy(facts.configured.policy, facts.catalogue) if facts.nodes else ()
    for flag in (*presets, *rules, *nodes):
        telling = _TELLINGS[flag.concern]
        yield Finding(
            severity=telling.severity,
            code=telling.code,
            what=f"{_subject(flag)}: {flag.message}",
            why=telling.why,
            fix=_tolerating(facts, flag) if flag.concern is Concern.UNTOLERATED else _fix(flag, telling.fix),
            objects=flag.names,
        )


def _subject(flag: Flag) -> str:
    if flag.nodes:
        return on_nodes(flag.nodes)
    return f"{'Preset' if flag.presets else 'Setting'} {some(flag.names)}"


def _fix(flag: Flag, fix: str) -> str:
    if "{name}" in fix:
        return "\n".join(fix.format(name=name) for name in flag.names)
    return "\n".join(each_node(flag.nodes, line) if "{node}" in line else line for line in fix.splitlines())


def _tolerating(facts: Facts, flag: Flag) -> str:
    """Return values that let servers onto the nodes of a flag."""
    first = next(node for node in facts.nodes if node.name == flag.nodes[0])
    own = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in first.taints
        if not is_passing(taint)
    ]
    types = [gpu for gpu in facts.catalogue.gpus.values() if gpu.resource == flag.resource and gpu.is_on(first.labels)]
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
