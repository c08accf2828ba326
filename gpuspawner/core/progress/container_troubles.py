"""What keeps a pod's containers from running, as kubelet tells of it: images, settings, programs that end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuspawner.core.progress.event_sources import Event, Source, newest
from gpuspawner.core.progress.pod_status import Container, containers
from gpuspawner.core.progress.pull_text import failure_sentence
from gpuspawner.core.progress.pulls import PullFailure, image_of, pull_failure
from gpuspawner.core.progress.stages import Hopeless, Saying, Stage
from gpuspawner.core.text.language import gettext
from gpuspawner.core.text.sentences import paragraph

BELIEVED_AFTER_S = 20.0
"""Seconds after which what kubelet tries again in vain is given up."""

_DOUBTED_S = 120.0
"""The same for what may be the node's fault."""

_MOST_RESTARTS = 3
_SECOND_TRY = 2
_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "ErrImageNeverPull",
     "InvalidImageName", "SignatureValidationFailed"}
)  # fmt: skip
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_MAY_PASS = re.compile(r"deadline exceeded|timed out|context canceled|failed to reserve container name")
"""What a runtime says that has too much to do; the next try finds what this one has begun."""
_NOTEBOOK = "notebook"
"""The name that KubeSpawner gives to the server's own container."""
_NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
_NOT_THERE = re.compile(r"executable file not found|no such file or directory|not found in \$PATH")
_NO_SUCH_COMMAND = (126, 127)
_FAILURE_CODES = {
    PullFailure.NOT_FOUND: "image_not_found",
    PullFailure.PLATFORM: "image_not_found",
    PullFailure.DENIED: "image_pull_denied",
}


def container_trouble(pod: Mapping[str, object], events: Sequence[Event]) -> Saying | None:
    """Return what keeps a pod's containers from running, the worst of it; None while nothing does."""
    found = [saying for each in containers(pod) if (saying := _trouble(each, events)) is not None]
    return min(found, key=lambda each: (each.hopeless is None, each.after_s), default=None)


def why_ended(container: Container) -> Hopeless:
    """Return why a container that has ended did."""
    if container.ended == "OOMKilled" and _is_beside(container):
        sentence = gettext("A program beside that of your server needed more memory to start than it was given.")
        return Hopeless(code="crashed", sentence=sentence)
    if container.ended == "OOMKilled":
        sentence = gettext("Your server needed more memory to start than it was given.")
        return Hopeless(code="out_of_memory", sentence=sentence)
    if container.ended in _NEVER_RAN or container.exit_code in _NO_SUCH_COMMAND:
        return Hopeless(code="container_config", sentence=_cannot_run(container))
    if container.exit_code:
        return Hopeless(
            code="crashed",
            sentence=gettext(
                "The program of your server ended while it was starting, with exit code {code}.",
                code=container.exit_code,
            ),
        )
    sentence = gettext("The program of your server ended while it was starting.")
    return Hopeless(code="crashed", sentence=sentence)


def _trouble(container: Container, events: Sequence[Event]) -> Saying | None:
    # One that needed more memory than there is will need it again.
    if container.is_running and (container.ended != "OOMKilled" or _is_beside(container)):
        return None
    if container.waiting in _PULL_REASONS:
        return _pull_trouble(container, events)
    if container.waiting in _CONFIG_REASONS:
        return _config_trouble(container, events)
    if container.ended and (container.exit_code or container.ended == "OOMKilled"):
        return _end_trouble(container, events)
    return None


def _config_trouble(container: Container, events: Sequence[Event]) -> Saying:
    event = newest(events, {Source.KUBELET}, reasons={"Failed"})
    if _MAY_PASS.search(container.message):
        sentence = gettext("The node cannot prepare your server yet; it tries again.")
        return Saying(stage=Stage.STARTING, sentence=sentence, event=event, is_alarm=True)
    is_sure = container.waiting == "CreateContainerConfigError" or _lacks_something(container)
    after_s = BELIEVED_AFTER_S if is_sure else _DOUBTED_S
    hopeless = Hopeless(code="container_config", sentence=_cannot_run(container))
    return _saying(Stage.STARTING, hopeless, event=event, after_s=after_s)


def _is_beside(container: Container) -> bool:
    """Tell whether it is one that somebody has put beside the server's own, and that does not prepare it."""
    return container.name != _NOTEBOOK and not container.is_init


def _lacks_something(container: Container) -> bool:
    message = container.message
    return bool(_NOT_THERE.search(message)) or "secret" in message or "configmap" in message


def _end_trouble(container: Container, events: Sequence[Event]) -> Saying:
    event = newest(events, {Source.KUBELET}, reasons={"BackOff", "Failed", "OOMKilling"})
    reason = why_ended(container)
    if reason.code == "out_of_memory" or container.restarts >= _MOST_RESTARTS:
        return _saying(Stage.STARTING, reason, event=event)
    if reason.code == "container_config":
        return _saying(Stage.STARTING, reason, event=event, after_s=BELIEVED_AFTER_S)
    sentence = paragraph(reason.sentence, gettext("It is started again."))
    return Saying(stage=Stage.STARTING, sentence=sentence, event=event, is_alarm=True)


def _pull_trouble(container: Container, events: Sequence[Event]) -> Saying | None:
    image = container.image
    if container.waiting == "InvalidImageName":
        text = gettext("{image} is not the name of an image.", image=image)
        event = newest(events, {Source.KUBELET}, reasons={"InspectFailed", "Failed"})
        return _saying(Stage.PULLING, Hopeless(code="invalid_image", sentence=text), event=event)
    if container.waiting == "ErrImageNeverPull":
        text = gettext("The image {image} is not on the node, and the cluster is not allowed to fetch it.", image=image)
        event = newest(events, {Source.KUBELET}, reasons={"ErrImageNeverPull", "Failed"})
        return _saying(
            Stage.PULLING, Hopeless(code="image_not_found", sentence=text), event=event, after_s=BELIEVED_AFTER_S
        )
    if container.waiting == "SignatureValidationFailed":
        text = gettext("The image {image} is not signed as the cluster demands.", image=image)
        hopeless = Hopeless(code="image_pull_denied", sentence=text)
        return _saying(Stage.PULLING, hopeless, after_s=BELIEVED_AFTER_S)
    return _failed_pull(container, events)


def _failed_pull(container: Container, events: Sequence[Event]) -> Saying:
    event, tries = _failed_pulls(container.image, events)
    # While kubelet holds back, kubelets before 1.32 tell the cause in the event alone.
    causes = [pull_failure(text) for text in (container.message, event.message if event else "") if text]
    failure = next((cause for cause in causes if cause is not PullFailure.OTHER), PullFailure.OTHER)
    sentence = failure_sentence(failure, container.image)
    code = _FAILURE_CODES.get(failure)
    if code == "image_pull_denied" and newest(events, {Source.KUBELET}, reasons={"FailedToRetrieveImagePullSecret"}):
        sentence = paragraph(sentence, missing_secret())
    if code is None:
        return Saying(stage=Stage.PULLING, sentence=sentence, event=event, is_alarm=True)
    after_s = 0.0 if tries >= _SECOND_TRY else BELIEVED_AFTER_S
    return _saying(Stage.PULLING, Hopeless(code=code, sentence=sentence), event=event, after_s=after_s)


def missing_secret() -> str:
    """Return that nobody can log in to the image's registry."""
    return gettext("The secret for the image's registry is missing.")


def _failed_pulls(image: str, events: Sequence[Event]) -> tuple[Event | None, int]:
    """Return the newest event of a pull that failed, and how many did."""
    found = [
        event
        for event in events
        if event.source is Source.KUBELET
        and event.reason == "Failed"
        and event.message.startswith("Failed to pull image")
        and image_of(event.message) in ("", image)
    ]
    return (found[-1] if found else None), sum(event.count for event in found)


def _cannot_run(container: Container) -> str:
    if container.exit_code in _NO_SUCH_COMMAND or _NOT_THERE.search(container.message):
        return gettext("The image {image} does not hold the program that a server starts with.", image=container.image)
    if "secret" in container.message or "configmap" in container.message:
        return gettext("Something that the server is set up with is missing in the cluster.")
    return gettext("The node cannot start the server as it is set up.")


def _saying(stage: Stage, hopeless: Hopeless, *, event: Event | None = None, after_s: float = 0.0) -> Saying:
    return Saying(
        stage=stage, sentence=hopeless.sentence, event=event, is_alarm=True, hopeless=hopeless, after_s=after_s
    )
