"""GPUs that are cut into slices or shared: where NVIDIA's MIG and time-slicing do not do what was meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuspawner.cli.doctor.facts import Facts
from gpuspawner.cli.doctor.finding import Finding, Severity, each_node, on_nodes
from gpuspawner.core.catalog.node_gpus import mig_profile
from gpuspawner.core.cluster.model import Node

_STATE = "nvidia.com/mig.config.state"
_CONFIG = "nvidia.com/mig.config"
_STRATEGY = "nvidia.com/mig.strategy"
_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_MANAGER = "kubectl logs -A -l app=nvidia-mig-manager --tail=50"


def mig_states(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose MIG layout could not be made, or is not made yet (label of NVIDIA's MIG manager)."""
    failed = [node for node in facts.nodes if node.labels.get(_STATE) == "failed"]
    if failed:
        yield Finding(
            severity=Severity.FAULT,
            code="mig-config-failed",
            what=f"{on_nodes(_names(failed))}: The MIG layout {_layouts(failed)} could not be made.",
            why="The node has the slices of before, or none, whatever is offered.",
            fix=f"{_MANAGER}\n# Pods with GPUs keep it from being changed. Then once more:\n"
            + each_node(_names(failed), "kubectl label node {node} nvidia.com/mig.config.state-")
            + "\n"
            + "\n".join(
                f"kubectl label node {node.name} {_CONFIG}={node.labels.get(_CONFIG, 'LAYOUT')} --overwrite"
                for node in failed[:3]
            ),
            objects=_names(failed),
        )
    pending = [node for node in facts.nodes if node.labels.get(_STATE) in ("pending", "rebooting")]
    if pending:
        yield Finding(
            severity=Severity.WARNING,
            code="mig-config-pending",
            what=f"{on_nodes(_names(pending))}: The MIG layout {_layouts(pending)} is still being made.",
            why="Until it is, the node offers no GPU; pods with GPUs there hold it up.",
            fix=f"{_MANAGER}\n" + each_node(_names(pending), "kubectl describe node {node}"),
            objects=_names(pending),
        )


def mig_strategies(facts: Facts) -> Iterator[Finding]:
    """Yield nodes with the strategy single that name slices in resources all the same."""
    found = [
        node
        for node in facts.nodes
        if node.labels.get(_STRATEGY) == "single" and any(mig_profile(name) for name, n in node.capacity.items() if n)
    ]
    if found:
        yield Finding(
            severity=Severity.WARNING,
            code="mig-strategy-mismatch",
            what=f"{on_nodes(_names(found))}: {_STRATEGY} is single, and resources are named by MIG profile.",
            why="Device plugin and GPU Feature Discovery have different strategies: no label describes the slices.",
            fix="# One strategy for both:\n"
            "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge "
            """-p '{"spec": {"mig": {"strategy": "mixed"}}}'\n"""
            "# or, with the chart of NVIDIA's device plugin: --set migStrategy=mixed",
            objects=_names(found),
        )


def shared_counts(facts: Facts) -> Iterator[Finding]:
    """Yield GPU types of which people may take several, where one is a share of a GPU."""
    for slug in facts.configured.gpus:
        gpu = facts.catalogue.gpus.get(slug)
        if gpu is None or gpu.max_count == 1 or gpu.members:
            continue
        shared = [node for node in facts.nodes if gpu.is_on(node.labels) and _is_shared(node, gpu.resource)]
        if not shared:
            continue
        refused = [node for node in shared if _refuses_two(node, gpu.resource)]
        yield Finding(
            severity=Severity.FAULT if refused else Severity.WARNING,
            code="shared-count",
            what=f"GPU type {slug} may be asked for up to {gpu.max_count} times, and is shared on "
            f"{on_nodes(_names(shared)).lower()}.",
            why=(
                "The device plugin refuses more than one share for a pod: such servers fail."
                if refused
                else "Two shares may be the same GPU, and are no larger part of it."
            ),
            fix=f"# Helm values:\nhub:\n  config:\n    GPUSpawner:\n      gpus:\n        {slug}:\n"
            "          max_count: 1\n          unit: shared",
            objects=(slug, *_names(shared)),
        )


def _is_shared(node: Node, resource: str) -> bool:
    # 0 is a card that is cut into slices.
    is_replicated = node.labels.get(f"{resource}.replicas", "1") not in ("0", "1")
    return bool(node.capacity.get(resource)) and (
        is_replicated or resource.endswith(".shared") or bool(node.labels.get(_GKE_SHARING))
    )


def _refuses_two(node: Node, resource: str) -> bool:
    """Tell whether the device plugin refuses several: always on GKE, by default with MPS."""
    return bool(node.labels.get(_GKE_SHARING)) or node.labels.get(f"{resource}.sharing-strategy") == "mps"


def _layouts(nodes: Iterable[Node]) -> str:
    return " and ".join(sorted({node.labels.get(_CONFIG, "that was asked for") for node in nodes}))


def _names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)
