"""An event as its own person may see it: messages of Kubernetes name other people's pods, and what nodes are kept for.

Whatever is not known to be about the person's own pod is left out: a message is kept where its form is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuspawner.core.event_sources import Event, Source, events_of
from gpuspawner.core.rawjson import mapping, text

LEFT_OUT = "…"

_FIELDS = ("type", "reason", "count", "firstTimestamp", "lastTimestamp", "eventTime", "reportingComponent")
_KEPT: Mapping[Source, frozenset[str]] = {
    Source.SCHEDULER: frozenset({"FailedScheduling", "Scheduled"}),
    Source.CLUSTER_AUTOSCALER: frozenset({"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp"}),
    Source.KARPENTER: frozenset({"Nominated", "FailedScheduling"}),
    Source.KUBELET: frozenset(
        {"BackOff", "Created", "ErrImageNeverPull", "Failed", "FailedCreatePodSandBox", "FailedMount", "InspectFailed",
         "Pulled", "Pulling", "Started", "UnexpectedAdmissionError", "FailedToRetrieveImagePullSecret"}
    ),
    Source.CONTROLLER: frozenset({"FailedAttachVolume", "SuccessfulAttachVolume"}),
    Source.KUEUE: frozenset({"CreatedWorkload", "Started"}),
}  # fmt: skip
_IN_BRACES = re.compile(r"\{[^{}]*\}|\{[^{}]*$")
"""Keys and values of taints and labels."""
_OTHERS = re.compile(
    r"\b(?:preempt(?:ed|ing)? (?:by|to)\b|used by\b|in use by\b|by pods?\b|to accommodate\b|victims?:|pods?: ).*",
    re.IGNORECASE | re.DOTALL,
)


def scrubbed(event: Mapping[str, object]) -> dict[str, object]:
    """Return an event (v1 Event in JSON) with what is about the person's own pod; never raises.

    Its message is ``…`` where it is not known to be.
    """
    known = events_of([event])[0]
    pod = mapping(known.raw.get("involvedObject") or known.raw.get("regarding"))
    kept: dict[str, object] = {name: known.raw.get(name) for name in _FIELDS}
    kept["message"] = _message(known, name=text(pod.get("name")), namespace=text(pod.get("namespace")))
    kept["source"] = {"component": text(mapping(known.raw.get("source")).get("component"))}
    kept["involvedObject"] = {key: text(pod.get(key)) for key in ("kind", "namespace", "name")}
    return kept


def _message(event: Event, *, name: str, namespace: str) -> str:
    is_rejection = event.source is Source.KUBELET and event.reason.startswith("OutOf")
    if event.reason not in _KEPT.get(event.source, frozenset()) and not is_rejection:
        return LEFT_OUT
    message = event.message
    # Braces of cluster-autoscaler's hold the names and sizes of node groups.
    if event.source is not Source.CLUSTER_AUTOSCALER:
        message = _IN_BRACES.sub(LEFT_OUT, message)
    message = _OTHERS.sub(LEFT_OUT, message)
    # Servers of one hub are named alike: jupyter-ada, jupyter-bob.
    prefix = name.partition("-")[0]
    if prefix:
        message = _others_called(rf"\b{re.escape(prefix)}-[\w.-]+", own=name, message=message)
    if namespace:
        message = _others_called(rf"\b{re.escape(namespace)}/[\w.-]+", own=f"{namespace}/{name}", message=message)
    return message


def _others_called(pattern: str, *, own: str, message: str) -> str:
    return re.sub(pattern, lambda found: found[0] if _is_own(found[0], own) else LEFT_OUT, message)


def _is_own(found: str, own: str) -> bool:
    """Tell whether it is the pod itself, also as it stands in its own identity (``NAME_NAMESPACE(UID)``)."""
    return found.rstrip(".") == own or found.startswith(f"{own}_")
