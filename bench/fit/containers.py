"""Containers, sidecars, init containers, pod-level amounts and overhead that come to a given sum.

The sum is chosen first and then spread over one of the shapes that make it, so that a pod that asks for exactly what a
node has left, or for one unit more, can have any shape.
"""

from __future__ import annotations

from typing import Any

from bench.fit.amounts import MIB, Amounts, minus, part, plus, split, written
from bench.fit.draw import Draw
from bench.fit.vocabulary import RUNTIME_CLASSES

IMAGE = "registry.example/image:1"
SHAPES = {
    "single": 8,
    "several": 4,
    "sidecar": 3,
    "init": 3,
    "init-before-sidecar": 2,
    "sidecar-before-init": 3,
    "pod-level": 3,
    "pod-level-limits": 1,
    "overhead": 2,
}
_OVERHEAD: dict[str, Amounts] = {"kata": {"cpu": 250, "memory": 120 * MIB}, "light": {"memory": 64 * MIB}}
_POD_LEVEL = ("cpu", "memory")


def compose(draw: Draw, total: Amounts) -> dict[str, Any]:
    """Return the part of a pod's spec by which the scheduler reserves ``total`` for it.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    shape = draw.weighted(SHAPES)
    if shape.startswith("pod-level"):
        return _pod_level(draw, total, with_requests=shape == "pod-level")
    if shape == "overhead":
        return _with_overhead(draw, total)
    if shape == "single":
        return _spec(draw, [total])
    if shape == "several":
        return _spec(draw, split(draw, total, parts=draw.number(2, 3)))
    if shape == "init":
        return _spec(draw, [part(draw, total)], init=[_run_once(draw, total), _run_once(draw, part(draw, total))])
    kept = part(draw, total)
    if shape == "sidecar":
        return _spec(draw, [minus(total, kept)], init=[_sidecar(draw, kept)])
    less = part(draw, minus(total, kept))
    if shape == "init-before-sidecar":
        return _spec(draw, [less], init=[_run_once(draw, total), _sidecar(draw, kept)])
    return _spec(draw, [less], init=[_sidecar(draw, kept), _run_once(draw, minus(total, kept))])


def _spec(draw: Draw, mains: list[Amounts], *, init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [_container(f"c{number}", _resources(draw, amounts)) for number, amounts in enumerate(mains)]
    }
    if init:
        spec["initContainers"] = [{**container, "name": f"i{number}"} for number, container in enumerate(init)]
    return spec


def _pod_level(draw: Draw, total: Amounts, *, with_requests: bool) -> dict[str, Any]:
    """Return a spec whose amounts of CPU and memory stand on the pod itself (KEP-2837).

    Limits alone stand for requests where no container requests anything; else the containers' sum does.
    """
    own = {name: amount for name, amount in total.items() if name in _POD_LEVEL}
    rest = minus(total, dict.fromkeys(own, 0))
    for name in own:
        del rest[name]
    if with_requests:
        asked = [] if draw.chance(30) else [{"requests": written(draw, part(draw, own))}]
        spec = _spec(draw, [rest])
        spec["resources"] = {"requests": written(draw, own, rounded=True)}
        if draw.chance(50):
            spec["resources"]["limits"] = written(draw, plus(own, part(draw, own)), rounded=True)
    else:
        asked = [] if draw.chance(50) else [{"requests": written(draw, own)}]
        spec = _spec(draw, [rest])
        spec["resources"] = {"limits": written(draw, plus(own, part(draw, own)) if asked else own, rounded=True)}
    spec["containers"] += [_container("asking", resources) for resources in asked]
    return spec


def _with_overhead(draw: Draw, total: Amounts) -> dict[str, Any]:
    name = draw.one(list(RUNTIME_CLASSES))
    overhead = _OVERHEAD[name]
    if any(total.get(resource, 0) < amount for resource, amount in overhead.items()):
        return _spec(draw, [total])
    # The API server would fill in the overhead, and refuses another one than the class's.
    spec = _spec(draw, [minus(total, overhead)])
    return {**spec, "runtimeClassName": name, "overhead": dict(RUNTIME_CLASSES[name])}


def _sidecar(draw: Draw, amounts: Amounts) -> dict[str, Any]:
    return {**_container("", _resources(draw, amounts)), "restartPolicy": "Always"}


def _run_once(draw: Draw, amounts: Amounts) -> dict[str, Any]:
    return _container("", _resources(draw, amounts))


def _container(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": IMAGE}
    if resources:
        container["resources"] = resources
    return container


def _resources(draw: Draw, amounts: Amounts) -> dict[str, Any]:
    """Return requests, limits that stand for requests, or both; extended resources have equal ones."""
    requests: Amounts = {}
    limits: Amounts = {}
    for name, amount in amounts.items():
        if "/" in name:
            limits[name] = amount
            if draw.chance(50):
                requests[name] = amount
        elif draw.chance(20):
            limits[name] = amount
        else:
            requests[name] = amount
            if draw.chance(30):
                limits[name] = amount + draw.number(0, amount)
    found = {"requests": written(draw, requests), "limits": written(draw, limits, rounded=True)}
    return {kind: texts for kind, texts in found.items() if texts}
