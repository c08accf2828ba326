"""Autoscalers: whether there is one where the settings count on it, and whether it may add anything."""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.cli.doctor.facts import ClusterFacts, KubernetesObject, ObjectKind, get_object_name
from gpuspawner.cli.doctor.finding import Diagnosis, DiagnosisSeverity
from gpuspawner.core.autoscaling.nodepools import decode_node_pools
from gpuspawner.core.rawjson import as_dict, as_dicts, as_text

_AUTOSCALERS = ("cluster-autoscaler", "karpenter")
"""Beginnings or parts of the names that their deployments have in their charts."""
_CLOUD_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/compute-type",
    "kubernetes.azure.com/agentpool",
)
"""Of nodes in clusters whose autoscaler, if there is one, runs where nobody sees it."""


def can_scale_up(facts: ClusterFacts) -> bool:
    """Tell whether there is an autoscaler, or may be one that cannot be seen."""
    if facts.list_objects(ObjectKind.NODE_POOLS) or ObjectKind.DEPLOYMENTS not in facts.read:
        return True
    if any(
        part in get_object_name(each) for each in facts.list_objects(ObjectKind.DEPLOYMENTS) for part in _AUTOSCALERS
    ):
        return True
    return any(label in node.labels for node in facts.nodes for label in _CLOUD_LABELS)


def check_autoscaler(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield GPU types with a ``scale_up`` in a cluster that nothing grows."""
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


def check_node_pools(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """Yield NodePools of Karpenter that may add no node any more, and those it does not work with."""
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
            told = as_text(each.get("message")) or as_text(each.get("reason"))
            return f": {told.rstrip('.')}" if told else ""
    return None


def _list_spent_limits(pool: KubernetesObject) -> dict[str, object]:
    """Return the limits of a NodePool that leave nothing."""
    limits = as_dict(as_dict(pool.get("spec")).get("limits"))
    found: dict[str, object] = {}
    for scalable_pool in decode_node_pools([pool]):
        if scalable_pool.machines is not None:
            for key, left in scalable_pool.machines.remaining.items():
                if left <= 0 and key in limits:
                    found[key] = limits[key]
    return found
