"""Kubernetes objects, as the API sends them, to the few facts of them that matter. Total over any JSON.

What cannot be read is left out, never guessed and never an error: one broken object of someone else must not take the
form away from everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern

from gpuspawner.core.cluster import interning
from gpuspawner.core.cluster.decode_demands import DEVICE_CLASS, demands, demands_on_others
from gpuspawner.core.cluster.model import Node, Pod, Taint
from gpuspawner.core.cluster.requests import requests
from gpuspawner.core.rawjson import mapping, mappings, text, text_map, whole
from gpuspawner.core.units.quantity import QuantityError, to_millis, to_units

_FINISHED = frozenset({"Succeeded", "Failed"})


def node(raw: object) -> Node:
    """Return what matters of a v1 Node; a node without a name has an empty one."""
    metadata, spec, status = _parts(raw)
    return Node(
        name=intern(text(metadata.get("name"))),
        labels={intern(key): intern(value) for key, value in text_map(metadata.get("labels")).items()},
        taints=taints(spec.get("taints")),
        allocatable=interning.amounts(resources(status.get("allocatable"))),
        capacity=interning.amounts(resources(status.get("capacity"))),
        unschedulable=spec.get("unschedulable") is True,
        ready=_is_ready(status.get("conditions")),
    )


def pod(raw: object, *, with_devices: bool = False) -> Pod | None:
    """Return what matters of a v1 Pod, None when it has finished: it holds nothing any more.

    A manifest of a pod that does not exist yet is read as the API server would complete it.

    :param with_devices: leave in its requests what a claim holds for it; for whoever does not count claims.
    """
    metadata, spec, status = _parts(raw)
    if text(status.get("phase")) in _FINISHED:
        return None
    namespace = intern(text(metadata.get("namespace")))
    labels = interning.labels(text_map(metadata.get("labels")))
    on_node = intern(text(spec.get("nodeName"))) or None
    of_bound = status if on_node else {}
    asked = _without_devices(requests(spec, of_bound), {} if with_devices else of_bound)
    created = bool(text(metadata.get("uid")))
    return Pod(
        name=text(metadata.get("name")),
        namespace=namespace,
        node=on_node,
        requests=_counted(asked),
        labels=labels,
        deleting=bool(text(metadata.get("deletionTimestamp"))),
        priority=whole(spec.get("priority")) or 0,
        created=intern(text(metadata.get("creationTimestamp"))),
        demands=(
            demands_on_others(spec, namespace=namespace, labels=labels)
            if on_node
            else demands(spec, namespace=namespace, labels=labels, requests=asked, created=created)
        ),
        nominated=intern(text(status.get("nominatedNodeName"))) or None,
    )


def requested(spec: Mapping[str, object]) -> Mapping[str, int]:
    """Return what the spec of a pod that does not exist yet requests: of :func:`pod`, what other amounts change."""
    return _counted(requests(spec, {}))


def _counted(requested: dict[str, int]) -> Mapping[str, int]:
    """Return requests without devices by their class: no node counts those, a claim is made for them.

    https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource
    """
    if any(name.startswith(DEVICE_CLASS) for name in requested):
        requested = {name: number for name, number in requested.items() if not name.startswith(DEVICE_CLASS)}
    return interning.amounts(requested)


def _without_devices(requested: dict[str, int], status: Mapping[str, object]) -> dict[str, int]:
    """Return requests without the extended resources that the pod has as devices: a claim holds those, and counts.

    kube-scheduler says so before it binds the pod (plugins/dynamicresources/extendeddynamicresources.go).
    """
    if claimed := mapping(status.get("extendedResourceClaimStatus")):
        for each in mappings(claimed.get("requestMappings")):
            requested.pop(text(each.get("resourceName")), None)
    return requested


def resources(raw: object) -> dict[str, int]:
    """Return resource name → whole base units of a v1 ResourceList, without what is no quantity."""
    found: dict[str, int] = {}
    for name, value in mapping(raw).items():
        number = _text_amount(name == "cpu", value) if isinstance(value, str) else _amount(name == "cpu", value)
        if number is not None and isinstance(name, str):
            found[name] = number
    return found


def taints(raw: object) -> tuple[Taint, ...]:
    """Return a list of v1 Taints, without those that have no key."""
    return _shared_taints(tuple(_taints(raw)))


@lru_cache(maxsize=4096)
def _text_amount(is_cpu: bool, value: str) -> int | None:
    return _amount(is_cpu, value)


def _amount(is_cpu: bool, value: object) -> int | None:
    try:
        return to_millis(value) if is_cpu else to_units(value)
    except QuantityError:
        return None


def _taints(raw: object) -> Iterable[Taint]:
    for taint in mappings(raw):
        if key := text(taint.get("key")):
            yield Taint(key=key, effect=text(taint.get("effect")), value=text(taint.get("value")))


@lru_cache(maxsize=1024)
def _shared_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    return taints


def _is_ready(conditions: object) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in mappings(conditions)
    )


def _parts(raw: object) -> tuple[Mapping[str, object], Mapping[str, object], Mapping[str, object]]:
    whole_object = mapping(raw)
    return mapping(whole_object.get("metadata")), mapping(whole_object.get("spec")), mapping(whole_object.get("status"))
