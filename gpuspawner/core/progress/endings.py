"""Why a pod ended, or is being ended, before its server was ready: nothing makes another one of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuspawner.core.progress.container_troubles import why_ended
from gpuspawner.core.progress.event_sources import AUTOSCALERS, Event, Source, newest
from gpuspawner.core.progress.pod_status import condition, containers, is_true, phase
from gpuspawner.core.progress.stages import Hopeless, Saying, Stage
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.core.text.language import gettext

_UNHEALTHY = re.compile(r"no healthy devices|unhealthy|no longer healthy")
_PLUGIN_GONE = re.compile(r"unregistered device|has been stopped|code = (?:Unavailable|Canceled)")
_SHARED = re.compile(r"maximum request size for shared resources is 1|at most 1 \S+ can be requested")
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
_EVENTS: tuple[tuple[frozenset[Source], frozenset[str], str], ...] = (
    (frozenset({Source.SCHEDULER, Source.KUEUE}), frozenset({"Preempted"}), "preempted"),
    (frozenset({Source.KUBELET}), frozenset({"Preempting"}), "preempted"),
    (frozenset({Source.KUBELET}), frozenset({"Evicted"}), "evicted"),
    (frozenset({Source.CONTROLLER}), frozenset({"TaintManagerEviction", "NodeControllerEviction"}), "node_lost"),
    (AUTOSCALERS, frozenset({"ScaleDown", "Evicted", "Disrupted"}), "evicted"),
    (frozenset({Source.KUEUE}), frozenset({"Stopped", "Evicted", "EvictedDueToPreempted"}), "evicted"),
)
_SHORT_OF = re.compile(r"low on resource: ([\w-]+)|(ephemeral[- ](?:local )?storage|EmptyDir)", re.IGNORECASE)


def ending(
    pod: Mapping[str, object], events: Sequence[Event], *, gpu_name: str = "", is_node_lost: bool = False
) -> Saying | None:
    """Return why a pod ended or is being ended, None while it lives.

    :param gpu_name: what people call its GPUs, empty for none.
    :param is_node_lost: as for :func:`taken_away`.
    """
    is_deleted = bool(text(mapping(pod.get("metadata")).get("deletionTimestamp")))
    if phase(pod) == "Failed":
        return _failed(pod, events, gpu_name=gpu_name)
    if is_deleted or is_true(pod, "DisruptionTarget"):
        return taken_away(pod, events, is_node_lost=is_node_lost)
    if phase(pod) == "Succeeded":
        return _saying(
            Hopeless(code="crashed", sentence=gettext("The program of your server ended while it was starting."))
        )
    return None


def taken_away(pod: Mapping[str, object], events: Sequence[Event], *, is_node_lost: bool = False) -> Saying:
    """Return why a pod is gone that nobody here has deleted.

    :param pod: as it was last seen.
    :param is_node_lost: its node is not ready or gone. Of a pod that never ran there, nothing else tells that.
    """
    event, code = next(
        ((event, code) for sources, reasons, code in _EVENTS if (event := newest(events, sources, reasons=reasons))),
        (None, "node_lost" if is_node_lost else ""),
    )
    # Kueue stops a pod for several reasons, and says which in words.
    if event is not None and event.source is Source.KUEUE and event.message.startswith("Preempted"):
        code = "preempted"
    disruption = condition(pod, "DisruptionTarget")
    if is_true(pod, "DisruptionTarget"):
        code = _DISRUPTIONS.get(text(disruption.get("reason")), code or "evicted")
    elif text(mapping(pod.get("status")).get("reason")) in _REASONS:
        code = _REASONS[text(mapping(pod.get("status")).get("reason"))]
    return _saying(_ended_by_cluster(code), event=event)


def _failed(pod: Mapping[str, object], events: Sequence[Event], *, gpu_name: str) -> Saying:
    status = mapping(pod.get("status"))
    reason, message = text(status.get("reason")), text(status.get("message"))
    event = newest(events, {Source.KUBELET}, reasons={reason}) if reason else None
    if reason == "UnexpectedAdmissionError":
        return _saying(_not_admitted(message, gpu_name), event=event)
    if reason.startswith(_OUT_OF):
        return _saying(_out_of(reason.removeprefix(_OUT_OF), gpu_name), event=event)
    if reason == "DeadlineExceeded":
        text_ = gettext("The time that your server may run for was over before it had started.")
        return _saying(Hopeless(code="evicted", sentence=text_), event=event)
    if reason == "Evicted" and (short_of := _SHORT_OF.search(message)):
        return _saying(_short(short_of[1] or "ephemeral-storage"), event=event)
    if reason in _REASONS:
        return _saying(_ended_by_cluster(_REASONS[reason]), event=event)
    if is_true(pod, "DisruptionTarget"):
        return taken_away(pod, events)
    if reason:
        text_ = gettext("The node that was found refused your server.")
        return _saying(Hopeless(code="rejected_by_node", sentence=text_), event=event)
    ended = [each for each in containers(pod) if each.exit_code or each.ended == "OOMKilled"]
    if ended:
        return _saying(why_ended(ended[0]), event=event)
    return _saying(
        Hopeless(code="crashed", sentence=gettext("The program of your server ended while it was starting."))
    )


def _not_admitted(message: str, gpu_name: str) -> Hopeless:
    gpu = gpu_name or gettext("GPU")
    if _SHARED.search(message):
        sentence = gettext("Each {gpu} is shared by several servers, and a server can have one share only.", gpu=gpu)
        return Hopeless(code="rejected_by_node", sentence=sentence)
    if _UNHEALTHY.search(message):
        sentence = gettext("The {gpu} that was found for your server is out of order.", gpu=gpu)
        return Hopeless(code="device_unhealthy", sentence=sentence)
    if _PLUGIN_GONE.search(message):
        sentence = gettext("The node that was found cannot hand out its {gpu} right now.", gpu=gpu)
        return Hopeless(code="device_unhealthy", sentence=sentence)
    if _NO_DEVICE_LEFT.search(message):
        sentence = gettext("The node that was found has no {gpu} left after all.", gpu=gpu)
        return Hopeless(code="rejected_by_node", sentence=sentence)
    sentence = gettext("The node that was found could not give your server what it needs.")
    return Hopeless(code="rejected_by_node", sentence=sentence)


def _out_of(resource: str, gpu_name: str) -> Hopeless:
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
    return Hopeless(code="rejected_by_node", sentence=sentence)


def _short(resource: str) -> Hopeless:
    if resource == "memory":
        sentence = gettext("The node ran out of memory while your server was starting there.")
    elif "pid" in resource.lower():
        sentence = gettext("The node ran too many programs while your server was starting there.")
    else:
        sentence = gettext("The node ran out of disk space while your server was starting there.")
    return Hopeless(code="evicted", sentence=sentence)


def _ended_by_cluster(code: str) -> Hopeless:
    match code:
        case "preempted":
            sentence = gettext("Your server had to give way to something of higher priority while it was starting.")
        case "node_lost":
            sentence = gettext("The node was taken out of service while your server was starting there.")
        case "evicted":
            sentence = gettext("Your server was sent away from its node while it was starting.")
        case _:
            sentence = gettext("Your server was ended from outside while it was starting.")
    return Hopeless(code=code or "evicted", sentence=sentence)


def _saying(hopeless: Hopeless, *, event: Event | None = None) -> Saying:
    return Saying(stage=Stage.FAILED, sentence=hopeless.sentence, event=event, is_alarm=True, hopeless=hopeless)
