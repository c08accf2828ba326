"""Queues are drawn from the fleet's number alone, as Kueue accepts them, and have everything that is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.truth.fleet import draw_fleet
from bench.truth.queues import EVERY, PRIORITY_LABEL, Queue, Trouble
from bench.truth.vocabulary import GPU, TEAM_TAINT, USUAL_TAINT
from gpuspawner.settings import Settings

SEEDS = range(0, 300 * EVERY, EVERY)


def draw(seed: int) -> Queue:
    queue = draw_fleet(seed).queue
    assert queue is not None
    return queue


def list_kind(queue: Queue, kind: str) -> list[dict[str, Any]]:
    return [each for each in queue.objects if each["kind"] == kind]


def list_quotas(thing: dict[str, Any]) -> list[dict[str, str]]:
    groups = thing["spec"].get("resourceGroups", ())
    return [quota for group in groups for flavor in group["flavors"] for quota in flavor["resources"]]


def list_features(queue: Queue) -> Iterator[str]:
    yield f"trouble: {queue.trouble}"
    yield from (f"setting {key}" for key in queue.settings)
    yield "classes" if list_kind(queue, "WorkloadPriorityClass") else "no classes"
    for flavor in list_kind(queue, "ResourceFlavor"):
        spec = flavor["spec"]
        yield f"{len(spec.get('nodeLabels', ()))} labels"
        yield from (f"taint {taint['key']}" for taint in spec.get("nodeTaints", ()))
        yield from (f"toleration {each['key']}" for each in spec.get("tolerations", ()))
    for cohort in list_kind(queue, "Cohort"):
        yield "Cohort with parent" if "parentName" in cohort["spec"] else "Cohort"
        yield "Cohort with quota" if list_quotas(cohort) else "Cohort without quota"
    for each in list_kind(queue, "ClusterQueue"):
        spec = each["spec"]
        yield spec["queueingStrategy"]
        yield "in a cohort" if "cohortName" in spec else "alone"
        yield from (f"preemption {key}" for key in spec.get("preemption", ()))
        yield from (key for key in ("flavorFungibility", "stopPolicy") if key in spec)
        yield f"{len(spec['resourceGroups'])} groups"
        for quota in list_quotas(each):
            yield from (key for key in ("borrowingLimit", "lendingLimit") if key in quota)
            if quota["name"] == GPU:
                yield "no GPUs" if quota["nominalQuota"] == "0" else "GPUs"
    for pod in queue.pods:
        yield "pod with a class" if PRIORITY_LABEL in pod["metadata"]["labels"] else "pod without"
        yield "pod of a type" if "nodeSelector" in pod["spec"] else "pod of any type"


def test_everything_that_is_meant_to_be_drawn_occurs():
    counted = Counter(name for seed in SEEDS for name in list_features(draw(seed)))
    assert set(counted) == {
        *(f"trouble: {each}" for each in Trouble),
        *("setting local_queue", "setting priority_class", "setting gpus", "classes", "no classes"),
        *("0 labels", "1 labels", "2 labels", f"taint {USUAL_TAINT['key']}", f"taint {TEAM_TAINT['key']}"),
        *("toleration team", "Cohort", "Cohort with parent", "Cohort with quota", "Cohort without quota"),
        *("StrictFIFO", "BestEffortFIFO", "in a cohort", "alone", "flavorFungibility", "stopPolicy"),
        *("preemption withinClusterQueue", "preemption reclaimWithinCohort", "1 groups", "2 groups"),
        *("borrowingLimit", "lendingLimit", "GPUs", "no GPUs"),
        *("pod with a class", "pod without", "pod of a type", "pod of any type"),
    }


def test_one_fleet_in_three_has_a_queue_that_its_hub_names():
    fleets = [draw_fleet(seed) for seed in range(3 * EVERY)]
    assert [fleet.queue is not None for fleet in fleets] == [True, False, False] * 3
    for fleet in fleets:
        Settings.parse(fleet.settings)
        assert fleet.settings.get("queue") == (fleet.queue.settings if fleet.queue else None)


def test_a_number_always_draws_the_same_queue():
    assert draw(3) == draw(3)
    assert draw(3) != draw(6)


def test_the_hub_names_a_priority_class_that_exists_unless_that_is_the_trouble():
    for queue in map(draw, SEEDS):
        classes = {each["metadata"]["name"] for each in list_kind(queue, "WorkloadPriorityClass")}
        named = {queue.settings.get("priority_class")} - {None}
        assert (named <= classes) is (queue.trouble is not Trouble.NO_CLASS)
