"""Build the node affinity that keeps servers without a GPU off GPU nodes. The affinity matches labels of GPU nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuspawner.core.catalog.model import Catalog

_GPU_LABEL_DOMAINS = (
    "nvidia.com/",
    "amd.com/",
    "gpu.intel.com/",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu",
    "karpenter.k8s.aws/instance-gpu",
    "eks.amazonaws.com/instance-gpu",
    "k8s.amazonaws.com/accelerator",
)
"""Prefixes of labels that only GPU nodes carry."""

_GENERAL_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "hub.jupyter.org/")
"""Prefixes of labels whose values GPU nodes share with other nodes; a ``NotIn`` would also exclude the other nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchExpression:
    """One node selector requirement (core/v1 NodeSelectorRequirement).

    :param operator: ``In``, ``NotIn`` or ``DoesNotExist``.
    :param values: empty for ``DoesNotExist``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


def build_gpu_node_exclusion(catalog: Catalog) -> tuple[MatchExpression, ...]:
    """Return node affinity that excludes the nodes of all GPU types: one ``NotIn`` per label, with all types' values.

    The affinity also excludes nodes of GPU types that users cannot choose, and GPU nodes that belong to no type. Of
    the labels by which a type matches nodes, the affinity uses those that only GPU nodes carry. If a type has none of
    these, the affinity uses the type's other labels, except those in :data:`_GENERAL_LABELS`: a ``NotIn``
    for ``kubernetes.io/arch`` would exclude nodes without GPUs, too.
    """
    values: dict[str, list[str]] = {}
    for gpu in (*catalog.gpus.values(), *catalog.hidden):
        for key in _list_gpu_keys(gpu.match):
            values.setdefault(key, []).extend(gpu.match[key])
    for key, more in catalog.untyped.items():
        values.setdefault(key, []).extend(more)
    return tuple(
        MatchExpression(key=key, operator="NotIn", values=tuple(dict.fromkeys(found))) for key, found in values.items()
    )


def matches_expressions(labels: Mapping[str, str], expressions: tuple[MatchExpression, ...]) -> bool:
    """Return whether a node with these labels meets all expressions; a missing label meets ``NotIn``."""
    return all(_matches_expression(labels, each) for each in expressions)


def _matches_expression(labels: Mapping[str, str], expression: MatchExpression) -> bool:
    if expression.operator == "DoesNotExist":
        return expression.key not in labels
    return (labels.get(expression.key) in expression.values) == (expression.operator == "In")


def _list_gpu_keys(match: Mapping[str, tuple[str, ...]]) -> list[str]:
    keys = [key for key, values in match.items() if values]
    return [key for key in keys if key.startswith(_GPU_LABEL_DOMAINS)] or [
        key for key in keys if not key.startswith(_GENERAL_LABELS)
    ]
