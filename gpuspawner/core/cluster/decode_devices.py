"""DRA's objects (resource.k8s.io/v1), as the API sends them, to the few facts of them that matter. Total over any JSON.

What cannot be read makes a number unknown or smaller, never larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern

from gpuspawner.core.cluster.device_selectors import Selector, parse
from gpuspawner.core.cluster.devices import Device, DeviceClaim, DeviceClass, DeviceId, DeviceSlice
from gpuspawner.core.cluster.interning import labels
from gpuspawner.core.rawjson import mapping, mappings, text, text_map, whole

_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_SPECIAL = (
    "consumesCounters",
    "allowMultipleAllocations",
    "bindingConditions",
    "bindingFailureConditions",
    "nodeAllocatableResourceMappings",
)
"""Fields of a device that make it more than something that one claim has or not."""
_OF_ONE_DEVICE = frozenset({"uuid", "pciBusID"})
"""Attributes that no class picks devices by, and that would fill the memory: each device has another one."""


def device_slice(raw: object) -> DeviceSlice:
    """Return what matters of a ResourceSlice; one without a readable size belongs to a pool that is never complete."""
    metadata, spec = _parts(raw)
    pool, driver = mapping(spec.get("pool")), intern(text(spec.get("driver")))
    return DeviceSlice(
        name=text(metadata.get("name")),
        driver=driver,
        pool=intern(text(pool.get("name"))),
        generation=whole(pool.get("generation")) or 0,
        slices=whole(pool.get("resourceSliceCount")) or 0,
        node=intern(text(spec.get("nodeName"))) or None,
        devices=tuple(_device(each, driver=driver) for each in mappings(spec.get("devices"))),
    )


def device_class(raw: object) -> DeviceClass:
    """Return what matters of a DeviceClass."""
    metadata, spec = _parts(raw)
    resource = text(spec.get("extendedResourceName"))
    return DeviceClass(
        name=text(metadata.get("name")),
        created=text(metadata.get("creationTimestamp")),
        # A name without a domain is one of Kubernetes' own, which no device stands for.
        resource=resource if "/" in resource else "",
        selectors=tuple(map(_selector, mappings(spec.get("selectors")))),
    )


def device_claim(raw: object) -> DeviceClaim:
    """Return what matters of a ResourceClaim."""
    metadata, _ = _parts(raw)
    allocation = mapping(mapping(mapping(raw).get("status")).get("allocation"))
    return DeviceClaim(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        held=frozenset(_held(mapping(allocation.get("devices")).get("results"))),
    )


def _device(raw: Mapping[str, object], *, driver: str) -> Device:
    return Device(
        name=text(raw.get("name")),
        attributes=labels(_attributes(raw.get("attributes"), driver=driver)),
        tainted=any(text(taint.get("effect")) in _KEEPS_AWAY for taint in mappings(raw.get("taints"))),
        special=any(raw.get(field) for field in _SPECIAL),
    )


def _attributes(raw: object, *, driver: str) -> dict[str, str]:
    """Return the text attributes; a name without a domain is in the driver's own."""
    found: dict[str, object] = {}
    for name, value in mapping(raw).items():
        full = name if "/" in name else f"{driver}/{name}"
        # Said in both ways, nobody could tell which one a selector would see.
        found[full] = None if full in found else mapping(value).get("string")
    return {name: value for name, value in text_map(found).items() if name.rpartition("/")[2] not in _OF_ONE_DEVICE}


def _selector(raw: Mapping[str, object]) -> Selector:
    return parse(text(mapping(raw.get("cel")).get("expression")))


def _held(results: object) -> Iterable[DeviceId]:
    for each in mappings(results):
        # Whoever has access as an administrator looks at a device, which stays what it was to others.
        if each.get("adminAccess") is not True:
            yield DeviceId(*(intern(text(each.get(field))) for field in ("driver", "pool", "device")))


def _parts(raw: object) -> tuple[Mapping[str, object], Mapping[str, object]]:
    found = mapping(raw)
    return mapping(found.get("metadata")), mapping(found.get("spec"))
