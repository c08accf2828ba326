"""What an admin should look at: nodes whose GPUs nobody can pick, and why; GPUs that do not work.

For admins alone: it names nodes, labels and taints. Presets are looked at in
:mod:`gpuspawner.core.warnings.preset_flags`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT, AcceleratorTable
from gpuspawner.core.catalog.catalogue import Catalogue, GPUType
from gpuspawner.core.catalog.node_gpus import KarpenterModel, Offer, divided_models, read_offer, vendor_of
from gpuspawner.core.catalog.stocks import units
from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.cluster.node_states import is_passing
from gpuspawner.core.cluster.tolerations import untolerated
from gpuspawner.core.discovery.gpu_nodes import TELLING, telling_label
from gpuspawner.core.discovery.node_kinds import kinds
from gpuspawner.core.text.quoting import listing, name_of


class Concern(StrEnum):
    """What is the matter, in the order admins are told."""

    PRESET = "preset"
    POLICY = "policy"
    MIG_INVALID = "mig-invalid"
    MIXED_MODELS = "mixed-models"
    NO_TYPE = "no-type"
    UNTOLERATED = "untolerated"
    BROKEN = "broken"
    NO_RESOURCE = "no-resource"
    UNCOUNTED = "uncounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One thing about the GPUs of some nodes, about some presets, or about what some settings name.

    :param resource: the extended resource, empty where the nodes have none.
    :param message: a sentence with what is the matter and what helps.
    :param nodes: names of the nodes, in their order.
    :param presets: slugs of the presets; only where there are no nodes.
    :param settings: paths of the settings; only where there are neither.
    """

    concern: Concern
    resource: str
    message: str
    nodes: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of what it is about."""
        return self.nodes or self.presets or self.settings


def flagged(
    nodes: Iterable[Node],
    catalogue: Catalogue,
    *,
    table: AcceleratorTable,
    tolerations: tuple[Toleration, ...] = (),
) -> tuple[Flag, ...]:
    """Return what is the matter with GPUs, one flag for all nodes of which the same is to say, sorted by concern.

    GPUs the admin took out are as they should be. Nodes that are starting, or being worked on, are left out: what is
    missing there will come.

    :param tolerations: what every server tolerates besides the types' own (KubeSpawner's).
    """
    types = (*catalogue.gpus.values(), *catalogue.hidden)
    matched = {key for gpu in types for match in gpu.matches for key in match}
    groups = kinds(filter(_is_settled, nodes), labels=matched.union(TELLING))
    ambiguous = divided_models(group[0] for group in groups)
    case = _Case(catalogue=catalogue, table=table, ambiguous=ambiguous, tolerations=tolerations)
    found: dict[Flag, list[str]] = {}
    for group in groups:
        for flag in case.flags(group[0]):
            found.setdefault(flag, []).extend(node.name for node in group)
    complete = (replace(flag, nodes=tuple(sorted(names))) for flag, names in found.items())
    order = list(Concern)
    return tuple(sorted(complete, key=lambda flag: (order.index(flag.concern), flag.nodes, flag.message)))


def _is_settled(node: Node) -> bool:
    return node.ready and not any(map(is_passing, node.taints))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What nodes are looked at with.

    :param ambiguous: as for :func:`gpuspawner.core.catalog.node_gpus.read_offer`.
    """

    catalogue: Catalogue
    table: AcceleratorTable
    ambiguous: frozenset[KarpenterModel]
    tolerations: tuple[Toleration, ...]

    def flags(self, node: Node) -> Iterator[Flag]:
        """Yield what is the matter with a node's GPUs, and with those of all nodes that are alike."""
        names = {*node.capacity, *node.allocatable}
        resources = sorted(name for name in names if vendor_of(name) is not None and units(node, name))
        unsure = tuple(_uncounted(node))
        yield from unsure
        if not resources and not unsure:
            yield from _without_resource(node)
        for resource in resources:
            yield from self._flags(node, resource)

    def _flags(self, node: Node, resource: str) -> Iterator[Flag]:
        """Yield what is the matter with one resource; what keeps it from being picked is said once."""
        types = [gpu for gpu in self.catalogue.gpus.values() if gpu.resource == resource and gpu.is_on(node.labels)]
        if not types and any(gpu.resource == resource and gpu.is_on(node.labels) for gpu in self.catalogue.hidden):
            return
        offer = read_offer(node, resource, table=self.table, ambiguous=self.ambiguous)
        if offer is not None and not types:
            yield _without_type(offer)
        elif offer is None:
            yield _untold(node, resource, types=types)
        elif keys := _taints(node, types, tolerations=self.tolerations):
            message = (
                f"Nobody gets {resource}: no GPU type there tolerates the taint {listing(keys)}. "
                "Add a toleration to the type, unless the nodes are for others."
            )
            yield Flag(concern=Concern.UNTOLERATED, resource=resource, message=message)
        number = units(node, resource)
        broken = number - node.allocatable.get(resource, 0)
        if broken > 0:
            message = (
                f"{broken} of {number} {resource} on a node {'do' if broken > 1 else 'does'} not work: "
                "allocatable is less than capacity."
            )
            yield Flag(concern=Concern.BROKEN, resource=resource, message=message)


def _without_type(offer: Offer) -> Flag:
    """Return that no type has a node's GPUs: nobody described them, and there is no telling them from others' nodes."""
    what = f"{offer.resource} ({name_of(offer.model[1])})" if offer.model is not None else offer.resource
    message = (
        f"{what} is not offered: no GPU type of the settings matches the labels. "
        "Describe one in gpus, with a match that these nodes meet and those of other types do not."
    )
    return Flag(concern=Concern.NO_TYPE, resource=offer.resource, message=message)


def _untold(node: Node, resource: str, *, types: list[GPUType]) -> Flag:
    """Return why labels cannot tell what a server would get."""
    lead = f"{resource} is not offered" if not types else f"{resource} may not be what {types[0].slug} says"
    if _has_invalid_mig(node):
        return Flag(concern=Concern.MIG_INVALID, resource=resource, message=f"{lead}: {_mig_advice(node)}")
    message = (
        f"{lead}: there are several GPU models on one node, and one resource that counts them all. "
        "Nobody could say which one a server gets."
    )
    return Flag(concern=Concern.MIXED_MODELS, resource=resource, message=message)


def _without_resource(node: Node) -> Iterator[Flag]:
    """Yield what is the matter with GPUs that only labels tell of."""
    label = telling_label(node.labels)
    if _has_invalid_mig(node):
        # NVIDIA's device plugin offers nothing then under its strategy single.
        yield Flag(concern=Concern.MIG_INVALID, resource="", message=f"No GPU is offered: {_mig_advice(node)}")
    elif label is not None:
        message = f"There are GPUs by the label {label}, and no resource for them: does a device plugin run there?"
        yield Flag(concern=Concern.NO_RESOURCE, resource="", message=message)


def _has_invalid_mig(node: Node) -> bool:
    return "-MIG-INVALID" in node.labels.get(GFD_PRODUCT, "")


def _mig_advice(node: Node) -> str:
    return (
        f"the MIG layout is not the same on all cards ({name_of(node.labels[GFD_PRODUCT])}). "
        "Make it the same, or use the device plugin's strategy mixed."
    )


def _uncounted(node: Node) -> Iterator[Flag]:
    for resource in sorted(filter(vendor_of, node.uncounted)):
        message = (
            f"Nobody can tell how many {resource} of a DRA driver there are: the hub may not list resourceclaims, the "
            "DeviceClass picks devices by rules that are not understood here, or devices are shared or parts of others."
        )
        yield Flag(concern=Concern.UNCOUNTED, resource=resource, message=message)


def _taints(node: Node, types: Iterable[GPUType], *, tolerations: tuple[Toleration, ...]) -> list[str]:
    """Return keys of lasting taints that keep each of the types away, empty where one of them is tolerated."""
    keys: list[str] = []
    for gpu in types:
        untold = [each for each in untolerated(node, (*gpu.tolerations, *tolerations)) if not is_passing(each)]
        if not untold:
            return []
        keys += [name_of(each.key) for each in untold]
    return list(dict.fromkeys(keys))
