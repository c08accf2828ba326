"""Random rules about other pods: required affinity and anti-affinity, topology spread, host ports."""

from __future__ import annotations

from typing import Any

from bench.fit.draw import Draw
from bench.fit.labels import label_selector
from bench.fit.vocabulary import (
    ANY_ADDRESS,
    HOST_ADDRESSES,
    NAMESPACES,
    POD_LABELS,
    PORT_WEIGHTS,
    PROTOCOLS,
    TOPOLOGY_KEYS,
)

Rule = dict[str, Any]
Port = tuple[str, str, int]
"""Address, protocol and number of a host port."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(draw: Draw, own: dict[str, str]) -> Rule:
    """Return ``podAffinity`` or ``podAntiAffinity`` as their values are written; ``own`` are the pod's labels."""
    rules: Rule = {REQUIRED: [_term(draw, own) for _ in range(draw.weighted({1: 5, 2: 1}))]}
    if draw.chance(10):
        rules[PREFERRED] = [{"weight": 1, "podAffinityTerm": _term(draw, own)}]
    return rules


def _term(draw: Draw, own: dict[str, str]) -> Rule:
    selector = label_selector(draw, own)
    term: Rule = {"topologyKey": draw.weighted(TOPOLOGY_KEYS)}
    if selector is not None:
        term["labelSelector"] = selector
    if draw.chance(25):
        term["namespaces"] = draw.some(list(NAMESPACES), most=2)
    elif draw.chance(15):
        term["namespaceSelector"] = {}
    elif draw.chance(6):
        # The one label that every namespace has, so that no look at the namespaces is needed.
        name: Rule = {"key": "kubernetes.io/metadata.name", "operator": draw.one(("In", "NotIn", "Exists"))}
        if name["operator"] != "Exists":
            name["values"] = draw.some(list(NAMESPACES), most=2)
        term["namespaceSelector"] = {"matchExpressions": [name]}
    if draw.chance(0.5):
        term["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    if selector is not None and draw.chance(12) and (keys := _unused(selector)):
        term[draw.one(("matchLabelKeys", "mismatchLabelKeys"))] = draw.some(keys, most=2)
    return term


def _unused(selector: Rule) -> list[str]:
    """Return the label keys that a selector doesn't name: the API server lets a rule name each only once."""
    named = {*selector.get("matchLabels", {}), *(entry["key"] for entry in selector.get("matchExpressions", ()))}
    return [key for key in POD_LABELS if key not in named]


def spread(draw: Draw, own: dict[str, str]) -> list[Rule]:
    """Return ``topologySpreadConstraints``, some of them mere preferences."""
    found = {}
    for _ in range(draw.weighted({1: 4, 2: 1})):
        constraint = _constraint(draw, own)
        # A key and what to do without it come together at most once.
        found[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    return list(found.values())


def _constraint(draw: Draw, own: dict[str, str]) -> Rule:
    hard = not draw.chance(10)
    selector = label_selector(draw, own)
    constraint: Rule = {
        "maxSkew": draw.weighted({1: 6, 2: 2, 3: 1}),
        "topologyKey": draw.weighted(TOPOLOGY_KEYS),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    if selector is not None:
        constraint["labelSelector"] = selector
        if draw.chance(15) and (keys := _unused(selector)):
            constraint["matchLabelKeys"] = draw.some(keys, most=2)
    if hard and draw.chance(20):
        constraint["minDomains"] = draw.number(1, 4)
    if draw.chance(35):
        constraint["nodeAffinityPolicy"] = draw.one(("Honor", "Ignore"))
    if draw.chance(45):
        constraint["nodeTaintsPolicy"] = draw.one(("Honor", "Ignore"))
    return constraint


def take_host_ports(draw: Draw, spec: Rule) -> None:
    """Let a container of the pod listen on the node's own address."""
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    if draw.chance(30):
        # Every port is then the node's: the API server fills in hostPort.
        spec["hostNetwork"] = True
        draw.one(containers)["ports"] = [_port(draw, {"containerPort": draw.weighted(PORT_WEIGHTS)})]
        return
    container = draw.one(containers)
    wanted = {draw.weighted(PORT_WEIGHTS) for _ in range(draw.weighted({1: 4, 2: 1}))}
    container["ports"] = [_port(draw, {"containerPort": 80, "hostPort": port}) for port in sorted(wanted)]
    for port in container["ports"]:
        if address := draw.one(HOST_ADDRESSES):
            port["hostIP"] = address


def leave_taken_ports(spec: Rule, taken: set[Port]) -> None:
    """Drop those ports of a running pod that another pod on its node has, and add the others to ``taken``.

    kubelet rejects the second of two pods with one host port. For two such pods that the API server has nevertheless,
    kube-scheduler frees the port as soon as one of them goes, because it does not count the pods that use a port
    (``updateUsedPorts`` of ``pkg/scheduler/framework/types.go``).

    :param taken: the host ports of the node's other pods.
    """
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        if "ports" in container:
            host_ports = [(_host_port(port, spec), port) for port in container["ports"]]
            free = [(own, port) for own, port in host_ports if not any(_is_conflict(own, other) for other in taken)]
            taken.update(own for own, _ in free)
            container["ports"] = [port for _, port in free]


def _host_port(port: Rule, spec: Rule) -> Port:
    number = port["containerPort"] if spec.get("hostNetwork") else port["hostPort"]
    return port.get("hostIP", ANY_ADDRESS), port.get("protocol", "TCP"), number


def _is_conflict(port: Port, other: Port) -> bool:
    return port[1:] == other[1:] and (port[0] == other[0] or ANY_ADDRESS in (port[0], other[0]))


def _port(draw: Draw, port: Rule) -> Rule:
    protocol = draw.one(PROTOCOLS)
    return {**port, "protocol": protocol} if protocol else port
