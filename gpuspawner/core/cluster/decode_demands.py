"""What a pod demands of its node besides resources, from JSON as the API sends it. Total over any JSON.

A pod that does not exist yet counts with what the API server will add to it: ports of the host's network
(pkg/apis/core/v1/defaults.go), tolerations of a node that is not ready for a while (admission plugin
DefaultTolerationSeconds) and label keys merged into selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.cluster.decode_terms import (
    InvalidSelectorError,
    decode_node_terms,
    decode_pod_terms,
    decode_spread_constraints,
)
from gpuspawner.core.cluster.interning import intern_labels as shared_labels
from gpuspawner.core.cluster.interning import intern_value
from gpuspawner.core.cluster.model import (
    NO_CONSTRAINTS,
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodConstraints,
    Toleration,
)
from gpuspawner.core.rawjson import as_dict, as_dicts, as_int, as_text, as_text_map
from gpuspawner.core.text.language import gettext_lazy

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens here: it is what a host port without an address stands for
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Beginning of resource names that stand for a DRA device class."""
_DEFAULT_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EXCLUSIVE_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
"""Volumes that kube-scheduler keeps two pods from using at once (VolumeRestrictions)."""
_UNREADABLE_RULE = gettext_lazy("a rule about other pods that cannot be read")


def decode_constraints(
    spec: Mapping[str, object], *, namespace: str, labels: Mapping[str, str], requests: Iterable[str], created: bool
) -> PodConstraints:
    """Return everything a pod that waits demands.

    :param spec: of a v1 Pod.
    :param requests: names of the resources it requests.
    :param created: the API server has it already; False for a manifest.
    """
    affinity = as_dict(spec.get("affinity"))
    undecided = list(dict.fromkeys(_find_unsupported(spec, requests)))
    try:
        near = decode_pod_terms(affinity.get("podAffinity"), namespace=namespace, labels=labels, created=created)
        apart = decode_pod_terms(affinity.get("podAntiAffinity"), namespace=namespace, labels=labels, created=created)
        spread = decode_spread_constraints(spec.get("topologySpreadConstraints"), labels=labels)
    except InvalidSelectorError:
        near, apart, spread = (), (), ()
        undecided.append(_UNREADABLE_RULE)
    tolerations = tuple(_decode_tolerations(spec, created=created))
    found = PodConstraints(
        node_selector=shared_labels(as_text_map(spec.get("nodeSelector"))),
        node_terms=_intern_terms(
            decode_node_terms(
                as_dict(affinity.get("nodeAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution")
            )
        ),
        tolerations=intern_value(tolerations, size=len(tolerations)),
        affinity=near,
        anti_affinity=apart,
        spread_constraints=spread,
        host_ports=frozenset(_decode_host_ports(spec)),
        is_gated=bool(as_dicts(spec.get("schedulingGates"))),
        unread_claims=tuple(_decode_claims(spec)),
        undecided=tuple(undecided),
        has_runtime_class=bool(as_text(spec.get("runtimeClassName"))),
    )
    return NO_CONSTRAINTS if found == NO_CONSTRAINTS else found


def decode_bound_constraints(
    spec: Mapping[str, object], *, namespace: str, labels: Mapping[str, str]
) -> PodConstraints:
    """Return what of a bound pod's demands still keeps other pods away: required anti-affinity and host ports."""
    try:
        apart = decode_pod_terms(
            as_dict(spec.get("affinity")).get("podAntiAffinity"), namespace=namespace, labels=labels, created=True
        )
    except InvalidSelectorError:
        apart = ()  # kube-scheduler does not count terms it cannot read either (PodInfo.Update)
    ports = frozenset(_decode_host_ports(spec))
    return _intern_bound_constraints(apart, ports) if apart or ports else NO_CONSTRAINTS


def _intern_terms(found: tuple[NodeSelectorTerm, ...] | None) -> tuple[NodeSelectorTerm, ...] | None:
    """Return node affinity as one object for all replicas of a pod."""
    requirements = (each for term in found or () for each in (*term.expressions, *term.fields))
    return intern_value(found, size=sum(1 + len(each.values) for each in requirements))


@lru_cache(maxsize=4096)
def _intern_bound_constraints(
    anti_affinity: tuple[PodAffinityTerm, ...], host_ports: frozenset[HostPort]
) -> PodConstraints:
    """Return one object for all replicas of a pod."""
    return PodConstraints(anti_affinity=anti_affinity, host_ports=host_ports)


def _decode_tolerations(spec: Mapping[str, object], *, created: bool) -> Iterable[Toleration]:
    found = [
        Toleration(
            key=as_text(each.get("key")),
            operator=as_text(each.get("operator")) or "Equal",
            value=as_text(each.get("value")),
            effect=as_text(each.get("effect")),
        )
        for each in as_dicts(spec.get("tolerations"))
    ]
    yield from found
    for taint in () if created else _DEFAULT_TOLERATED_TAINTS:
        if not any(each.key in ("", taint) and each.effect in ("", "NoExecute") for each in found):
            yield Toleration(key=taint, operator="Exists", effect="NoExecute")


def _decode_host_ports(spec: Mapping[str, object]) -> Iterable[HostPort]:
    """Yield ports of the host that containers and sidecars take (scheduler/util/utils.go, ``GetHostPorts``)."""
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


def _find_unsupported(spec: Mapping[str, object], requests: Iterable[str]) -> Iterable[str]:
    """Yield what kube-scheduler's other filters would look at, and with what nobody here knows of."""
    if as_dicts(spec.get("resourceClaims")) or any(name.startswith(DEVICE_CLASS_PREFIX) for name in requests):
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


def _needs_declared_features(spec: Mapping[str, object]) -> bool:
    """Tell whether the pod runs only on nodes that declare a feature (NodeDeclaredFeatures, on by default in 1.36)."""
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        return True
    containers = (*as_dicts(spec.get("containers")), *as_dicts(spec.get("initContainers")))
    rules = (rule for container in containers for rule in as_dicts(container.get("restartPolicyRules")))
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)
