"""The catalogue: what the admin configured, completed by what the cluster has. The admin wins.

Discovered GPU types beside those that the admin describes: on the nodes that these leave over.

The pod's node selector decides where a server lands, so a discovered type says what its nodes have and the described
ones' nodes have not; where no label says so, it is not offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuspawner.core.catalog.accelerators import AcceleratorTable
from gpuspawner.core.catalog.combined_types import CombinedType, combine_types
from gpuspawner.core.catalog.gpu_node_exclusion import build_gpu_node_exclusion
from gpuspawner.core.catalog.kueue import KueueQueue
from gpuspawner.core.catalog.model import (
    Bounds,
    Catalog,
    Choices,
    CustomImages,
    GPUType,
    Image,
    Platform,
    Preset,
    UnitKind,
)
from gpuspawner.core.catalog.nodes_by_type import has_silent_plugin, may_have_units
from gpuspawner.core.catalog.policy_model import Policy
from gpuspawner.core.catalog.software import PLATFORM_LABELS, deduplicate_platforms, read_platform
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery import node_facts
from gpuspawner.core.discovery.cpu_room import find_largest_node
from gpuspawner.core.discovery.discover import SIMULATED_LABEL, discover_gpu_types, group_nodes_by_kind
from gpuspawner.core.discovery.node_facts import SPOT_LABELS, find_interconnect, is_spot
from gpuspawner.core.request.selection import find_invalid_presets

_MAX_VALUES = 32
"""Of a label, such as a node's own name, in the node affinity of every pod."""


def find_nodes_of_type(gpu: GPUType, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes that have GPUs of a type, or may have some."""
    return tuple(node for node in nodes if may_have_units(node, gpu.resource) and gpu.matches_labels(node.labels))


def subtract_described_types(found: GPUType, described: Iterable[GPUType], *, nodes: Sequence[Node]) -> GPUType | None:
    """Return a discovered type without the nodes of other types; itself where they have none in common.

    A type that asks for all that the discovered one does, and for more, counts as one that will have such nodes: where
    a label tells them apart, what is offered does not change when the first of them comes.

    :param nodes: one of each kind is enough.
    :return: None where no node is left, or where no one label tells all that are left from the others.
    """
    rivals = [gpu for gpu in described if gpu.resource == found.resource]
    own = find_nodes_of_type(found, nodes)
    left = tuple(node for node in own if not any(gpu.matches_labels(node.labels) for gpu in rivals))
    if not left:
        return None
    sharing = [gpu for gpu in rivals if any(gpu.matches_labels(node.labels) for node in own)]
    if sharing and not found.match:
        # Of its nodes no label tells anything: those of a model whose labels are still to come are among them.
        return None
    match = dict(found.match)
    for rival in rivals:
        if rival in sharing or _is_narrower_match(rival.match, found.match):
            apart = _find_distinguishing_label(rival.match, left, known=match)
            if apart is None and rival in sharing:
                return None
            match |= apart or {}
    if match == found.match and len(left) == len(own):
        return found
    most = 1 if found.unit is UnitKind.SHARED else max(1, *(node.allocatable.get(found.resource, 0) for node in left))
    return replace(found, match=match, max_count=most)


def _is_narrower_match(match: Mapping[str, tuple[str, ...]], whole: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell whether a match asks for each label of another, with a value that is allowed there."""
    common = all(not set(values).isdisjoint(match.get(key, ())) for key, values in whole.items() if values)
    return common and any(whole.values()) and not any(match.get(key) for key, values in whole.items() if not values)


def _find_distinguishing_label(
    match: Mapping[str, tuple[str, ...]], left: Iterable[Node], *, known: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]] | None:
    """Return a label and what it is on the nodes that are left, and on none that match; None where there is no such.

    A label that is asked for anyway comes first, then one that none of them has: it stays so when more nodes come.

    :param known: what is asked for anyway.
    """
    values = {key: {node.labels.get(key) for node in left} for key in match}
    usable = [
        (key not in known, len(texts), key, tuple(sorted(texts)))
        for key, found in values.items()
        if (texts := _list_other_values(found, match[key])) is not None and len(texts) <= _MAX_VALUES
    ]
    return {min(usable)[2]: min(usable)[3]} if usable else None


def _list_other_values(found: set[str | None], asked: tuple[str, ...]) -> set[str] | None:
    """Return the values of a label where none is asked for, empty where it is never there; None where that is mixed.

    :param found: values, None for a node without the label.
    :param asked: by the other type; empty: the label must not be there.
    """
    texts = {text for text in found if text is not None}
    if None in found:
        return None if texts or not asked else texts
    return texts if texts.isdisjoint(asked) else None


_COUNT = re.compile(r"[0-9]{1,3}", re.ASCII)
_GIB = 1024**3
_HALF_CPU = 500
"""Millicores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredCatalog:
    """What the admin's settings say, before the cluster was looked at.

    :param images: empty = the spawner's own image is the only one.
    :param custom_images: None = people may not name any other.
    :param cpu: bounds in millicores, None = taken from the largest node.
    :param memory: bounds in bytes, None as for ``cpu``.
    :param run_time: bounds in seconds, None = servers run on.
    :param shared_memory: bounds in bytes, None = left to the GPU types.
    :param choices: of the closed choices, those that are offered.
    :param queue: None = servers are not queued by anybody but kube-scheduler.
    :param uncounted: slugs of GPU types without a ``max_count``: the largest number on one node takes its place; of
        unions without one, what their types say.
    :param unions: slug → several GPU types as one choice; shown after the types themselves.
    :param hidden: slugs of GPU types that are not offered even when the cluster has them.
    :param hidden_gpus: those of them that the settings describe: what they stand for is not offered under another slug.
    :param discover: whether GPU types are also taken from node labels.
    :param policy: who may have what; None = everybody may have all.
    """

    images: Mapping[str, Image] = field(default_factory=dict)
    custom_images: CustomImages | None = None
    cpu: Bounds | None = None
    memory: Bounds | None = None
    run_time: Bounds | None = None
    shared_memory: Bounds | None = None
    choices: Choices = field(default_factory=dict)
    gpus: Mapping[str, GPUType] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()
    unions: Mapping[str, CombinedType] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    hidden_gpus: tuple[GPUType, ...] = ()
    presets: Mapping[str, Preset] = field(default_factory=dict)
    discover: bool = True
    policy: Policy | None = None
    queue: KueueQueue | None = None


def assemble_catalog(
    configured: ConfiguredCatalog, inventory: Inventory, *, table: AcceleratorTable, fallback_image: str
) -> Catalog:
    """Return what may be asked for right now.

    A preset that nobody could start, because what it names is not offered (any more), is left out; while nodes are not
    known all stay, so that a start with one says what is not known instead of calling the preset wrong.

    :param fallback_image: image reference used when the settings name none.
    """
    nodes = tuple(
        kind[0] for kind in group_nodes_by_kind(inventory.nodes or (), labels=_list_relevant_labels(configured))
    )
    gpus = {
        slug: replace(gpu, max_count=_find_largest_count(gpu, nodes)) if slug in configured.uncounted else gpu
        for slug, gpu in configured.gpus.items()
    }
    found = discover_gpu_types(nodes, table) if configured.discover else ()
    hidden = tuple(gpu for gpu in found if _is_hidden(gpu, configured, nodes=nodes))
    gpus |= _select_new_types((gpu for gpu in found if gpu not in hidden), configured, nodes=nodes)
    gpus = {slug: _add_node_facts(gpu, nodes, table=table) for slug, gpu in gpus.items()}
    united = {slug: combine_types(union, gpus) for slug, union in configured.unions.items()}
    gpus |= {slug: gpu for slug, gpu in united.items() if gpu is not None}
    largest = find_largest_node(inventory)
    catalogue = Catalog(
        images=configured.images or {"default": _make_fallback_image(fallback_image)},
        cpu=configured.cpu or (make_default_cpu_bounds(largest[0]) if largest else None),
        memory=configured.memory or (make_default_memory_bounds(largest[1]) if largest else None),
        gpus=gpus,
        presets=configured.presets,
        hidden=(*configured.hidden_gpus, *hidden),
        custom_images=configured.custom_images,
        run_time=configured.run_time,
        shared_memory=configured.shared_memory,
        choices=configured.choices,
        policy=configured.policy,
        queue=configured.queue,
    )
    if inventory.nodes is None:
        return catalogue
    catalogue = replace(
        catalogue, untyped=node_facts.find_unexcluded_gpu_nodes(nodes, build_gpu_node_exclusion(catalogue))
    )
    invalid = find_invalid_presets(configured.presets, catalogue)
    return replace(catalogue, presets={slug: each for slug, each in configured.presets.items() if slug not in invalid})


def make_default_cpu_bounds(largest_millis: int) -> Bounds | None:
    """Return bounds of the CPU limit in millicores when the admin gave none, None for a node that is too small.

    :param largest_millis: what the largest node has.
    """
    return _make_bounds(largest_millis, step=_HALF_CPU, default=4 * _HALF_CPU, guarantee=0.5)


def make_default_memory_bounds(largest_bytes: int) -> Bounds | None:
    """Return bounds of the memory limit in bytes when the admin gave none, None for a node that is too small.

    :param largest_bytes: what the largest node has.
    """
    return _make_bounds(largest_bytes, step=_GIB, default=8 * _GIB, guarantee=1.0)


def _make_bounds(largest: int, *, step: int, default: int, guarantee: float) -> Bounds | None:
    """Return bounds from one step up to the largest amount, in whole steps."""
    most = largest // step * step
    if most < step:
        return None
    return Bounds(min=step, max=most, step=step, default=min(default, most), guarantee=guarantee)


def _list_relevant_labels(configured: ConfiguredCatalog) -> frozenset[str]:
    """Return the labels that matter besides those of GPUs: of types and platforms, is a node spot, and is it real."""
    types = (*configured.gpus.values(), *configured.hidden_gpus)
    return frozenset(
        {
            SIMULATED_LABEL,
            *node_facts.GPU_NODE_LABELS,
            *PLATFORM_LABELS,
            *SPOT_LABELS,
            *(key for gpu in types for key in gpu.match),
        }
    )


def _make_fallback_image(reference: str) -> Image:
    """Return the one image there is without settings, named by the last part of its reference."""
    return Image(slug="default", display_name=reference.rsplit("/", 1)[-1], image=reference, description=reference)


def _find_largest_count(gpu: GPUType, nodes: Iterable[Node]) -> int:
    """Return the largest number of a type's units on one node that is there or may be added, 1 when none is known."""
    added = gpu.scale_up.gpus_per_node if gpu.scale_up is not None else 0
    own = (node for node in nodes if gpu.matches_labels(node.labels))
    return max(
        added, *(_read_labeled_count(node, gpu.resource) or node.allocatable.get(gpu.resource, 0) for node in own), 1
    )


def _read_labeled_count(node: Node, resource: str) -> int:
    """Return how many units GPU Feature Discovery's label tells of where the device plugin is not there to count."""
    told = node.labels.get(f"{resource}.count", "") if has_silent_plugin(node, resource) else ""
    return int(told) if _COUNT.fullmatch(told) else 0


def _add_node_facts(gpu: GPUType, nodes: Iterable[Node], *, table: AcceleratorTable) -> GPUType:
    """Return a type with what its nodes tell of it; what the admin says of them stands."""
    own = [node.labels for node in nodes if may_have_units(node, gpu.resource) and gpu.matches_labels(node.labels)]
    return replace(
        gpu,
        platforms=_list_platforms(gpu, own, table=table),
        spot=(is_spot(gpu, own) or None) if gpu.spot is None else gpu.spot,
        interconnect=find_interconnect(gpu, own, table=table) if gpu.interconnect is None else gpu.interconnect,
    )


def _list_platforms(
    gpu: GPUType, nodes: Sequence[Mapping[str, str]], *, table: AcceleratorTable
) -> tuple[Platform, ...]:
    """Return what the nodes of a type are like; while there is none, what is known of the models it names.

    :param nodes: their labels.
    """
    if nodes:
        return deduplicate_platforms(read_platform(labels) for labels in nodes)
    named = [table.find(key, value) for key, values in gpu.match.items() for value in values]
    models = [each.accelerator for each in named if each is not None]
    return deduplicate_platforms(Platform(compute=model.compute) for model in models)


def _select_new_types(
    found: Iterable[GPUType], configured: ConfiguredCatalog, *, nodes: tuple[Node, ...]
) -> dict[str, GPUType]:
    """Return the discovered types that the admin has not described, each on the nodes that the admin's leave over."""
    described = (*configured.gpus.values(), *configured.hidden_gpus)
    own = (gpu for gpu in found if gpu.slug not in configured.gpus and gpu.slug not in configured.unions)
    left = {gpu.slug: subtract_described_types(gpu, described, nodes=nodes) for gpu in own}
    return {slug: gpu for slug, gpu in left.items() if gpu is not None}


def _is_hidden(found: GPUType, configured: ConfiguredCatalog, *, nodes: tuple[Node, ...]) -> bool:
    """Tell whether the admin took a discovered type out: by its slug, or what others do not describe by what it is."""
    if found.slug in configured.hidden:
        return True
    own = find_nodes_of_type(found, nodes)
    hidden = [gpu for gpu in configured.hidden_gpus if gpu.resource == found.resource]
    described = [gpu for gpu in configured.gpus.values() if gpu.resource == found.resource]
    return any(gpu.matches_labels(node.labels) for gpu in hidden for node in own) and all(
        any(gpu.matches_labels(node.labels) for gpu in (*hidden, *described)) for node in own
    )
