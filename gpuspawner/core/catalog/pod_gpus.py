"""Finds which GPUs a pod asks for, from its requests, node selector and node affinity.

This works for the pod of any spawner: it needs no annotation of gpuspawner, and no user options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.catalog.node_labels import find_vendor
from gpuspawner.core.cluster.model import PodConstraints, SelectorRequirement
from gpuspawner.core.cluster.selectors import DOES_NOT_EXIST, IN

_MAX_TERMS = 256
"""The affinity of a pod with more node selector terms is not read."""
_Alternatives = Sequence[Sequence[SelectorRequirement]]
"""Lists of requirements on the labels of a pod's node, which must meet all requirements of one list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGPUs:
    """The GPUs that a pod asks for.

    :param counts: extended resource → number of GPUs, MIG slices or shares; empty for a pod without a GPU.
    :param gpu: slug of the GPU type; None without a GPU. Empty if the type is unknown, if the pod may get several types
        and names none or several of them, or if it asks for GPUs of several resources.
    :param types: slugs of all GPU types that the pod may get, without combined types ("any of these GPU types"). Empty
        if the pod may get GPUs of no known type.
    :param may_be_new: whether the pod may get GPUs of a type that the catalog lacks, for example on a node that is yet
        to come.
    :param names_new: whether the pod asks for a label that no known type has. It then probably gets none of ``types``.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    gpu: str | None = None
    types: tuple[str, ...] = ()
    may_be_new: bool = False
    names_new: bool = False

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
    alternatives = _list_alternatives(constraints) if labels is None else ()
    types: list[GPUType] = []
    may_be_new = names_new = False
    for resource in counts:
        of_resource = [gpu for gpu in gpus if gpu.resource == resource and not gpu.members]
        if labels is None:
            known = _list_known_values(of_resource)
            possible = _list_possible(of_resource, alternatives, known=known)
            if all(gpu.match for gpu in of_resource):  # a type without labels is that of all nodes
                may_be_new |= not all(_list_telling(requirements, known) for requirements in alternatives)
                names_new |= any(_names_new_value(requirements, known) for requirements in alternatives)
        else:
            # A node may have lost the labels of its type, for example while the operator that sets them restarts.
            possible = [gpu for gpu in of_resource if gpu.matches_labels(labels)] or of_resource
        if not possible:
            return PodGPUs(counts=counts, gpu="", may_be_new=True)
        types += possible
    named = types[0].slug if len(types) == 1 and not names_new else ""
    if len(types) > 1 and len(counts) == 1:
        named = _find_named(types, alternatives, labels=labels) or _find_combined(types, gpus)
    slugs = tuple(gpu.slug for gpu in types)
    return PodGPUs(counts=counts, gpu=named, types=slugs, may_be_new=may_be_new, names_new=names_new)


def _list_alternatives(constraints: PodConstraints) -> _Alternatives:
    selector = [
        SelectorRequirement(key=key, operator=IN, values=(value,)) for key, value in constraints.node_selector.items()
    ]
    # No node matches an empty term.
    terms = [term for term in constraints.node_terms or () if term.expressions or term.fields]
    if not 0 < len(terms) <= _MAX_TERMS:
        return [selector]
    return [[*selector, *term.expressions] for term in terms]


def _list_known_values(types: Iterable[GPUType]) -> Mapping[str, set[str]]:
    known: dict[str, set[str]] = {}
    for gpu in types:
        for key, values in gpu.match.items():
            known.setdefault(key, set()).update(values)
    return known


def _list_possible(
    types: Sequence[GPUType], alternatives: _Alternatives, *, known: Mapping[str, set[str]]
) -> list[GPUType]:
    """Return the types that a pod may get, including each type that new nodes may extend.

    A discovered type has only the label values of today's nodes. So a value that no type has, or another operator than
    ``In``, excludes no type.
    """
    telling = [_list_telling(requirements, known) for requirements in alternatives]
    return [gpu for gpu in types if any(not _excludes(requirements, gpu) for requirements in telling)]


def _list_telling(
    requirements: Iterable[SelectorRequirement], known: Mapping[str, set[str]]
) -> list[SelectorRequirement]:
    """Return the requirements that only nodes with labels of known types meet."""
    return [
        requirement
        for requirement in requirements
        if requirement.operator == IN and known.get(requirement.key, set()).issuperset(requirement.values)
    ]


def _names_new_value(requirements: Iterable[SelectorRequirement], known: Mapping[str, set[str]]) -> bool:
    return any(
        requirement.operator == IN
        and requirement.key in known
        and not known[requirement.key].issuperset(requirement.values)
        for requirement in requirements
    )


def _excludes(requirements: Iterable[SelectorRequirement], gpu: GPUType) -> bool:
    """Return whether a type has none of the values that one of the requirements allows."""
    return any(
        requirement.key in gpu.match and set(requirement.values).isdisjoint(gpu.match[requirement.key])
        for requirement in requirements
    )


def _find_named(types: Iterable[GPUType], alternatives: _Alternatives, *, labels: Mapping[str, str] | None) -> str:
    """Return the slug of the type that a pod names or, if ``labels`` is given, that its node has; "" without one."""
    if labels is None:
        named = [gpu for gpu in types if all(_requires_labels(gpu, requirements) for requirements in alternatives)]
    else:
        named = [gpu for gpu in types if gpu.matches_labels(labels)]
    most = max((len(gpu.match) for gpu in named), default=0)
    specific = [gpu.slug for gpu in named if len(gpu.match) == most]
    return specific[0] if len(specific) == 1 else ""


def _requires_labels(gpu: GPUType, requirements: Iterable[SelectorRequirement]) -> bool:
    """Return whether all nodes that meet the requirements have the labels of a type."""
    by_key: dict[str, list[SelectorRequirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(
        any(
            requirement.operator == (IN if values else DOES_NOT_EXIST) and set(requirement.values) <= set(values)
            for requirement in by_key.get(key, ())
        )
        for key, values in gpu.match.items()
    )


def _find_combined(types: Iterable[GPUType], gpus: Iterable[GPUType]) -> str:
    """Return the slug of the combined type of exactly these types; "" if there is none."""
    slugs = {gpu.slug for gpu in types}
    combined = (gpu.slug for gpu in gpus if gpu.members and {member.slug for member in gpu.members} == slugs)
    return next(combined, "")
