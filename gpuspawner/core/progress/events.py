"""Finds which component wrote each event of a pod, and redacts events for the user.

The reason of an event does not identify the component: several components use the same reasons. Components write events
through two APIs, core/v1 and events.k8s.io/v1, and name themselves in different fields. The API server renames fields
when it converts an event: ``source`` in core/v1 is ``deprecatedSource`` in events.k8s.io/v1, and ``reportingComponent``
is ``reportingController``. Some of the fields, and some timestamps, may be empty
(https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).

A user may see only text about the user's own pod. Messages from Kubernetes can name other users' pods, labels and
taints. This module therefore shows only messages of known events, and redacts such names in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from gpuspawner.core.json_access import as_dict, as_int, as_message, as_text


class EventSource(StrEnum):
    """The component that wrote an event."""

    SCHEDULER = "scheduler"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"
    KUBELET = "kubelet"
    KUEUE = "kueue"
    CONTROLLER = "controller"
    """A controller of kube-controller-manager that handles volumes, taints or nodes."""
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
    """An event of a pod, with the component that wrote the event.

    :param component: name of the component. Several components may have the same ``source``.
    :param count: how often the event occurred, at least 1.
    :param first_at: when the event first occurred, in RFC 3339 without ``Z``; empty if the event has no time.
    :param last_at: when the event last occurred, like ``first_at``.
    :param raw: v1 Event in JSON.
    """

    source: EventSource
    component: str
    reason: str
    message: str
    count: int
    first_at: str
    last_at: str
    raw: Mapping[str, object]


def parse_events(raw: Iterable[object], *, pod_uid: str = "", scheduler: str = "") -> tuple[SourcedEvent, ...]:
    """Return a pod's events in the order of their last occurrence, the newest last.

    :param raw: v1 Events in JSON, oldest first if the order is known.
    :param pod_uid: UID of the pod. Events of earlier pods with the same name are dropped; empty = drop none.
    :param scheduler: the pod's ``schedulerName``, under which a custom scheduler writes its events.
    """
    timed: list[tuple[str, SourcedEvent]] = []
    last = ""
    for entry in map(as_dict, raw):
        uid = as_text(as_dict(entry.get("involvedObject") or entry.get("regarding")).get("uid"))
        if pod_uid and uid not in ("", pod_uid):
            continue
        event = _parse_event(entry, scheduler=scheduler)
        # An event without a time gets the previous event's time, so that sorting keeps it behind the previous event.
        last = event.last_at or last
        timed.append((last, event))
    return tuple(event for _, event in sorted(timed, key=lambda each: each[0]))


def find_newest_event(
    events: Sequence[SourcedEvent], sources: Iterable[EventSource], *, reasons: Iterable[str] = ()
) -> SourcedEvent | None:
    """Return the newest event from one of the sources with one of the reasons, or None.

    If no reasons are given, events with any reason match.
    """
    source_set, reason_set = frozenset(sources), frozenset(reasons)
    for event in reversed(events):
        if event.source in source_set and (not reason_set or event.reason in reason_set):
            return event
    return None


def _parse_event(raw: dict[str, object], *, scheduler: str) -> SourcedEvent:
    series, component = as_int(as_dict(raw.get("series")).get("count")), _read_component(raw)
    return SourcedEvent(
        source=_identify_source(component, scheduler=scheduler),
        component=component,
        reason=as_text(raw.get("reason")),
        message=as_message(raw.get("message")) or as_message(raw.get("note")),
        count=max(1, as_int(raw.get("count")) or 0, as_int(raw.get("deprecatedCount")) or 0, series or 0),
        first_at=_read_time(raw, _FIRST_TIMES),
        last_at=_read_time(raw, _LAST_TIMES),
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


_LAST_TIMES = (
    "series.lastObservedTime",
    "lastTimestamp",
    "deprecatedLastTimestamp",
    "eventTime",
    "firstTimestamp",
    "metadata.creationTimestamp",
)
_FIRST_TIMES = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime", "metadata.creationTimestamp", *_LAST_TIMES)


def _read_time(raw: dict[str, object], fields: Iterable[str]) -> str:
    """Return the first time in the given fields of an event, in RFC 3339, or "" if there is none.

    The result has no ``Z`` at its end, because ``:05Z`` would sort behind ``:05.3Z``.
    """
    for field in fields:
        parent, _, name = field.rpartition(".")
        if time := as_text((as_dict(raw.get(parent)) if parent else raw).get(name)):
            return time.removesuffix("Z")
    return ""


def parse_time(text: str) -> datetime | None:
    """Return a time of the API as a ``datetime`` in UTC, or None if it cannot be parsed.

    :param text: time in RFC 3339, with or without ``Z``.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


REDACTED = "…"

_FIELDS = ("type", "reason", "count", "firstTimestamp", "lastTimestamp", "eventTime", "reportingComponent")
_KEPT_REASONS: Mapping[EventSource, frozenset[str]] = {
    EventSource.SCHEDULER: frozenset({"FailedScheduling", "Scheduled"}),
    EventSource.CLUSTER_AUTOSCALER: frozenset({"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp"}),
    EventSource.KARPENTER: frozenset({"Nominated", "FailedScheduling"}),
    EventSource.KUBELET: frozenset(
        {"BackOff", "Created", "ErrImageNeverPull", "Failed", "FailedCreatePodSandBox", "FailedMount", "InspectFailed",
         "Pulled", "Pulling", "Started", "UnexpectedAdmissionError", "FailedToRetrieveImagePullSecret"}
    ),
    EventSource.CONTROLLER: frozenset({"FailedAttachVolume", "SuccessfulAttachVolume"}),
    EventSource.KUEUE: frozenset({"CreatedWorkload", "Started"}),
}  # fmt: skip
_VOLUME_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "SuccessfulAttachVolume"})
_IN_BRACES = re.compile(r"\{[^{}]*\}|\{[^{}]*$")
"""Matches text in braces, which may contain taints and labels. It is redacted unless it is a :data:`_NODE_GROUP`."""
_NODE_GROUP = re.compile(r"\{[^{}\s]+ \d+->\d+ \(max: \d+\)\}")
"""The only text in braces that users may see: a node group of cluster-autoscaler, with its name and its sizes (current,
new, largest)."""
_KARPENTER_PHRASES = re.compile(
    r"Pod should schedule on: (?:node|nodeclaim)/[\w.-]+(?:, (?:node|nodeclaim)/[\w.-]+)*|Failed to schedule pod"
    r"|incompatible with nodepool|did not tolerate|incompatible requirements|does not have known values"
    r"|all available instance types exceed limits for nodepool|node limits have been exhausted"
    r"|no instance type (?:has enough resources|which had enough resources|met the scheduling requirements)"
)
"""The parts of Karpenter's messages that users may see. The text between them is redacted: it can contain names of
pools, and keys and values of taints and labels."""
_VOLUME_PHRASES = re.compile(
    r"(?P<known>(?:MountVolume|AttachVolume|MapVolume)\.\w+ (?:failed|succeeded) for volume \"[^\"]*\"(?: : "
    r"(?:secret|configmap) \"[^\"]*\" not found| : references non-existent (?:secret|config) key: [\w.-]+)?"
    r"|Unable to attach or mount volumes: [\w=\[\], .-]*(?:: timed out waiting for the condition)?"
    r"|Multi-Attach error for volume \"[^\"]*\" Volume is already"
    r"(?: exclusively attached to one node and can't be attached to another)?)(?P<rest>.*)",
    re.DOTALL,
)
"""The part of a volume error that users may see. The rest is redacted: the storage driver writes it, and can
name other users' pods or volumes."""
_OTHER_PODS = re.compile(
    r"\b(?:preempt(?:ed|ing)? (?:by|to)\b|(?:in use|used) by\b|by pods?\b|to accommodate\b|victims?:|pods?: "
    r"|(?:held|locked|owned|claimed|taken|mounted|blocked) by\b|belong(?:s|ing) to\b|reserved (?:by|for)\b).*",
    re.IGNORECASE | re.DOTALL,
)
_CLAIM_PREFIX = "claim-"
"""The prefix that KubeSpawner gives to the names of users' PersistentVolumeClaims."""


def scrub_event(event: Mapping[str, object]) -> dict[str, object]:
    """Return a v1 Event in JSON with only what the pod's user may see; never raises.

    If this module does not know the event's component and reason, the whole message becomes ``…``. In other messages,
    ``…`` replaces labels, taints, and the names of other users' pods.
    """
    parsed = parse_events([event])[0]
    pod = as_dict(parsed.raw.get("involvedObject") or parsed.raw.get("regarding"))
    fields = ((name, parsed.raw.get(name)) for name in _FIELDS)
    kept: dict[str, object] = {name: as_message(raw) if isinstance(raw, str) else raw for name, raw in fields}
    kept["message"] = _scrub_message(parsed, name=as_text(pod.get("name")), namespace=as_text(pod.get("namespace")))
    kept["source"] = {"component": as_text(as_dict(parsed.raw.get("source")).get("component"))}
    kept["involvedObject"] = {key: as_text(pod.get(key)) for key in ("kind", "namespace", "name")}
    return kept


_REFUSAL_PHRASES = re.compile(
    r'^(?:pods|Pod) "[\w.-]+" is (?:forbidden|invalid):'
    r"|exceeded quota: [\w.-]+(?:, (?:requested|used|limited): [\w./=-]+(?:,[\w./=-]+)*)*"
    r"|(?:maximum|minimum) [\w./-]+ usage per \w+ is [\w.]+(?:, but (?:limit|request) is [\w.]+,?"
    r"|\.  No (?:limit|request) is specified)"
    r"|(?<![\w./-])[\w./-]+ max limit to request ratio per \w+ is [\w.]+, but provided ratio is [\w.]+,?"
    r"|failed quota: [\w.-]+: must specify [^;]+"
    r'|cannot \w+ resource "[\w./-]+" in API group "[\w.-]*"(?: in the namespace "[\w.-]+"| at the cluster scope)'
    r'|(?:RuntimeClass|serviceaccount|PriorityClass|secret|configmap) "[\w.-]+" not found'
    r"|no PriorityClass with name [\w.-]+ was found"
    r"|spec\.[\w.\[\]]{1,200}: (?:Invalid value|Required value|Forbidden|Duplicate value|Unsupported value|Not found).*"
    r'|admission webhook "[^"]+" denied the request: .*'
    r"|ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request: .*"
    r'|violates PodSecurity "[^"]+": .*',
    re.DOTALL,
)
"""Matches the parts of the API server's message about a refused pod that the pod's user may see."""


def scrub_refusal(answer: str, *, pod_name: str = "", namespace: str = "") -> str:
    """Return what the user of a refused pod may see of the API server's message, or "" if the user may see nothing.

    :param answer: the message in the API server's error response.
    """
    if not any(not each[0].endswith(":") for each in _REFUSAL_PHRASES.finditer(answer)):
        return ""
    known = _keep_known_phrases(_REFUSAL_PHRASES, answer)
    return _redact_others(known, name=pod_name, namespace=namespace)


def _scrub_message(event: SourcedEvent, *, name: str, namespace: str) -> str:
    is_rejection = event.source is EventSource.KUBELET and event.reason.startswith("OutOf")
    if event.reason not in _KEPT_REASONS.get(event.source, frozenset()) and not is_rejection:
        return REDACTED
    return _redact_others(_OTHER_PODS.sub(REDACTED, _remove_names(event)), name=name, namespace=namespace)


def _redact_others(message: str, *, name: str, namespace: str) -> str:
    # Names of all servers' pods have the same prefix (jupyter-ada, jupyter-bob). Redact other users' names.
    prefix = name.partition("-")[0]
    if prefix:
        message = _redact_other_names(rf"\b{re.escape(prefix)}-[\w.-]+", own=name, message=message)
    if namespace:
        message = _redact_other_names(rf"\b{re.escape(namespace)}/[\w.-]+", own=f"{namespace}/{name}", message=message)
    return re.sub(
        rf"\b{_CLAIM_PREFIX}([\w-]+)",
        lambda found: found[0] if _is_part_of_own_name(found[1], name) else REDACTED,
        message,
    )


def _remove_names(event: SourcedEvent) -> str:
    message = event.message
    if event.source is EventSource.CLUSTER_AUTOSCALER:
        return _IN_BRACES.sub(lambda found: found[0] if _NODE_GROUP.fullmatch(found[0]) else REDACTED, message)
    if event.source is EventSource.KARPENTER:
        return _keep_known_phrases(_KARPENTER_PHRASES, message)
    if event.reason in _VOLUME_REASONS:
        known = _VOLUME_PHRASES.fullmatch(message)
        return f"{known['known']}{f' {REDACTED}' if known['rest'] else ''}" if known else REDACTED
    return _IN_BRACES.sub(REDACTED, message)


_PUNCTUATION = " ,;.[]"


def _keep_known_phrases(known: re.Pattern[str], message: str) -> str:
    found, at = [], 0
    for each in known.finditer(message):
        found += [REDACTED] if message[at : each.start()].strip(_PUNCTUATION) else []
        found.append(each[0])
        at = each.end()
    return " ".join([*found, REDACTED] if message[at:].strip(_PUNCTUATION) else found)


def _is_part_of_own_name(found: str, own: str) -> bool:
    """Return whether a PersistentVolumeClaim counts as a claim of the user of the pod named ``own``.

    For example, ``claim-ada`` counts as a claim of the user of the pod ``jupyter-ada--lab``.

    :param found: name of the claim without the prefix ``claim-``.
    """
    return f"{own.partition('-')[2]}-".startswith(f"{found}-")


def _redact_other_names(pattern: str, *, own: str, message: str) -> str:
    return re.sub(pattern, lambda found: found[0] if _is_own_name(found[0], own) else REDACTED, message)


def _is_own_name(found: str, own: str) -> bool:
    """Return whether ``found`` is the pod name ``own``, alone or in kubelet's form ``NAME_NAMESPACE(UID)``."""
    return found.rstrip(".") == own or found.startswith(f"{own}_")
