"""Random pods: those that are there, and those to decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.fit.amounts import GIB, Amounts, written
from bench.fit.containers import IMAGE, compose
from bench.fit.draw import Draw
from bench.fit.labels import pod_labels
from bench.fit.peers import affinity, spread, take_host_ports
from bench.fit.places import node_affinity, node_selector, tolerations
from bench.fit.scene import Company, Manifest, Scene
from bench.fit.vocabulary import DELAYED, DEVICE, NAMESPACES, PLACED_CLASSES

_FOCUS = {"none": 10, "spread": 4, "affinity": 1, "anti-affinity": 2, "ports": 2, "places": 1, "volumes": 1}
_PLAIN = ("cpu", "memory", "ephemeral-storage")


def draw_company(draw: Draw) -> Company:
    """Return what many pods will have in common."""
    return Company(namespace=draw.one(list(NAMESPACES)), labels=pod_labels(draw, least=1))


def draw_running(draw: Draw, name: str, *, company: Company, node: str, total: Amounts) -> Manifest:
    """Return a pod on that node which holds ``total``, sometimes with rules that keep others away."""
    metadata = _metadata(draw, name, company=company)
    labels = metadata["labels"]
    spec: dict[str, Any] = {**compose(draw, total), "nodeName": node}
    _keep_others_away(draw, spec, labels=labels)
    if draw.chance(3):
        spec.setdefault("affinity", {})["podAffinity"] = affinity(draw, labels)
    return _pod(metadata, spec)


def _keep_others_away(draw: Draw, spec: dict[str, Any], *, labels: dict[str, str]) -> None:
    if draw.chance(20):
        spec["affinity"] = {"podAntiAffinity": affinity(draw, labels)}
    if draw.chance(20):
        take_host_ports(draw, spec)


def draw_resize(draw: Draw, pod: Manifest, *, total: Amounts) -> tuple[Manifest, Amounts]:
    """Return the status of a pod of one container that is being resized, and what it holds until that is done.

    The larger of old and new counts, unless the node has no way to give the new.
    """
    old = {name: amount * draw.number(0, 20) // 10 for name, amount in total.items() if name in ("cpu", "memory")}
    texts = written(draw, old)
    container = {"name": pod["spec"]["containers"][0]["name"], "resources": {"requests": texts}}
    status: Manifest = {"containerStatuses": [{**container, "allocatedResources": texts}]}
    if draw.chance(30):
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
        return status, {**total, **old}
    return status, {name: max(amount, old.get(name, 0)) for name, amount in total.items()}


def has_one_container(pod: Manifest) -> bool:
    """Say whether a pod's only container asks for all that the pod asks for."""
    spec = pod["spec"]
    return len(spec["containers"]) == 1 and not {"initContainers", "resources", "overhead"} & spec.keys()


def draw_waiting(draw: Draw, name: str, *, company: Company) -> Manifest:
    """Return a pod that another scheduler will place: it holds nothing yet, whatever it asks for."""
    spec = {**compose(draw, {"cpu": 4_000, "memory": 8 * GIB}), "schedulerName": "another"}
    return _pod(_metadata(draw, name, company=company), spec)


def draw_nominated(draw: Draw, name: str, *, company: Company, total: Amounts) -> Manifest:
    """Return a pod that stays in the queue, because no node is what it wants.

    Once it is nominated for a node, the scheduler keeps its place there, as it does while displaced pods leave.
    """
    metadata = _metadata(draw, name, company=company, percent=75)
    spec = {**compose(draw, total), "nodeSelector": {"example.com/absent": "yes"}}
    _keep_others_away(draw, spec, labels=metadata["labels"])
    return _pod(metadata, spec)


def draw_pod(draw: Draw, name: str, *, scene: Scene) -> Manifest:
    """Return a pod to decide in this scene, with few enough rules that about half of such pods fit.

    Half of the pods have mainly rules of one kind, so that nothing else decides.
    """
    focus = draw.weighted(_FOCUS)

    def has(rule: str, percent: int) -> bool:
        return focus == rule or draw.chance(percent if focus == "none" else percent // 5)

    metadata = _metadata(draw, name, company=scene.company, percent=50 if focus == "none" else 75)
    labels = metadata["labels"]
    spec = compose(draw, _total(draw, scene.room, modest=focus != "none"))
    if has("spread", 22):
        spec["topologySpreadConstraints"] = spread(draw, labels)
    # Which nodes a pod may use decides what it has to be spread over.
    if draw.chance(40) if focus == "spread" else has("places", 16):
        spec["nodeSelector"] = node_selector(draw, scene.nodes)
    if rules := _affinity(draw, scene.nodes, labels=labels, has=has):
        spec["affinity"] = rules
    if has("ports", 14):
        take_host_ports(draw, spec)
    if has("volumes", 40) and (volumes := _volumes(draw, scene, namespace=metadata["namespace"])):
        spec["volumes"] = volumes
    if draw.chance(60 if any("taints" in node["spec"] for node in scene.nodes) else 10):
        spec["tolerations"] = tolerations(draw, scene.nodes)
    if "runtimeClassName" not in spec and "example.com/rack" not in spec.get("nodeSelector", {}) and draw.chance(8):
        spec["runtimeClassName"] = draw.one(list(PLACED_CLASSES))
    if draw.chance(1):
        spec["schedulingGates"] = [{"name": "example.com/quota"}]
    _add_what_is_not_decided(draw, spec)
    return _pod(metadata, spec)


def _metadata(draw: Draw, name: str, *, company: Company, percent: int = 50) -> Manifest:
    """Return a pod's metadata, in so many of a hundred cases with what the others have in common."""
    if draw.chance(percent):
        return {"name": name, "namespace": company.namespace, "labels": dict(company.labels)}
    return {"name": name, "namespace": draw.one(list(NAMESPACES)), "labels": pod_labels(draw)}


def _pod(metadata: Manifest, spec: dict[str, Any]) -> Manifest:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _affinity(
    draw: Draw, nodes: Sequence[Manifest], *, labels: dict[str, str], has: Callable[[str, int], bool]
) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    if has("places", 25):
        rules["nodeAffinity"] = node_affinity(draw, nodes)
    if has("affinity", 18):
        rules["podAffinity"] = affinity(draw, labels)
    if has("anti-affinity", 18):
        rules["podAntiAffinity"] = affinity(draw, labels)
    return rules


def _total(draw: Draw, room: Mapping[str, Amounts], *, modest: bool) -> Amounts:
    """Return what the pod asks for: little, or often just what some node has left, or one unit more."""
    left = {resource: max(0, amount) for resource, amount in draw.one(list(room.values())).items()}
    how = (
        "small"
        if modest
        else draw.weighted({"small": 6, "share": 5, "exactly": 4, "one more": 3, "much": 1, "nothing": 1})
    )
    if how == "nothing":
        return {}
    asked = [resource for resource in _PLAIN if draw.chance(25 if resource == "ephemeral-storage" else 85)]
    total = {resource: _little(draw, left.get(resource, 0)) for resource in asked}
    devices = [resource for resource in left if resource not in _PLAIN]
    if draw.chance(5):
        devices.append("example.com/absent")
    if devices and draw.chance(55):
        device = draw.one(devices)
        total[device] = draw.weighted({1: 5, 2: 2, 0: 1})
    if total and how != "small":
        resource = draw.one(list(total))
        most = left.get(resource, 0)
        changes = {"share": draw.number(0, most), "exactly": most, "one more": most + 1, "much": 4 * most + 1}
        total[resource] = changes[how]
    return total


def _little(draw: Draw, left: int) -> int:
    return left * draw.number(0, 30) // 100


def _volumes(draw: Draw, scene: Scene, *, namespace: str) -> list[Manifest]:
    claims = [claim["metadata"]["name"] for claim in scene.claims if claim["metadata"]["namespace"] == namespace]
    volumes = [_mounted(number, claim) for number, claim in enumerate(draw.some(claims, most=2) if claims else [])]
    return [*volumes, {"name": "scratch", "emptyDir": {}}] if draw.chance(30) else volumes


def _mounted(number: int, claim: str) -> Manifest:
    return {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}


def _add_what_is_not_decided(draw: Draw, spec: dict[str, Any]) -> None:
    """Add constraints that the fit leaves to the scheduler, to a few of a thousand pods."""
    if draw.chance(0.15):
        spec["resourceClaims"] = [{"name": "device", "resourceClaimName": DEVICE}]
    if draw.chance(0.15):
        spec.setdefault("volumes", []).append(_mounted(9, DELAYED))


def witness(name: str, *, node: str) -> Manifest:
    """Return a pod that can only run on one node, tolerates everything and asks for nothing."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": IMAGE}],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
        },
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "hub"}, "spec": spec}
