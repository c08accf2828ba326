"""Small clusters, pods and pools to reach verdicts on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gpuspawner.core.catalog.model import GPUType, ScaleUp
from gpuspawner.core.cluster.model import (
    MachineConstraints,
    Node,
    Pod,
    PodConstraints,
    ScalableNodePool,
    SelectorRequirement,
    Taint,
)
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.verdict import Verdict, predict_verdict
from gpuspawner.core.verdict.wording import format_verdict

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})
GROWING = replace(T4, scale_up=ScaleUp(max_nodes=2, gpus_per_node=4, minutes=6))
ON_T4 = PodConstraints(node_selector={PRODUCT: "T4"})


def node(name: str = "n", gpus: int = 4, **changes: Any) -> Node:
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10, GPU: gpus}
    return replace(Node(name=name, labels={PRODUCT: "T4"}, allocatable=has, capacity=has), **changes)


def pod(name: str = "mine", gpus: int = 1, on: str | None = None, **changes: Any) -> Pod:
    requests = {"cpu": 4000, "memory": 16 * GIB, GPU: gpus}
    return replace(Pod(name=name, namespace="s", node=on, requests=requests, constraints=ON_T4), **changes)


def inventory(*nodes: Node, pods: tuple[Pod, ...] = (), age_s: float | None = 1.0, **known: Any) -> Inventory:
    return Inventory(nodes=nodes, occupancy=Occupancy.build(nodes, pods), age_s=age_s, **known)


def judged(
    wanted: Pod,
    *nodes: Node,
    pods: tuple[Pod, ...] = (),
    gpu: GPUType | None = T4,
    new_nodes: bool = False,
    start_timeout_s: float | None = None,
    **known: Any,
) -> Verdict:
    """Return the verdict in a cluster to which only known node pools add nodes, unless ``new_nodes`` says otherwise."""
    return predict_verdict(
        wanted,
        inventory(*nodes, pods=pods, **known),
        gpu=gpu,
        new_nodes=new_nodes,
        start_timeout_s=start_timeout_s,
    )


def said(wanted: Pod, *nodes: Node, **options: Any) -> str:
    return format_verdict(judged(wanted, *nodes, **options))


FULL = (pod("a", 3, on="n"), pod("b", 1, on="n"))


def node_pool(
    *, limits: Any = None, used: Any = None, product: tuple[str, ...] = ("T4",), **more: Any
) -> ScalableNodePool:
    """Return what a NodePool may add whose machines are picked to fit."""
    left = {name: number - (used or {}).get(name, 0) for name, number in (limits or {}).items()}
    requirements = (SelectorRequirement(key=PRODUCT, operator="In", values=product),)
    facts = MachineConstraints(limits=limits or {}, remaining=left, requirements=requirements, **more)
    return ScalableNodePool(
        name="np", minutes=None, node_allocatable={}, max_new_nodes=None, labels={PRODUCT: product}, machines=facts
    )


pods = st.lists(
    st.builds(
        lambda gpus, cpu, on, gated: replace(
            pod("", gpus, on), requests={GPU: gpus, "cpu": cpu * 1000}, constraints=replace(ON_T4, is_gated=gated)
        ),
        st.integers(0, 4),
        st.integers(0, 64),
        st.sampled_from(["n0", "n1", "n2", None]),
        st.booleans(),
    ),
    max_size=6,
)
nodes = st.lists(
    st.builds(
        lambda gpus, cordoned, taint: {
            "unschedulable": cordoned,
            "taints": (Taint(key=taint, effect="NoSchedule"),) if taint else (),
            "allocatable": {"cpu": 32_000, "memory": 64 * GIB, "pods": 3, GPU: gpus},
        },
        st.integers(0, 4),
        st.booleans(),
        st.sampled_from(["", "", "team", "node.kubernetes.io/not-ready"]),
    ),
    max_size=3,
)


added = st.none() | st.lists(
    st.builds(
        lambda limit, used, product, is_clear: node_pool(
            limits=limit and {GPU: limit}, used={GPU: used}, product=product, is_reliable=is_clear
        ),
        st.none() | st.integers(1, 8),
        st.integers(0, 8),
        st.sampled_from([("T4",), ("L4",), ("L4", "T4")]),
        st.booleans(),
    ),
    max_size=2,
).map(tuple)
