"""Small clusters of everything that filters look at, for property tests: few names, so that much of it meets."""

from __future__ import annotations

from hypothesis import strategies as st

from gpuspawner.core.cluster.model import (
    HostPort,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    SelectorRequirement,
    SpreadConstraint,
    Taint,
    Toleration,
)


def few(found: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """Return tuples that are mostly empty."""
    return st.integers(0, 4).flatmap(
        lambda number: st.lists(found, min_size=1, max_size=2).map(tuple) if number == 4 else st.just(())
    )


NAMESPACES = st.sampled_from(["m", "n"])
LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}])
ZONES = st.sampled_from([{}, {"zone": "x"}, {"zone": "y"}, {"zone": "y", "rack": "1"}])
KEYS = st.sampled_from(["zone", "rack", "host"])
NODE_TERMS = st.builds(
    NodeSelectorTerm,
    expressions=st.lists(
        st.builds(
            SelectorRequirement,
            key=KEYS,
            operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
            values=st.sampled_from([(), ("x",), ("x", "y"), ("1",)]),
        ),
        max_size=2,
    ).map(tuple),
)
SELECTORS = st.sampled_from(
    [None, (), *((SelectorRequirement(key="app", operator="In", values=(app,)),) for app in ("web", "db"))]
)
POD_TERMS = st.builds(
    PodAffinityTerm,
    topology_key=KEYS,
    selector=SELECTORS,
    namespaces=st.sampled_from([frozenset({"n"}), frozenset({"m", "n"})]),
    namespace_selector=st.sampled_from([None, None, (), (SelectorRequirement(key="team", operator="Exists"),)]),
)
SPREAD = st.builds(
    SpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=KEYS,
    selector=SELECTORS,
    min_domains=st.integers(1, 3),
    honor_affinity=st.booleans(),
    honor_taints=st.booleans(),
)
TAINTS = st.sampled_from(
    [(), (), (), (Taint(key="gpu", effect="NoSchedule"),), (Taint(key="gpu", effect="PreferNoSchedule"),)]
)
PORTS = st.sampled_from([*[frozenset[HostPort]()] * 5, frozenset({HostPort("0.0.0.0", "TCP", 80)})])
NODES = st.builds(
    lambda name, zone, *, allocatable, uncounted, **facts: Node(
        name=name,
        labels={**zone, "host": name},
        allocatable={resource: number for resource, number in allocatable.items() if resource not in uncounted},
        uncounted=uncounted,
        **facts,
    ),
    st.sampled_from("abcde"),
    ZONES,
    taints=TAINTS,
    unschedulable=st.sampled_from([*[False] * 6, True]),
    allocatable=st.fixed_dictionaries({"cpu": st.integers(2, 12), "gpu": st.integers(0, 8), "pods": st.integers(1, 6)}),
    uncounted=st.sampled_from([*[frozenset[str]()] * 5, frozenset({"gpu"})]),
)
REQUESTS = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 4))
OTHERS = st.builds(
    Pod,
    name=st.sampled_from("pqrst"),
    namespace=NAMESPACES,
    node=st.sampled_from(["a", "b", "c", "unknown", None, None]),
    nominated_node=st.sampled_from(["a", "b", None]),
    priority=st.integers(0, 1),
    requests=REQUESTS,
    labels=LABELS,
    terminating=st.booleans(),
    constraints=st.builds(PodConstraints, anti_affinity=few(POD_TERMS), host_ports=PORTS),
)

ASKING = st.builds(
    Pod,
    name=st.just("asking"),
    namespace=NAMESPACES,
    node=st.none(),
    priority=st.integers(0, 1),
    requests=REQUESTS,
    labels=LABELS,
    constraints=st.builds(
        PodConstraints,
        node_selector=st.sampled_from([{}, {}, {"zone": "y"}]),
        node_terms=few(NODE_TERMS).map(lambda terms: terms or None) | st.sampled_from([None, None, ()]),
        volume_terms=few(st.lists(NODE_TERMS, min_size=1, max_size=2).map(tuple)),
        tolerations=st.sampled_from([(), (Toleration(operator="Exists"),)]),
        affinity=few(POD_TERMS),
        anti_affinity=few(POD_TERMS),
        spread_constraints=few(SPREAD),
        host_ports=PORTS,
        is_gated=st.sampled_from([*[False] * 9, True]),
        undecided=st.sampled_from([*[()] * 6, ("a claim",)]),
    ),
)
