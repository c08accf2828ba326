"""What an admin should look at: nodes whose GPUs nobody can pick, and why; GPUs that do not work.

For admins alone: it names nodes, labels and taints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.accelerators import AMD_PRODUCT, GFD_PRODUCT, GKE_ACCELERATOR, KARPENTER_PREFIXES, AcceleratorTable
from gpuspawner.core.catalogue import Catalogue, GPUType, Toleration
from gpuspawner.core.inventory import Node
from gpuspawner.core.node_gpus import divided_models, read_offer, vendor_of
from gpuspawner.core.node_states import is_passing
from gpuspawner.core.stocks import units
from gpuspawner.core.tolerations import untolerated

_LABELS = (
    "nvidia.com/gpu.present",
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    AMD_PRODUCT,
    *(f"{prefix}instance-gpu-name" for prefix in KARPENTER_PREFIXES),
)
"""Labels that a node with GPUs has, whether or not a device plugin runs there."""


class Concern(StrEnum):
    """What is the matter with a node's GPUs."""

    MIG_INVALID = "mig-invalid"
    MIXED_MODELS = "mixed-models"
    NO_TYPE = "no-type"
    UNTOLERATED = "untolerated"
    BROKEN = "broken"
    NO_RESOURCE = "no-resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One thing about one node.

    :param resource: the extended resource, empty where the node has none.
    :param message: a sentence with what is the matter and what helps.
    """

    node: str
    resource: str
    concern: Concern
    message: str


def flagged(
    nodes: Iterable[Node],
    catalogue: Catalogue,
    *,
    table: AcceleratorTable,
    tolerations: tuple[Toleration, ...] = (),
) -> tuple[Flag, ...]:
    """Return what is the matter with GPUs, in the order of the nodes. GPUs the admin took out are as they should be.

    :param tolerations: what every server tolerates besides the types' own (KubeSpawner's).
    """
    all_nodes = tuple(nodes)
    ambiguous = divided_models(all_nodes)
    found: list[Flag] = []
    for node in all_nodes:
        resources = sorted(
            name for name in {*node.capacity, *node.allocatable} if vendor_of(name) is not None and units(node, name)
        )
        if not resources:
            found += _without_resource(node)
        for resource in resources:
            types = [gpu for gpu in _types(catalogue) if gpu.resource == resource and gpu.is_on(node.labels)]
            is_told = read_offer(node, resource, table=table, ambiguous=ambiguous) is not None
            found += _flags(node, resource, types=types, is_told=is_told, tolerations=tolerations)
    return tuple(found)


def _flags(
    node: Node, resource: str, *, types: list[GPUType], is_told: bool, tolerations: tuple[Toleration, ...]
) -> Iterator[Flag]:
    """Yield what is the matter with one resource of one node; what keeps it from being picked is said once."""
    if not types or not is_told:
        yield _not_offered(node, resource, types=types, is_told=is_told)
    elif keys := _taints(node, types, tolerations=tolerations):
        message = (
            f"Nobody gets its {resource}: no GPU type on it tolerates the taint {', '.join(keys)}. "
            "Add a toleration to the type, unless the node is for others."
        )
        yield Flag(node=node.name, resource=resource, concern=Concern.UNTOLERATED, message=message)
    broken = units(node, resource) - node.allocatable.get(resource, 0)
    if broken > 0:
        message = f"{broken} of {units(node, resource)} {resource} do not work: allocatable is less than capacity."
        yield Flag(node=node.name, resource=resource, concern=Concern.BROKEN, message=message)


def _not_offered(node: Node, resource: str, *, types: list[GPUType], is_told: bool) -> Flag:
    product = node.labels.get(GFD_PRODUCT, "")
    lead = f"Its {resource} are not offered" if not types else f"Its {resource} may not be what {types[0].slug} says"
    if not is_told and "-MIG-INVALID" in product:
        concern = Concern.MIG_INVALID
        message = (
            f"{lead}: the MIG layout is not the same on all of its cards ({product}). "
            "Make it the same, or use the device plugin's strategy mixed."
        )
    elif not is_told:
        concern = Concern.MIXED_MODELS
        message = (
            f"{lead}: the node has several GPU models, and one resource that counts them all. "
            "Nobody could say which one a server gets."
        )
    else:
        concern = Concern.NO_TYPE
        message = f"{lead}: no GPU type of the settings is on this node."
    return Flag(node=node.name, resource=resource, concern=concern, message=message)


def _without_resource(node: Node) -> Iterator[Flag]:
    label = next((key for key in _LABELS if node.labels.get(key, "false") != "false"), None)
    if label is not None:
        message = f"It has GPUs by its label {label}, and no resource for them: does a device plugin run there?"
        yield Flag(node=node.name, resource="", concern=Concern.NO_RESOURCE, message=message)


def _taints(node: Node, types: Iterable[GPUType], *, tolerations: tuple[Toleration, ...]) -> list[str]:
    """Return keys of lasting taints that keep each of the types away, empty where one of them is tolerated."""
    keys: list[str] = []
    for gpu in types:
        untold = [each for each in untolerated(node, (*gpu.tolerations, *tolerations)) if not is_passing(each)]
        if not untold:
            return []
        keys += [each.key for each in untold if each.key not in keys]
    return keys


def _types(catalogue: Catalogue) -> Iterable[GPUType]:
    return (*catalogue.gpus.values(), *catalogue.hidden)
