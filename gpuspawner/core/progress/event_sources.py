"""Events of a pod, told apart by who wrote them: several components use the same reasons.

Two recorders write events, and the API server translates: what one calls ``source.component`` the other calls
``reportingController``, and the times of one may be null in the other's
(https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.rawjson import as_dict, as_int, as_text


class EventSource(StrEnum):
    """Who writes events of pods."""

    SCHEDULER = "scheduler"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"
    KUBELET = "kubelet"
    KUEUE = "kueue"
    CONTROLLER = "controller"
    """One of kube-controller-manager's: volumes, taints, nodes."""
    OTHER = "other"


AUTOSCALER_SOURCES = frozenset({EventSource.CLUSTER_AUTOSCALER, EventSource.KARPENTER})

_SOURCES = {
    "cluster-autoscaler": EventSource.CLUSTER_AUTOSCALER,
    "karpenter": EventSource.KARPENTER,
    "eks-auto-mode/compute": EventSource.KARPENTER,
    "kubelet": EventSource.KUBELET,
    "attachdetach-controller": EventSource.CONTROLLER,
    "node-controller": EventSource.CONTROLLER,
    "persistentvolume-controller": EventSource.CONTROLLER,
    "taint-controller": EventSource.CONTROLLER,
    "taint-eviction-controller": EventSource.CONTROLLER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedEvent:
    """An event as far as anybody here asks for it.

    :param count: how often it happened, at least 1.
    :param raw: all of it, as the API sent it.
    """

    source: EventSource
    reason: str
    message: str
    count: int
    raw: Mapping[str, object]


def parse_events(raw: Iterable[object], *, pod_uid: str = "", scheduler: str = "") -> tuple[SourcedEvent, ...]:
    """Return events of a pod in the order in which they last happened.

    :param raw: as the API sends them, oldest first as far as known.
    :param pod_uid: those of other pods of the same name are left out; empty for all.
    :param scheduler: the pod's ``schedulerName``: a scheduler of one's own writes events under it.
    """
    timed: list[tuple[str, SourcedEvent]] = []
    last = ""
    for entry in map(as_dict, raw):
        if pod_uid and _read_uid(entry) not in ("", pod_uid):
            continue
        # One without a time of its own stays where it stands.
        last = _read_last_time(entry) or last
        timed.append((last, _parse_event(entry, scheduler=scheduler)))
    return tuple(event for _, event in sorted(timed, key=lambda each: each[0]))


def find_newest_event(
    events: Sequence[SourcedEvent], sources: Iterable[EventSource], *, reasons: Iterable[str] = ()
) -> SourcedEvent | None:
    """Return the newest event that one of some sources wrote for one of some reasons; for any where none is named."""
    wanted, named = frozenset(sources), frozenset(reasons)
    for event in reversed(events):
        if event.source in wanted and (not named or event.reason in named):
            return event
    return None


def _parse_event(raw: dict[str, object], *, scheduler: str) -> SourcedEvent:
    series = as_int(as_dict(raw.get("series")).get("count"))
    return SourcedEvent(
        source=_identify_source(_read_component(raw), scheduler=scheduler),
        reason=as_text(raw.get("reason")),
        message=as_text(raw.get("message")) or as_text(raw.get("note")),
        count=max(1, as_int(raw.get("count")) or 0, as_int(raw.get("deprecatedCount")) or 0, series or 0),
        raw=raw,
    )


def _read_component(raw: dict[str, object]) -> str:
    sources = (as_dict(raw.get("source")), as_dict(raw.get("deprecatedSource")))
    named = (as_text(source.get("component")) for source in sources)
    reporting = (as_text(raw.get("reportingComponent")), as_text(raw.get("reportingController")))
    return next(filter(None, (*named, *reporting)), "")


def _identify_source(component: str, *, scheduler: str) -> EventSource:
    if component in _SOURCES:
        return _SOURCES[component]
    if "kueue" in component:
        return EventSource.KUEUE
    is_scheduler = "scheduler" in component or (component and component == scheduler)
    return EventSource.SCHEDULER if is_scheduler else EventSource.OTHER


def _read_uid(raw: dict[str, object]) -> str:
    return as_text(as_dict(raw.get("involvedObject") or raw.get("regarding")).get("uid"))


def _read_last_time(raw: dict[str, object]) -> str:
    """Return when it last happened, in a form that sorts: whole seconds before their fractions."""
    series, metadata = as_dict(raw.get("series")), as_dict(raw.get("metadata"))
    times = (
        series.get("lastObservedTime"),
        raw.get("lastTimestamp"),
        raw.get("deprecatedLastTimestamp"),
        raw.get("eventTime"),
        raw.get("firstTimestamp"),
        metadata.get("creationTimestamp"),
    )
    return next(filter(None, map(as_text, times)), "").removesuffix("Z")
