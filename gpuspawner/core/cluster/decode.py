"""Decode v1 Nodes and Pods from the API's JSON into :mod:`.model`'s values.

Malformed parts of the JSON are left out and raise no exception, so a broken object of another user does not break the
spawn form.

The API server extends a pod when it creates the pod. For a pod that does not exist yet, this module does the same: it
adds host network ports (pkg/apis/core/v1/defaults.go) and tolerations of not-ready and unreachable nodes (admission
plugin DefaultTolerationSeconds), and merges ``matchLabelKeys`` into selectors. An unknown RuntimeClass may add more
tolerations. This module then adds a toleration of every taint, and an entry to :attr:`.PodConstraints.undecided`.

To save memory, equal values, such as the labels of thousands of replicas, are one object. Callers must not modify
results.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

from gpuspawner.core.cluster.decode_selectors import (
    InvalidSelectorError,
    decode_node_affinity,
    decode_node_terms,
    decode_pod_terms,
    decode_spread_constraints,
)
from gpuspawner.core.cluster.model import (
    NO_CONSTRAINTS,
    HostPort,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    PriorityClass,
    RuntimeClass,
    SelectorRequirement,
    Taint,
    Toleration,
)
from gpuspawner.core.cluster.pod_requests import compute_requests, read_amounts, round_up
from gpuspawner.core.cluster.selectors import is_valid_requirement
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map
from gpuspawner.core.text.i18n import gettext_lazy

_MAX_VALUES = 8192
"""gpuspawner caches at most this many values of each kind, such as labels or amounts."""
_MAX_PARTS = 64
"""gpuspawner does not cache labels, node affinity terms or tolerations with more parts (such as strings) than this.
Otherwise, the cache could fill the memory: the selectors of one pod may take a megabyte."""

_H = TypeVar("_H", bound=Hashable)


def intern_labels(found: Mapping[str, str]) -> Mapping[str, str]:
    """Return a mapping equal to ``found``; to save memory, calls with equal labels return the same object.

    More than 64 labels are returned as they are.
    """
    if len(found) > _MAX_PARTS:
        return found
    return _make_labels(tuple(found.items())) if found else _NO_LABELS


def intern_amounts(found: Mapping[str, int]) -> Mapping[str, int]:
    """Return a mapping equal to ``found``; to save memory, calls with equal amounts return the same object."""
    return _make_amounts(tuple(found.items())) if found else _NO_AMOUNTS


def intern_value(value: _H, *, size: int) -> _H:
    """Return an object equal to ``value``; to save memory, calls with equal values return the same object.

    :param size: number of parts in the value, such as strings; with more than 64, the result is ``value`` itself.
    """
    if size > _MAX_PARTS:
        return value
    found: _H = _remember(value)
    return found


_NO_LABELS: Mapping[str, str] = {}
_NO_AMOUNTS: Mapping[str, int] = {}


@lru_cache(maxsize=_MAX_VALUES)
def _make_labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in items}


@lru_cache(maxsize=_MAX_VALUES)
def _make_amounts(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return {sys.intern(key): number for key, number in items}


@lru_cache(maxsize=_MAX_VALUES)
def _remember(value: Any) -> Any:
    return value


_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # default address of a host port; nothing listens here
_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of extended resources that request a device of a DRA device class."""
_DEFAULT_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_RUNTIME_CLASS = "runtimeClassName"
_ANY_TAINT = Toleration(operator="Exists")
"""Toleration of every taint, assumed for a new pod to which an unknown RuntimeClass may add tolerations
(plugin/pkg/admission/runtimeclass/admission.go)."""
_EXCLUSIVE_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
"""Kinds of volumes that only one pod may use at a time (kube-scheduler's plugin VolumeRestrictions)."""
_UNREADABLE_RULE = gettext_lazy("a rule about other pods that cannot be read")


def decode_constraints(
    spec: Mapping[str, object], *, namespace: str, labels: Mapping[str, str], requests: Iterable[str], created: bool
) -> PodConstraints:
    """Return all constraints of a pending pod.

    :param created: True if the pod exists in the API server, False for a manifest.
    """
    affinity = as_dict(spec.get("affinity"))
    undecided = list(dict.fromkeys(_find_unsupported(spec, requests)))
    if not created:
        undecided += _find_unadmitted(spec)
    try:
        near = decode_pod_terms(affinity.get("podAffinity"), namespace=namespace, labels=labels, created=created)
        apart = decode_pod_terms(affinity.get("podAntiAffinity"), namespace=namespace, labels=labels, created=created)
        spread = decode_spread_constraints(spec.get("topologySpreadConstraints"), labels=labels)
    except InvalidSelectorError:
        near, apart, spread = (), (), ()
        undecided.append(_UNREADABLE_RULE)
    tolerations = tuple(_decode_tolerations(spec, created=created))
    constraints = PodConstraints(
        node_selector=intern_labels(as_text_map(spec.get("nodeSelector"))),
        node_terms=_intern_terms(decode_node_affinity(spec)),
        tolerations=intern_value(tolerations, size=len(tolerations)),
        affinity=near,
        anti_affinity=apart,
        spread_constraints=spread,
        host_ports=frozenset(_decode_host_ports(spec)),
        is_gated=bool(as_dicts(spec.get("schedulingGates"))),
        unread_claims=tuple(_decode_claims(spec)),
        undecided=tuple(undecided),
    )
    return NO_CONSTRAINTS if constraints == NO_CONSTRAINTS else constraints


def decode_bound_constraints(
    spec: Mapping[str, object], *, namespace: str, labels: Mapping[str, str]
) -> PodConstraints:
    """Return those constraints of a bound pod that affect other pods: required anti-affinity and host ports."""
    try:
        apart = decode_pod_terms(
            as_dict(spec.get("affinity")).get("podAntiAffinity"), namespace=namespace, labels=labels, created=True
        )
    except InvalidSelectorError:
        apart = ()  # Like kube-scheduler, ignore malformed anti-affinity (PodInfo.Update).
    ports = frozenset(_decode_host_ports(spec))
    return _intern_bound_constraints(apart, ports) if apart or ports else NO_CONSTRAINTS


def _intern_terms(terms: tuple[NodeSelectorTerm, ...] | None) -> tuple[NodeSelectorTerm, ...] | None:
    requirements = (each for term in terms or () for each in (*term.expressions, *term.fields))
    return intern_value(terms, size=sum(1 + len(each.values) for each in requirements))


@lru_cache(maxsize=4096)
def _intern_bound_constraints(
    anti_affinity: tuple[PodAffinityTerm, ...], host_ports: frozenset[HostPort]
) -> PodConstraints:
    return PodConstraints(anti_affinity=anti_affinity, host_ports=host_ports)


def _decode_tolerations(spec: Mapping[str, object], *, created: bool) -> Iterable[Toleration]:
    tolerations = decode_tolerations(spec.get("tolerations"))
    yield from tolerations
    if not created and _read_runtime_class(spec):
        yield _ANY_TAINT
    for taint in () if created else _DEFAULT_TOLERATED_TAINTS:
        if not any(each.key in ("", taint) and each.effect in ("", "NoExecute") for each in tolerations):
            yield Toleration(key=taint, operator="Exists", effect="NoExecute")


def _decode_host_ports(spec: Mapping[str, object]) -> Iterable[HostPort]:
    """Yield the host ports of app containers and sidecars (scheduler/util/utils.go, ``GetHostPorts``)."""
    sidecars = (each for each in as_dicts(spec.get("initContainers")) if each.get("restartPolicy") == "Always")
    for container in (*as_dicts(spec.get("containers")), *sidecars):
        for port in as_dicts(container.get("ports")):
            number = as_int(port.get("hostPort")) or 0
            if number == 0 and spec.get("hostNetwork") is True:
                number = as_int(port.get("containerPort")) or 0
            if number > 0:
                yield HostPort(
                    as_text(port.get("hostIP")) or _ANY_ADDRESS, as_text(port.get("protocol")) or "TCP", number
                )


def _decode_claims(spec: Mapping[str, object]) -> Iterable[str]:
    for volume in as_dicts(spec.get("volumes")):
        if isinstance(claim := volume.get("persistentVolumeClaim"), dict):
            yield as_text(claim.get("claimName"))


def _list_ephemeral_claims(spec: Mapping[str, object], *, pod: str) -> Iterable[str]:
    """Yield the names of the PersistentVolumeClaims that Kubernetes creates for a pod's generic ephemeral volumes."""
    for volume in as_dicts(spec.get("volumes")):
        if isinstance(volume.get("ephemeral"), dict):
            yield f"{pod}-{as_text(volume.get('name'))}"


def _find_unsupported(spec: Mapping[str, object], requests: Iterable[str]) -> Iterable[str]:
    """Yield one phrase for each constraint of a pod that kube-scheduler's filters check but gpuspawner does not.

    gpuspawner shows these phrases to users.
    """
    if as_dicts(spec.get("resourceClaims")) or any(name.startswith(_DEVICE_CLASS_PREFIX) for name in requests):
        yield gettext_lazy("devices that are requested through a resource claim or a device class")
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        yield gettext_lazy("a group of pods that start only together")
    for volume in as_dicts(spec.get("volumes")):
        if isinstance(volume.get("ephemeral"), dict):
            yield gettext_lazy("a volume that is made together with the pod")
        if any(isinstance(volume.get(kind), dict) for kind in _EXCLUSIVE_DISKS):
            yield gettext_lazy("a disk that only one pod may use at a time")
    if _needs_declared_features(spec):
        yield gettext_lazy("something that not every node can do")
    if not all(map(is_valid_requirement, _list_preferred_expressions(spec))):
        # If more than one node fits, kube-scheduler cannot schedule a pod with a malformed preferred node affinity
        # (nodeaffinity.NewPreferredSchedulingTerms).
        yield gettext_lazy("a preference for nodes that cannot be read")


def _list_preferred_expressions(spec: Mapping[str, object]) -> Iterable[SelectorRequirement]:
    affinity = as_dict(as_dict(spec.get("affinity")).get("nodeAffinity"))
    preferred = as_dicts(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))
    terms = decode_node_terms({"nodeSelectorTerms": [each.get("preference") for each in preferred]})
    return [requirement for term in terms or () for requirement in term.expressions]


def _find_unadmitted(spec: Mapping[str, object]) -> Iterable[str]:
    """Yield one phrase for each feature of a new pod that may make the API server change or refuse the pod.

    gpuspawner shows these phrases to users.
    """
    if _read_runtime_class(spec):
        yield gettext_lazy("what the cluster adds for its runtime class")
    if any(each.get("operator") in ("Gt", "Lt") for each in as_dicts(spec.get("tolerations"))):
        yield gettext_lazy("a toleration that compares numbers")


def _read_runtime_class(spec: Mapping[str, object]) -> str:
    return as_text(spec.get(_RUNTIME_CLASS))


def _needs_declared_features(spec: Mapping[str, object]) -> bool:
    """Return whether a pod needs nodes that declare a feature (feature gate NodeDeclaredFeatures, on in v1.36)."""
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        return True
    containers = (*as_dicts(spec.get("containers")), *as_dicts(spec.get("initContainers")))
    rules = (rule for container in containers for rule in as_dicts(container.get("restartPolicyRules")))
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


def decode_runtime_class(raw: object) -> RuntimeClass:
    """Return a RuntimeClass (node.k8s.io/v1), decoded from JSON."""
    whole = as_dict(raw)
    scheduling, overhead = as_dict(whole.get("scheduling")), as_dict(whole.get("overhead"))
    return RuntimeClass(
        name=as_text(_split_object(whole)[0].get("name")),
        node_selector=as_dict(scheduling.get("nodeSelector")),
        tolerations=tuple(as_dicts(scheduling.get("tolerations"))),
        overhead=as_dict(overhead["podFixed"]) if "podFixed" in overhead else None,
    )


def add_runtime_class(spec: Mapping[str, object], classes: Iterable[RuntimeClass]) -> Mapping[str, object]:
    """Return a new pod's spec with the fields that the admission plugin RuntimeClass adds.

    The function removes ``runtimeClassName``, because :func:`decode_pod` treats the RuntimeClass of a pod with this
    field as unknown. If the spec names no RuntimeClass, or names a RuntimeClass that ``classes`` lacks, the function
    returns the spec unchanged.
    """
    name = _read_runtime_class(spec)
    found = next((each for each in classes if name and each.name == name), None)
    if found is None:
        return spec
    return {
        **{name: value for name, value in spec.items() if name != _RUNTIME_CLASS},
        "nodeSelector": {**as_dict(spec.get("nodeSelector")), **found.node_selector},
        "tolerations": [*as_dicts(spec.get("tolerations")), *found.tolerations],
        **({} if found.overhead is None else {"overhead": found.overhead}),
    }


def add_limit_ranges(spec: Mapping[str, object], limit_ranges: Iterable[object]) -> Mapping[str, object]:
    """Return a new pod's spec with the requests and limits that the admission plugin LimitRanger adds to containers.

    :param limit_ranges: the namespace's LimitRanges (v1) as JSON.
    """
    limits: list[dict[str, object]] = []
    for each in limit_ranges:
        entries = [
            entry for entry in as_dicts(_split_object(each)[1].get("limits")) if entry.get("type") == "Container"
        ]
        own = {name: value for entry in entries for name, value in as_dict(entry.get("default")).items()}
        requests = {name: value for entry in entries for name, value in as_dict(entry.get("defaultRequest")).items()}
        limits.append({"limits": own, "requests": requests})
    if not any(any(each.values()) for each in limits):
        return spec
    changed = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            changed[kind] = [_add_defaults(container, limits) for container in as_dicts(spec[kind])]
    return changed


def _add_defaults(container: Mapping[str, object], limits: Iterable[Mapping[str, object]]) -> Mapping[str, object]:
    resources = as_dict(container.get("resources"))
    # The API server copies a container's limits to missing requests before LimitRanger runs, so LimitRanger adds no
    # request for a resource that already has a limit (pkg/apis/core/v1/defaults.go).
    own = as_dict(resources.get("limits"))
    requests: Mapping[str, object] = {**own, **as_dict(resources.get("requests"))}
    for each in limits:
        own = {**as_dict(each["limits"]), **own}
        requests = {**as_dict(each["requests"]), **requests}
    return {**container, "resources": {**resources, "limits": own, "requests": requests}}


_FINISHED = frozenset({"Succeeded", "Failed"})


def decode_node(raw: object) -> Node:
    """Return a v1 Node as a :class:`.Node`."""
    metadata, spec, status = _split_object(raw)
    return Node(
        name=intern(as_text(metadata.get("name"))),
        labels={intern(key): intern(value) for key, value in as_text_map(metadata.get("labels")).items()},
        taints=decode_taints(spec.get("taints")),
        allocatable=intern_amounts(decode_resources(status.get("allocatable"))),
        capacity=intern_amounts(decode_resources(status.get("capacity"))),
        unschedulable=spec.get("unschedulable") is True,
        ready=_is_ready(status.get("conditions")),
    )


def decode_pod(raw: object) -> Pod | None:
    """Return a v1 Pod as a :class:`.Pod`, or None for a finished pod, which holds no resources.

    :param raw: v1 Pod as JSON, or the manifest of a pod that does not exist yet; malformed parts are left out.
    """
    metadata, spec, status = _split_object(raw)
    if as_text(status.get("phase")) in _FINISHED:
        return None
    namespace = intern(as_text(metadata.get("namespace")))
    labels = intern_labels(as_text_map(metadata.get("labels")))
    node = intern(as_text(spec.get("nodeName"))) or None
    requests = compute_requests(spec, status if node else {})
    created = bool(as_text(metadata.get("uid")))
    return Pod(
        name=as_text(metadata.get("name")),
        namespace=namespace,
        node=node,
        requests=_drop_device_classes(requests),
        labels=labels,
        terminating=bool(as_text(metadata.get("deletionTimestamp"))),
        priority=as_int(spec.get("priority")) or 0,
        preempts=_may_preempt(spec),
        created=intern(as_text(metadata.get("creationTimestamp"))),
        constraints=(
            decode_bound_constraints(spec, namespace=namespace, labels=labels)
            if node
            else decode_constraints(spec, namespace=namespace, labels=labels, requests=requests, created=created)
        ),
        nominated_node=intern(as_text(status.get("nominatedNodeName"))) or None,
        claims=(*_decode_claims(spec), *_list_ephemeral_claims(spec, pod=as_text(metadata.get("name")))),
    )


def decode_priority_class(raw: object) -> PriorityClass:
    """Return a PriorityClass (scheduling.k8s.io/v1), decoded from JSON."""
    whole, metadata = as_dict(raw), _split_object(raw)[0]
    return PriorityClass(
        name=as_text(metadata.get("name")),
        value=as_int(whole.get("value")) or 0,
        preempts=_may_preempt(whole),
        is_default=whole.get("globalDefault") is True,
    )


def apply_priority_class(pod: Pod, spec: Mapping[str, object], *, classes: Iterable[PriorityClass] | None) -> Pod:
    """Return a copy of a new pod with the priority and the preemption policy that the API server will set.

    The rules are those of the admission plugin Priority (plugin/pkg/admission/priority/admission.go). If several
    PriorityClasses have ``globalDefault``, the one with the lowest value counts.

    :param spec: the ``spec`` from which the pod was decoded.
    :param classes: the cluster's PriorityClasses. If they are unknown (None), the pod gets the priority in
        ``spec.priority``, or 0.
    """
    priority, preempts = _resolve_priority(spec, classes)
    return replace(pod, priority=priority, preempts=preempts)


def find_preempting_priority(spec: Mapping[str, object], *, classes: Iterable[PriorityClass] | None) -> int | None:
    """Return the priority with which a new pod preempts other pods, or None if it preempts none.

    The result is also None if the pod names a PriorityClass that is not in ``classes``, and has no ``spec.priority``.

    :param spec: ``spec`` of a v1 Pod; the function reads only the fields about priority and preemption.
    :param classes: the cluster's PriorityClasses; None if they are unknown.
    """
    priority, preempts = _resolve_priority(spec, classes)
    return priority if preempts else None


def find_new_priority(spec: Mapping[str, object], *, classes: Iterable[PriorityClass] | None) -> int | None:
    """Return the priority that the API server will give a new pod, or None if the priority is unknown.

    :param spec: ``spec`` of a v1 Pod; the function reads only the fields about priority.
    :param classes: the cluster's PriorityClasses; None if they are unknown.
    """
    found, own = _find_priority_class(spec, classes), as_int(spec.get("priority"))
    if found is not None or own is not None:
        return own if found is None else found.value
    return None if as_text(spec.get("priorityClassName")) or classes is None else 0


def _resolve_priority(spec: Mapping[str, object], classes: Iterable[PriorityClass] | None) -> tuple[int, bool | None]:
    """Return a new pod's priority (0 if unknown), and whether the pod may preempt other pods (None if unknown)."""
    found, own, preempts = _find_priority_class(spec, classes), as_int(spec.get("priority")), _may_preempt(spec)
    if found is not None:
        return found.value, preempts and found.preempts
    if as_text(spec.get("priorityClassName")) and own is None and preempts:
        return 0, None
    return own or 0, preempts


def _find_priority_class(spec: Mapping[str, object], classes: Iterable[PriorityClass] | None) -> PriorityClass | None:
    name = as_text(spec.get("priorityClassName"))
    known = sorted(classes or (), key=lambda each: each.value)
    return next((each for each in known if (each.name == name if name else each.is_default)), None)


def _may_preempt(raw: Mapping[str, object]) -> bool:
    return raw.get("preemptionPolicy") != "Never"


def decode_requests(spec: Mapping[str, object]) -> Mapping[str, int]:
    """Return a mapping from each resource that a new pod requests to the requested amount.

    The amounts have the units of :attr:`.Node.allocatable`, such as millicores for ``cpu``. The result lacks resources
    that stand for a DRA device class.
    """
    return _drop_device_classes(compute_requests(spec, {}))


def _drop_device_classes(requests: dict[str, int]) -> Mapping[str, int]:
    """Return requests without resources named ``deviceclass.resource.kubernetes.io/…``, which request DRA devices.

    Nodes do not list these resources, so the requests would fit no node. ResourceClaims hold the devices instead:
    https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource
    """
    if any(name.startswith(_DEVICE_CLASS_PREFIX) for name in requests):
        requests = {name: number for name, number in requests.items() if not name.startswith(_DEVICE_CLASS_PREFIX)}
    return intern_amounts(requests)


def decode_resources(raw: object) -> dict[str, int]:
    """Return resource → amount of a v1 ResourceList, without malformed quantities.

    Amounts are whole numbers of the resource's base unit, such as bytes; amounts of ``cpu`` are in millicores.
    """
    return {name: round_up(name, millis) for name, millis in read_amounts(raw).items()}


def decode_tolerations(raw: object) -> tuple[Toleration, ...]:
    """Return v1 Tolerations, decoded from JSON, without adding those that the API server adds to new pods."""
    return tuple(
        Toleration(
            key=as_text(each.get("key")),
            operator=as_text(each.get("operator")) or "Equal",
            value=as_text(each.get("value")),
            effect=as_text(each.get("effect")),
        )
        for each in as_dicts(raw)
    )


def decode_taints(raw: object) -> tuple[Taint, ...]:
    """Return v1 Taints without those that have no key; nodes with equal taints share one tuple."""
    taints = tuple(_iter_taints(raw))
    return intern_value(taints, size=len(taints))


def _iter_taints(raw: object) -> Iterable[Taint]:
    for taint in as_dicts(raw):
        if key := as_text(taint.get("key")):
            yield Taint(key=key, effect=as_text(taint.get("effect")), value=as_text(taint.get("value")))


def _is_ready(conditions: object) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in as_dicts(conditions)
    )


def _split_object(raw: object) -> tuple[Mapping[str, object], Mapping[str, object], Mapping[str, object]]:
    whole_object = as_dict(raw)
    return as_dict(whole_object.get("metadata")), as_dict(whole_object.get("spec")), as_dict(whole_object.get("status"))
