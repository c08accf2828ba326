"""Small clusters for the rules: what is not said of one is as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuspawner.cli.doctor.diagnosis import Diagnosis
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.settings.parsing import Settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = {"nvidia.com/gpu.present": "true", PRODUCT: "Tesla-T4", "nvidia.com/gpu.count": "4"}


def node(name: str = "n", *, gpus: int = 4, labels: Mapping[str, str] | None = None, **more: Any) -> Node:
    """Return a node with GPUs of NVIDIA's, if any."""
    amounts = {"cpu": 8000, "memory": 32 * 1024**3, **({GPU: gpus} if gpus else {})}
    found = {"capacity": amounts, "allocatable": amounts, **more}
    return Node(name=name, labels=T4 if labels is None else labels, **found)


def facts(
    *nodes: Node,
    settings: Mapping[str, Any] | None = None,
    read: Mapping[ObjectKind, Iterable[Any]] | None = None,
    **more: Any,
) -> ClusterFacts:
    """Return what was read of a cluster; without nodes it has a good one."""
    parsed = Settings.parse(settings or {})
    configured, table = parsed.configured, parsed.table
    own = nodes or (node(),)
    catalog = assemble_catalog(configured, Inventory(nodes=own), table=table, fallback_image="i")
    found = {kind: tuple(objects) for kind, objects in (read or {}).items()}
    return ClusterFacts(
        **{"namespace": "jhub", "now": NOW, "nodes": own, "read": found} | more,
        catalog=catalog,
        configured=configured,
        table=table,
    )


def codes(
    rule: Callable[[ClusterFacts], Iterable[Diagnosis]], found: ClusterFacts
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return severity, code and objects of what a rule finds."""
    return [(each.severity.value, each.code, each.objects) for each in rule(found)]


def named(name: str, **parts: Any) -> dict[str, Any]:
    """Return an object of Kubernetes."""
    return {"metadata": {"name": name, "namespace": "jhub"}, **parts}


def gpu_type(**more: Any) -> dict[str, Any]:
    """Return the entry of a GPU type in the settings."""
    return {"display_name": "T4", "resource": GPU, "match": {PRODUCT: "Tesla-T4"}, **more}
