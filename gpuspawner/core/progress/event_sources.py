"""Events of a pod, told apart by who wrote them: several components use the same reasons.

Two recorders write events, and the API server translates: what one calls ``source.component`` the other calls
``reportingController``, and the times of one may be null in the other's
(https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.rawjson import mapping, text, whole


class Source(StrEnum):
    """Who writes events of pods."""

    SCHEDULER = "scheduler"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"
    KUBELET = "kubelet"
    KUEUE = "kueue"
    CONTROLLER = "controller"
    """One of kube-controller-manager's: volumes, taints, nodes."""
    OTHER = "other"


AUTOSCALERS = frozenset({Source.CLUSTER_AUTOSCALER, Source.KARPENTER})

_SOURCES = {
    "cluster-autoscaler": Source.CLUSTER_AUTOSCALER,
    "karpenter": Source.KARPENTER,
    "eks-auto-mode/compute": Source.KARPENTER,
    "kubelet": Source.KUBELET,
    "attachdetach-controller": Source.CONTROLLER,
    "node-controller": Source.CONTROLLER,
    "persistentvolume-controller": Source.CONTROLLER,
    "taint-controller": Source.CONTROLLER,
    "taint-eviction-controller": Source.CONTROLLER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as far as anybody here asks for it.

    :param count: how often it happened, at least 1.
    :param raw: all of it, as the API sent it.
    """

    source: Source
    reason: str
    message: str
    count: int
    raw: Mapping[str, object]


def events_of(raw: Iterable[object], *, pod_uid: str = "", scheduler: str = "") -> tuple[Event, ...]:
    """Return events of a pod in the order in which they last happened.

    :param raw: as the API sends them, oldest first as far as known.
    :param pod_uid: those of other pods of the same name are left out; empty for all.
    :param scheduler: the pod's ``schedulerName``: a scheduler of one's own writes events under it.
    """
    timed: list[tuple[str, Event]] = []
    last = ""
    for entry in map(mapping, raw):
        if pod_uid and _uid(entry) not in ("", pod_uid):
            continue
        # One without a time of its own stays where it stands.
        last = _time(entry) or last
        timed.append((last, _event(entry, scheduler=scheduler)))
    return tuple(event for _, event in sorted(timed, key=lambda each: each[0]))


def newest(events: Sequence[Event], sources: Iterable[Source], *, reasons: Iterable[str] = ()) -> Event | None:
    """Return the newest event that one of some sources wrote for one of some reasons; for any where none is named."""
    wanted, named = frozenset(sources), frozenset(reasons)
    for event in reversed(events):
        if event.source in wanted and (not named or event.reason in named):
            return event
    return None


def _event(raw: dict[str, object], *, scheduler: str) -> Event:
    series = whole(mapping(raw.get("series")).get("count"))
    return Event(
        source=_source(_component(raw), scheduler=scheduler),
        reason=text(raw.get("reason")),
        message=text(raw.get("message")) or text(raw.get("note")),
        count=max(1, whole(raw.get("count")) or 0, whole(raw.get("deprecatedCount")) or 0, series or 0),
        raw=raw,
    )


def _component(raw: dict[str, object]) -> str:
    sources = (mapping(raw.get("source")), mapping(raw.get("deprecatedSource")))
    named = (text(source.get("component")) for source in sources)
    reporting = (text(raw.get("reportingComponent")), text(raw.get("reportingController")))
    return next(filter(None, (*named, *reporting)), "")


def _source(component: str, *, scheduler: str) -> Source:
    if component in _SOURCES:
        return _SOURCES[component]
    if "kueue" in component:
        return Source.KUEUE
    is_scheduler = "scheduler" in component or (component and component == scheduler)
    return Source.SCHEDULER if is_scheduler else Source.OTHER


def _uid(raw: dict[str, object]) -> str:
    return text(mapping(raw.get("involvedObject") or raw.get("regarding")).get("uid"))


def _time(raw: dict[str, object]) -> str:
    """Return when it last happened, in a form that sorts: whole seconds before their fractions."""
    series, metadata = mapping(raw.get("series")), mapping(raw.get("metadata"))
    times = (
        series.get("lastObservedTime"),
        raw.get("lastTimestamp"),
        raw.get("deprecatedLastTimestamp"),
        raw.get("eventTime"),
        raw.get("firstTimestamp"),
        metadata.get("creationTimestamp"),
    )
    return next(filter(None, map(text, times)), "").removesuffix("Z")
