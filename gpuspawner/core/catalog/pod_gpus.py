"""Finds which GPUs a pod asks for, from its requests, node selector and node affinity.

This works for the pod of any spawner: it needs no annotation of gpuspawner, and no user options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.cluster.model import PodConstraints
from gpuspawner.core.cluster.selectors import IN, may_match_node_affinity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGPUs:
    """The GPUs that a pod asks for.

    :param counts: extended resource → number of GPUs, MIG slices or shares; empty for a pod without a GPU.
    :param gpu: slug of the GPU type that the pod names; None without a GPU; empty if the type is unknown, or if the pod
        may get several types and names none.
    :param types: slugs of all GPU types that the pod may get, without combined types ("any of these GPU types"); empty
        if it asks for GPUs of no known type.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    gpu: str | None = None
    types: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many GPUs the pod asks for, of all resources together."""
        return sum(self.counts.values())


def classify_pod(
    requests: Mapping[str, int],
    catalog: Catalog,
    *,
    constraints: PodConstraints,
    labels: Mapping[str, str] | None = None,
) -> PodGPUs:
    """Return which GPUs a pod asks for.

    A pod names the type all of whose labels it requires; of several such types, the one with the most labels. A pod
    that may get each member of a combined type, and no other type, names the combined type.

    :param requests: resource → what all of the pod's containers request together, in whole units.
    :param catalog: the catalog without any user's limits.
    :param constraints: the pod's node selector and required node affinity; other constraints are not read.
    :param labels: labels of the pod's node; None if the pod has no node, or if the labels are unknown.
    """
    gpus = (*catalog.gpus.values(), *catalog.hidden)
    resources = {gpu.resource for gpu in gpus}
    counts = {name: number for name, number in requests.items() if number and (name in resources or find_vendor(name))}
    if not counts:
        return PodGPUs()
    of_resource = [gpu for gpu in gpus if gpu.resource in counts]
    types = [gpu for gpu in of_resource if not gpu.members]
    if labels is not None:
        # A node may have lost the labels of its type, for example while the operator that sets them restarts.
        types = [gpu for gpu in types if gpu.matches_labels(labels)] or types
    elif len(counts) == 1:
        types = [gpu for gpu in types if may_match_node_affinity(gpu.match, constraints)]
    named = _find_named(types, constraints) if len(types) > 1 else types
    named = named or _find_combined(types, of_resource)
    slug = named[0].slug if len(named) == len(counts) == 1 else ""
    return PodGPUs(counts=counts, gpu=slug, types=tuple(gpu.slug for gpu in types))


def _find_named(types: Iterable[GPUType], constraints: PodConstraints) -> list[GPUType]:
    """Return the types all of whose labels a pod requires; of several such types, those with the most labels."""
    named = [
        gpu for gpu in types if all(_names_label(key, each, constraints=constraints) for key, each in gpu.match.items())
    ]
    most = max((len(gpu.match) for gpu in named), default=0)
    return [gpu for gpu in named if len(gpu.match) == most]


def _names_label(key: str, values: tuple[str, ...], *, constraints: PodConstraints) -> bool:
    """Return whether a pod can run only on nodes that have one of these values of a label."""
    if constraints.node_selector.get(key) in values:
        return True
    terms = constraints.node_terms
    return bool(terms) and all(
        any(
            requirement.key == key and requirement.operator == IN and set(requirement.values) <= set(values)
            for requirement in term.expressions
        )
        for term in terms or ()
    )


def _find_combined(types: Iterable[GPUType], others: Iterable[GPUType]) -> list[GPUType]:
    """Return the combined types of exactly these types."""
    slugs = {gpu.slug for gpu in types}
    return [gpu for gpu in others if gpu.members and {member.slug for member in gpu.members} == slugs]
