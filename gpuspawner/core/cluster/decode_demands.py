"""What a pod demands of its node besides resources, from JSON as the API sends it. Total over any JSON.

A pod that does not exist yet counts with what the API server will add to it: ports of the host's network
(pkg/apis/core/v1/defaults.go), tolerations of a node that is not ready for a while (admission plugin
DefaultTolerationSeconds) and label keys merged into selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.cluster.decode_terms import UnreadableSelectorError, node_terms, pod_terms, spread_constraints
from gpuspawner.core.cluster.interning import labels as shared_labels
from gpuspawner.core.cluster.interning import shared
from gpuspawner.core.cluster.model import NO_DEMANDS, Demands, HostPort, NodeTerm, PodTerm, Toleration
from gpuspawner.core.rawjson import mapping, mappings, text, text_map, whole
from gpuspawner.core.text.language import later

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens here: it is what a host port without an address stands for
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Beginning of resource names that stand for a DRA device class."""
_WAITED_FOR = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EXCLUSIVE_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
"""Volumes that kube-scheduler keeps two pods from using at once (VolumeRestrictions)."""
_UNREADABLE = later("a rule about other pods that cannot be read")


def demands(
    spec: Mapping[str, object], *, namespace: str, labels: Mapping[str, str], requests: Iterable[str], created: bool
) -> Demands:
    """Return everything a pod that waits demands.

    :param spec: of a v1 Pod.
    :param requests: names of the resources it requests.
    :param created: the API server has it already; False for a manifest.
    """
    affinity = mapping(spec.get("affinity"))
    undecided = list(dict.fromkeys(_undecided(spec, requests)))
    try:
        near = pod_terms(affinity.get("podAffinity"), namespace=namespace, labels=labels, created=created)
        apart = pod_terms(affinity.get("podAntiAffinity"), namespace=namespace, labels=labels, created=created)
        spread = spread_constraints(spec.get("topologySpreadConstraints"), labels=labels)
    except UnreadableSelectorError:
        near, apart, spread = (), (), ()
        undecided.append(_UNREADABLE)
    tolerations = tuple(_tolerations(spec, created=created))
    found = Demands(
        node_selector=shared_labels(text_map(spec.get("nodeSelector"))),
        node_terms=_shared_terms(
            node_terms(mapping(affinity.get("nodeAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution"))
        ),
        tolerations=shared(tolerations, parts=len(tolerations)),
        affinity=near,
        anti_affinity=apart,
        spread=spread,
        host_ports=frozenset(_host_ports(spec)),
        gated=bool(mappings(spec.get("schedulingGates"))),
        claims=tuple(_claims(spec)),
        undecided=tuple(undecided),
        has_runtime_class=bool(text(spec.get("runtimeClassName"))),
    )
    return NO_DEMANDS if found == NO_DEMANDS else found


def demands_on_others(spec: Mapping[str, object], *, namespace: str, labels: Mapping[str, str]) -> Demands:
    """Return what of a bound pod's demands still keeps other pods away: required anti-affinity and host ports."""
    try:
        apart = pod_terms(
            mapping(spec.get("affinity")).get("podAntiAffinity"), namespace=namespace, labels=labels, created=True
        )
    except UnreadableSelectorError:
        apart = ()  # kube-scheduler does not count terms it cannot read either (PodInfo.Update)
    ports = frozenset(_host_ports(spec))
    return _demands_on_others(apart, ports) if apart or ports else NO_DEMANDS


def _shared_terms(found: tuple[NodeTerm, ...] | None) -> tuple[NodeTerm, ...] | None:
    """Return node affinity as one object for all replicas of a pod."""
    requirements = (each for term in found or () for each in (*term.expressions, *term.fields))
    return shared(found, parts=sum(1 + len(each.values) for each in requirements))


@lru_cache(maxsize=4096)
def _demands_on_others(anti_affinity: tuple[PodTerm, ...], host_ports: frozenset[HostPort]) -> Demands:
    """Return one object for all replicas of a pod."""
    return Demands(anti_affinity=anti_affinity, host_ports=host_ports)


def _tolerations(spec: Mapping[str, object], *, created: bool) -> Iterable[Toleration]:
    found = [
        Toleration(
            key=text(each.get("key")),
            operator=text(each.get("operator")) or "Equal",
            value=text(each.get("value")),
            effect=text(each.get("effect")),
        )
        for each in mappings(spec.get("tolerations"))
    ]
    yield from found
    for taint in () if created else _WAITED_FOR:
        if not any(each.key in ("", taint) and each.effect in ("", "NoExecute") for each in found):
            yield Toleration(key=taint, operator="Exists", effect="NoExecute")


def _host_ports(spec: Mapping[str, object]) -> Iterable[HostPort]:
    """Yield ports of the host that containers and sidecars take (scheduler/util/utils.go, ``GetHostPorts``)."""
    sidecars = (each for each in mappings(spec.get("initContainers")) if each.get("restartPolicy") == "Always")
    for container in (*mappings(spec.get("containers")), *sidecars):
        for port in mappings(container.get("ports")):
            number = whole(port.get("hostPort")) or 0
            if number == 0 and spec.get("hostNetwork") is True:
                number = whole(port.get("containerPort")) or 0
            if number > 0:
                yield HostPort(text(port.get("hostIP")) or _ANY_ADDRESS, text(port.get("protocol")) or "TCP", number)


def _claims(spec: Mapping[str, object]) -> Iterable[str]:
    for volume in mappings(spec.get("volumes")):
        if isinstance(claim := volume.get("persistentVolumeClaim"), dict):
            yield text(claim.get("claimName"))


def _undecided(spec: Mapping[str, object], requests: Iterable[str]) -> Iterable[str]:
    """Yield what kube-scheduler's other filters would look at, and with what nobody here knows of."""
    if mappings(spec.get("resourceClaims")) or any(name.startswith(DEVICE_CLASS) for name in requests):
        yield later("devices that are requested through a resource claim or a device class")
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        yield later("a group of pods that start only together")
    for volume in mappings(spec.get("volumes")):
        if isinstance(volume.get("ephemeral"), dict):
            yield later("a volume that is made together with the pod")
        if any(isinstance(volume.get(kind), dict) for kind in _EXCLUSIVE_DISKS):
            yield later("a disk that only one pod may use at a time")
    if _needs_declared_features(spec):
        yield later("something that not every node can do")


def _needs_declared_features(spec: Mapping[str, object]) -> bool:
    """Tell whether the pod runs only on nodes that declare a feature (NodeDeclaredFeatures, on by default in 1.36)."""
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        return True
    containers = (*mappings(spec.get("containers")), *mappings(spec.get("initContainers")))
    rules = (rule for container in containers for rule in mappings(container.get("restartPolicyRules")))
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)
