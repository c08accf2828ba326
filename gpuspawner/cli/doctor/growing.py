"""Autoscalers: whether there is one where the settings count on it, and whether it may add anything."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.cli.doctor.facts import Facts, Kind, Object, name_of
from gpuspawner.cli.doctor.finding import Finding, Severity
from gpuspawner.core.autoscaling.nodepools import pools
from gpuspawner.core.rawjson import mapping, mappings, text

_AUTOSCALERS = ("cluster-autoscaler", "karpenter")
"""Beginnings or parts of the names that their deployments have in their charts."""
_CLOUD_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/compute-type",
    "kubernetes.azure.com/agentpool",
)
"""Of nodes in clusters whose autoscaler, if there is one, runs where nobody sees it."""


def may_grow(facts: Facts) -> bool:
    """Tell whether there is an autoscaler, or may be one that cannot be seen."""
    if facts.of(Kind.NODE_POOLS) or Kind.DEPLOYMENTS not in facts.read:
        return True
    if any(part in name_of(each) for each in facts.of(Kind.DEPLOYMENTS) for part in _AUTOSCALERS):
        return True
    return any(label in node.labels for node in facts.nodes for label in _CLOUD_LABELS)


def autoscaler_missing(facts: Facts) -> Iterator[Finding]:
    """Yield GPU types with a ``scale_up`` in a cluster that nothing grows."""
    types = [slug for slug, gpu in facts.configured.gpus.items() if gpu.scale_up is not None]
    if types and not may_grow(facts):
        yield Finding(
            severity=Severity.WARNING,
            code="autoscaler-missing",
            what=f"scale_up is set for {', '.join(types)}, and there is no autoscaler: neither Karpenter nor a "
            "cluster-autoscaler, nor nodes of a cloud that has its own.",
            why="The form says that a server starts after a new node, and none comes.",
            fix="kubectl get deployments -A | grep -e autoscaler -e karpenter\n"
            "# Without one take scale_up away. Helm values:\nhub:\n  config:\n    GPUSpawner:\n      gpus:\n"
            + "\n".join(f"        {slug}:\n          scale_up: null" for slug in types),
            objects=tuple(types),
        )


def pools_exhausted(facts: Facts) -> Iterator[Finding]:
    """Yield NodePools of Karpenter that may add no node any more, and those it does not work with."""
    for pool in facts.of(Kind.NODE_POOLS):
        name = name_of(pool)
        if (reason := _unready(pool)) is not None:
            yield Finding(
                severity=Severity.FAULT,
                code="nodepool-not-ready",
                what=f"NodePool {name} is not ready{reason}.",
                why="Karpenter adds no node of it.",
                fix=f"kubectl describe nodepool {name}",
                objects=(name,),
            )
        elif spent := _spent(pool):
            limits = ", ".join(f"{key}: {of}" for key, of in spent.items())
            yield Finding(
                severity=Severity.WARNING,
                code="nodepool-exhausted",
                what=f"NodePool {name} has reached its limits ({limits}).",
                why="Karpenter adds no node of it: servers that need one wait.",
                fix=f"kubectl get nodepool {name} -o jsonpath='{{.status.resources}}'\n"
                f"kubectl patch nodepool {name} --type=merge "
                f"""-p '{{"spec": {{"limits": {{{", ".join(f'"{key}": "MORE"' for key in spent)}}}}}}}'""",
                objects=(name,),
            )


def _unready(pool: Object) -> str | None:
    for each in mappings(mapping(pool.get("status")).get("conditions")):
        if each.get("type") == "Ready" and each.get("status") == "False":
            told = text(each.get("message")) or text(each.get("reason"))
            return f": {told.rstrip('.')}" if told else ""
    return None


def _spent(pool: Object) -> dict[str, object]:
    """Return the limits of a NodePool that leave nothing."""
    limits = mapping(mapping(pool.get("spec")).get("limits"))
    found: dict[str, object] = {}
    for growth in pools([pool]):
        if growth.machines is not None:
            for key, left in growth.machines.left.items():
                if left <= 0 and key in limits:
                    found[key] = limits[key]
    return found
