"""core.scheduling agrees with kube-scheduler about a pod and a cluster.

`make bench-fit` compares many more cases, others in each run.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from bench.fit import cases
from bench.fit.compare import Opinion, Outcome, compare
from bench.fit.features import FEATURES, features
from bench.fit.oracle import Decision
from bench.fit.suite import UNKNOWN_BUDGET_PERCENT, Tally, run
from gpuspawner.core.scheduling.results import Answer, FitResult, Obstacle, Reason, ScanResult

SEEDS = range(500)
PREEMPTED_IN_VAIN = 46_796
"""Case in which kube-scheduler ends pods although the pod cannot start without them."""

ONE_PORT_TWICE = 248_990_683
"""Case in which two pods on one node once had the same host port. kubelet would have rejected the second."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    """Let kube-scheduler decide about the sample."""
    found = Tally()
    run(SEEDS, tally=found)
    return found


def test_our_fit_agrees_with_kube_scheduler_on_every_case(tally: Tally):
    assert tally.disagreements == []
    assert tally.decisions == len(SEEDS)


def test_hardly_any_case_is_unknown_to_our_fit(tally: Tally):
    assert tally.outcomes[Outcome.UNKNOWN] <= len(SEEDS) * UNKNOWN_BUDGET_PERCENT / 100


def test_the_sample_has_pods_that_fit_and_pods_that_do_not(tally: Tally):
    assert 0.3 < tally.bound / tally.decisions < 0.7


def test_the_sample_has_pods_that_start_by_a_preemption(tally: Tally):
    assert tally.preempted > len(SEEDS) / 100


def test_our_fit_says_no_where_a_preemption_is_in_vain():
    tally = Tally()
    run(range(PREEMPTED_IN_VAIN, PREEMPTED_IN_VAIN + 1), tally=tally)
    assert tally.last is not None
    _, opinion, decision = tally.last

    assert (decision.preempting, decision.node, decision.is_in_vain) == ("n2-4679", "", True)
    assert (opinion.answer, tally.outcomes) == (Answer.NO, {Outcome.AGREED: 1})


def test_a_case_with_a_port_that_two_pods_wanted_is_decided_alike():
    tally = Tally()
    run(range(ONE_PORT_TWICE, ONE_PORT_TWICE + 1), tally=tally)
    assert (tally.disagreements, tally.outcomes) == ([], {Outcome.AGREED: 1})


def test_no_two_pods_of_a_node_have_the_same_host_port():
    ports: Counter[tuple[object, ...]] = Counter()
    for number in range(2000):
        for pod in cases.scene(number).pods:
            spec = pod["spec"]
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                for port in container.get("ports", ()) if "nodeName" in spec else ():
                    own = port["containerPort"] if spec.get("hostNetwork") else port["hostPort"]
                    ports[spec["nodeName"], port.get("hostIP", "0.0.0.0"), port.get("protocol", "TCP"), own] += 1
    assert ports.total() > 1000
    assert [port for port, number in ports.items() if number > 1] == []


def test_everything_that_the_generator_can_draw_occurs():
    counted = Counter(name for seed in range(10_000) for name in features(cases.case(seed)))
    assert [name for name in FEATURES if counted[name] == 0] == []


def fingerprint(seeds: range) -> str:
    drawn = [cases.case(seed) for seed in seeds]
    text = json.dumps([[case.pod, case.scene.nodes, case.scene.pods, case.scene.volumes] for case in drawn])
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_seed_gives_the_same_case_in_every_process():
    script = "from tests.cluster.test_scheduler_agreement import fingerprint; print(fingerprint(range(300)))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            # Sets of texts have another order in each.
            env={**os.environ, "PYTHONHASHSEED": number},
        ).stdout.strip()
        for number in ("1", "2")
    }
    assert answers == {fingerprint(range(300))}


YES, NO = FitResult(answer=Answer.YES), FitResult(answer=Answer.NO, obstacles=(Obstacle(reason=Reason.TAINT),))
UNKNOWN = FitResult(answer=Answer.UNKNOWN, obstacles=(Obstacle(reason=Reason.UNDECIDED),))


def opinion(a: FitResult, b: FitResult) -> Opinion:
    """Say something about two nodes, and the same about both at one look."""
    takers = [a, b].count(YES)
    answers = [found.answer for found in (a, b)]
    answer = next(answer for answer in (Answer.YES, Answer.UNKNOWN, Answer.NO) if answer in answers)
    whole = ScanResult(answer=answer, places=takers, places_exact=True, fit_if_empty=takers)
    return Opinion(nodes={"a": a, "b": b}, survey=whole)


@pytest.mark.parametrize(
    ("ours", "node", "outcome"),
    [
        ((YES, NO), "a", Outcome.AGREED),
        ((YES, YES), "b", Outcome.AGREED),
        ((NO, NO), "", Outcome.AGREED),
        ((YES, NO), "b", Outcome.DISAGREED),
        ((YES, NO), "", Outcome.DISAGREED),
        ((NO, NO), "a", Outcome.DISAGREED),
        ((UNKNOWN, NO), "", Outcome.UNKNOWN),
        ((UNKNOWN, NO), "a", Outcome.UNKNOWN),
        ((UNKNOWN, NO), "b", Outcome.DISAGREED),
        ((YES, UNKNOWN), "a", Outcome.AGREED),
        ((YES, UNKNOWN), "", Outcome.DISAGREED),
    ],
)
def test_answers_agree_only_where_the_pod_goes_where_we_said(
    ours: tuple[FitResult, FitResult], node: str, outcome: Outcome
):
    assert compare(opinion(*ours), Decision(node=node)) is outcome


@pytest.mark.parametrize(
    ("ours", "decision", "outcome"),
    [
        pytest.param((YES, NO), Decision(preempting="a", node="a"), Outcome.AGREED, id="bound there"),
        pytest.param((YES, NO), Decision(preempting="a", node="b"), Outcome.AGREED, id="bound elsewhere"),
        pytest.param((YES, NO), Decision(preempting="b", node="b"), Outcome.DISAGREED, id="another node"),
        pytest.param((YES, NO), Decision(preempting="a"), Outcome.NOT_RETRIED, id="not retried"),
        pytest.param((UNKNOWN, YES), Decision(preempting="a"), Outcome.UNKNOWN, id="unknown"),
        pytest.param((NO, NO), Decision(preempting="a"), Outcome.DISAGREED, id="refused by us alone"),
        pytest.param((NO, NO), Decision(preempting="a", is_in_vain=True), Outcome.AGREED, id="in vain, as we said"),
        pytest.param((YES, NO), Decision(preempting="a", is_in_vain=True), Outcome.DISAGREED, id="in vain"),
        pytest.param((NO, UNKNOWN), Decision(preempting="a", is_in_vain=True), Outcome.UNKNOWN, id="in vain, unknown"),
    ],
)
def test_after_a_preemption_the_node_of_the_victims_counts(
    ours: tuple[FitResult, FitResult], decision: Decision, outcome: Outcome
):
    assert compare(opinion(*ours), decision) is outcome


def test_two_answers_of_ours_that_differ_are_no_agreement():
    one, other = opinion(YES, NO), opinion(NO, NO)
    assert compare(Opinion(nodes=one.nodes, survey=other.survey), Decision(node="a")) is Outcome.DISAGREED
