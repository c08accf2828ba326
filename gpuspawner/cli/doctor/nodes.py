"""The states of nodes with GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.cli.doctor.facts import Facts, Kind, name_of
from gpuspawner.cli.doctor.finding import Finding, Severity, each_node, on_nodes
from gpuspawner.core.catalog.node_gpus import vendor_of
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.rawjson import mapping, mappings, text

_TROUBLES: Mapping[tuple[str, str], tuple[Severity, str]] = {
    ("AcceleratedHardwareReady", "False"): (Severity.FAULT, "Its GPUs do not work."),
    ("DiskPressure", "True"): (Severity.WARNING, "It takes no new servers, and removes images and pods."),
    ("MemoryPressure", "True"): (Severity.WARNING, "It takes no new servers of the lowest class, and ends others."),
    ("PIDPressure", "True"): (Severity.WARNING, "It takes no new servers."),
}
"""Type and status of a node's condition → how bad it is, and why."""


def not_ready(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with GPUs whose kubelet is not well, or not heard of."""
    found = [node.name for node in facts.nodes if _has_gpus(node) and not node.ready]
    if found:
        yield Finding(
            severity=Severity.FAULT if len(found) == sum(map(_has_gpus, facts.nodes)) else Severity.WARNING,
            code="node-not-ready",
            what=f"{on_nodes(found)}: not Ready{_reasons(facts, found)}.",
            why="Nobody gets the GPUs there, and servers that run there are lost after some minutes.",
            fix=each_node(found, "kubectl describe node {node}"),
            objects=tuple(found),
        )


def cordoned(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with GPUs that take no new pods because somebody said so."""
    found = [node.name for node in facts.nodes if _has_gpus(node) and node.unschedulable]
    if found:
        yield Finding(
            severity=Severity.WARNING,
            code="node-cordoned",
            what=f"{on_nodes(found)}: cordoned.",
            why="Nobody new gets the GPUs there, though they work.",
            fix="# Once the work there is done:\n" + each_node(found, "kubectl uncordon {node}"),
            objects=tuple(found),
        )


def in_trouble(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with GPUs that say themselves what is wrong."""
    gpu_nodes = {node.name for node in facts.nodes if _has_gpus(node)}
    found: dict[tuple[str, str], list[str]] = {}
    for raw in facts.of(Kind.NODES):
        for each in mappings(mapping(raw.get("status")).get("conditions")):
            key = text(each.get("type")), text(each.get("status"))
            if key in _TROUBLES and name_of(raw) in gpu_nodes:
                found.setdefault(key, []).append(name_of(raw))
    for (condition, status), names in found.items():
        severity, why = _TROUBLES[condition, status]
        yield Finding(
            severity=severity,
            code="node-in-trouble",
            what=f"{on_nodes(names)}: {condition} is {status}.",
            why=why,
            fix=each_node(names, "kubectl describe node {node}"),
            objects=tuple(names),
        )


def _has_gpus(node: Node) -> bool:
    return any(vendor_of(name) for name in (*node.capacity, *node.uncounted))


def _reasons(facts: Facts, names: list[str]) -> str:
    """Return what the nodes' condition Ready says, where it is the same for all."""
    reasons = {
        text(each.get("reason"))
        for raw in facts.of(Kind.NODES)
        if name_of(raw) in names
        for each in mappings(mapping(raw.get("status")).get("conditions"))
        if each.get("type") == "Ready"
    }
    return f" ({reason})" if len(reasons) == 1 and (reason := next(iter(reasons))) else ""
