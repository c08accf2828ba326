from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalogue import GPUType, ScaleUp
from gpuspawner.core.demands import Demands
from gpuspawner.core.devices import Devices, NodeDevices
from gpuspawner.core.growth import Growth
from gpuspawner.core.inventory import Inventory, Node, Pod, Taint
from gpuspawner.core.machines import Machines
from gpuspawner.core.node_terms import NodeTerm, Requirement
from gpuspawner.core.occupancy import Occupancy
from gpuspawner.core.pod_terms import PodTerm
from gpuspawner.core.verdict import FRESH_S, Outcome, Verdict, starts_now, verdict
from gpuspawner.core.verdict_text import verdict_sentence

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})
GROWING = replace(T4, scale_up=ScaleUp(max_nodes=2, gpus_per_node=4, minutes=6))
ON_T4 = Demands(node_selector={PRODUCT: "T4"})


def node(name: str = "n", gpus: int = 4, **changes: Any) -> Node:
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10, GPU: gpus}
    return replace(Node(name=name, labels={PRODUCT: "T4"}, allocatable=has, capacity=has), **changes)


def pod(name: str = "mine", gpus: int = 1, on: str | None = None, **changes: Any) -> Pod:
    requests = {"cpu": 4000, "memory": 16 * GIB, GPU: gpus}
    return replace(Pod(name=name, namespace="s", node=on, requests=requests, demands=ON_T4), **changes)


def inventory(*nodes: Node, pods: tuple[Pod, ...] = (), age_s: float | None = 1.0, **known: Any) -> Inventory:
    return Inventory(nodes=nodes, occupancy=Occupancy.of(nodes, pods), age_s=age_s, **known)


def judged(wanted: Pod, *nodes: Node, pods: tuple[Pod, ...] = (), gpu: GPUType = T4, **known: Any) -> Verdict:
    return verdict(wanted, inventory(*nodes, pods=pods, **known), gpu=gpu)


def said(wanted: Pod, *nodes: Node, **options: Any) -> str:
    return verdict_sentence(judged(wanted, *nodes, **options))


FULL = (pod("a", 3, on="n"), pod("b", 1, on="n"))


def test_a_pod_that_fits_starts_now_with_places_left():
    assert judged(pod(), node(), node("m"), pods=FULL) == Verdict(outcome=Outcome.NOW, places=4, age_s=1.0)


def test_more_places_than_anybody_needs_are_not_counted():
    found = judged(pod(), node(gpus=200, allocatable={"cpu": 10**9, "memory": 2**60, "pods": 500, GPU: 200}))
    assert (found.outcome, found.places, found.places_exact) == (Outcome.NOW, 100, False)


def test_a_pod_waits_when_all_are_in_use():
    waiting = (pod("c"), pod("d", 4), pod("e", demands=Demands(gated=True)))
    assert judged(pod(), node(), pods=(*FULL, *waiting)) == Verdict(
        outcome=Outcome.WAITS, ahead=2, reason="All 4 are in use.", age_s=1.0
    )


def test_the_next_one_is_told_so():
    assert said(pod(), node(), pods=FULL) == "Waits: all 4 are in use, yours is next."


def test_a_new_node_may_be_added():
    assert judged(pod(), node(), pods=FULL, gpu=GROWING) == Verdict(
        outcome=Outcome.AFTER_SCALE_UP, pool="T4", minutes=6, ahead=0, reason="All 4 are in use.", age_s=1.0
    )


def test_the_first_node_may_be_added():
    found = judged(pod(), gpu=GROWING)
    assert (found.outcome, found.reason) == (Outcome.AFTER_SCALE_UP, "")


def test_a_pool_at_its_limit_does_not_grow():
    pods = (*FULL, pod("c", 4, on="m"))
    assert judged(pod(), node(), node("m"), pods=pods, gpu=GROWING).outcome is Outcome.WAITS


def test_a_new_node_goes_to_those_ahead_first():
    ahead = tuple(pod(str(number), 2) for number in range(2))
    assert judged(pod(), node(), pods=(*FULL, *ahead), gpu=GROWING).outcome is Outcome.WAITS
    assert judged(pod(), node(), pods=(*FULL, ahead[0]), gpu=GROWING).outcome is Outcome.AFTER_SCALE_UP


def test_new_nodes_may_all_be_spoken_for_while_there_is_none():
    ahead = tuple(pod(str(number), 4) for number in range(2))
    assert said(pod(), pods=ahead, gpu=GROWING) == (
        "Waits: all nodes that may be added are spoken for, 2 servers are ahead of yours."
    )


def test_the_quickest_pool_is_named():
    more = tuple(
        Growth(pool=name, minutes=minutes, shape={GPU: 4}, nodes_left=1)
        for name, minutes in (("slow", 9.0), ("quick", 3.0), ("unknown", None))
    )
    found = judged(pod(), node(), pods=FULL, gpu=GROWING, growths=more)
    assert (found.pool, found.minutes) == ("quick", 3.0)


class Asked(dict[str, int]):
    """Amounts that count how often somebody asks for one."""

    times = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.times += 1
        return super().get(key, default)


def test_those_ahead_are_gone_through_for_no_pool_after_the_first_with_room():
    waiting = tuple(pod(str(number)) for number in range(1000))
    later = Asked({GPU: 4})
    more = (
        Growth(pool="slow", minutes=9.0, shape=later, nodes_left=300),
        Growth(pool="quick", minutes=3.0, shape={GPU: 4}, nodes_left=300),
    )
    assert judged(pod(), pods=waiting, growths=more).pool == "quick"
    assert later.times < len(waiting)


def node_pool(
    *, sizes: Any = None, limits: Any = None, used: Any = None, product: tuple[str, ...] = ("T4",), **more: Any
) -> Growth:
    """Return what a NodePool may add whose machines are picked to fit."""
    left = {name: number - (used or {}).get(name, 0) for name, number in (limits or {}).items()}
    requirements = (Requirement(key=PRODUCT, operator="In", values=product),)
    facts = Machines(sizes=sizes or {}, limits=limits or {}, left=left, requirements=requirements, **more)
    return Growth(pool="np", minutes=None, shape={}, nodes_left=None, labels={PRODUCT: product}, machines=facts)


def test_a_pool_without_nodes_may_add_one_that_fits():
    found = judged(pod(), growths=(node_pool(),))
    assert found == Verdict(outcome=Outcome.AFTER_SCALE_UP, pool="np", is_sure=False, ahead=0, age_s=1.0)
    assert verdict_sentence(found) == "Starts after a new node is added, if one that is large enough can be had."


def test_a_pool_that_has_made_such_a_node_may_add_another():
    labels = {PRODUCT: "T4", "karpenter.sh/nodepool": "np", "node.kubernetes.io/instance-type": "g4dn.xlarge"}
    found = judged(pod(), node(labels=labels), pods=FULL, growths=(node_pool(),))
    assert (found.outcome, found.pool, found.is_sure) == (Outcome.AFTER_SCALE_UP, "np", True)
    assert verdict_sentence(found) == "Starts after a new node is added."


@pytest.mark.parametrize(("free", "outcome"), [(0, Outcome.WAITS), (1, Outcome.AFTER_SCALE_UP)])
def test_a_pool_at_its_limit_is_waited_for(free: int, outcome: Outcome):
    grown = node_pool(limits={GPU: 4 + free}, used={GPU: 4})
    assert judged(pod(), node(), pods=FULL, growths=(grown,)).outcome is outcome


def test_a_pool_whose_limit_others_use_up_is_no_reason_to_refuse():
    grown = node_pool(limits={"cpu": 64_000}, used={"cpu": 64_000})
    assert said(pod(), growths=(grown,)) == "Waits: no more nodes may be added right now, yours is next."


def test_what_a_pool_has_left_goes_to_those_ahead_first():
    ahead = tuple(pod(str(number), 2) for number in range(2))
    grown = node_pool(limits={GPU: 4})
    assert said(pod(), pods=ahead, growths=(grown,)) == (
        "Waits: all nodes that may be added are spoken for, 2 servers are ahead of yours."
    )


@pytest.mark.parametrize(
    ("wanted", "grown", "sentence"),
    [
        (pod(gpus=5), node_pool(sizes={GPU: (1, 4)}), "Can't start: no node has 5 × T4; the most on one node is 4."),
        (pod(), node_pool(limits={"cpu": 2000}), "Can't start: no node with a T4 has 4 CPUs; the largest has 2."),
        (pod(), node_pool(product=("L4",)), "Can't start: there is no T4 in the cluster."),
        (
            pod(),
            node_pool(taints=(Taint(key="team", effect="NoSchedule"),)),
            "Can't start: there is no T4 in the cluster.",
        ),
    ],
)
def test_what_no_pool_could_ever_add_never_starts(wanted: Pod, grown: Growth, sentence: str):
    assert said(wanted, growths=(grown,)) == sentence


def test_a_pool_of_which_too_little_is_known_leaves_it_open():
    grown = node_pool(is_clear=False)
    assert said(pod(), growths=(grown,)) == "Unknown: whether a new node would do for it cannot be told beforehand."


def test_where_nobody_could_read_what_may_be_added_nothing_is_impossible():
    found = judged(pod(gpus=5), node(), growths=None)
    assert (
        verdict_sentence(found) == "Unknown: no node has 5 × T4; the most on one node is 4; a new node may change that."
    )


def test_node_pools_that_nobody_could_read_may_add_what_the_admin_does_not_say():
    assert judged(pod(gpus=5), node(), gpu=GROWING, growths=None).outcome is Outcome.UNKNOWN


L4 = replace(T4, slug="l4", display_name="L4", match={PRODUCT: ("L4",)})


@pytest.mark.parametrize(
    ("other", "outcome"), [(L4, Outcome.UNKNOWN), (replace(L4, scale_up=GROWING.scale_up), Outcome.NEVER)]
)
def test_what_the_admin_says_of_one_of_several_types_is_not_all_there_is(other: GPUType, outcome: Outcome):
    either = replace(T4, slug="any", display_name="Any GPU", match={}, members=(other, GROWING))
    by_karpenter = node("other", labels={"karpenter.sh/nodepool": "x"})
    assert judged(pod(gpus=5), by_karpenter, gpu=either).outcome is outcome


def test_what_the_admin_says_of_the_time_holds_for_any_new_node_of_the_type():
    pods = (*FULL, pod("c", 4, on="m"))
    found = judged(pod(), node(), node("m"), pods=pods, gpu=GROWING, growths=(node_pool(),))
    assert (found.outcome, found.pool, found.minutes) == (Outcome.AFTER_SCALE_UP, "np", 6)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (pod(gpus=5), "Can't start: no node has 5 × T4; the most on one node is 4."),
        (
            replace(pod(), requests={GPU: 1, "cpu": 96_000}),
            "Can't start: no node with a T4 has 96 CPUs; the largest has 64.",
        ),
        (
            pod(demands=Demands(node_selector={"x": "y"})),
            "Can't start: no node with a T4 is one that servers may use here.",
        ),
    ],
)
def test_what_no_node_would_ever_take_never_starts(wanted: Pod, sentence: str):
    assert said(wanted, node()) == sentence


def test_a_type_that_is_gone_never_starts():
    assert said(pod()) == "Can't start: there is no T4 in the cluster."


@pytest.mark.parametrize("gpus", [4, 8])
def test_what_a_new_node_would_take_is_not_never(gpus: int):
    big = replace(GROWING, scale_up=ScaleUp(max_nodes=2, gpus_per_node=gpus, minutes=6))
    assert (judged(pod(gpus=8), node(), gpu=big).outcome is Outcome.NEVER) == (gpus == 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"unschedulable": True},
        {"taints": (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)},
        {"allocatable": {"cpu": 64_000, "memory": 256 * GIB, "pods": 10, GPU: 0}},
    ],
)
def test_what_is_out_of_service_may_come_back(changes: dict[str, Any]):
    assert judged(pod(), node(**changes)).outcome is Outcome.WAITS


def test_a_node_reserved_for_others_does_not_come_back():
    assert said(pod(), node(taints=(Taint(key="team", effect="NoSchedule"),))) == (
        "Can't start: every node with a T4 is reserved for others."
    )


def test_without_nodes_all_is_unknown():
    found = verdict(pod(), Inventory(reason="The hub may not list nodes."), gpu=T4)
    assert verdict_sentence(found) == "Unknown: the hub may not list nodes."
    assert verdict(pod(), Inventory(), gpu=T4).reason == "The nodes of the cluster cannot be read."


@pytest.mark.parametrize(("gpus", "outcome"), [(1, Outcome.UNKNOWN), (5, Outcome.NEVER)])
def test_without_pods_only_never_can_be_told(gpus: int, outcome: Outcome):
    assert verdict(pod(gpus=gpus), Inventory(nodes=(node(),), age_s=1.0), gpu=T4).outcome is outcome


@pytest.mark.parametrize("age_s", [FRESH_S + 1, None])
@pytest.mark.parametrize(("gpus", "outcome"), [(1, Outcome.UNKNOWN), (5, Outcome.NEVER)])
def test_what_is_old_is_not_relied_on_but_for_never(age_s: float | None, gpus: int, outcome: Outcome):
    found = verdict(pod(gpus=gpus), inventory(node(), age_s=age_s), gpu=T4)
    assert (found.outcome, found.age_s) == (outcome, age_s)


def test_what_is_not_decided_is_unknown_and_never_now():
    wanted = pod(demands=replace(ON_T4, undecided=("a resource claim",)))
    assert said(wanted, node()) == "Unknown: it depends on a resource claim."


def test_what_is_not_decided_does_not_hide_what_can_never_be():
    wanted = pod(gpus=5, demands=replace(ON_T4, undecided=("a resource claim",)))
    assert judged(wanted, node()).outcome is Outcome.NEVER


def test_a_pod_behind_a_gate_is_in_other_hands():
    wanted = pod(gpus=9, demands=replace(ON_T4, gated=True))
    assert said(wanted, node()) == "Unknown: another system decides when it may start."


def test_a_new_node_that_might_do_is_no_promise():
    terms = (NodeTerm(expressions=(Requirement(key="zone", operator="In", values=("a",)),)),)
    wanted = pod(demands=replace(ON_T4, volume_terms=(terms,)))
    assert judged(wanted, gpu=GROWING).outcome is Outcome.UNKNOWN
    assert judged(wanted, node(labels={PRODUCT: "T4", "zone": "b"}), gpu=GROWING).outcome is Outcome.UNKNOWN


def test_other_servers_may_keep_a_pod_away():
    apart = PodTerm(topology_key=PRODUCT, selector=(), namespaces=frozenset({"s"}))
    wanted = pod(demands=replace(ON_T4, anti_affinity=(apart,)))
    found = said(wanted, node(), pods=(pod("a", 1, on="n"),))
    assert found == "Waits: other servers keep it off the nodes with a free T4, yours is next."


@pytest.mark.parametrize(
    ("label", "wanted", "nodes", "outcome"),
    [
        ("karpenter.sh/nodepool", pod(gpus=5), (node(),), Outcome.UNKNOWN),
        ("cloud.google.com/gke-nodepool", pod(gpus=5), (node(),), Outcome.NEVER),
        ("cloud.google.com/gke-nodepool", pod(), (), Outcome.UNKNOWN),
        ("pool", pod(), (), Outcome.NEVER),
    ],
)
def test_where_an_autoscaler_left_traces_less_can_be_called_impossible(
    label: str, wanted: Pod, nodes: tuple[Node, ...], outcome: Outcome
):
    other = node("other", labels={label: "x"})
    assert judged(wanted, *nodes, other).outcome is outcome


def test_what_the_admin_says_of_a_type_is_all_there_is_to_it():
    other = node("other", labels={"karpenter.sh/nodepool": "x"})
    assert judged(pod(gpus=5), node(), other, gpu=GROWING).outcome is Outcome.NEVER


def test_without_a_gpu_a_pool_without_nodes_may_do():
    wanted = replace(pod(), requests={"cpu": 96_000}, demands=Demands())
    found = verdict(wanted, inventory(node(labels={"eks.amazonaws.com/nodegroup": "x"})))
    assert verdict_sentence(found) == ("Unknown: no node has 96 CPUs; the largest has 64; a new node may change that.")


def test_a_pod_that_asks_for_other_nodes_than_its_types_waits_for_those():
    wanted = pod(demands=Demands(node_selector={PRODUCT: "other"}))
    assert said(wanted, node(labels={PRODUCT: "other"}), pods=FULL) == (
        "Waits: all nodes that would do are taken, yours is next."
    )


def test_any_of_several_types_grows_where_one_does():
    either = replace(T4, slug="any", display_name="Any GPU", match={}, members=(L4, GROWING))
    terms = (NodeTerm(expressions=(Requirement(key=PRODUCT, operator="In", values=("L4", "T4")),)),)
    found = judged(pod(demands=Demands(node_terms=terms)), node(), pods=FULL, gpu=either)
    assert (found.outcome, found.pool) == (Outcome.AFTER_SCALE_UP, "T4")


def test_a_server_without_a_gpu_is_judged_as_well():
    wanted = replace(pod(), requests={"cpu": 32_000}, demands=Demands())
    busy = replace(pod("a", on="n"), requests={"cpu": 60_000})
    found = verdict(wanted, inventory(node(), pods=(busy,)))
    assert verdict_sentence(found) == "Waits: no node has 32 CPUs left; the most is 4, yours is next."


pods = st.lists(
    st.builds(
        lambda gpus, cpu, on, gated: replace(
            pod("", gpus, on), requests={GPU: gpus, "cpu": cpu * 1000}, demands=replace(ON_T4, gated=gated)
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
        lambda sizes, limit, used, product, is_clear: node_pool(
            sizes=sizes, limits=limit and {GPU: limit}, used={GPU: used}, product=product, is_clear=is_clear
        ),
        st.sampled_from([{}, {GPU: (1, 4)}, {GPU: range(2, 6), "cpu": (2000, 8000)}]),
        st.none() | st.integers(1, 8),
        st.integers(0, 8),
        st.sampled_from([("T4",), ("L4",), ("L4", "T4")]),
        st.booleans(),
    ),
    max_size=2,
).map(tuple)


@given(nodes, pods, st.integers(1, 6), added)
def test_what_may_be_added_makes_nothing_impossible_and_nothing_start_at_once(
    drawn: list[dict[str, Any]], others: list[Pod], gpus: int, growths: tuple[Growth, ...] | None
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    without, beside = (judged(pod(gpus=gpus), *own, pods=named, growths=each).outcome for each in ((), growths))
    assert without is Outcome.NEVER or beside is not Outcome.NEVER
    assert (without is Outcome.NOW) == (beside is Outcome.NOW)


@given(nodes, pods, st.integers(1, 6), st.sampled_from([T4, GROWING]), st.booleans(), added)
def test_there_is_always_one_sentence_that_names_nobody(
    drawn: list[dict[str, Any]],
    others: list[Pod],
    gpus: int,
    gpu: GPUType,
    stale: bool,
    growths: tuple[Growth, ...] | None,
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=f"somebody-{number}") for number, each in enumerate(others))
    known = inventory(*own, pods=named, age_s=90.0 if stale else 1.0, growths=growths)
    found = verdict(pod(gpus=gpus), known, gpu=gpu)
    text = verdict_sentence(found)
    assert text.endswith(".")
    assert ".." not in text
    assert [name for name in (*(each.name for each in own), "somebody", "nvidia.com") if name in text] == []
    if stale:
        assert found.outcome in (Outcome.UNKNOWN, Outcome.NEVER)


@given(nodes, pods, st.integers(1, 6), st.sampled_from([1.0, 90.0, None]))
def test_starting_now_is_what_the_verdict_says(
    drawn: list[dict[str, Any]], others: list[Pod], gpus: int, age_s: float | None
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    known = inventory(*own, pods=named, age_s=age_s)
    assert starts_now(pod(gpus=gpus), known) == (verdict(pod(gpus=gpus), known, gpu=T4).outcome is Outcome.NOW)


@pytest.mark.parametrize("unread", [Inventory(age_s=1.0), Inventory(nodes=(node(),), age_s=1.0)])
def test_what_is_not_known_does_not_start_now(unread: Inventory):
    assert not starts_now(pod(), unread)


@given(nodes, pods, st.integers(1, 6))
def test_never_is_said_whoever_runs_there(drawn: list[dict[str, Any]], others: list[Pod], gpus: int):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    empty, busy = (verdict(pod(gpus=gpus), inventory(*own, pods=some), gpu=T4).outcome for some in ((), named))
    assert (empty is Outcome.NEVER) == (busy is Outcome.NEVER)


def test_where_nobody_can_count_the_devices_nothing_is_said_and_nothing_refused():
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10}
    uncounted = node(allocatable=has, capacity=has, uncounted=frozenset({GPU}))
    found = judged(pod(), uncounted)
    reason = "It depends on devices of which nobody can tell how many are free."
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, reason)
    assert judged(pod(), uncounted, node("m", 1), pods=(pod("a", on="m"),)).outcome is Outcome.UNKNOWN


def test_devices_of_a_driver_start_a_pod_or_make_it_wait():
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10}
    both = NodeDevices(capacity={GPU: 2}, allocatable={GPU: 2})
    occupancy = Occupancy.of([node(allocatable=has, capacity=has)], ())
    found = []
    for taken in (0, 1, 2):
        occupancy.put_devices(Devices(nodes={"n": replace(both, taken={GPU: taken})}))
        judgement = verdict(pod(), Inventory(nodes=occupancy.nodes, occupancy=occupancy, age_s=1.0), gpu=T4)
        found.append((judgement.outcome, judgement.places, judgement.reason))
    assert found == [(Outcome.NOW, 2, ""), (Outcome.NOW, 1, ""), (Outcome.WAITS, None, "All 2 are in use.")]
