"""DRA's objects (resource.k8s.io/v1), as the API sends them, to the few facts of them that matter. Total over any JSON.

What cannot be read makes a number unknown or smaller, never larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern

from gpuspawner.core.cluster.device_selectors import DeviceSelector, parse_cel_selector
from gpuspawner.core.cluster.devices import Device, DeviceClass, DeviceId, ResourceClaim, ResourceSlice
from gpuspawner.core.cluster.interning import intern_labels
from gpuspawner.core.rawjson import as_dict, as_dicts, as_int, as_text, as_text_map

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
