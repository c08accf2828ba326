"""Describes the progress of a pod that has a node: volumes, images, and the server's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuspawner.core.progress.containers import find_container_trouble, format_missing_secret
from gpuspawner.core.progress.events import EventSource, SourcedEvent
from gpuspawner.core.progress.images import format_pulled, format_pulling, parse_image_name, parse_pulled
from gpuspawner.core.progress.model import Facts, ProgressMessage, Stage, StartFailure
from gpuspawner.core.progress.pod_status import has_condition, list_images, read_containers
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import add_article, join_sentences

STUCK_AFTER_S = 45.0
"""Seconds from the observation that the pod's node is not ready, or that a Secret or ConfigMap of a volume is missing,
until the hub ends the start. If the problem disappears within this time, the start goes on."""

_STEPS = frozenset({"Pulling", "Pulled", "Created", "Started"})
_VOLUME_TROUBLES = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed"})
_OTHER_TROUBLES = frozenset({"FailedCreatePodSandBox", "FailedPrepareDynamicResources", "NetworkNotReady"})
_NO_PULL_SECRET_REASON = "FailedToRetrieveImagePullSecret"  # noqa: S105 - a reason of an event


def describe_on_node(facts: Facts, events: Sequence[SourcedEvent]) -> ProgressMessage:
    """Return the message about the current step of a pod on its node: volumes, image pull, or program start."""
    pod = facts.pod or {}
    if has_condition(pod, "Ready"):
        return ProgressMessage(
            stage=Stage.READY,
            sentence=gettext("Your server runs. Its page opens as soon as it answers."),
        )
    if (trouble := find_container_trouble(pod, events)) is not None:
        return trouble
    if facts.is_node_ready is False:
        return _describe_lost_node()
    step = _find_last_step(events)
    if step is not None and step.reason in _VOLUME_TROUBLES:
        return _describe_volume_trouble(step)
    if step is not None and step.reason in _OTHER_TROUBLES:
        return _make_alarm(step, gettext("The node cannot prepare your server yet; it tries again."))
    if step is not None and step.reason == "Pulling":
        return _describe_pulling(step, facts, events=events)
    if step is not None or any(each.is_running or each.end_reason for each in read_containers(pod)):
        return _describe_starting(step, facts, events=events)
    return ProgressMessage(
        stage=Stage.SCHEDULED, sentence=_format_node_found(facts.gpu_name), event=_find_scheduled_event(events)
    )


def list_passed_steps(current: ProgressMessage, events: Sequence[SourcedEvent]) -> tuple[ProgressMessage, ...]:
    """Return messages about the steps that the pod may have passed since the previous observation.

    The steps are: image pulled, program started. The tracker reports those that the user has not seen.
    """
    if current.is_alarm or current.stage not in (Stage.STARTING, Stage.READY):
        return ()
    fetched = _describe_pulled(events)
    running = ProgressMessage(stage=Stage.STARTING, sentence=_format_program_starting())
    found = [*([fetched] if fetched else []), *([running] if current.stage is Stage.READY else [])]
    return tuple(each for each in found if each.sentence != current.sentence)


def _find_last_step(events: Sequence[SourcedEvent]) -> SourcedEvent | None:
    for event in reversed(events):
        if event.source is EventSource.KUBELET and event.reason in _STEPS | _VOLUME_TROUBLES | _OTHER_TROUBLES:
            return event
        if event.source is EventSource.CONTROLLER and event.reason in _VOLUME_TROUBLES:
            return event
        if event.source is EventSource.CONTROLLER and event.reason == "SuccessfulAttachVolume":
            return None
    return None


def _find_scheduled_event(events: Sequence[SourcedEvent]) -> SourcedEvent | None:
    found = (each for each in events if each.source is EventSource.SCHEDULER and each.reason == "Scheduled")
    return next(found, None)


def _format_node_found(gpu_name: str) -> str:
    if gpu_name:
        return gettext("A node with {gpus} was found for your server.", gpus=add_article(gpu_name))
    return gettext("A node was found for your server.")


def _describe_pulling(step: SourcedEvent, facts: Facts, *, events: Sequence[SourcedEvent]) -> ProgressMessage:
    image = parse_image_name(step.message)
    sentence = format_pulling(image if image in list_images(facts.pod or {}) else "")
    lacks_secret = any(each.source is EventSource.KUBELET and each.reason == _NO_PULL_SECRET_REASON for each in events)
    if lacks_secret:
        sentence = join_sentences(sentence, format_missing_secret())
    return ProgressMessage(stage=Stage.PULLING, sentence=sentence, event=step, is_alarm=lacks_secret)


def _describe_starting(step: SourcedEvent | None, facts: Facts, *, events: Sequence[SourcedEvent]) -> ProgressMessage:
    known = read_containers(facts.pod or {})
    if any(each.is_running and not each.is_init for each in known):
        return ProgressMessage(stage=Stage.STARTING, sentence=_format_program_starting(), event=step)
    if any(each.is_init and not each.end_reason for each in known):
        sentence = gettext("Your server is being prepared on its node.")
        return ProgressMessage(stage=Stage.STARTING, sentence=sentence, event=step)
    return _describe_pulled(events) or ProgressMessage(
        stage=Stage.STARTING, sentence=_format_server_starting(), event=step
    )


def _describe_pulled(events: Sequence[SourcedEvent]) -> ProgressMessage | None:
    done = [each for each in events if each.source is EventSource.KUBELET and each.reason == "Pulled"]
    # A pod can have several images, but the message is about one image: prefer an image that kubelet pulled to an image
    # that was already on the node.
    done.sort(key=lambda each: not parse_pulled(each.message).was_present)
    if not done:
        return None
    sentence = join_sentences(format_pulled(parse_pulled(done[-1].message)), _format_server_starting())
    return ProgressMessage(stage=Stage.STARTING, sentence=sentence, event=done[-1])


def _format_server_starting() -> str:
    return gettext("Your server is starting.")


def _format_program_starting() -> str:
    return gettext("The program of your server is starting.")


def _describe_volume_trouble(step: SourcedEvent) -> ProgressMessage:
    if "Multi-Attach" in step.message:
        sentence = gettext("A disk of your server is still in use on another node. That may take some minutes.")
    elif "not found" in step.message and ("secret" in step.message or "configmap" in step.message):
        sentence = gettext("Something that the server is set up with is missing in the cluster.")
        failure = StartFailure(code="container_config", sentence=sentence)
        return replace(_make_alarm(step, sentence), failure=failure, after_s=STUCK_AFTER_S)
    else:
        sentence = gettext("A disk of your server cannot be reached yet; it is tried again.")
    return _make_alarm(step, sentence)


def _make_alarm(step: SourcedEvent, sentence: str) -> ProgressMessage:
    return ProgressMessage(stage=Stage.STARTING, sentence=sentence, event=step, is_alarm=True)


def _describe_lost_node() -> ProgressMessage:
    sentence = gettext("The node that your server starts on does not answer.")
    failure = StartFailure(code="node_lost", sentence=sentence)
    return ProgressMessage(
        stage=Stage.STARTING, sentence=sentence, is_alarm=True, failure=failure, after_s=STUCK_AFTER_S
    )
