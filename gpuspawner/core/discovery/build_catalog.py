"""Build the catalog from the admin's settings and the cluster's nodes.

The settings describe some GPU types (described types). gpuspawner finds others by the labels of nodes (discovered
types). A discovered type covers only nodes that no described type matches. Servers with the discovered type select
these nodes by a label value that no node of a described type has. If no label tells the nodes apart, gpuspawner does
not offer the discovered type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT, AcceleratorMatch, AcceleratorTable
from gpuspawner.core.catalog.combined_types import combine_types
from gpuspawner.core.catalog.model import (
    NO_RESOURCES,
    Bounds,
    Catalog,
    Choices,
    CustomImages,
    GPUType,
    Image,
    OwnResources,
    Platform,
    Preset,
    UnitKind,
)
from gpuspawner.core.catalog.node_gpus import Judgment, NodeGPU, read_node_gpu
from gpuspawner.core.catalog.node_labels import (
    build_gpu_node_exclusion,
    find_vendor,
    parse_amd_partition,
    parse_mig_profile,
)
from gpuspawner.core.catalog.nodes_by_type import count_units_for_pod, has_silent_plugin, may_have_units
from gpuspawner.core.catalog.policy_model import Policy
from gpuspawner.core.catalog.queue import KueueQueue
from gpuspawner.core.catalog.software import PLATFORM_LABELS, deduplicate_platforms, read_platform
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.discover import (
    GPU_NODE_LABELS,
    SEPARATING_LABELS,
    SIMULATED_LABEL,
    SPOT_LABELS,
    build_conventional_tolerations,
    discover_gpu_types,
    find_interconnect,
    find_largest_node,
    find_unexcluded_gpu_nodes,
    find_unit,
    group_nodes_by_kind,
    is_spot,
)
from gpuspawner.core.request.field_definitions import CPU, MEMORY
from gpuspawner.core.request.selection import find_preset_errors

_MAX_VALUES = 32
"""Maximum number of label values in the node affinity of a pod with a discovered GPU type."""


def complete_type(gpu: GPUType, *, table: AcceleratorTable, may_add: bool) -> GPUType:
    """Return a GPU type of the settings with what they leave out, as far as the resource, labels and models tell it.

    For a combined type, the types that it combines tell its name and the number of GPUs (``max_count`` 0).

    :param may_add: whether nodes of the type may be added if its settings do not say it.
    """
    unit = gpu.unit if "unit" in gpu.given else _guess_unit(gpu)
    completed = replace(
        gpu,
        vendor=gpu.vendor or find_vendor(gpu.resource) or "",
        unit=unit,
        new_nodes=gpu.new_nodes if "new_nodes" in gpu.given else may_add,
    )
    if gpu.is_union:
        return replace(completed, max_count=gpu.max_count if "max_count" in gpu.given else 0)
    models = _list_models(gpu, table)
    model = models[0] if len({each.accelerator.slug for each in models}) == 1 else None
    memory = gpu.memory_bytes
    if memory is None and model is not None and unit is not UnitKind.MIG:
        memory = model.memory_bytes
    return replace(
        completed,
        display_name=gpu.display_name or (model.accelerator.name if model and unit is UnitKind.CARD else gpu.slug),
        memory_bytes=memory,
        tolerations=gpu.tolerations if "tolerations" in gpu.given else build_conventional_tolerations(gpu.resource),
    )


def _guess_unit(gpu: GPUType) -> UnitKind:
    products = gpu.match.get(GFD_PRODUCT, ())
    if gpu.resource.endswith(".shared") or any(product.endswith("-SHARED") for product in products):
        return UnitKind.SHARED
    sliced = (
        parse_mig_profile(gpu.resource)
        or parse_amd_partition(gpu.resource)
        or any("-MIG-" in product for product in products)
    )
    return UnitKind.MIG if sliced else UnitKind.CARD


def _list_models(gpu: GPUType, table: AcceleratorTable) -> list[AcceleratorMatch]:
    """Return what the table of models knows of each label value by which a type selects nodes."""
    named = (table.find(key, value) for key, values in gpu.match.items() for value in values)
    return [model for model in named if model is not None]


def find_nodes_of_type(gpu: GPUType, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes that match a GPU type's labels and have GPUs of its resource, or may have such GPUs.

    MIG slices and shares of GPUs count as GPUs. A node with DRA devices that gpuspawner cannot count may have GPUs.
    """
    return tuple(node for node in nodes if may_have_units(node, gpu.resource) and gpu.matches_labels(node.labels))


def subtract_described_types(found: GPUType, described: Iterable[GPUType], *, nodes: Sequence[Node]) -> GPUType | None:
    """Return a GPU type found by node labels, without the nodes that GPU types of the settings match.

    If possible, the result also excludes such nodes that join the cluster later.

    :param nodes: the cluster's nodes; one of each group of equal nodes is enough.
    :return: None in three cases:

        - No node is left.
        - No label tells the nodes that are left from the others.
        - ``found.match`` is empty, and a type of the settings matches some of the nodes.
    """
    rivals = [gpu for gpu in described if gpu.resource == found.resource]
    own = find_nodes_of_type(found, nodes)
    left = tuple(node for node in own if not any(gpu.matches_labels(node.labels) for gpu in rivals))
    if not left:
        return None
    sharing = [gpu for gpu in rivals if any(gpu.matches_labels(node.labels) for node in own)]
    if sharing and not found.match:
        # Without labels, ``found`` would also match nodes of the other types that join the cluster later.
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
    most = 1 if found.unit is UnitKind.SHARED else max(1, *(count_units_for_pod(node, found.resource) for node in left))
    return replace(found, match=match, max_count=most)


def _is_narrower_match(match: Mapping[str, tuple[str, ...]], whole: Mapping[str, tuple[str, ...]]) -> bool:
    common = all(not set(values).isdisjoint(match.get(key, ())) for key, values in whole.items() if values)
    return common and any(whole.values()) and not any(match.get(key) for key, values in whole.items() if not values)


def _find_distinguishing_label(
    match: Mapping[str, tuple[str, ...]], left: Iterable[Node], *, known: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]] | None:
    """Return a label, with its values on the nodes in ``left``, that no node of another GPU type matches.

    :param match: label → values by which this other type selects nodes; only these labels are tried.
    :param left: nodes that must keep matching.
    :param known: label → values that are already required; these labels are preferred.
    :return: one label → values, empty values if the label must be absent; None if no label tells the nodes apart.
    """
    values = {key: {node.labels.get(key) for node in left} for key in match}
    usable = [
        (key not in known, len(texts), key, tuple(sorted(texts)))
        for key, found in values.items()
        if (texts := _list_other_values(found, match[key])) is not None and len(texts) <= _MAX_VALUES
    ]
    return {min(usable)[2]: min(usable)[3]} if usable else None


def _list_other_values(found: set[str | None], asked: tuple[str, ...]) -> set[str] | None:
    """Return ``found`` if none of these values of a label is in ``asked``, for example {"A100"} for ("H100",).

    :param found: the label's values on some nodes; None for a node without the label.
    :param asked: values that another GPU type requires; empty if this type requires that the label is absent.
    :return: empty if all the nodes lack the label and the other type requires it; None if the label does not tell the
        nodes apart.
    """
    texts = {text for text in found if text is not None}
    if None in found:
        return None if texts or not asked else texts
    return texts if texts.isdisjoint(asked) else None


_COUNT = re.compile(r"[0-9]{1,3}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredCatalog:
    """The part of the catalog that the admin's settings define; :func:`assemble_catalog` adds what the nodes have.

    :param images: slug → image; empty = the image in KubeSpawner's settings.
    :param custom_images: settings for images that users name by image reference; None = not allowed.
    :param cpu: bounds of CPU in millicores; None = derived from the largest node.
    :param memory: bounds of memory in bytes; None = derived from the largest node.
    :param run_time: bounds of the run time in seconds; None = the form has no such field.
    :param shared_memory: bounds of /dev/shm in bytes; None = the form has no such field.
    :param choices: name of a form field with a fixed list (such as ``priority``) → slug → entry of the list.
    :param gpus: slug → GPU type that the settings describe.
    :param uncounted: slugs of the types in ``gpus`` and ``unions`` that have no ``max_count`` in the settings: the hub
        derives it from the nodes. Types of shared GPUs are not in the set, because their maximum is 1.
    :param guessed: slugs of the types in ``gpus`` without a ``unit`` in the settings. If the nodes say that their GPUs
        are shared or slices, the type's units are such, too.
    :param unions: slug → combined type, which offers several GPU types as one. The form shows combined types last.
    :param hidden: slugs of GPU types that the settings disable.
    :param hidden_gpus: the disabled types for which the settings name a ``resource``.
    :param presets: slug → preset.
    :param discover: whether GPU types are also discovered from node labels.
    :param policy: the admin's rules; None = every user can have everything.
    :param queue: Kueue's queue; None = servers are not queued.
    :param new_nodes: whether nodes may be added that no NodePool describes; for GPU types of the settings,
        :attr:`.GPUType.new_nodes` says it.
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
    guessed: frozenset[str] = frozenset()
    unions: Mapping[str, GPUType] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    hidden_gpus: tuple[GPUType, ...] = ()
    presets: Mapping[str, Preset] = field(default_factory=dict)
    discover: bool = True
    policy: Policy | None = None
    queue: KueueQueue | None = None
    new_nodes: bool = True


def assemble_catalog(
    configured: ConfiguredCatalog,
    inventory: Inventory,
    *,
    table: AcceleratorTable,
    fallback_image: str,
    own: OwnResources = NO_RESOURCES,
) -> Catalog:
    """Return the catalog for the current cluster.

    The catalog leaves out presets that need something unavailable, such as an unknown GPU type. While the cluster's
    nodes are unknown, the catalog keeps all presets.

    :param inventory: the cluster; its nodes may be unknown.
    :param fallback_image: image reference for settings without images.
    :param own: resources that KubeSpawner's traits give each server. Their CPU and memory become the default amounts
        if the settings have no bounds.
    """
    labels = _list_relevant_labels(configured)
    nodes = tuple(kind[0] for kind in group_nodes_by_kind(inventory.nodes or (), labels=labels))
    gpus, hidden = _collect_types(configured, nodes, table=table)
    largest = find_largest_node(inventory)
    default_gpus = _find_default_gpus(gpus, own, nodes=inventory.nodes or ())
    own_image = _make_fallback_image(fallback_image)
    catalog = Catalog(
        images=configured.images or {own_image.slug: own_image},
        cpu=configured.cpu or (CPU.make_bounds(largest[0], own.cpu) if largest else None),
        memory=configured.memory or (MEMORY.make_bounds(largest[1], own.memory) if largest else None),
        gpus=gpus,
        own=own,
        default_gpus=default_gpus,
        dropped_gpus=_find_dropped_gpus(own, default_gpus, gpus=gpus),
        presets=configured.presets,
        hidden=(*configured.hidden_gpus, *hidden),
        custom_images=configured.custom_images,
        run_time=configured.run_time,
        shared_memory=configured.shared_memory,
        choices=configured.choices,
        policy=configured.policy,
        queue=configured.queue,
        new_nodes=configured.new_nodes,
    )
    if inventory.nodes is None:
        return catalog
    catalog = replace(catalog, untyped=find_unexcluded_gpu_nodes(nodes, build_gpu_node_exclusion(catalog)))
    errors = find_preset_errors(configured.presets, catalog)
    presets = {slug: preset for slug, preset in configured.presets.items() if slug not in errors}
    return replace(catalog, presets=presets)


def _collect_types(
    configured: ConfiguredCatalog, nodes: tuple[Node, ...], *, table: AcceleratorTable
) -> tuple[dict[str, GPUType], tuple[GPUType, ...]]:
    gpus = {slug: _adapt_to_nodes(gpu, configured, nodes=nodes, table=table) for slug, gpu in configured.gpus.items()}
    discovered = discover_gpu_types(nodes, table) if configured.discover else ()
    found = tuple(replace(gpu, new_nodes=configured.new_nodes) for gpu in discovered)
    hidden = tuple(gpu for gpu in found if _is_hidden(gpu, configured, nodes=nodes))
    gpus |= _select_new_types((gpu for gpu in found if gpu not in hidden), configured, nodes=nodes)
    gpus = {slug: _add_node_facts(gpu, nodes, table=table) for slug, gpu in gpus.items()}
    united = {slug: combine_types(union, gpus) for slug, union in configured.unions.items()}
    gpus |= {slug: gpu for slug, gpu in united.items() if gpu is not None}
    return gpus, hidden


def _find_default_gpus(
    gpus: Mapping[str, GPUType], own: OwnResources, *, nodes: Iterable[Node]
) -> tuple[tuple[str, int], ...]:
    nodes = tuple(nodes)
    return tuple(
        (slug, number)
        for resource, number in own.gpus
        for slug, gpu in gpus.items()
        if gpu.resource == resource and number <= gpu.max_count and _meets_selector(gpu, own.node_selector, nodes=nodes)
    )


def _meets_selector(gpu: GPUType, selector: Iterable[tuple[str, str]], *, nodes: Iterable[Node]) -> bool:
    own = find_nodes_of_type(gpu, nodes)
    return not own or any(all(node.labels.get(key) == value for key, value in selector) for node in own)


def _find_dropped_gpus(
    own: OwnResources, default_gpus: Iterable[tuple[str, int]], *, gpus: Mapping[str, GPUType]
) -> dict[str, int]:
    """Return resource → number of the GPUs in KubeSpawner's traits that servers do not get.

    A server has only one GPU type: by default the first in ``default_gpus``.
    """
    kept = next((gpus[slug].resource for slug, _ in default_gpus), None)
    return {resource: number for resource, number in own.gpus if resource != kept}


def _list_relevant_labels(configured: ConfiguredCatalog) -> frozenset[str]:
    types = (*configured.gpus.values(), *configured.hidden_gpus)
    return frozenset(
        {
            SIMULATED_LABEL,
            *GPU_NODE_LABELS,
            *SEPARATING_LABELS,
            *PLATFORM_LABELS,
            *SPOT_LABELS,
            *(key for gpu in types for key in gpu.match),
        }
    )


def _make_fallback_image(reference: str) -> Image:
    return Image(slug="default", display_name=reference.rsplit("/", 1)[-1], image=reference, description=reference)


def _adapt_to_nodes(
    gpu: GPUType, configured: ConfiguredCatalog, *, nodes: Iterable[Node], table: AcceleratorTable
) -> GPUType:
    """Return a type of the settings with the unit and the largest count that its nodes say, if the settings say none.

    One node with shares is enough for a type of shares, because a server may run there. Likewise for slices.
    """
    own = find_nodes_of_type(gpu, nodes)
    judged = [read_node_gpu(node, gpu.resource, table=table) for node in own]
    units = {find_unit(judgment) for judgment in judged if isinstance(judgment, NodeGPU)}
    divided = next((unit for unit in (UnitKind.SHARED, UnitKind.MIG) if unit in units), None)
    if gpu.slug in configured.guessed and gpu.unit is UnitKind.CARD and divided is not None:
        is_given = gpu.memory_bytes not in (None, *(model.memory_bytes for model in _list_models(gpu, table)))
        gpu = replace(gpu, unit=divided, memory_bytes=gpu.memory_bytes if is_given else _find_common_memory(judged))
    if gpu.slug not in configured.uncounted:
        return gpu
    # Labels that contradict each other do not say how many GPUs the node has.
    is_unclear = not all(isinstance(judgment, NodeGPU) for judgment in judged)
    is_one = gpu.unit is UnitKind.SHARED or (gpu.slug in configured.guessed and is_unclear)
    return replace(gpu, max_count=1 if is_one else _find_largest_count(gpu, nodes))


def _find_common_memory(judged: Iterable[Judgment]) -> int | None:
    found = {judgment.descriptions[0].memory_bytes for judgment in judged if isinstance(judgment, NodeGPU)}
    return next(iter(found)) if len(found) == 1 else None


def _find_largest_count(gpu: GPUType, nodes: Iterable[Node]) -> int:
    added = gpu.scale_up.gpus_per_node if gpu.scale_up is not None else 0
    own = (node for node in nodes if gpu.matches_labels(node.labels))
    return max(
        added, *(_read_labeled_count(node, gpu.resource) or count_units_for_pod(node, gpu.resource) for node in own), 1
    )


def _read_labeled_count(node: Node, resource: str) -> int:
    """Return the number in a label such as ``nvidia.com/gpu.count`` if kubelet reports 0 GPUs; else 0."""
    label = node.labels.get(f"{resource}.count", "") if has_silent_plugin(node, resource) else ""
    return int(label) if _COUNT.fullmatch(label) else 0


def _add_node_facts(gpu: GPUType, nodes: Iterable[Node], *, table: AcceleratorTable) -> GPUType:
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
    if nodes:
        return deduplicate_platforms(read_platform(labels) for labels in nodes)
    return deduplicate_platforms(Platform(compute=model.accelerator.compute) for model in _list_models(gpu, table))


def _select_new_types(
    found: Iterable[GPUType], configured: ConfiguredCatalog, *, nodes: tuple[Node, ...]
) -> dict[str, GPUType]:
    described = (*configured.gpus.values(), *configured.hidden_gpus)
    own = (gpu for gpu in found if gpu.slug not in configured.gpus and gpu.slug not in configured.unions)
    left = {gpu.slug: subtract_described_types(gpu, described, nodes=nodes) for gpu in own}
    return {slug: gpu for slug, gpu in left.items() if gpu is not None}


def _is_hidden(found: GPUType, configured: ConfiguredCatalog, *, nodes: tuple[Node, ...]) -> bool:
    """Return whether the settings hide a GPU type that gpuspawner found by the labels of nodes.

    The settings hide it in two cases:

    - They disable its slug.
    - GPU types of the settings match all its nodes, and at least one of these types is disabled.
    """
    if found.slug in configured.hidden:
        return True
    own = find_nodes_of_type(found, nodes)
    hidden = [gpu for gpu in configured.hidden_gpus if gpu.resource == found.resource]
    described = [gpu for gpu in configured.gpus.values() if gpu.resource == found.resource]
    return any(gpu.matches_labels(node.labels) for gpu in hidden for node in own) and all(
        any(gpu.matches_labels(node.labels) for gpu in (*hidden, *described)) for node in own
    )
