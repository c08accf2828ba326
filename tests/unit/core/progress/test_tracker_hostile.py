"""A text that another person can write, such as an error of a registry, costs the hub no more than milliseconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from gpuspawner.core.json_access import MAX_MESSAGE_LENGTH
from gpuspawner.core.progress import endings, events, images, on_node, runtime_errors, scheduler_events
from gpuspawner.core.progress.endings import explain_end_of_running
from gpuspawner.core.progress.events import parse_events, scrub_event, scrub_refusal
from gpuspawner.core.progress.model import Facts
from gpuspawner.core.progress.scheduler_events import read_workload_state
from gpuspawner.core.progress.tracker import Tracker
from tests.unit.core.starts import Json, container, ended, event, pod, waits
from tests.unit.hostile import PIECES, make_text, measure_cpu_s

WAITING_REASONS = ("ErrImagePull", "CreateContainerError", "CreateContainerConfigError", "PostStartHookError")
PENDING_EVENTS = (
    ("default-scheduler", "FailedScheduling"),
    ("cluster-autoscaler", "NotTriggerScaleUp"),
    ("karpenter", "FailedScheduling"),
    ("karpenter", "Nominated"),
    ("kueue-admission", "CreatedWorkload"),
)
NODE_EVENTS = (
    ("kubelet", "Failed"),
    ("kubelet", "Pulled"),
    ("kubelet", "Pulling"),
    ("kubelet", "FailedMount"),
    ("kubelet", "FailedPostStartHook"),
    ("kubelet", "BackOff"),
    ("attachdetach-controller", "FailedAttachVolume"),
)


def observe(raw: Json, *found: Json) -> Callable[[], object]:
    return lambda: Tracker().observe(Facts(pod=raw, events=found, since_s=40.0, timeout_s=900.0, gpu_name="A100"))


def list_reads(text: str) -> Iterator[Callable[[], object]]:
    """Yield a call for each place of the API's objects from which a start's progress reads the text."""
    for reason in WAITING_REASONS:
        yield observe(pod(node="n", containers=[container(waits(reason, text))]))
    yield observe(pod(node="n", containers=[container(waits("CrashLoopBackOff"), last=ended("StartError", 128, text))]))
    for reason in ("Evicted", "UnexpectedAdmissionError"):
        yield observe(pod(phase="Failed", reason=reason, message=text))
    unschedulable = {"status": "False", "reason": "Unschedulable", "message": text}
    yield observe(pod(conditions={"PodScheduled": unschedulable}))
    for place, known in ((pod(), PENDING_EVENTS), (pod(node="n"), NODE_EVENTS)):
        for component, reason in known:
            raw = event(component, reason, text)
            yield observe(place, raw)
            yield lambda raw=raw: scrub_event(raw)
    pulling = pod(node="n", containers=[container(waits("ErrImagePull"))])
    yield observe(pulling, event("kubelet", "Failed", f"Failed to pull image {text}"))
    yield lambda: scrub_refusal(text[:MAX_MESSAGE_LENGTH], pod_name="jupyter-ada", namespace="hub")
    reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending"}
    for message in (text, f"couldn't assign flavors to pod set main: {text}"):
        workload = {"status": {"conditions": [{**reserved, "message": message}]}}
        yield lambda workload=workload: read_workload_state(workload)
    stopped = parse_events([event("kueue", "Stopped", text)])
    yield lambda: explain_end_of_running(pod(node="n"), stopped, is_gone=True)


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_64000_characters_in_each_message_cost_less_than_50_ms_together(piece: str):
    reads = list(list_reads(make_text(piece)))
    assert measure_cpu_s(lambda: [read() for read in reads]) < 0.05


def list_patterns(module: ModuleType) -> Iterator[re.Pattern[str]]:
    waiting: list[object] = list(vars(module).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, re.Pattern):
            yield value
        elif isinstance(value, tuple):
            waiting += value


MODULES = [endings, events, images, on_node, runtime_errors, scheduler_events]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_cost_of_an_expression_grows_no_faster_than_the_text(module: ModuleType):
    """With 32,000 characters, an expression that grows with the square takes 0.1 s or more, a linear one 5 ms."""
    texts = [make_text(piece, 32_000) for piece in PIECES]
    slow = [
        (pattern.pattern, text[:20]) for pattern in list_patterns(module) for text in texts if is_slow(pattern, text)
    ]
    assert slow == []


def is_slow(pattern: re.Pattern[str], text: str) -> bool:
    def find_all() -> object:
        return list(pattern.finditer(text))

    return measure_cpu_s(find_all, tries=1) > 0.05 and measure_cpu_s(find_all) > 0.05
