"""The features of a case, read from its objects and not from the code that drew them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.fit.peers import REQUIRED
from bench.fit.scene import Case, Manifest
from bench.fit.vocabulary import LIMIT_RANGE

Spec = dict[str, Any]


def features(case: Case) -> set[str]:
    """Return the names in FEATURES of what occurs in a case."""
    return {name for name, occurs in FEATURES.items() if occurs(case)}


def _pod(test: Callable[[Spec], object]) -> Callable[[Case], bool]:
    return lambda case: bool(test(case.pod["spec"]))


def _any_node(test: Callable[[Manifest], object]) -> Callable[[Case], bool]:
    return lambda case: any(test(node) for node in case.scene.nodes)


def _any_running(test: Callable[[Spec], object]) -> Callable[[Case], bool]:
    return lambda case: any(test(pod["spec"]) for pod in case.scene.pods)


def _any_status(field: str) -> Callable[[Case], bool]:
    return lambda case: any(field in status for status in case.scene.statuses.values())


def _node_terms(spec: Spec) -> list[Spec]:
    terms: list[Spec] = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    return terms


def _node_operator(operator: str) -> Callable[[Case], bool]:
    def occurs(spec: Spec) -> bool:
        return any(
            each["operator"] == operator for term in _node_terms(spec) for each in term.get("matchExpressions", ())
        )

    return _pod(occurs)


def _pod_terms(spec: Spec) -> Iterator[Spec]:
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from spec.get("affinity", {}).get(kind, {}).get(REQUIRED, ())


def _some_term(test: Callable[[Spec], object]) -> Callable[[Case], bool]:
    return _pod(lambda spec: any(test(term) for term in _pod_terms(spec)))


def _some_spread(test: Callable[[Spec], object]) -> Callable[[Case], bool]:
    def occurs(spec: Spec) -> bool:
        constraints = spec.get("topologySpreadConstraints", ())
        return any(test(each) for each in constraints if each["whenUnsatisfiable"] == "DoNotSchedule")

    return _pod(occurs)


def _some_toleration(test: Callable[[Spec], object]) -> Callable[[Case], bool]:
    return _pod(lambda spec: any(test(each) for each in spec.get("tolerations", ())))


def _sidecars(spec: Spec) -> list[Spec]:
    return [each for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"]


def _plain_init(spec: Spec) -> bool:
    return len(_sidecars(spec)) < len(spec.get("initContainers", ()))


def _ports(spec: Spec) -> list[Spec]:
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    return [port for container in containers for port in container.get("ports", ())]


def _limits(spec: Spec) -> set[str]:
    return {name for each in spec["containers"] for name in each.get("resources", {}).get("limits", ())}


def _asks_nothing(spec: Spec) -> bool:
    return "resources" not in spec and not any("resources" in each for each in spec["containers"])


def _claims(spec: Spec) -> list[str]:
    return [
        each["persistentVolumeClaim"]["claimName"]
        for each in spec.get("volumes", ())
        if "persistentVolumeClaim" in each
    ]


def _disks(case: Case) -> set[str]:
    return {volume["metadata"]["name"] for volume in case.scene.volumes if "csi" in volume["spec"]}


def _effects(node: Manifest) -> set[str]:
    return {taint["effect"] for taint in node["spec"].get("taints", ())}


def _is_ready(node: Manifest) -> bool:
    return bool(node["status"]["conditions"][0]["status"] == "True")


def _selector_keys(selector: object) -> bool:
    return isinstance(selector, dict) and "matchExpressions" in selector


FEATURES: Mapping[str, Callable[[Case], bool]] = {
    "one node": lambda case: len(case.scene.nodes) == 1,
    "cordoned node": _any_node(lambda node: node["spec"].get("unschedulable")),
    "node not ready": _any_node(lambda node: not _is_ready(node)),
    "taint NoSchedule": _any_node(lambda node: "NoSchedule" in _effects(node)),
    "taint NoExecute": _any_node(lambda node: "NoExecute" in _effects(node)),
    "taint PreferNoSchedule": _any_node(lambda node: "PreferNoSchedule" in _effects(node)),
    "broken GPU": _any_node(lambda node: node["status"]["allocatable"] != node["status"]["capacity"]),
    "few places for pods": _any_node(lambda node: len(node["status"]["allocatable"].get("pods", "0")) == 1),
    "no places for pods": _any_node(lambda node: "pods" not in node["status"]["allocatable"]),
    "running pod": lambda case: bool(case.scene.pods),
    "leaving pod": lambda case: bool(case.scene.leaving),
    "finished pod": _any_status("phase"),
    "pod that is resized": _any_status("containerStatuses"),
    "nominated pod": _any_status("nominatedNodeName"),
    "pod of another scheduler": _any_running(lambda spec: "schedulerName" in spec),
    "running pod with anti-affinity": _any_running(lambda spec: "podAntiAffinity" in spec.get("affinity", {})),
    "running pod with host ports": _any_running(_ports),
    "running pod with sidecar": _any_running(_sidecars),
    "running pod with pod-level resources": _any_running(lambda spec: "resources" in spec),
    "nothing requested": _pod(_asks_nothing),
    "NVIDIA GPU": _pod(lambda spec: "nvidia.com/gpu" in _limits(spec)),
    "MIG slice": _pod(lambda spec: any(name.startswith("nvidia.com/mig-") for name in _limits(spec))),
    "AMD GPU": _pod(lambda spec: "amd.com/gpu" in _limits(spec)),
    "unknown resource": _pod(lambda spec: "example.com/absent" in _limits(spec)),
    "sidecar": _pod(_sidecars),
    "init container": _pod(_plain_init),
    "pod-level requests": _pod(lambda spec: "requests" in spec.get("resources", {})),
    "pod-level limits alone": _pod(lambda spec: "resources" in spec and "requests" not in spec["resources"]),
    "overhead": _pod(lambda spec: "overhead" in spec),
    "node selector": _pod(lambda spec: "nodeSelector" in spec),
    "several node terms": _pod(lambda spec: len(_node_terms(spec)) > 1),
    "empty node term": _pod(lambda spec: {} in _node_terms(spec)),
    "node term on the name": _pod(lambda spec: any("matchFields" in term for term in _node_terms(spec))),
    **{f"node operator {each}": _node_operator(each) for each in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")},
    "toleration of everything": _some_toleration(lambda each: "key" not in each),
    "toleration Exists": _some_toleration(lambda each: each.get("operator") == "Exists"),
    "toleration Equal": _some_toleration(lambda each: each.get("operator") == "Equal"),
    "toleration without operator": _some_toleration(lambda each: "operator" not in each),
    "toleration of all effects": _some_toleration(lambda each: "effect" not in each),
    "toleration Gt": _some_toleration(lambda each: each.get("operator") == "Gt"),
    "toleration Lt": _some_toleration(lambda each: each.get("operator") == "Lt"),
    "RuntimeClass with node selector": _pod(lambda spec: spec.get("runtimeClassName") == "rack"),
    "RuntimeClass with tolerations": _pod(lambda spec: spec.get("runtimeClassName") == "tolerant"),
    "LimitRange": lambda case: case.pod["metadata"]["namespace"] == LIMIT_RANGE["namespace"],
    "affinity": _pod(lambda spec: "podAffinity" in spec.get("affinity", {})),
    "anti-affinity": _pod(lambda spec: "podAntiAffinity" in spec.get("affinity", {})),
    "term with expressions": _some_term(lambda term: _selector_keys(term.get("labelSelector"))),
    "term for all pods": _some_term(lambda term: term.get("labelSelector") == {}),
    "term for no pods": _some_term(lambda term: "labelSelector" not in term),
    "term with namespaces": _some_term(lambda term: "namespaces" in term),
    "term for all namespaces": _some_term(lambda term: term.get("namespaceSelector") == {}),
    "term for namespaces by name": _some_term(lambda term: "matchExpressions" in term.get("namespaceSelector", ())),
    "term with matchLabelKeys": _some_term(lambda term: "matchLabelKeys" in term),
    "term with mismatchLabelKeys": _some_term(lambda term: "mismatchLabelKeys" in term),
    "spread": _some_spread(lambda each: True),
    "spread with minDomains": _some_spread(lambda each: "minDomains" in each),
    "spread with matchLabelKeys": _some_spread(lambda each: "matchLabelKeys" in each),
    "spread over all nodes": _some_spread(lambda each: each.get("nodeAffinityPolicy") == "Ignore"),
    "spread over tolerated nodes": _some_spread(lambda each: each.get("nodeTaintsPolicy") == "Honor"),
    "host port": _pod(lambda spec: any("hostPort" in port for port in _ports(spec))),
    "host port on one address": _pod(lambda spec: any("hostIP" in port for port in _ports(spec))),
    "host network": _pod(lambda spec: "hostNetwork" in spec),
    "volume": _pod(_claims),
    "volume with zone labels": lambda case: any(
        "labels" in volume["metadata"]
        for volume in case.scene.volumes
        if volume["metadata"]["name"] in _claims(case.pod["spec"])
    ),
    "disk of a CSI driver": lambda case: bool(_disks(case) & set(_claims(case.pod["spec"]))),
    "disk that a pod uses already": lambda case: any(
        _disks(case) & set(_claims(case.pod["spec"])) & set(_claims(pod["spec"])) for pod in case.scene.pods
    ),
    "limit of a CSI driver": lambda case: bool(case.scene.csi_nodes),
    "attached disk": lambda case: bool(case.scene.attachments),
    "placeholder": _any_running(lambda spec: spec.get("priorityClassName") == "placeholder"),
    "high priority": _pod(lambda spec: spec.get("priorityClassName") == "urgent"),
    "low priority": _pod(lambda spec: spec.get("priorityClassName") == "placeholder"),
    "preemption policy Never": _pod(lambda spec: spec.get("priorityClassName") == "patient"),
    "scheduling gate": _pod(lambda spec: "schedulingGates" in spec),
    "resource claim": _pod(lambda spec: "resourceClaims" in spec),
    "volume that waits for its pod": _pod(lambda spec: "delayed" in _claims(spec)),
    "term with a selector of namespaces": _some_term(lambda term: "matchLabels" in term.get("namespaceSelector", ())),
}
"""Name → whether it occurs."""
