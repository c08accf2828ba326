"""How servers without a GPU are kept off GPU nodes: by the labels that the catalogue's GPU types match."""

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
"""Beginnings of labels that only GPU nodes carry."""

_GENERAL_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "hub.jupyter.org/")
"""Beginnings of labels that nodes without GPUs carry just as well, with the same values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchExpression:
    """One node selector requirement (core/v1 NodeSelectorRequirement).

    :param operator: ``In``, ``NotIn`` or ``DoesNotExist``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


def build_gpu_node_exclusion(catalogue: Catalog) -> tuple[MatchExpression, ...]:
    """Return expressions that no node of any GPU type fulfils: one ``NotIn`` for each label, values of all types.

    Types that nobody may pick count as well, and nodes that have no type: they are no less GPU nodes.

    All labels of a type must match, so one that it does not have is enough to be none of its nodes. Labels that only
    GPU nodes carry are taken where there are any: ``kubernetes.io/arch`` in a type's match must not rule out all.
    """
    values: dict[str, list[str]] = {}
    for gpu in (*catalogue.gpus.values(), *catalogue.hidden):
        for key in _list_gpu_keys(gpu.match):
            values.setdefault(key, []).extend(gpu.match[key])
    for key, more in catalogue.untyped.items():
        values.setdefault(key, []).extend(more)
    return tuple(
        MatchExpression(key=key, operator="NotIn", values=tuple(dict.fromkeys(found))) for key, found in values.items()
    )


def matches_expressions(labels: Mapping[str, str], expressions: tuple[MatchExpression, ...]) -> bool:
    """Tell whether a node with these labels fulfils all expressions; a label that is missing fulfils ``NotIn``."""
    return all(_matches_expression(labels, each) for each in expressions)


def _matches_expression(labels: Mapping[str, str], expression: MatchExpression) -> bool:
    if expression.operator == "DoesNotExist":
        return expression.key not in labels
    return (labels.get(expression.key) in expression.values) == (expression.operator == "In")


def _list_gpu_keys(match: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the labels of a match that tell its nodes from nodes without GPUs."""
    keys = [key for key, values in match.items() if values]
    return [key for key in keys if key.startswith(_GPU_LABEL_DOMAINS)] or [
        key for key in keys if not key.startswith(_GENERAL_LABELS)
    ]
