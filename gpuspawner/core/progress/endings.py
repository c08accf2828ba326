"""Explains why a pod ended or is being deleted while its server was starting or running.

KubeSpawner creates bare pods, which no controller replaces. If such a pod ends, the start or the server has ended too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuspawner.core.json_access import as_dict, as_message, as_text, find_condition
from gpuspawner.core.progress.events import AUTOSCALER_SOURCES, EventSource, SourcedEvent, find_newest_event
from gpuspawner.core.progress.model import ProgressMessage, Stage, StartFailure
from gpuspawner.core.progress.on_node import (
    explain_container_end,
    find_hook_event,
    format_admin_text,
    has_failed_hook,
)
from gpuspawner.core.progress.pod_status import Container, has_condition, read_containers, read_phase
from gpuspawner.core.text.i18n import gettext

_UNHEALTHY = re.compile(r"no healthy devices|unhealthy|no longer healthy")
_PLUGIN_GONE = re.compile(r"unregistered device|has been stopped|code = (?:Unavailable|Canceled)")
_SHARED_DEVICE = re.compile(r"maximum request size for shared resources is 1|at most 1 \S+ can be requested")
_NO_DEVICE_LEFT = re.compile(r"requested number of devices unavailable")
_OUT_OF = "OutOf"
_DISRUPTIONS = {
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "node_lost",
    "DeletionByPodGC": "node_lost",
    "EvictionByEvictionAPI": "evicted",
    "TerminationByKubelet": "evicted",
}
_REASONS = {
    "Evicted": "evicted",
    "Preempting": "preempted",
    "Preempted": "preempted",
    "NodeLost": "node_lost",
    "NodeShutdown": "node_lost",
    "Shutdown": "node_lost",
    "Terminated": "node_lost",
}
_EVENTS: tuple[tuple[frozenset[EventSource], frozenset[str], str], ...] = (
    (frozenset({EventSource.SCHEDULER, EventSource.KUEUE}), frozenset({"Preempted"}), "preempted"),
    (frozenset({EventSource.KUBELET}), frozenset({"Preempting"}), "preempted"),
    (frozenset({EventSource.KUBELET}), frozenset({"Evicted"}), "evicted"),
    (frozenset({EventSource.CONTROLLER}), frozenset({"TaintManagerEviction", "NodeControllerEviction"}), "node_lost"),
    (AUTOSCALER_SOURCES, frozenset({"ScaleDown", "Evicted", "Disrupted"}), "evicted"),
    (frozenset({EventSource.KUEUE}), frozenset({"Stopped", "Evicted", "EvictedDueToPreempted"}), "evicted"),
)
_PRESSURE = re.compile(r"low on resource: ([\w-]+)|(ephemeral[- ](?:local )?storage|EmptyDir)", re.IGNORECASE)


def find_ending(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, gpu_name: str = "", is_node_lost: bool = False
) -> ProgressMessage | None:
    """Return why a pod has ended or is being deleted, or None if neither is the case.

    :param gpu_name: display name of the GPU type; empty for none.
    :param is_node_lost: whether the pod's node is gone or not ready.
    """
    is_deleted = bool(as_text(as_dict(pod.get("metadata")).get("deletionTimestamp")))
    if read_phase(pod) == "Failed":
        return _describe_failed_pod(pod, events, gpu_name=gpu_name)
    if is_deleted or has_condition(pod, "DisruptionTarget"):
        return explain_removal(pod, events, is_node_lost=is_node_lost)
    if read_phase(pod) == "Succeeded":
        return _describe_ended_containers(read_containers(pod), events)
    return None


def _describe_ended_containers(
    containers: Sequence[Container], events: Sequence[SourcedEvent], *, event: SourcedEvent | None = None
) -> ProgressMessage:
    """Return why the pod has ended: kubelet ended a container because of its hook, or the program ended by itself."""
    hooked = [container for container in containers if has_failed_hook(container, events)]
    ended = hooked or [
        container for container in containers if container.exit_code or container.end_reason == "OOMKilled"
    ]
    if not ended:
        sentence = gettext("The program of your server ended while it was starting.")
        return _make_failed_message(StartFailure(code="crashed", sentence=sentence), event=event)
    failure = explain_container_end(ended[0], events)
    needs_admin = failure.code in ("hook_failed", "node_faulty", "driver_too_old")
    admin_text = format_admin_text(ended[0], find_hook_event(ended[0], events) or event) if needs_admin else ""
    return replace(_make_failed_message(failure, event=event), admin_text=admin_text)


def explain_removal(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, is_node_lost: bool = False
) -> ProgressMessage:
    """Return why a pod is gone or is being deleted, although the hub did not delete it.

    :param pod: the last observed v1 Pod in JSON.
    :param is_node_lost: whether the pod's node is gone or not ready; used if no event says why the pod is gone.
    """
    code, event = _find_removal(pod, events, is_node_lost=is_node_lost)
    if code == "evicted" and event is not None and event.source is EventSource.KUEUE:
        return _make_failed_message(_explain_kueue_stop(event.message), event=event)
    return _make_failed_message(_explain_disruption(code), event=event)


def explain_end_of_running(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, is_gone: bool, is_time_up: bool = False
) -> StartFailure | None:
    """Return what ended a running server.

    The result is None if the server's program ended by itself, or if nothing shows that the server has ended.

    :param pod: the last observed v1 Pod in JSON, empty if none was observed.
    """
    code, _ = _find_removal(pod, events)
    ended = [each for each in read_containers(pod) if each.exit_code is not None and not each.is_running]
    if not code and (is_time_up or as_text(as_dict(pod.get("status")).get("reason")) == "DeadlineExceeded"):
        code = "run_time_over"
    if not code and any(each.end_reason == "OOMKilled" for each in ended):
        code = "out_of_memory"
    is_removed = is_gone or bool(as_text(as_dict(pod.get("metadata")).get("deletionTimestamp")))
    if not code and (ended or not is_removed):
        return None
    return StartFailure(code=code or "evicted", sentence=_format_end_of_running(code))


def _format_end_of_running(code: str) -> str:
    match code:
        case "preempted":
            return gettext("Your server had to give way to something of higher priority.")
        case "node_lost":
            return gettext("The node that your server ran on was taken out of service.")
        case "evicted":
            return gettext("Your server was sent away from its node.")
        case "out_of_memory":
            return gettext("Your server was ended because it needed more memory than it was given.")
        case "run_time_over":
            return gettext("The time that your server may run for is over.")
        case _:
            return gettext("Your server was ended from outside.")


def _find_removal(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, is_node_lost: bool = False
) -> tuple[str, SourcedEvent | None]:
    event, code = next(
        (
            (event, code)
            for sources, reasons, code in _EVENTS
            if (event := find_newest_event(events, sources, reasons=reasons))
        ),
        (None, "node_lost" if is_node_lost else ""),
    )
    # Kueue's events Stopped and Evicted can have several causes. After a preemption, the message begins with Preempted.
    if event is not None and event.source is EventSource.KUEUE and event.message.startswith("Preempted"):
        code = "preempted"
    disruption = find_condition(pod, "DisruptionTarget")
    if has_condition(pod, "DisruptionTarget"):
        code = _DISRUPTIONS.get(as_text(disruption.get("reason")), code or "evicted")
    elif as_text(as_dict(pod.get("status")).get("reason")) in _REASONS:
        code = _REASONS[as_text(as_dict(pod.get("status")).get("reason"))]
    return code, event


def _describe_failed_pod(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, gpu_name: str
) -> ProgressMessage:
    status = as_dict(pod.get("status"))
    reason, message = as_text(status.get("reason")), as_message(status.get("message"))
    event = find_newest_event(events, {EventSource.KUBELET}, reasons={reason}) if reason else None
    if reason == "UnexpectedAdmissionError":
        return _make_failed_message(_explain_admission_error(message, gpu_name), event=event)
    if reason.startswith(_OUT_OF):
        return _make_failed_message(_explain_out_of_resource(reason.removeprefix(_OUT_OF), gpu_name), event=event)
    if reason == "DeadlineExceeded":
        sentence = gettext("The time that your server may run for was over before it had started.")
        return _make_failed_message(StartFailure(code="evicted", sentence=sentence), event=event)
    if reason == "Evicted" and (short_of := _PRESSURE.search(message)):
        return _make_failed_message(_explain_node_pressure(short_of[1] or "ephemeral-storage"), event=event)
    if reason in _REASONS:
        return _make_failed_message(_explain_disruption(_REASONS[reason]), event=event)
    if has_condition(pod, "DisruptionTarget"):
        return explain_removal(pod, events)
    if reason:
        sentence = gettext("The node that was found refused your server.")
        return _make_failed_message(StartFailure(code="rejected_by_node", sentence=sentence), event=event)
    return _describe_ended_containers(read_containers(pod), events, event=event)


def _explain_admission_error(message: str, gpu_name: str) -> StartFailure:
    gpu = gpu_name or gettext("GPU")
    code = "rejected_by_node"
    if _SHARED_DEVICE.search(message):
        sentence = gettext("Each {gpu} is shared by several servers, and a server can have one share only.", gpu=gpu)
    elif _UNHEALTHY.search(message):
        code = "device_unhealthy"
        sentence = gettext("The {gpu} that was found for your server is out of order.", gpu=gpu)
    elif _PLUGIN_GONE.search(message):
        code = "device_unhealthy"
        sentence = gettext("The node that was found cannot hand out its {gpu} right now.", gpu=gpu)
    elif _NO_DEVICE_LEFT.search(message):
        sentence = gettext("The node that was found has no {gpu} left after all.", gpu=gpu)
    else:
        sentence = gettext("The node that was found could not give your server what it needs.")
    return StartFailure(code=code, sentence=sentence)


def _explain_out_of_resource(resource: str, gpu_name: str) -> StartFailure:
    match resource:
        case "cpu":
            sentence = gettext("The node that was found has too little CPU left after all.")
        case "memory":
            sentence = gettext("The node that was found has too little memory left after all.")
        case "pods":
            sentence = gettext("The node that was found has room for no more servers after all.")
        case _ if "/" in resource:
            gpu = gpu_name or gettext("GPU")
            sentence = gettext("The node that was found has no {gpu} left after all.", gpu=gpu)
        case _:
            sentence = gettext("The node that was found refused your server.")
    return StartFailure(code="rejected_by_node", sentence=sentence)


def _explain_node_pressure(resource: str) -> StartFailure:
    if resource == "memory":
        sentence = gettext("The node ran out of memory while your server was starting there.")
    elif "pid" in resource.lower():
        sentence = gettext("The node ran too many programs while your server was starting there.")
    else:
        sentence = gettext("The node ran out of disk space while your server was starting there.")
    return StartFailure(code="evicted", sentence=sentence)


def _explain_disruption(code: str) -> StartFailure:
    match code:
        case "preempted":
            sentence = gettext("Your server had to give way to something of higher priority while it was starting.")
        case "node_lost":
            sentence = gettext("The node was taken out of service while your server was starting there.")
        case "evicted":
            sentence = gettext("Your server was sent away from its node while it was starting.")
        case _:
            sentence = gettext("Your server was ended from outside while it was starting.")
    return StartFailure(code=code or "evicted", sentence=sentence)


def _explain_kueue_stop(message: str) -> StartFailure:
    # Source of the texts: Kueue 0.16, reconcileNotReadyTimeout and the functions beside it in
    # pkg/controller/core/workload_controller.go.
    if message.startswith("Exceeded the PodsReady timeout"):
        sentence = gettext("The queue gave its quota back to others, because your server was not ready in time.")
    elif message.endswith("Queue is stopped"):
        sentence = gettext("The queue was stopped while your server was starting.")
    else:
        sentence = gettext("The queue ended your server while it was starting.")
    return StartFailure(code="evicted", sentence=sentence)


def _make_failed_message(failure: StartFailure, *, event: SourcedEvent | None = None) -> ProgressMessage:
    return ProgressMessage(stage=Stage.FAILED, sentence=failure.sentence, event=event, is_alarm=True, failure=failure)
