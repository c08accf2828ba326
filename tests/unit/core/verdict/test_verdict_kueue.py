"""The verdict on a server that Kueue will queue, before its pod exists."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.catalog.queue import MAX_LISTED, QueueState
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, predict_verdict, starts_now
from gpuspawner.core.verdict.wording import format_verdict
from tests.unit.core.queued_servers import (
    ACTIVE,
    ANOTHER_SYSTEM,
    GIB,
    GPU,
    NODES,
    NOT_SET_UP,
    POD,
    PREEMPTS,
    QUEUE_DECIDES,
    SPOT,
    T4,
    Json,
    asking,
    broken,
    cluster_queue,
    conditions,
    flavor,
    inventory,
    state,
    verdict,
)


@pytest.mark.parametrize(
    ("queue", "sentence"),
    [
        pytest.param(state(), "Starts now: room for 2 like this.", id="room"),
        pytest.param(state(cluster_queue(gpus=64)), "Starts now: room for 4 like this.", id="more than the nodes"),
        pytest.param(state(cluster_queue(gpus=64, cpu=1)), "Starts now: room for 1 like this.", id="room, few CPUs"),
        pytest.param(
            state(cluster_queue("a", "b"), flavors=[flavor("a"), flavor("b")]),
            QUEUE_DECIDES,
            id="room in several flavors",
        ),
        pytest.param(
            state(cluster_queue(used=4)),
            "Will wait: the quota of the queue gpus is in use. You'd be next in line.",
            id="in use",
        ),
        pytest.param(
            state(cluster_queue(used=3, pending=3), waiting=(7, 0, -1)),
            "Will wait: the quota of the queue gpus is in use. 2 in the queue are ahead of you.",
            id="in use, others wait",
        ),
        pytest.param(
            state(cluster_queue(used=3, pending=3)),
            "Will wait: the quota of the queue gpus is in use.",
            id="place unknown",
        ),
        pytest.param(
            state(cluster_queue(used=3, pending=1), waiting=(7,), priority=None),
            "Will wait: the quota of the queue gpus is in use.",
            id="priority unknown",
        ),
        pytest.param(
            state(cluster_queue(used=3, pending=1, admissionScope={"admissionMode": "UsageBased"}), waiting=(7,)),
            "Will wait: the quota of the queue gpus is in use.",
            id="order by usage",
        ),
        pytest.param(
            state(cluster_queue(used=4, pending=2, preemption={"withinClusterQueue": "LowerPriority"}), waiting=(1, 0)),
            f"{QUEUE_DECIDES} 2 in the queue are ahead of you.",
            id="in use, may preempt",
        ),
        pytest.param(
            state(cluster_queue(used=4, preemption={"reclaimWithinCohort": "Any"})),
            "Will wait: the quota of the queue gpus is in use. You'd be next in line.",
            id="may reclaim, but has no Cohort",
        ),
        pytest.param(
            state(cluster_queue(gpus=1)),
            "Can't start: the server requests 2 × T4; the queue gpus never admits more than 1.",
            id="quota too small",
        ),
        pytest.param(
            state(cluster_queue(cpu=0)),
            "Can't start: the server requests 1 CPU; the queue gpus never admits more than 0.",
            id="too few CPUs",
        ),
        pytest.param(
            state(flavors=[flavor(nodeLabels={"gpu": "A100"})]),
            "Can't start: the queue gpus has nothing of the kind that your server asks for.",
            id="labels of another type",
        ),
        pytest.param(
            state(flavors=[flavor(nodeTaints=[{"key": "spot", "effect": "NoSchedule"}])]),
            "Can't start: the queue gpus has nothing of the kind that your server asks for.",
            id="taint",
        ),
        pytest.param(
            state(problem=QueueReason.NO_QUEUE), "Can't start: the queue gpus does not exist.", id="no LocalQueue"
        ),
        pytest.param(
            state(problem=QueueReason.STOPPED, capacity=None),
            "Can't start: the queue gpus is stopped, or not set up completely.",
            id="stopped",
        ),
        pytest.param(
            state(cluster_queue(stopPolicy="Hold")),
            "Can't start: the queue gpus is stopped, or not set up completely.",
            id="ClusterQueue just stopped",
        ),
        pytest.param(state(cluster_queue(stopPolicy="None")), "Starts now: room for 2 like this.", id="not stopped"),
        pytest.param(
            state(problem=QueueReason.INACTIVE),
            "Availability unknown: the queue gpus is stopped, or not set up completely.",
            id="inactive, perhaps for a moment",
        ),
        pytest.param(
            state(cluster_queue(gpus=1), problem=QueueReason.INACTIVE),
            "Can't start: the server requests 2 × T4; the queue gpus never admits more than 1.",
            id="inactive, quota too small",
        ),
        pytest.param(
            state(priority=None, missing_class="people"),
            "Availability unknown: the priority class people of the queue does not exist.",
            id="no WorkloadPriorityClass",
        ),
        pytest.param(
            state(capacity=None, missing_class="people"),
            "Availability unknown: the priority class people of the queue does not exist.",
            id="no WorkloadPriorityClass, quotas unknown",
        ),
        pytest.param(
            state(cluster_queue(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}})),
            "Can't start: the queue gpus accepts no servers from the namespace hub.",
            id="other namespaces",
        ),
        pytest.param(
            state(cluster_queue(namespaceSelector=None)),
            "Can't start: the queue gpus accepts no servers from the namespace hub.",
            id="no namespace",
        ),
        pytest.param(
            state(cluster_queue(namespaceSelector={"matchLabels": {"team": "red"}})),
            QUEUE_DECIDES,
            id="namespaces by a label that is not read",
        ),
        pytest.param(state(cluster_queue(namespaceSelector="other")), QUEUE_DECIDES, id="strange namespaces"),
        pytest.param(
            state(cluster_queue(queueingStrategy="StrictFIFO", pending=1), waiting=(5,)),
            f"{QUEUE_DECIDES} 1 in the queue is ahead of you.",
            id="room, strict order",
        ),
        pytest.param(
            state(cluster_queue(queueingStrategy="StrictFIFO", pending=1)), QUEUE_DECIDES, id="strict order, unknown"
        ),
        pytest.param(
            state(cluster_queue(pending=1), waiting=(5,)),
            "Starts now: room for 2 like this.",
            id="room, others may be passed",
        ),
        pytest.param(
            state(cluster_queue(pending=1, **PREEMPTS), waiting=(-5,)), QUEUE_DECIDES, id="room, may preempt"
        ),
        pytest.param(state(cluster_queue(pending=1, **PREEMPTS)), QUEUE_DECIDES, id="room, may preempt, list unknown"),
        pytest.param(
            state(cluster_queue(pending=1, **PREEMPTS), waiting=()),
            "Starts now: room for 2 like this.",
            id="room, may preempt, nothing waits any more",
        ),
        pytest.param(state(cluster_queue(cohortName="team")), QUEUE_DECIDES, id="room, in a Cohort"),
        pytest.param(
            state(cluster_queue(used=4, pending=1, cohortName="team"), waiting=(0,)),
            f"{QUEUE_DECIDES} 1 in the queue is ahead of you.",
            id="in use, in a Cohort",
        ),
        pytest.param(state(cluster_queue(gpus=1, cohortName="team")), QUEUE_DECIDES, id="quota small, in a Cohort"),
        pytest.param(
            state(cluster_queue(used=4, pending=2), waiting=(0, 7), priority=5),
            "Will wait: the quota of the queue gpus is in use. 2 in the queue are ahead of you.",
            id="what preempts is first despite its priority",
        ),
        pytest.param(
            state(broken(cluster_queue("a", "b", used=4), 1, total="oops"), flavors=[flavor("a"), flavor("b")]),
            QUEUE_DECIDES,
            id="in use in one flavor, unknown in another",
        ),
        pytest.param(
            state(
                cluster_queue("racks", "plain", used=4),
                flavors=[flavor("racks", topologyName="t"), flavor("plain", nodeLabels={"gpu": "A100"})],
            ),
            QUEUE_DECIDES,
            id="in use, topology",
        ),
        pytest.param(state(conditions({**ACTIVE, "status": "False"})), NOT_SET_UP, id="ClusterQueue inactive"),
        pytest.param(state(conditions()), NOT_SET_UP, id="new ClusterQueue"),
        pytest.param(state(broken(cluster_queue(), 0, total=None)), QUEUE_DECIDES, id="usage without an amount"),
        pytest.param(state(broken(cluster_queue(), 0, name="x")), QUEUE_DECIDES, id="usage of another resource"),
        pytest.param(state({**cluster_queue(), "spec": "x"}), QUEUE_DECIDES, id="strange spec"),
        pytest.param(state(cluster_queue(resourceGroups="x")), QUEUE_DECIDES, id="strange resource groups"),
        pytest.param(
            state(cluster_queue(resourceGroups=[{"coveredResources": [GPU, "cpu", "memory"], "flavors": [None]}])),
            QUEUE_DECIDES,
            id="strange flavor",
        ),
        pytest.param(state(cluster_queue(admissionChecks=["quota"])), QUEUE_DECIDES, id="admission checks"),
        pytest.param(state(flavors=[flavor(topologyName="racks")]), QUEUE_DECIDES, id="topology"),
        pytest.param(state(flavors=None), QUEUE_DECIDES, id="flavors cannot be read"),
        pytest.param(state(capacity=None), QUEUE_DECIDES, id="quotas cannot be read"),
        pytest.param(None, ANOTHER_SYSTEM, id="nothing can be read"),
        pytest.param(state(cluster_queue(gpus=1), age_s=MAX_DATA_AGE_S + 1), ANOTHER_SYSTEM, id="too long ago"),
    ],
)  # fmt: skip
def test_the_verdict_says_what_the_queue_will_say(queue: QueueState | None, sentence: str):
    assert format_verdict(verdict(queue)) == sentence


def test_a_resource_without_a_quota_is_named_and_not_called_impossible():
    crowded = state(cluster_queue(pending=1), waiting=(5,))
    found = verdict(crowded, replace(POD, requests={**POD.requests, "amd.com/gpu": 1}))
    assert format_verdict(found) == "Availability unknown: the queue gpus has no quota for amd.com/gpu."


@pytest.mark.parametrize(
    ("resource", "quota", "wanted", "sentence"),
    [
        pytest.param(
            "ephemeral-storage",
            "10Gi",
            20 * GIB,
            "Can't start: the server requests 20 GiB of ephemeral-storage; "
            "the queue gpus never admits more than 10 GiB.",
            id="ephemeral storage",
        ),
        pytest.param(
            "hugepages-2Mi",
            "512Mi",
            GIB,
            "Can't start: the server requests 1 GiB of hugepages-2Mi; the queue gpus never admits more than 512 MiB.",
            id="huge pages",
        ),
        pytest.param(
            "amd.com/gpu",
            1,
            2,
            "Can't start: the server requests 2 × amd.com/gpu; the queue gpus never admits more than 1.",
            id="devices",
        ),
    ],
)
def test_an_amount_that_is_too_large_has_its_unit(resource: str, quota: object, wanted: int, sentence: str):
    queue = cluster_queue()
    (group,) = queue["spec"]["resourceGroups"]
    group["coveredResources"].append(resource)
    group["flavors"][0]["resources"].append({"name": resource, "nominalQuota": quota})
    assert format_verdict(verdict(state(queue), asking(**{resource: wanted}))) == sentence


def test_where_the_flavor_decides_what_is_too_much_no_number_is_named():
    few, small = cluster_queue("few", gpus=1), cluster_queue("small", gpus=9, cpu=0)
    (group,), (other,) = few["spec"]["resourceGroups"], small["spec"]["resourceGroups"]
    group["flavors"] += other["flavors"]
    found = verdict(state(few, flavors=[flavor("few"), flavor("small")]))
    assert (found.outcome, found.reason) == (
        Outcome.NEVER,
        "Your server asks for more than the whole quota of the queue gpus.",
    )


def test_a_server_with_room_in_the_queue_is_judged_as_kueue_hands_it_to_the_nodes():
    tainted = replace(NODES[0], labels={"gpu": "T4", "pool": "b"}, taints=(SPOT,))
    added = {"nodeLabels": {"gpu": "T4", "pool": "b"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    queue = state(flavors=[flavor(**added)])
    assert verdict(queue, nodes=(tainted,)).outcome is Outcome.NOW
    assert starts_now(POD, inventory((tainted,)), queue=queue)
    # No node has the labels that Kueue will demand.
    assert verdict(queue).outcome is Outcome.NEVER
    assert not starts_now(POD, inventory(), queue=queue)


@pytest.mark.parametrize(("used", "outcome"), [(0, Outcome.UNKNOWN), (4, Outcome.WAITS)], ids=["room", "in use"])
def test_which_of_several_flavors_a_server_gets_is_for_kueue_to_say(used: int, outcome: Outcome):
    flavors = [flavor(name, nodeLabels={"gpu": "T4", "pool": name}) for name in ("a", "b")]
    assert verdict(state(cluster_queue("a", "b", used=used), flavors=flavors)).outcome is outcome


def test_a_flavor_of_another_type_leaves_no_choice():
    flavors = [flavor(), flavor("a100", nodeLabels={"gpu": "A100"})]
    assert verdict(state(cluster_queue("a100", "t4"), flavors=flavors)).outcome is Outcome.NOW


def test_a_pod_that_kueue_does_not_hold_back_is_judged_by_the_nodes_alone():
    free = replace(POD, constraints=replace(POD.constraints, is_gated=False))
    assert verdict(state(problem=QueueReason.NO_QUEUE), free).outcome is Outcome.NOW


def test_the_nodes_need_not_be_readable_where_the_queue_decides():
    found = predict_verdict(POD, Inventory(), gpu=T4, queue=state(cluster_queue(gpus=1)))
    assert found.outcome is Outcome.NEVER
    assert not starts_now(POD, inventory(), queue=state(cluster_queue(used=4)))


PRIORITIES = st.lists(st.integers(-2, 2), max_size=8)


@given(before=PRIORITIES, more=PRIORITIES, own=st.integers(-2, 2))
def test_the_place_only_grows_with_what_waits_and_only_falls_with_the_own_priority(
    before: list[int], more: list[int], own: int
):
    def ahead(waiting: list[int], priority: int) -> int:
        queue = cluster_queue(used=4, pending=len(waiting))
        found = verdict(state(queue, waiting=tuple(sorted(waiting, reverse=True)), priority=priority))
        assert found.outcome is Outcome.WAITS
        assert found.ahead is not None
        return found.ahead

    assert ahead(before, own) <= ahead([*before, *more], own) <= len(before) + len(more)
    assert ahead(before, own + 1) <= ahead(before, own)


@given(
    gpus=st.integers(0, 4),
    cpu=st.integers(0, 4),
    used=st.integers(0, 5),
    wanted=st.integers(1, 5),
    cpus=st.integers(0, 5),
)
def test_never_is_said_exactly_where_the_empty_queue_has_too_little(
    gpus: int, cpu: int, used: int, wanted: int, cpus: int
):
    found = verdict(state(cluster_queue(gpus=gpus, cpu=cpu, used=used)), asking(gpus=wanted, cpu=1000 * cpus))
    empty = verdict(state(cluster_queue(gpus=gpus, cpu=cpu)), asking(gpus=wanted, cpu=1000 * cpus))
    assert (found.outcome is Outcome.NEVER) == (wanted > gpus or cpus > cpu) == (empty.outcome is not Outcome.NOW)
    assert (found.outcome is Outcome.NOW) == (wanted <= gpus - used and cpus <= cpu)


def test_a_list_that_may_be_cut_off_tells_no_place():
    full = cluster_queue(used=4, pending=MAX_LISTED + 5)
    assert verdict(state(full, waiting=(1,) * MAX_LISTED)).ahead is None
    assert verdict(state(full, waiting=(*(1,) * (MAX_LISTED - 1), -1))).ahead == MAX_LISTED - 1


def test_no_place_is_shown_while_the_first_may_be_preempting():
    preempting = cluster_queue(used=4, pending=2, **PREEMPTS)
    assert verdict(state(preempting, waiting=(3, 0), priority=5)).ahead is None
    assert verdict(state(preempting, waiting=(3, 0), priority=3)).ahead == 1
    preempting["spec"]["queueingStrategy"] = "StrictFIFO"
    assert verdict(state(preempting, waiting=(3, 0), priority=5)).ahead == 0


def test_a_toleration_of_the_pod_lets_it_into_a_flavor_with_a_taint():
    tolerating = replace(POD.constraints, tolerations=(Toleration(key="spot", operator="Exists"),))
    queue = state(flavors=[flavor(nodeTaints=[{"key": "spot", "effect": "NoSchedule"}])])
    assert verdict(queue, replace(POD, constraints=tolerating)).outcome is Outcome.NOW


def split_queue(*flavors: str) -> Json:
    """Return a ClusterQueue with a group for the CPU and memory of the flavor ``base``, and one for GPUs."""
    queue, other = cluster_queue("base"), cluster_queue(*flavors)
    (base,), (cards,) = queue["spec"]["resourceGroups"], other["spec"]["resourceGroups"]
    base["coveredResources"] = ["cpu", "memory"]
    base["flavors"][0]["resources"] = base["flavors"][0]["resources"][1:]
    cards["coveredResources"] = [GPU]
    for each in cards["flavors"]:
        each["resources"] = each["resources"][:1]
    queue["spec"]["resourceGroups"].append(cards)
    queue["status"]["flavorsReservation"] += other["status"]["flavorsReservation"]
    return queue


@pytest.mark.parametrize(("pool", "outcome"), [("a", Outcome.NOW), ("b", Outcome.UNKNOWN)])
def test_of_two_flavors_that_set_a_label_to_different_values_kueue_picks_one_at_random(pool: str, outcome: Outcome):
    flavors = [flavor("t4", nodeLabels={"gpu": "T4", "pool": pool}), flavor("base", nodeLabels={"pool": "a"})]
    assert verdict(state(split_queue("t4"), flavors=flavors)).outcome is outcome


def test_a_request_of_nothing_gets_the_flavor_of_its_resource():
    plain = replace(POD, requests={**POD.requests, GPU: 0}, constraints=replace(POD.constraints, node_selector={}))
    queue = state(split_queue("t4"), flavors=[flavor(), flavor("base", nodeLabels={})])
    cpu_node = replace(NODES[0], labels={})
    judged = partial(predict_verdict, plain, queue=queue, new_nodes=False)
    assert [judged(inventory((node,))).outcome for node in (cpu_node, NODES[0])] == [Outcome.NEVER, Outcome.NOW]
