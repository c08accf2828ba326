"""Model and count the devices of DRA drivers: values, decoding of resource.k8s.io/v1 objects, DeviceClass selectors.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/

gpuspawner evaluates only CEL selectors that compare the driver and text attributes with constants, joined by ``&&``:
``device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'``. DRA drivers ship such
selectors. The result of any other selector is unknown. Malformed JSON raises no exception; it makes the number of
devices smaller or unknown.

:class:`DeviceCounter` counts the devices of each extended resource on each node. It follows kube-scheduler
(Kubernetes 1.36, ``extendedresourcecache.go``, ``allocator_incubating.go``, ``pools_incubating.go``):

- The newest DeviceClass with the resource as ``extendedResourceName`` selects the devices.
- A device is allocatable if it has no taint that keeps pods off, and if its pool has all its ResourceSlices.

A node's number is unknown ("uncounted") if gpuspawner does not support a selector of the DeviceClass, or if devices are
partitioned, shared, or usable from several nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import intern
from typing import NamedTuple, TypeAlias

from gpuspawner.core.cluster.decode import intern_amounts, intern_labels
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map

_CEL_TEXT = r"""(?:'[^'"\\\n\r]*'|"[^'"\\\n\r]*")"""
_CEL_TERM = re.compile(
    rf"\s*device\.(?:driver|attributes\[\s*(?P<domain>{_CEL_TEXT})\s*\]\.(?P<name>[A-Za-z_]\w*))\s*==\s*(?P<value>{_CEL_TEXT})\s*",
    re.ASCII,
)


class AttributeTerm(NamedTuple):
    """One comparison of a CEL selector.

    :param attribute: attribute's name with domain (``gpu.nvidia.com/type``); empty if the driver's name is compared.
    :param value: text that the attribute or the driver's name must equal.
    """

    attribute: str
    value: str


DeviceSelector: TypeAlias = tuple[AttributeTerm, ...] | None
"""Comparisons of a DeviceClass selector, which must all be true; None if gpuspawner does not support the selector."""


def parse_cel_selector(expression: str) -> DeviceSelector:
    """Return the comparisons of a CEL expression, or None if gpuspawner does not support the expression."""
    terms: list[AttributeTerm] = []
    position = 0
    while match := _CEL_TERM.match(expression, position):
        domain = match["domain"]
        terms.append(AttributeTerm(f"{domain[1:-1]}/{match['name']}" if domain else "", match["value"][1:-1]))
        if match.end() == len(expression):
            return tuple(terms)
        if not expression.startswith("&&", match.end()):
            return None
        position = match.end() + 2
    return None


def selects_device(selectors: Iterable[DeviceSelector], attributes: Mapping[str, str], *, driver: str) -> bool | None:
    """Return whether all selectors of a DeviceClass select a device, or None if that is unknown.

    The result is that of the first selector that is false or unknown, as in kube-scheduler's allocator.

    :param attributes: name with domain → text. A comparison with a missing attribute is unknown.
    """
    for selector in selectors:
        is_selected = None if selector is None else _matches_all_terms(selector, attributes, driver=driver)
        if is_selected is not True:
            return is_selected
    return True


def _matches_all_terms(terms: tuple[AttributeTerm, ...], attributes: Mapping[str, str], *, driver: str) -> bool | None:
    """Return False if any comparison is false, else None (unknown) if the device lacks an attribute, else True.

    The operator ``&&`` of CEL works in the same way, with an error instead of None.
    """
    values = [attributes.get(term.attribute) if term.attribute else driver for term in terms]
    answers = [None if value is None else value == term.value for value, term in zip(values, terms, strict=True)]
    if False in answers:
        return False
    return None if None in answers else True


class DeviceId(NamedTuple):
    """Unique name of a device in the cluster."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of a DRA driver, with the facts that counting needs.

    :param attributes: name with domain (``gpu.nvidia.com/type``) → text; attributes that are not text are left out.
    :param tainted: the device has a taint with effect ``NoSchedule`` or ``NoExecute``.
    :param uncountable: the device is partitioned, shared or usable only under conditions, so ResourceClaims do not
        tell whether it is free.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    tainted: bool = False
    uncountable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice:
    """A ResourceSlice (resource.k8s.io/v1): a part of a driver's pool of devices.

    :param generation: generation of the pool; only the pool's slices with the largest generation are valid.
    :param slice_count: number of slices of the pool in this generation.
    :param node: name of the only node that can use the devices, None if several nodes may use them.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    node: str | None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A DeviceClass (resource.k8s.io/v1).

    :param created: ``metadata.creationTimestamp`` as text (RFC 3339), which sorts by age.
    :param resource: name of an extended resource, or empty. A pod that requests one unit of it gets one device of the
        class.
    """

    name: str
    created: str = ""
    resource: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A ResourceClaim (resource.k8s.io/v1).

    :param held_devices: devices allocated to this claim, without those that it only monitors (admin access).
    """

    name: str
    namespace: str
    held_devices: frozenset[DeviceId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """The DRA devices on one node, counted by extended resource.

    :param capacity: extended resource → number of devices, including those that cannot be allocated at present.
    :param allocatable: extended resource → number of devices that can be, or already are, allocated to ResourceClaims.
    :param claimed: extended resource → number of the allocatable devices that are already allocated to ResourceClaims.
    :param uncounted: extended resources with an unknown number of devices on this node.
    """

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    claimed: Mapping[str, int] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDevices:
    """The DRA devices on all nodes.

    :param nodes: node name → its devices; nodes without devices are left out.
    :param on_unknown_nodes: extended resources with devices that are not bound to one node. gpuspawner assumes that
        any node may have such devices.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    on_unknown_nodes: frozenset[str] = frozenset()

    def get_node_devices(self, node: str) -> NodeDevices:
        """Return the devices of a node; an unknown node has none."""
        return self.nodes.get(node, _NO_DEVICES)


class EquippedNode(NamedTuple):
    """A node with its DRA devices.

    :param node: the node; ``allocatable`` and ``capacity`` include the devices.
    :param claimed: extended resource → number of the node's devices that are allocated to ResourceClaims.
    """

    node: Node
    claimed: Mapping[str, int]


MAX_CLAIM_DEVICES = 32
"""Largest number of devices of one ResourceClaim (api/resource/v1/types.go, ``AllocationResultsMaxSize``)."""

_NO_DEVICES = NodeDevices()
_NO_AMOUNTS: Mapping[str, int] = {}


def equip_node(
    node: Node, node_devices: NodeDevices, *, on_unknown_nodes: frozenset[str] = frozenset()
) -> EquippedNode:
    """Return a node whose ``allocatable`` and ``capacity`` include its DRA devices.

    If kubelet reports an allocatable amount above 0 of a resource, the node's DRA devices do not count for this
    resource, as in kube-scheduler (plugins/noderesources/fit.go, ``shouldDelegateResourceToDRA``).

    :param node: a node whose ``allocatable`` and ``capacity`` do not include its DRA devices.
    :param on_unknown_nodes: extended resources with devices that any node may have (:class:`ClusterDevices`). The
        node's number of these devices is unknown.
    """
    published = {*node_devices.capacity, *node_devices.uncounted}
    names = {name for name in published | on_unknown_nodes if node.allocatable.get(name, 0) <= 0}
    if not names:
        return EquippedNode(node, _NO_AMOUNTS)
    counted = sorted(names - node_devices.uncounted - on_unknown_nodes)
    return EquippedNode(
        replace(
            node,
            capacity=intern_amounts({**node.capacity, **{name: node_devices.capacity[name] for name in counted}}),
            allocatable=intern_amounts(
                {**node.allocatable, **{name: node_devices.allocatable.get(name, 0) for name in counted}}
            ),
            uncounted=frozenset(names.difference(counted)),
            published_by_dra=frozenset(names & published),
        ),
        {name: node_devices.claimed[name] for name in counted if node_devices.claimed.get(name)},
    )


def fits_claim(node: Node, requests: Iterable[tuple[str, int]]) -> bool:
    """Return whether one ResourceClaim can hold all devices that a pod would get from DRA drivers on a node.

    kube-scheduler makes one claim for all extended resources of a pod (plugins/dynamicresources,
    ``preFilterExtendedResources``).

    :param node: a node whose ``allocatable`` and ``capacity`` include its DRA devices.
    :param requests: pairs of a resource (extended or not) and the requested amount.
    """
    names = node.published_by_dra | node.uncounted
    return not names or sum(number for name, number in requests if name in names) <= MAX_CLAIM_DEVICES


_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_UNCOUNTABLE_FIELDS = (
    "consumesCounters",
    "allowMultipleAllocations",
    "bindingConditions",
    "bindingFailureConditions",
    "nodeAllocatableResourceMappings",
)
"""Fields of a DRA device. A device with any of them is partitioned, shared or usable only under conditions."""
_UNIQUE_ATTRIBUTES = frozenset({"uuid", "pciBusID"})
"""Attributes of DRA devices that gpuspawner drops: unique values take memory, and no DeviceClass selects by them."""


def decode_resource_slice(raw: object) -> ResourceSlice:
    """Return a ResourceSlice (resource.k8s.io/v1), decoded from JSON.

    If ``resourceSliceCount`` is missing or malformed, no device of the slice's pool counts as allocatable.
    """
    metadata, spec = _split_object(raw)
    pool, driver = as_dict(spec.get("pool")), intern(as_text(spec.get("driver")))
    return ResourceSlice(
        name=as_text(metadata.get("name")),
        driver=driver,
        pool=intern(as_text(pool.get("name"))),
        generation=as_int(pool.get("generation")) or 0,
        slice_count=as_int(pool.get("resourceSliceCount")) or 0,
        node=intern(as_text(spec.get("nodeName"))) or None,
        devices=tuple(_decode_device(each, driver=driver) for each in as_dicts(spec.get("devices"))),
    )


def decode_device_class(raw: object) -> DeviceClass:
    """Return a DeviceClass (resource.k8s.io/v1), decoded from JSON."""
    metadata, spec = _split_object(raw)
    resource = as_text(spec.get("extendedResourceName"))
    return DeviceClass(
        name=as_text(metadata.get("name")),
        created=as_text(metadata.get("creationTimestamp")),
        # Ignore a name without a domain, such as "cpu": it is one of Kubernetes' own resources, not an extended one.
        resource=resource if "/" in resource else "",
        selectors=tuple(
            parse_cel_selector(as_text(as_dict(selector.get("cel")).get("expression")))
            for selector in as_dicts(spec.get("selectors"))
        ),
    )


def decode_resource_claim(raw: object) -> ResourceClaim:
    """Return a ResourceClaim (resource.k8s.io/v1), decoded from JSON."""
    metadata, _ = _split_object(raw)
    allocation = as_dict(as_dict(as_dict(raw).get("status")).get("allocation"))
    return ResourceClaim(
        name=as_text(metadata.get("name")),
        namespace=as_text(metadata.get("namespace")),
        held_devices=frozenset(_decode_held_devices(as_dict(allocation.get("devices")).get("results"))),
    )


def _decode_device(raw: Mapping[str, object], *, driver: str) -> Device:
    return Device(
        name=as_text(raw.get("name")),
        attributes=intern_labels(_decode_attributes(raw.get("attributes"), driver=driver)),
        tainted=any(as_text(taint.get("effect")) in _BLOCKING_EFFECTS for taint in as_dicts(raw.get("taints"))),
        uncountable=any(raw.get(field) for field in _UNCOUNTABLE_FIELDS),
    )


def _decode_attributes(raw: object, *, driver: str) -> dict[str, str]:
    """Return a DRA device's text attributes; a name without a domain gets the driver's name as its domain."""
    attributes: dict[str, object] = {}
    for name, value in as_dict(raw).items():
        full = name if "/" in name else f"{driver}/{name}"
        # An attribute that has two values, with and without its domain, becomes None, and as_text_map() drops it.
        attributes[full] = None if full in attributes else as_dict(value).get("string")
    texts = as_text_map(attributes)
    return {name: value for name, value in texts.items() if name.rpartition("/")[2] not in _UNIQUE_ATTRIBUTES}


def _decode_held_devices(results: object) -> Iterable[DeviceId]:
    for each in as_dicts(results):
        # Skip a device that the claim only monitors (admin access): the device stays free for other claims.
        if each.get("adminAccess") is not True:
            yield DeviceId(*(intern(as_text(each.get(field))) for field in ("driver", "pool", "device")))


def _split_object(raw: object) -> tuple[Mapping[str, object], Mapping[str, object]]:
    whole = as_dict(raw)
    return as_dict(whole.get("metadata")), as_dict(whole.get("spec"))


_DevicePoolId = tuple[str, str]
"""(name of the DRA driver, name of the driver's pool of devices)"""
_ResourcesByDevice = Mapping[DeviceId, tuple[str, tuple[str, ...]]]
"""Device → (name of the device's node, extended resources of which the device is one unit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDevices:
    """All devices that DRA drivers publish, whether or not they are allocated to ResourceClaims.

    :param nodes: node name → numbers of the node's devices. The attribute ``claimed`` of each value is empty,
        because only :meth:`subtract_claims` counts the claimed devices.
    :param allocatable_devices: pool of a DRA driver → device of the pool → (name of the device's node, extended
        resources of which the device is one unit). Only devices that ResourceClaims can get, or have.
    :param on_unknown_nodes: extended resources with devices that more than one node can use. gpuspawner cannot tell
        which node has such a device.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    allocatable_devices: Mapping[_DevicePoolId, _ResourcesByDevice] = field(default_factory=dict)
    on_unknown_nodes: frozenset[str] = frozenset()

    def subtract_claims(self, claims: Iterable[ResourceClaim] | None) -> ClusterDevices:
        """Return the devices of all nodes, and how many of each node's devices are allocated to ResourceClaims.

        :param claims: all claims of the cluster; None if the caller does not know all claims or all devices. With None,
            every resource in the result has an unknown number of devices.
        """
        if claims is None:
            nodes = {
                name: NodeDevices(uncounted=each.uncounted.union(each.capacity)) for name, each in self.nodes.items()
            }
            return ClusterDevices(nodes=nodes, on_unknown_nodes=self.on_unknown_nodes)
        claimed: dict[str, Counter[str]] = {}
        for device in {device for claim in claims for device in claim.held_devices}:
            node, resources = self.allocatable_devices.get((device.driver, device.pool), {}).get(device, ("", ()))
            if resources:
                claimed.setdefault(node, Counter()).update(resources)
        changed = {name: replace(self.nodes[name], claimed=dict(amounts)) for name, amounts in claimed.items()}
        return ClusterDevices(nodes={**self.nodes, **changed}, on_unknown_nodes=self.on_unknown_nodes)


class DeviceCounter:
    """Counts DRA devices in each driver's pools of devices.

    The counts of a pool stay in a cache until the pool's ResourceSlices or the DeviceClasses change.
    """

    def __init__(self) -> None:
        self._by_resource: dict[str, DeviceClass] = {}
        self._pools: dict[_DevicePoolId, tuple[list[ResourceSlice], OfferedDevices]] = {}

    def count_devices(self, classes: Iterable[DeviceClass], slices: Iterable[ResourceSlice]) -> OfferedDevices:
        """Return the number of DRA devices of each extended resource on each node."""
        by_resource = _select_newest_classes(classes)
        if by_resource != self._by_resource:
            self._by_resource, self._pools = by_resource, {}
        if not by_resource:
            return OfferedDevices()
        before, self._pools = self._pools, {}
        for name, pool in _select_newest_slices(slices).items():
            cached = before.get(name)
            self._pools[name] = cached if cached and cached[0] == pool else (pool, self._count(pool))
        return _merge_pools(devices for _, devices in self._pools.values())

    def _count(self, pool: list[ResourceSlice]) -> OfferedDevices:
        counter = _PoolCounter(self._by_resource)
        counter.add(pool)
        return counter.build_result()


def _select_newest_classes(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return a mapping from each extended resource to the newest DeviceClass that names it as ``extendedResourceName``.

    If several such DeviceClasses are equally new, the first by name counts.
    """
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    return {each.resource: each for each in sorted(by_name, key=lambda each: each.created) if each.resource}


def _select_newest_slices(slices: Iterable[ResourceSlice]) -> dict[_DevicePoolId, list[ResourceSlice]]:
    pools: dict[_DevicePoolId, list[ResourceSlice]] = {}
    for each in slices:
        pool = pools.setdefault((each.driver, each.pool), [])
        if pool and each.generation > pool[0].generation:
            pool.clear()
        if not pool or each.generation == pool[0].generation:
            pool.append(each)
    return pools


def _merge_pools(pools: Iterable[OfferedDevices]) -> OfferedDevices:
    nodes: dict[str, NodeDevices] = {}
    allocatable: dict[_DevicePoolId, _ResourcesByDevice] = {}
    on_unknown_nodes: set[str] = set()
    for pool in pools:
        allocatable.update(pool.allocatable_devices)
        on_unknown_nodes |= pool.on_unknown_nodes
        for name, devices in pool.nodes.items():
            nodes[name] = _add_node_devices(nodes[name], devices) if name in nodes else devices
    return OfferedDevices(nodes=nodes, allocatable_devices=allocatable, on_unknown_nodes=frozenset(on_unknown_nodes))


def _add_node_devices(one: NodeDevices, other: NodeDevices) -> NodeDevices:
    return NodeDevices(
        capacity=dict(Counter(one.capacity) + Counter(other.capacity)),
        allocatable=dict(Counter(one.allocatable) + Counter(other.allocatable)),
        uncounted=one.uncounted | other.uncounted,
    )


def _is_complete(pool: list[ResourceSlice]) -> bool:
    """Return whether a pool of DRA devices has all its ResourceSlices and no duplicate device names.

    kube-scheduler allocates no devices of an incomplete pool.
    """
    names = [device.name for each in pool for device in each.devices]
    return {each.slice_count for each in pool} == {len(pool)} and len(set(names)) == len(names)


class _PoolCounter:
    def __init__(self, by_resource: Mapping[str, DeviceClass]) -> None:
        self._by_resource = by_resource
        self._capacity: dict[str, Counter[str]] = {}
        self._allocatable: dict[str, Counter[str]] = {}
        self._uncounted: dict[str, set[str]] = {}
        self._allocatable_devices: dict[_DevicePoolId, dict[DeviceId, tuple[str, tuple[str, ...]]]] = {}
        self._on_unknown_nodes: set[str] = set()

    def add(self, pool: list[ResourceSlice]) -> None:
        is_complete = _is_complete(pool)
        for part in pool:
            for device in part.devices:
                resources = self._find_resources(device, part)
                if part.node is not None and resources:
                    self._capacity.setdefault(part.node, Counter()).update(resources)
                    if is_complete and not device.tainted:
                        self._allocatable.setdefault(part.node, Counter()).update(resources)
                        key = DeviceId(part.driver, part.pool, device.name)
                        self._allocatable_devices.setdefault((part.driver, part.pool), {})[key] = part.node, resources

    def build_result(self) -> OfferedDevices:
        nodes = {
            name: NodeDevices(
                capacity=dict(self._capacity.get(name, {})),
                allocatable=dict(self._allocatable.get(name, {})),
                uncounted=frozenset(self._uncounted.get(name, ())),
            )
            for name in {*self._capacity, *self._uncounted}
        }
        return OfferedDevices(
            nodes=nodes,
            allocatable_devices=self._allocatable_devices,
            on_unknown_nodes=frozenset(self._on_unknown_nodes),
        )

    def _find_resources(self, device: Device, part: ResourceSlice) -> tuple[str, ...]:
        """Return the extended resources whose DeviceClass selects a device.

        A resource is left out, and its number of devices becomes unknown, in these cases:

        - It is unknown whether the DeviceClass selects the device.
        - The DeviceClass selects the device, but several nodes may use the device.
        - The DeviceClass selects the device, but the device is partitioned, shared or usable only under conditions.
        """
        counted: list[str] = []
        for resource, device_class in self._by_resource.items():
            is_selected = selects_device(device_class.selectors, device.attributes, driver=part.driver)
            if is_selected is False:
                continue
            if part.node is None:
                self._on_unknown_nodes.add(resource)
            elif is_selected is None or device.uncountable:
                self._uncounted.setdefault(part.node, set()).add(resource)
            else:
                counted.append(resource)
        return tuple(counted)
