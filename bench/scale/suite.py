"""A cluster that grows step by step in one control plane, measured at each step: ours, and what others do beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.control_plane import control_plane
from bench.result import Result
from bench.scale import populate
from bench.scale.chart import Panel, draw
from bench.scale.measure import Costs, Effort, ours, peers
from bench.scale.populate import Size

NODES, PODS = 5000, 100_000
STEPS = (100, 300, 1000, 3000, 5000)
CHART = Path(__file__).resolve().parents[2] / "docs" / "images" / "scale.svg"

MOST_BYTES = 20 * 10**9
"""Memory that may be taken of the machine in all."""
PEER_BYTES_A_POD = 100_000
"""Peak memory of KubeSpawner's reflector for a pod, as observed; sizes beyond the available memory are not tried."""

BUDGETS = {
    "sync_stall_ms": 50,
    "memory_per_pod_bytes": 1536,
    "memory_per_node_bytes": 6144,
    "cpu_at_100_events_percent": 5,
    "render_p99_ms": 10,
    "verdict_p99_ms": 2,
}


def measure(*, nodes: int = NODES, pods: int = PODS) -> Result:
    """Grow a cluster to ``nodes`` and ``pods``, or as many as fit, and return what it cost at its largest.

    A cluster of the size that the budgets are about also draws the chart for the documentation.
    """
    began = time.monotonic()
    costs = list(_grown(list(sizes(nodes, pods))))
    if (nodes, pods) == (NODES, PODS):
        CHART.write_text(draw(_panels(costs), sizes=[each.size.nodes for each in costs]), encoding="utf-8")
        print(f"scale: drew {CHART.name}")
    largest = costs[-1]
    return Result(
        name="scale",
        values={
            **_rounded(largest.ours),
            **_of_peers(costs),
            "took_s": time.monotonic() - began,
        },
        budgets=BUDGETS,
        details={
            "asked_for": {"nodes": nodes, "pods": pods},
            "is_scaled_down": largest.size != Size(nodes, pods),
            "sizes": [asdict(each) for each in costs],
        },
    )


def sizes(nodes: int, pods: int) -> Iterator[Size]:
    """Yield the steps up to a size, all with as many pods for each node."""
    for step in STEPS:
        if step < nodes:
            yield Size(step, pods * step // nodes)
    yield Size(nodes, pods)


def _grown(steps: Sequence[Size]) -> Iterator[Costs]:
    """Yield what each size costs, and end where the next one would not fit into the machine."""
    effort, reached = Effort(), Size(0, 0)
    free_before = available_bytes()
    with control_plane(scheduler=False) as plane:
        populate.prepare(plane)
        for size in steps:
            taken = free_before - available_bytes()
            expected = taken * size.pods // reached.pods if reached.pods else 0
            if expected > min(MOST_BYTES, free_before):
                print(f"scale: {size} would take {expected / 1e9:.0f} GB, so {reached} is the largest", flush=True)
                return
            populate.grow(plane, reached, to=size)
            reached = size
            found = Costs(size=size, ours=ours(plane, size, effort=effort))
            print(f"scale: {size}: ours {_short(found.ours)}", flush=True)
            if PEER_BYTES_A_POD * size.pods < available_bytes():
                found.peers = peers(plane, size, effort=effort)
            else:
                print(f"scale: {size}: no memory for the others", flush=True)
            for name, answer in found.peers.items():
                print(f"scale: {size}: {name} {_short(answer)}", flush=True)
            yield found


def available_bytes() -> int:
    """Return the memory of the machine that programs could still have."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _short(answer: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in answer.items())


def _rounded(answer: dict[str, float]) -> dict[str, float]:
    """Return figures, whole ones as such."""
    return {name: int(value) if value == int(value) else value for name, value in answer.items()}


def _of_peers(costs: Sequence[Costs]) -> dict[str, float]:
    """Return what each of the others cost at the largest size that it could be measured at."""
    found: dict[str, float] = {}
    for name in ("lister", "reflector"):
        largest = next((each for each in reversed(costs) if name in each.peers), None)
        if largest is not None:
            found[f"{name}_at_nodes"] = largest.size.nodes
            found |= {f"{name}_{key}": value for key, value in _rounded(largest.peers[name]).items()}
    return found


def _panels(costs: Sequence[Costs]) -> list[Panel]:
    def line(name: str, key: str) -> list[float | None]:
        of_each = (each.ours if name == "ours" else each.peers.get(name, {}) for each in costs)
        return [found.get(key) for found in of_each]

    return [
        Panel(
            title="Longest stall of the event loop",
            unit="ms",
            lines={
                "gpuspawner": line("ours", "sync_stall_ms"),
                "reflector": line("reflector", "idle_stall_ms"),
                "list per request": line("lister", "stall_ms"),
            },
        ),
        Panel(
            title="Processor, 100 changes a second",
            unit="% of a core",
            lines={
                "gpuspawner": line("ours", "cpu_at_100_events_percent"),
                "reflector": line("reflector", "cpu_at_100_events_percent"),
            },
        ),
        Panel(
            title="Memory that stays",
            unit="MB",
            lines={"gpuspawner": line("ours", "memory_mb"), "reflector": line("reflector", "memory_mb")},
        ),
        Panel(
            title="One form",
            unit="ms",
            lines={
                "gpuspawner": line("ours", "render_p99_ms"),
                "list per request": line("lister", "request_ms"),
            },
        ),
    ]
