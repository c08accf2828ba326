"""The states of nodes with GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind, get_object_name
from gpuspawner.cli.doctor.finding import Diagnosis, DiagnosisSeverity, format_node_commands, name_nodes
from gpuspawner.core.catalog.node_gpus import find_vendor
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.rawjson import as_dict, as_dicts, as_text

_PROBLEM_CONDITIONS: Mapping[tuple[str, str], tuple[DiagnosisSeverity, str]] = {
    ("AcceleratedHardwareReady", "False"): (DiagnosisSeverity.FAULT, "Its GPUs do not work."),
    ("DiskPressure", "True"): (DiagnosisSeverity.WARNING, "It takes no new servers, and removes images and pods."),
    ("MemoryPressure", "True"): (
        DiagnosisSeverity.WARNING,
        "It takes no new servers of the lowest class, and ends others.",
    ),
    ("PIDPressure", "True"): (DiagnosisSeverity.WARNING, "It takes no new servers."),
}
"""Type and status of a node's condition → how bad it is, and why."""


def check_nodes_ready(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes with GPUs whose kubelet is not well, or not heard of."""
    found = [node.name for node in facts.nodes if _has_gpus(node) and not node.ready]
    if found:
        yield Diagnosis(
            severity=DiagnosisSeverity.FAULT
            if len(found) == sum(map(_has_gpus, facts.nodes))
            else DiagnosisSeverity.WARNING,
            code="node-not-ready",
            what=f"{name_nodes(found)}: not Ready{_describe_reasons(facts, found)}.",
            why="Nobody gets the GPUs there, and servers that run there are lost after some minutes.",
            fix=format_node_commands(found, "kubectl describe node {node}"),
            objects=tuple(found),
        )


def check_cordoned_nodes(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes with GPUs that take no new pods because somebody said so."""
    found = [node.name for node in facts.nodes if _has_gpus(node) and node.unschedulable]
    if found:
        yield Diagnosis(
            severity=DiagnosisSeverity.WARNING,
            code="node-cordoned",
            what=f"{name_nodes(found)}: cordoned.",
            why="Nobody new gets the GPUs there, though they work.",
            fix="# Once the work there is done:\n" + format_node_commands(found, "kubectl uncordon {node}"),
            objects=tuple(found),
        )


def check_node_conditions(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield nodes with GPUs that say themselves what is wrong."""
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


def _has_gpus(node: Node) -> bool:
    return any(find_vendor(name) for name in (*node.capacity, *node.uncounted))


def _describe_reasons(facts: ClusterFacts, names: list[str]) -> str:
    """Return what the nodes' condition Ready says, where it is the same for all."""
    reasons = {
        as_text(each.get("reason"))
        for raw in facts.list_objects(ObjectKind.NODES)
        if get_object_name(raw) in names
        for each in as_dicts(as_dict(raw.get("status")).get("conditions"))
        if each.get("type") == "Ready"
    }
    return f" ({reason})" if len(reasons) == 1 and (reason := next(iter(reasons))) else ""
