"""An event as its own person may see it: messages of Kubernetes name other people's pods, and what nodes are kept for.

Whatever is not known to be about the person's own pod is left out: a message is kept where its form is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuspawner.core.progress.event_sources import Event, Source, events_of
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
_VOLUMES = frozenset({"FailedMount", "FailedAttachVolume", "SuccessfulAttachVolume"})
_IN_BRACES = re.compile(r"\{[^{}]*\}|\{[^{}]*$")
"""Keys and values of taints and labels."""
_NODE_GROUP = re.compile(r"\{[^{}\s]+ \d+->\d+ \(max: \d+\)\}")
"""What cluster-autoscaler adds to: a node group with its sizes."""
_KARPENTERS = re.compile(
    r"Pod should schedule on: (?:node|nodeclaim)/[\w.-]+(?:, (?:node|nodeclaim)/[\w.-]+)*|Failed to schedule pod"
    r"|incompatible with nodepool|did not tolerate|incompatible requirements|does not have known values"
    r"|all available instance types exceed limits for nodepool|node limits have been exhausted"
    r"|no instance type (?:has enough resources|which had enough resources|met the scheduling requirements)"
)
"""All that is kept of Karpenter's words: between them are names of pools, keys and values of taints and labels."""
_VOLUME = re.compile(
    r"(?P<known>(?:MountVolume|AttachVolume|MapVolume)\.\w+ (?:failed|succeeded) for volume \"[^\"]*\"(?: : "
    r"(?:secret|configmap) \"[^\"]*\" not found| : references non-existent (?:secret|config) key: [\w.-]+)?"
    r"|Unable to attach or mount volumes: [\w=\[\], .-]*(?:: timed out waiting for the condition)?"
    r"|Multi-Attach error for volume \"[^\"]*\" Volume is already"
    r"(?: exclusively attached to one node and can't be attached to another)?)(?P<rest>.*)",
    re.DOTALL,
)
"""All that is kept of what is said of volumes: a driver may say anything after that."""
_OTHERS = re.compile(
    r"\b(?:preempt(?:ed|ing)? (?:by|to)\b|(?:in use|used) by\b|by pods?\b|to accommodate\b|victims?:|pods?: "
    r"|(?:held|locked|owned|claimed|taken|mounted|blocked) by\b|belong(?:s|ing) to\b|reserved (?:by|for)\b).*",
    re.IGNORECASE | re.DOTALL,
)
_CLAIMS = "claim-"
"""How KubeSpawner calls people's volumes."""


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
    message = _OTHERS.sub(LEFT_OUT, _without_names(event))
    # Servers of one hub are named alike: jupyter-ada, jupyter-bob.
    prefix = name.partition("-")[0]
    if prefix:
        message = _others_called(rf"\b{re.escape(prefix)}-[\w.-]+", own=name, message=message)
    if namespace:
        message = _others_called(rf"\b{re.escape(namespace)}/[\w.-]+", own=f"{namespace}/{name}", message=message)
    return re.sub(rf"\b{_CLAIMS}([\w-]+)", lambda found: found[0] if _is_part(found[1], name) else LEFT_OUT, message)


def _without_names(event: Event) -> str:
    """Return an event's message without what its writer puts between words of its own."""
    message = event.message
    if event.source is Source.CLUSTER_AUTOSCALER:
        return _IN_BRACES.sub(lambda found: found[0] if _NODE_GROUP.fullmatch(found[0]) else LEFT_OUT, message)
    if event.source is Source.KARPENTER:
        return _only(_KARPENTERS, message)
    if event.reason in _VOLUMES:
        known = _VOLUME.fullmatch(message)
        return f"{known['known']}{f' {LEFT_OUT}' if known['rest'] else ''}" if known else LEFT_OUT
    return _IN_BRACES.sub(LEFT_OUT, message)


def _only(known: re.Pattern[str], message: str) -> str:
    """Return what of a message is known, with a mark for each thing that is not."""
    found, at = [], 0
    for each in known.finditer(message):
        found += [LEFT_OUT] if message[at : each.start()].strip(" ,;.") else []
        found.append(each[0])
        at = each.end()
    return " ".join([*found, LEFT_OUT] if message[at:].strip(" ,;.") else found)


def _is_part(found: str, own: str) -> bool:
    """Tell whether it is what comes after the first word of a pod's name, or the beginning of that."""
    return f"{own.partition('-')[2]}-".startswith(f"{found}-")


def _others_called(pattern: str, *, own: str, message: str) -> str:
    return re.sub(pattern, lambda found: found[0] if _is_own(found[0], own) else LEFT_OUT, message)


def _is_own(found: str, own: str) -> bool:
    """Tell whether it is the pod itself, also as it stands in its own identity (``NAME_NAMESPACE(UID)``)."""
    return found.rstrip(".") == own or found.startswith(f"{own}_")
