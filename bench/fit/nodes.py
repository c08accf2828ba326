"""Random nodes."""

from __future__ import annotations

from bench.fit.amounts import GIB, Amounts, written
from bench.fit.draw import Draw
from bench.fit.scene import Manifest
from bench.fit.vocabulary import (
    ARCH,
    BETA_ZONE,
    GENERATION,
    GENERATIONS,
    HOSTNAME,
    KIND_WEIGHTS,
    KINDS,
    NOT_READY,
    NOT_READY_EVICTING,
    POOL,
    POOLS,
    PURPOSE,
    RACKS,
    REGION,
    TAINTS,
    UNREACHABLE_EVICTING,
    UNSCHEDULABLE,
    ZONE,
    ZONES,
)

_CPU = (2_000, 4_000, 7_910, 16_000)
_MEMORY = (4 * GIB, 16 * GIB, 15_800_000_000, 64 * GIB)
_STORAGE = (20 * GIB, 100 * GIB)
_PLACES = {"110": 20, "2": 2, "3": 2, "4": 2}


def draw_node(draw: Draw, name: str) -> tuple[Manifest, Amounts]:
    """Return a node and what it can give, apart from places for pods."""
    kind = KINDS[draw.weighted(KIND_WEIGHTS)]
    amounts: Amounts = {"cpu": draw.one(_CPU), "memory": draw.one(_MEMORY)}
    if draw.chance(70):
        amounts["ephemeral-storage"] = draw.one(_STORAGE)
    offers = {resource: int(count) for resource, count in kind["offers"].items()}
    working = {resource: _broken(draw, count) for resource, count in offers.items()}
    allocatable = written(draw, {**amounts, **working})
    if not draw.chance(1):
        allocatable["pods"] = draw.weighted(_PLACES)
    spec, conditions = _state(draw)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**_labels(draw, name), **kind["labels"]}},
        "spec": spec,
        "status": {
            "allocatable": allocatable,
            "capacity": {**allocatable, **written(draw, offers)},
            "conditions": conditions,
        },
    }
    return node, {**amounts, **working}


def _broken(draw: Draw, count: int) -> int:
    """Return how many of a node's GPUs work."""
    return draw.number(0, count) if draw.chance(10) else count


def _labels(draw: Draw, name: str) -> dict[str, str]:
    labels = {ARCH: "arm64" if draw.chance(15) else "amd64", "kubernetes.io/os": "linux"}
    if draw.chance(90):
        # The two differ where the kubelet's host name was overridden.
        labels[HOSTNAME] = f"host-{name}" if draw.chance(10) else name
    if draw.chance(85):
        labels[ZONE] = draw.one(ZONES)
        labels[REGION] = "region-1"
    elif draw.chance(20):
        labels[BETA_ZONE] = draw.one(ZONES)
    if draw.chance(60):
        labels[POOL] = draw.one(POOLS)
    if draw.chance(40):
        labels[PURPOSE] = draw.one(("user", "core"))
    if draw.chance(50):
        labels[GENERATION] = draw.one(GENERATIONS)
    if draw.chance(60):
        labels["example.com/rack"] = draw.one(RACKS)
    return labels


def _state(draw: Draw) -> tuple[Manifest, list[Manifest]]:
    """Return a node's spec and conditions: what the control plane writes for a cordon or a lost node, or half of that.

    The taint of a cordon comes a moment after it and goes a moment after it.
    """
    spec: Manifest = {}
    taints = [dict(taint) for taint in draw.some(TAINTS, most=2)] if draw.chance(25) else []
    ready = "True"
    if draw.chance(7):
        spec["unschedulable"] = True
        if draw.chance(70):
            taints.append({**UNSCHEDULABLE})
    elif draw.chance(1):
        taints.append({**UNSCHEDULABLE})
    if draw.chance(4):
        ready = draw.one(("False", "Unknown"))
        evicting = NOT_READY_EVICTING if ready == "False" else UNREACHABLE_EVICTING
        taints += draw.one(([NOT_READY, evicting], [NOT_READY], [evicting], []))
    if taints:
        # A key has at most one taint of each effect.
        spec["taints"] = list({(taint["key"], taint["effect"]): taint for taint in taints}.values())
    return spec, [{"type": "Ready", "status": ready, "reason": "Drawn"}]
