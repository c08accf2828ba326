"""What DRA drivers publish and what of it a node has, as plain values.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/

Which devices a DeviceClass means, where its CEL selectors are of a form that can be decided for sure.

That form is what drivers ship: comparisons of the driver and of text attributes with fixed texts, joined by ``&&``, as
in ``device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'``. Whatever else a selector
says is not decided here. https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/

DRA's objects (resource.k8s.io/v1), as the API sends them, to the few facts of them that matter. Total over any JSON.

What cannot be read makes a number unknown or smaller, never larger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import intern
from typing import NamedTuple, TypeAlias

from gpuspawner.core.cluster.interning import intern_amounts, intern_labels
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map

_CEL_TEXT = r"""(?:'[^'"\\\n\r]*'|"[^'"\\\n\r]*")"""
_CEL_TERM = re.compile(
    rf"\s*device\.(?:driver|attributes\[\s*(?P<domain>{_CEL_TEXT})\s*\]\.(?P<name>[A-Za-z_]\w*))\s*==\s*(?P<value>{_CEL_TEXT})\s*",
    re.ASCII,
)


class AttributeTerm(NamedTuple):
    """One comparison.

    :param attribute: name with its domain (``gpu.nvidia.com/type``), empty for the driver.
    :param value: the text it must be.
    """

    attribute: str
    value: str


DeviceSelector: TypeAlias = tuple[AttributeTerm, ...] | None
"""Terms that must all hold; None for a selector that is not understood."""


def parse_cel_selector(expression: str) -> DeviceSelector:
    """Return the terms of a CEL expression, None where it is of another form."""
    terms: list[AttributeTerm] = []
    at = 0
    while found := _CEL_TERM.match(expression, at):
        domain = found["domain"]
        terms.append(AttributeTerm(f"{domain[1:-1]}/{found['name']}" if domain else "", found["value"][1:-1]))
        if found.end() == len(expression):
            return tuple(terms)
        if not expression.startswith("&&", found.end()):
            return None
        at = found.end() + 2
    return None


def selects_device(selectors: Iterable[DeviceSelector], attributes: Mapping[str, str], *, driver: str) -> bool | None:
    """Tell whether a device is meant by all selectors, None where that is not sure.

    As kube-scheduler's allocator does, selectors are looked at one after the other up to the first that is not true.

    :param attributes: name with domain → text; what is missing or no text is not decided (in CEL an error).
    """
    for selector in selectors:
        is_meant = None if selector is None else _matches_all_terms(selector, attributes, driver=driver)
        if is_meant is not True:
            return is_meant
    return True


def _matches_all_terms(terms: tuple[AttributeTerm, ...], attributes: Mapping[str, str], *, driver: str) -> bool | None:
    """Tell whether all terms hold: in CEL one that is false outweighs errors in others, wherever they stand."""
    found = [attributes.get(term.attribute) if term.attribute else driver for term in terms]
    answers = [None if text is None else text == term.value for text, term in zip(found, terms, strict=True)]
    if False in answers:
        return False
    return None if None in answers else True


class DeviceId(NamedTuple):
    """What tells a device from all others."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The few facts of a device that counting needs.

    :param attributes: name with domain (``gpu.nvidia.com/type``) → text; others are left out.
    :param tainted: pods that do not tolerate it get another one (``NoSchedule``, ``NoExecute``).
    :param uncountable: whether it can be given away depends on more than whether somebody has it: on parts that other
        devices use, on shares, on conditions.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    tainted: bool = False
    uncountable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice:
    """A ResourceSlice (resource.k8s.io/v1): a part of a driver's pool of devices.

    :param generation: slices of the same pool with a smaller one are out of date.
    :param slice_count: how many slices the pool has in this generation.
    :param node: the only node that the devices can be used on, None where that is not one by its name.
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

    :param created: ``metadata.creationTimestamp`` as the API server wrote it, so texts sort by age.
    :param resource: extended resource that stands for one device of the class, empty where none does.
    """

    name: str
    created: str = ""
    resource: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A ResourceClaim (resource.k8s.io/v1).

    :param held_devices: devices that nobody else can get.
    """

    name: str
    namespace: str
    held_devices: frozenset[DeviceId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """The devices on one node, counted by extended resource.

    :param capacity: all there are, also those that cannot be given away for the time being.
    :param allocatable: of these, what can be given away.
    :param claimed: of these, what claims hold.
    :param uncounted: resources of which nobody can tell how many can be given away.
    """

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    claimed: Mapping[str, int] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDevices:
    """The devices on all nodes.

    :param nodes: by the node's name; those without devices are left out.
    :param on_unknown_nodes: resources of which any node may have some, nobody can tell which.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    on_unknown_nodes: frozenset[str] = frozenset()

    def get_node_devices(self, node: str) -> NodeDevices:
        """Return what a node is known to have."""
        return self.nodes.get(node, _NO_DEVICES)


class EquippedNode(NamedTuple):
    """A node with its devices, and what claims hold of them."""

    node: Node
    claimed: Mapping[str, int]


_NO_DEVICES = NodeDevices()
_NO_AMOUNTS: Mapping[str, int] = {}


def equip_node(
    node: Node, node_devices: NodeDevices, *, on_unknown_nodes: frozenset[str] = frozenset()
) -> EquippedNode:
    """Return a node with its devices as amounts of extended resources.

    Only where kubelet has none of a resource to give away does kube-scheduler look for devices instead
    (plugins/noderesources/fit.go, ``shouldDelegateResourceToDRA``).

    :param on_unknown_nodes: as in :class:`ClusterDevices`.
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


_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_UNCOUNTABLE_FIELDS = (
    "consumesCounters",
    "allowMultipleAllocations",
    "bindingConditions",
    "bindingFailureConditions",
    "nodeAllocatableResourceMappings",
)
"""Fields of a device that make it more than something that one claim has or not."""
_UNIQUE_ATTRIBUTES = frozenset({"uuid", "pciBusID"})
"""Attributes that no class picks devices by, and that would fill the memory: each device has another one."""


def decode_resource_slice(raw: object) -> ResourceSlice:
    """Return what matters of a ResourceSlice; one without a readable size belongs to a pool that is never complete."""
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
    """Return what matters of a DeviceClass."""
    metadata, spec = _split_object(raw)
    resource = as_text(spec.get("extendedResourceName"))
    return DeviceClass(
        name=as_text(metadata.get("name")),
        created=as_text(metadata.get("creationTimestamp")),
        # A name without a domain is one of Kubernetes' own, which no device stands for.
        resource=resource if "/" in resource else "",
        selectors=tuple(map(_decode_selector, as_dicts(spec.get("selectors")))),
    )


def decode_resource_claim(raw: object) -> ResourceClaim:
    """Return what matters of a ResourceClaim."""
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
    """Return the text attributes; a name without a domain is in the driver's own."""
    found: dict[str, object] = {}
    for name, value in as_dict(raw).items():
        full = name if "/" in name else f"{driver}/{name}"
        # Said in both ways, nobody could tell which one a selector would see.
        found[full] = None if full in found else as_dict(value).get("string")
    return {
        name: value for name, value in as_text_map(found).items() if name.rpartition("/")[2] not in _UNIQUE_ATTRIBUTES
    }


def _decode_selector(raw: Mapping[str, object]) -> DeviceSelector:
    return parse_cel_selector(as_text(as_dict(raw.get("cel")).get("expression")))


def _decode_held_devices(results: object) -> Iterable[DeviceId]:
    for each in as_dicts(results):
        # Whoever has access as an administrator looks at a device, which stays what it was to others.
        if each.get("adminAccess") is not True:
            yield DeviceId(*(intern(as_text(each.get(field))) for field in ("driver", "pool", "device")))


def _split_object(raw: object) -> tuple[Mapping[str, object], Mapping[str, object]]:
    found = as_dict(raw)
    return as_dict(found.get("metadata")), as_dict(found.get("spec"))
