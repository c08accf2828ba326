"""A pod that has a node, in words: disks, images, and the program that starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuspawner.core.progress.container_troubles import container_trouble, missing_secret
from gpuspawner.core.progress.event_sources import Event, Source
from gpuspawner.core.progress.pod_status import containers, images, is_true
from gpuspawner.core.progress.pull_text import pulled_sentence, pulling_sentence
from gpuspawner.core.progress.pulls import image_of, pulled
from gpuspawner.core.progress.stages import Facts, Hopeless, Saying, Stage
from gpuspawner.core.text.language import gettext
from gpuspawner.core.text.sentences import paragraph, with_article

HELD_UP_AFTER_S = 45.0
"""Seconds after which a node that does not answer, or something missing, is given up: kubelet may be starting anew, and
what is missing may be made a moment later."""

_STEPS = frozenset({"Pulling", "Pulled", "Created", "Started"})
_DISKS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed"})
_OTHER_TROUBLES = frozenset({"FailedCreatePodSandBox", "FailedPrepareDynamicResources", "NetworkNotReady"})
_SECRETS = "FailedToRetrieveImagePullSecret"


def on_node(facts: Facts, events: Sequence[Event]) -> Saying:
    """Return how far a pod has got on its node."""
    pod = facts.pod or {}
    if is_true(pod, "Ready"):
        return Saying(
            stage=Stage.READY,
            sentence=gettext("Your server runs. Its page opens as soon as it answers."),
        )
    if (trouble := container_trouble(pod, events)) is not None:
        return trouble
    if facts.is_node_ready is False:
        return _node_is_lost()
    step = _last_step(events)
    if step is not None and step.reason in _DISKS:
        return _disk(step)
    if step is not None and step.reason in _OTHER_TROUBLES:
        return _troubled(step, gettext("The node cannot prepare your server yet; it tries again."))
    if step is not None and step.reason == "Pulling":
        return _pulling(step, facts, events=events)
    if step is not None or any(each.is_running or each.ended for each in containers(pod)):
        return _starting(step, facts, events=events)
    return Saying(stage=Stage.SCHEDULED, sentence=_found(facts.gpu_name), event=_scheduled(events))


def passed(current: Saying, events: Sequence[Event]) -> tuple[Saying, ...]:
    """Return what a pod has just gone through, which may have been too quick for anybody to see."""
    if current.is_alarm or current.stage not in (Stage.STARTING, Stage.READY):
        return ()
    fetched = _fetched(events)
    running = Saying(stage=Stage.STARTING, sentence=_runs())
    found = [*([fetched] if fetched else []), *([running] if current.stage is Stage.READY else [])]
    return tuple(each for each in found if each.sentence != current.sentence)


def _last_step(events: Sequence[Event]) -> Event | None:
    """Return the newest event of what kubelet does one after the other, or of what keeps it from that."""
    for event in reversed(events):
        if event.source is Source.KUBELET and event.reason in _STEPS | _DISKS | _OTHER_TROUBLES:
            return event
        if event.source is Source.CONTROLLER and event.reason in _DISKS:
            return event
        if event.source is Source.CONTROLLER and event.reason == "SuccessfulAttachVolume":
            return None
    return None


def _scheduled(events: Sequence[Event]) -> Event | None:
    found = (each for each in events if each.source is Source.SCHEDULER and each.reason == "Scheduled")
    return next(found, None)


def _found(gpu_name: str) -> str:
    if gpu_name:
        return gettext("A node with {gpus} was found for your server.", gpus=with_article(gpu_name))
    return gettext("A node was found for your server.")


def _pulling(step: Event, facts: Facts, *, events: Sequence[Event]) -> Saying:
    image = image_of(step.message)
    sentence = pulling_sentence(image if image in images(facts.pod or {}) else "")
    lacks_secret = any(each.source is Source.KUBELET and each.reason == _SECRETS for each in events)
    if lacks_secret:
        sentence = paragraph(sentence, missing_secret())
    return Saying(stage=Stage.PULLING, sentence=sentence, event=step, is_alarm=lacks_secret)


def _starting(step: Event | None, facts: Facts, *, events: Sequence[Event]) -> Saying:
    known = containers(facts.pod or {})
    if any(each.is_running and not each.is_init for each in known):
        return Saying(stage=Stage.STARTING, sentence=_runs(), event=step)
    if any(each.is_init and not each.ended for each in known):
        sentence = gettext("Your server is being prepared on its node.")
        return Saying(stage=Stage.STARTING, sentence=sentence, event=step)
    return _fetched(events) or Saying(stage=Stage.STARTING, sentence=_starts(), event=step)


def _fetched(events: Sequence[Event]) -> Saying | None:
    """Return how long the image took, None where nothing tells."""
    done = [each for each in events if each.source is Source.KUBELET and each.reason == "Pulled"]
    # One that was there already is no news beside one that was not.
    done.sort(key=lambda each: not pulled(each.message).was_there)
    if not done:
        return None
    sentence = paragraph(pulled_sentence(pulled(done[-1].message)), _starts())
    return Saying(stage=Stage.STARTING, sentence=sentence, event=done[-1])


def _starts() -> str:
    return gettext("Your server is starting.")


def _runs() -> str:
    return gettext("The program of your server is starting.")


def _disk(step: Event) -> Saying:
    if "Multi-Attach" in step.message:
        sentence = gettext("A disk of your server is still in use on another node. That may take some minutes.")
    elif "not found" in step.message and ("secret" in step.message or "configmap" in step.message):
        sentence = gettext("Something that the server is set up with is missing in the cluster.")
        hopeless = Hopeless(code="container_config", sentence=sentence)
        return replace(_troubled(step, sentence), hopeless=hopeless, after_s=HELD_UP_AFTER_S)
    else:
        sentence = gettext("A disk of your server cannot be reached yet; it is tried again.")
    return _troubled(step, sentence)


def _troubled(step: Event, sentence: str) -> Saying:
    return Saying(stage=Stage.STARTING, sentence=sentence, event=step, is_alarm=True)


def _node_is_lost() -> Saying:
    sentence = gettext("The node that your server starts on does not answer.")
    hopeless = Hopeless(code="node_lost", sentence=sentence)
    return Saying(stage=Stage.STARTING, sentence=sentence, is_alarm=True, hopeless=hopeless, after_s=HELD_UP_AFTER_S)
