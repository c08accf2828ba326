"""The cost of each subject at one size of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.control_plane import ControlPlane
from bench.scale.asking import Answer, Subject, SubjectError
from bench.scale.churn import churning
from bench.scale.populate import Size

ANSWER_S = 120.0
PEER_ANSWER_S = 180.0
REST_S = 10
"""How long KubeSpawner's reflector watches before it reads everything again (its ``timeout_seconds``)."""
REQUESTS = 3
READS_IN_WINDOW = 2
LONGEST_WINDOW_S = 60
"""A peer is watched long enough to read everything anew a few times, as it does again and again, and no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long and how often is measured.

    :param window_s: of following the cluster; half as long where nothing changes.
    """

    window_s: int = 16
    renders: int = 400
    verdicts: int = 1200


@dataclass(slots=True)
class Costs:
    """Figures of one size.

    :param peers: by subject; one that took too long or too much is missing.
    """

    size: Size
    ours: Answer
    peers: dict[str, Answer] = field(default_factory=dict)


def ours(plane: ControlPlane, size: Size, *, effort: Effort) -> Answer:
    """Return what our store, form and verdicts cost."""
    with Subject("nodes", plane) as subject:
        of_nodes = subject.ask("sync", timeout_s=ANSWER_S)["growth_bytes"]
    with Subject("store", plane) as subject:
        sync = subject.ask("sync", timeout_s=ANSWER_S)
        idle = subject.ask("window", effort.window_s // 2, timeout_s=ANSWER_S)
        with churning(plane, nodes=size.nodes) as churn:
            busy = subject.ask("window", effort.window_s, timeout_s=ANSWER_S)
        render = subject.ask("render", effort.renders, timeout_s=ANSWER_S)
        verdict = subject.ask("verdict", effort.verdicts, timeout_s=ANSWER_S)
    return {
        "nodes": sync["nodes"],
        "pods": sync["pods"],
        "sync_s": sync["took_s"],
        "sync_cpu_s": sync["cpu_s"],
        "sync_stall_ms": sync["stall_ms"],
        "sync_stall_cpu_ms": sync["stall_cpu_ms"],
        "memory_mb": sync["growth_bytes"] / 1e6,
        "memory_per_node_bytes": of_nodes / size.nodes,
        "memory_per_pod_bytes": (sync["growth_bytes"] - of_nodes) / size.pods,
        "cpu_idle_percent": idle["cpu_percent"],
        "cpu_at_100_events_percent": busy["cpu_percent"],
        "events_per_s": churn.events_per_s,
        "busy_stall_ms": busy["stall_ms"],
        **{f"render_{name}": value for name, value in render.items()},
        **{f"verdict_{name}": value for name, value in verdict.items()},
    }


def peers(plane: ControlPlane, size: Size, *, effort: Effort) -> dict[str, Answer]:
    """Return what the others cost; one that fails is left out, and why is printed."""
    found: dict[str, Answer] = {}
    measures: dict[str, Callable[[], Answer]] = {
        "lister": lambda: _lister(plane),
        "reflector": lambda: _reflector(plane, size, effort=effort),
    }
    for name, measure in measures.items():
        try:
            found[name] = measure()
        except SubjectError as error:
            print(f"scale: {size}: {error}", flush=True)
    return found


def _lister(plane: ControlPlane) -> Answer:
    with Subject("lister", plane) as subject:
        return subject.ask("request", REQUESTS, timeout_s=PEER_ANSWER_S)


def _reflector(plane: ControlPlane, size: Size, *, effort: Effort) -> Answer:
    with Subject("reflector", plane) as subject:
        sync = subject.ask("sync", timeout_s=PEER_ANSWER_S)
        window_s = min(LONGEST_WINDOW_S, max(effort.window_s, round(READS_IN_WINDOW * (sync["took_s"] + REST_S))))
        idle = subject.ask("window", window_s, timeout_s=PEER_ANSWER_S + window_s)
        with churning(plane, nodes=size.nodes):
            busy = subject.ask("window", window_s, timeout_s=PEER_ANSWER_S + window_s)
    return {
        "pods": sync["pods"],
        "sync_s": sync["took_s"],
        "sync_stall_ms": sync["stall_ms"],
        "memory_mb": sync["growth_bytes"] / 1e6,
        "peak_mb": busy["peak_mb"],
        "cpu_idle_percent": idle["cpu_percent"],
        "idle_stall_ms": idle["stall_ms"],
        "cpu_at_100_events_percent": busy["cpu_percent"],
        "busy_stall_ms": busy["stall_ms"],
        "window_s": window_s,
    }
