"""Kubernetes objects, as the API sends them, to the few facts of them that matter. Total over any JSON.

What cannot be read is left out, never guessed and never an error: one broken object of someone else must not take the
form away from everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern

from gpuspawner.core.cluster import interning
from gpuspawner.core.cluster.decode_demands import DEVICE_CLASS_PREFIX, decode_bound_constraints, decode_constraints
from gpuspawner.core.cluster.model import Node, Pod, Taint
from gpuspawner.core.cluster.requests import compute_requests
from gpuspawner.core.rawjson import as_dict, as_dicts, as_int, as_text, as_text_map
from gpuspawner.core.units.quantity import QuantityError, parse_millis, parse_whole_units

_FINISHED = frozenset({"Succeeded", "Failed"})


def decode_node(raw: object) -> Node:
    """Return what matters of a v1 Node; a node without a name has an empty one."""
    metadata, spec, status = _split_object(raw)
    return Node(
        name=intern(as_text(metadata.get("name"))),
        labels={intern(key): intern(value) for key, value in as_text_map(metadata.get("labels")).items()},
        taints=decode_taints(spec.get("taints")),
        allocatable=interning.intern_amounts(decode_resources(status.get("allocatable"))),
        capacity=interning.intern_amounts(decode_resources(status.get("capacity"))),
        unschedulable=spec.get("unschedulable") is True,
        ready=_is_ready(status.get("conditions")),
    )


def decode_pod(raw: object, *, include_claimed: bool = False) -> Pod | None:
    """Return what matters of a v1 Pod, None when it has finished: it holds nothing any more.

    A manifest of a pod that does not exist yet is read as the API server would complete it.

    :param include_claimed: leave in its requests what a claim holds for it; for whoever does not count claims.
    """
    metadata, spec, status = _split_object(raw)
    if as_text(status.get("phase")) in _FINISHED:
        return None
    namespace = intern(as_text(metadata.get("namespace")))
    labels = interning.intern_labels(as_text_map(metadata.get("labels")))
    on_node = intern(as_text(spec.get("nodeName"))) or None
    of_bound = status if on_node else {}
    asked = _drop_claimed(compute_requests(spec, of_bound), {} if include_claimed else of_bound)
    created = bool(as_text(metadata.get("uid")))
    return Pod(
        name=as_text(metadata.get("name")),
        namespace=namespace,
        node=on_node,
        requests=_drop_device_classes(asked),
        labels=labels,
        terminating=bool(as_text(metadata.get("deletionTimestamp"))),
        priority=as_int(spec.get("priority")) or 0,
        created=intern(as_text(metadata.get("creationTimestamp"))),
        constraints=(
            decode_bound_constraints(spec, namespace=namespace, labels=labels)
            if on_node
            else decode_constraints(spec, namespace=namespace, labels=labels, requests=asked, created=created)
        ),
        nominated_node=intern(as_text(status.get("nominatedNodeName"))) or None,
    )


def decode_requests(spec: Mapping[str, object]) -> Mapping[str, int]:
    """Return what the spec of a pod that does not exist yet requests, as :func:`decode_pod` does."""
    return _drop_device_classes(compute_requests(spec, {}))


def _drop_device_classes(requested: dict[str, int]) -> Mapping[str, int]:
    """Return requests without devices by their class: no node counts those, a claim is made for them.

    https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource
    """
    if any(name.startswith(DEVICE_CLASS_PREFIX) for name in requested):
        requested = {name: number for name, number in requested.items() if not name.startswith(DEVICE_CLASS_PREFIX)}
    return interning.intern_amounts(requested)


def _drop_claimed(requested: dict[str, int], status: Mapping[str, object]) -> dict[str, int]:
    """Return requests without the extended resources that the pod has as devices: a claim holds those, and counts.

    kube-scheduler says so before it binds the pod (plugins/dynamicresources/extendeddynamicresources.go).
    """
    if claimed := as_dict(status.get("extendedResourceClaimStatus")):
        for each in as_dicts(claimed.get("requestMappings")):
            requested.pop(as_text(each.get("resourceName")), None)
    return requested


def decode_resources(raw: object) -> dict[str, int]:
    """Return resource name → whole base units of a v1 ResourceList, without what is no quantity."""
    found: dict[str, int] = {}
    for name, value in as_dict(raw).items():
        number = (
            _parse_amount_text(name == "cpu", value) if isinstance(value, str) else _parse_amount(name == "cpu", value)
        )
        if number is not None and isinstance(name, str):
            found[name] = number
    return found


def decode_taints(raw: object) -> tuple[Taint, ...]:
    """Return a list of v1 Taints, without those that have no key."""
    return _intern_taints(tuple(_iter_taints(raw)))


@lru_cache(maxsize=4096)
def _parse_amount_text(is_cpu: bool, value: str) -> int | None:
    return _parse_amount(is_cpu, value)


def _parse_amount(is_cpu: bool, value: object) -> int | None:
    try:
        return parse_millis(value) if is_cpu else parse_whole_units(value)
    except QuantityError:
        return None


def _iter_taints(raw: object) -> Iterable[Taint]:
    for taint in as_dicts(raw):
        if key := as_text(taint.get("key")):
            yield Taint(key=key, effect=as_text(taint.get("effect")), value=as_text(taint.get("value")))


@lru_cache(maxsize=1024)
def _intern_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    return taints


def _is_ready(conditions: object) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in as_dicts(conditions)
    )


def _split_object(raw: object) -> tuple[Mapping[str, object], Mapping[str, object], Mapping[str, object]]:
    whole_object = as_dict(raw)
    return as_dict(whole_object.get("metadata")), as_dict(whole_object.get("spec")), as_dict(whole_object.get("status"))
