"""Describes the progress of a pod that has a node: volumes, images, the server's program, and containers that fail.

Kubelet's status says why a pod's containers do not run: the image, the configuration, or a program that exits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuspawner.core.cluster.model import NOTEBOOK
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.events import EventSource, SourcedEvent, find_newest_event
from gpuspawner.core.progress.images import (
    PullFailure,
    classify_pull_failure,
    format_pull_failure,
    format_pulled,
    format_pulling,
    parse_image_name,
    parse_pulled,
)
from gpuspawner.core.progress.model import Facts, ProgressMessage, Stage, StartFailure
from gpuspawner.core.progress.pod_status import Container, has_condition, list_images, read_containers
from gpuspawner.core.progress.runtime_errors import (
    NODE_FAULTS,
    RuntimeFault,
    classify_runtime_error,
    format_runtime_fault,
)
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import add_article, join_sentences

STUCK_AFTER_S = 45.0
"""Seconds for which the pod's node must be not ready or at fault, or a volume's Secret or ConfigMap missing, until the
hub ends the start."""

_STEPS = frozenset({"Pulling", "Pulled", "Created", "Started"})
_VOLUME_TROUBLES = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed"})
_OTHER_TROUBLES = frozenset({"FailedCreatePodSandBox", "FailedPrepareDynamicResources", "NetworkNotReady"})
_NO_PULL_SECRET_REASON = "FailedToRetrieveImagePullSecret"  # noqa: S105 - a reason of an event


def describe_on_node(facts: Facts, events: Sequence[SourcedEvent]) -> ProgressMessage:
    """Return a message about a pod on its node: about its problem, or, if it has none, about its current step."""
    pod = facts.pod or {}
    if has_condition(pod, "Ready"):
        return ProgressMessage(
            stage=Stage.READY,
            sentence=gettext("Your server is running. Opening it…"),
        )
    if (trouble := find_container_trouble(pod, events)) is not None:
        return trouble
    if facts.is_node_ready is False:
        return _describe_lost_node()
    step = _find_last_step(events)
    if step is not None and step.reason in _VOLUME_TROUBLES:
        return _describe_volume_trouble(step, pod)
    if step is not None and step.reason in _OTHER_TROUBLES:
        return _make_alarm(step, pod, sentence=format_runtime_fault(RuntimeFault.OVERLOAD, ""))
    if step is not None and step.reason == "Pulling":
        return _describe_pulling(step, facts, events=events)
    if step is not None or any(each.is_running or each.end_reason for each in read_containers(pod)):
        return _describe_starting(step, facts, events=events)
    return ProgressMessage(
        stage=Stage.SCHEDULED, sentence=_format_node_found(facts.gpu_name), event=_find_scheduled_event(events)
    )


def list_passed_steps(current: ProgressMessage, events: Sequence[SourcedEvent]) -> tuple[ProgressMessage, ...]:
    """Return messages about the steps "image pulled" and "program started", if they came before the ``current`` one.

    The hub may not have observed the pod during these steps.
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
        return gettext("Found a node with {gpus} for your server.", gpus=add_article(gpu_name))
    return gettext("Found a node for your server.")


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
    # The message is about the last event. Prefer an image that kubelet had to pull over one that was on the node.
    done.sort(key=lambda each: not parse_pulled(each.message).was_present)
    if not done:
        return None
    sentence = join_sentences(format_pulled(parse_pulled(done[-1].message)), _format_server_starting())
    return ProgressMessage(stage=Stage.STARTING, sentence=sentence, event=done[-1])


def _format_server_starting() -> str:
    return gettext("Your server is starting.")


def _format_program_starting() -> str:
    return gettext("The program of your server is starting.")


def _describe_volume_trouble(step: SourcedEvent, pod: Mapping[str, object]) -> ProgressMessage:
    if "Multi-Attach" in step.message:
        sentence = gettext("A disk of your server is still in use on another node. That may take some minutes.")
    elif classify_runtime_error(step.message) is RuntimeFault.MISSING_OBJECT:
        sentence = format_runtime_fault(RuntimeFault.MISSING_OBJECT, "")
        failure = StartFailure(code="container_config", sentence=sentence)
        return replace(_make_alarm(step, pod, sentence=sentence), failure=failure, after_s=STUCK_AFTER_S)
    else:
        sentence = gettext("A disk of your server cannot be reached yet; it is tried again.")
    return _make_alarm(step, pod, sentence=sentence)


def _make_alarm(step: SourcedEvent, pod: Mapping[str, object], *, sentence: str) -> ProgressMessage:
    node = as_text(as_dict(pod.get("spec")).get("nodeName"))
    admin_text = _format_line(f"the node {node}: {step.message}")
    return ProgressMessage(stage=Stage.STARTING, sentence=sentence, event=step, is_alarm=True, admin_text=admin_text)


def _describe_lost_node() -> ProgressMessage:
    sentence = gettext("The node that your server starts on does not answer.")
    failure = StartFailure(code="node_lost", sentence=sentence)
    return ProgressMessage(
        stage=Stage.STARTING, sentence=sentence, is_alarm=True, failure=failure, after_s=STUCK_AFTER_S
    )


CONFIRMED_AFTER_S = 20.0
"""Seconds for which a container's error must last until the hub ends the start, because kubelet may still succeed."""

_DOUBTFUL_AFTER_S = 120.0
"""Like :data:`CONFIRMED_AFTER_S`, for an error of unknown cause; longer, because the node may recover."""

_ABSENT_AFTER_S = 10.0
"""Like :data:`CONFIRMED_AFTER_S`, for an image that the registry does not have, once kubelet has said so twice: when
the pull failed, and when it holds back the next try."""

_MAX_LINE_LENGTH = 1000
_MAX_RESTARTS = 3
_SECOND_TRY = 2
_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "ErrImageNeverPull",
     "InvalidImageName", "SignatureValidationFailed"}
)  # fmt: skip
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_NEVER_RAN_REASONS = frozenset({"StartError", "ContainerCannotRun"})
_HOOK_REASON = "FailedPostStartHook"
_HOOK_STATE = "PostStartHookError"
_HOOK_EXIT_CODE = re.compile(r"\bexited with (\d{1,3})\b")
_NO_SUCH_COMMAND = (126, 127)
_HOOK_KILLS = (None, 0, 137, 143)
"""Exit codes of a program that kubelet ends, with SIGTERM and then SIGKILL."""
_ENDED_CODES = frozenset({"crashed", "hook_failed", "out_of_memory"})
"""Failure codes of containers that have run. Any other failure kept a container from running."""
_FAILURE_CODES = {
    PullFailure.NOT_FOUND: "image_not_found",
    PullFailure.PLATFORM: "image_not_found",
    PullFailure.DENIED: "image_pull_denied",
    PullFailure.UNTRUSTED: "image_pull_denied",
}
_RUNTIME_CODES = {
    RuntimeFault.OLD_DRIVER: "driver_too_old",
    RuntimeFault.DEVICE: "node_faulty",
    RuntimeFault.DISK: "node_faulty",
    RuntimeFault.IMAGE_STORE: "node_faulty",
    RuntimeFault.OVERLOAD: "node_faulty",
}
_RETRIED_FAULTS = frozenset({RuntimeFault.IMAGE_STORE, RuntimeFault.OVERLOAD})
"""Faults that kubelet's next try may overcome, so they end no start."""
_RUNTIME_AFTER_S = {
    RuntimeFault.DEVICE: STUCK_AFTER_S,
    RuntimeFault.DISK: STUCK_AFTER_S,
    RuntimeFault.OTHER: _DOUBTFUL_AFTER_S,
}


def find_container_trouble(pod: Mapping[str, object], events: Sequence[SourcedEvent]) -> ProgressMessage | None:
    """Return the problem of a pod's containers that ends the start soonest, or None if they have no problem.

    If no problem ends the start, return any problem.
    """
    found = [message for each in read_containers(pod) if (message := _find_trouble(each, events)) is not None]
    return min(found, key=lambda each: (each.failure is None, each.after_s), default=None)


def explain_container_end(container: Container, events: Sequence[SourcedEvent]) -> StartFailure:
    """Return why a container ended before the server was ready."""
    if container.end_reason == "OOMKilled" and _is_sidecar(container):
        code = "crashed"
        sentence = gettext("A program beside that of your server needed more memory to start than it was given.")
    elif container.end_reason == "OOMKilled":
        code, sentence = "out_of_memory", gettext("Your server needed more memory to start than it was given.")
    elif has_failed_hook(container, events):
        code, sentence = (
            "hook_failed",
            join_sentences(_format_hook_failure(container, events), gettext("Ask an admin.")),
        )
    elif container.end_reason in _NEVER_RAN_REASONS or container.exit_code in _NO_SUCH_COMMAND:
        return _explain_fault(container, _find_end_fault(container))
    elif container.exit_code:
        sentence = gettext(
            "The program of your server ended while it was starting, with exit code {code}.", code=container.exit_code
        )
        code = "crashed"
    else:
        code, sentence = "crashed", gettext("The program of your server ended while it was starting.")
    return StartFailure(code=code, sentence=sentence)


def has_failed_hook(container: Container, events: Sequence[SourcedEvent]) -> bool:
    """Return whether kubelet has ended a container because its postStart hook failed.

    If the program of the container ends by itself while the hook runs, the hook fails, too. The result is then False.
    """
    if container.exit_code not in _HOOK_KILLS or container.end_reason == "OOMKilled":
        return False
    return container.waiting.startswith(_HOOK_STATE) or find_hook_event(container, events) is not None


def read_hook_error(pod: Mapping[str, object]) -> str:
    """Return what kubelet writes about a failed postStart hook into a pod's status, or "" if it writes nothing.

    Newer kubelets write the exit code only there, and only until they hold the container back.
    """
    failed = (container.message for container in read_containers(pod) if container.waiting.startswith(_HOOK_STATE))
    return next(failed, "")


def add_hook_error(events: Sequence[SourcedEvent], error: str) -> tuple[SourcedEvent, ...]:
    """Return the events with the error in those about a failed postStart hook, where older kubelets write it.

    :param error: the result of :func:`read_hook_error` at this or an earlier observation.
    """
    return tuple(
        replace(event, message=error) if event.source is EventSource.KUBELET and event.reason == _HOOK_REASON else event
        for event in events
    )


def format_admin_text(container: Container, event: SourcedEvent | None) -> str:
    """Return what kubelet writes about a container that it cannot start, and the node, as a line for the hub's log.

    :param event: kubelet's event about the problem.
    """
    # While kubelet waits before it restarts a container, the state's message says only that.
    own = container.end_message if container.waiting == "CrashLoopBackOff" else container.message
    text = own or (event.message if event else "") or container.waiting or container.end_reason
    return _format_line(f"container {container.name} on the node {container.node}: {text}")


def _format_line(text: str) -> str:
    line = " ".join(text.split())[:_MAX_LINE_LENGTH]
    return "".join(character if character.isprintable() else "?" for character in line)


def find_hook_event(container: Container, events: Sequence[SourcedEvent]) -> SourcedEvent | None:
    """Return the event of a container's failed postStart hook, or None if kubelet has started the container again."""
    own = [event for event in events if _is_about(event, container)]
    newest = find_newest_event(own, {EventSource.KUBELET}, reasons={"Started", _HOOK_REASON})
    return newest if newest is not None and newest.reason == _HOOK_REASON else None


def _is_about(event: SourcedEvent, container: Container) -> bool:
    # Kubelet names the container in the field's path: spec.containers{notebook}.
    path = as_text(as_dict(event.raw.get("involvedObject") or event.raw.get("regarding")).get("fieldPath"))
    return not path or path.endswith(f"{{{container.name}}}")


def _format_hook_failure(container: Container, events: Sequence[SourcedEvent]) -> str:
    event = find_hook_event(container, events)
    texts = (container.message, event.message if event else "")
    code = next((found[1] for text in texts if (found := _HOOK_EXIT_CODE.search(text))), "")
    if code:
        return gettext("The postStart hook of your server failed with exit code {code}.", code=code)
    return gettext("The postStart hook of your server failed.")


def _find_trouble(container: Container, events: Sequence[SourcedEvent]) -> ProgressMessage | None:
    # A running container has no problem. Exception: if kubelet has restarted the server after an OOM kill, report the
    # kill, because the server will run out of memory again.
    if container.is_running and (container.end_reason != "OOMKilled" or _is_sidecar(container)):
        return None
    if container.waiting in _PULL_REASONS:
        return _find_pull_trouble(container, events)
    if container.waiting in _CONFIG_REASONS:
        return _describe_config_trouble(container, events)
    has_ended_badly = container.end_reason and (container.exit_code or container.end_reason == "OOMKilled")
    if has_ended_badly or (container.waiting and has_failed_hook(container, events)):
        return _describe_end_trouble(container, events)
    return None


def _describe_config_trouble(container: Container, events: Sequence[SourcedEvent]) -> ProgressMessage:
    event = find_newest_event(events, {EventSource.KUBELET}, reasons={"Failed"})
    fault = _name_program(classify_runtime_error(container.message), container)
    if fault is RuntimeFault.OTHER and container.waiting == "CreateContainerConfigError":
        # Kubelet has not asked the container runtime yet, so the runtime is not the cause.
        return _describe_fault(container, fault, event=event, after_s=CONFIRMED_AFTER_S)
    return _describe_fault(container, fault, event=event, after_s=_RUNTIME_AFTER_S.get(fault, CONFIRMED_AFTER_S))


def _describe_fault(
    container: Container, fault: RuntimeFault, *, event: SourcedEvent | None, after_s: float
) -> ProgressMessage:
    failure = _explain_fault(container, fault)
    message = _make_failing_message(Stage.STARTING, failure, event=event, after_s=after_s)
    if fault in _RETRIED_FAULTS:
        message = replace(message, failure=None, after_s=0.0)
    return replace(message, admin_text=format_admin_text(container, event) if fault in NODE_FAULTS else "")


def _explain_fault(container: Container, fault: RuntimeFault) -> StartFailure:
    code, sentence = _RUNTIME_CODES.get(fault, "container_config"), format_runtime_fault(fault, container.image)
    if code == "node_faulty" and fault not in _RETRIED_FAULTS:
        sentence = join_sentences(sentence, gettext("A new start may get another node."))
    return StartFailure(code=code, sentence=sentence)


def _find_end_fault(container: Container) -> RuntimeFault:
    # What a program writes before it exits says nothing about the container runtime.
    has_run = container.end_reason not in _NEVER_RAN_REASONS
    return _name_program(RuntimeFault.OTHER if has_run else classify_runtime_error(container.end_message), container)


def _name_program(fault: RuntimeFault, container: Container) -> RuntimeFault:
    is_missing = fault is RuntimeFault.OTHER and container.exit_code in _NO_SUCH_COMMAND
    return RuntimeFault.MISSING_PROGRAM if is_missing else fault


def _is_sidecar(container: Container) -> bool:
    return container.name != NOTEBOOK and not container.is_init


def _describe_end_trouble(container: Container, events: Sequence[SourcedEvent]) -> ProgressMessage:
    event = find_newest_event(events, {EventSource.KUBELET}, reasons={"BackOff", "Failed", "OOMKilling", _HOOK_REASON})
    reason = explain_container_end(container, events)
    if reason.code not in _ENDED_CODES:
        fault = _find_end_fault(container)
        after_s = _RUNTIME_AFTER_S.get(fault, CONFIRMED_AFTER_S) if container.restarts < _MAX_RESTARTS else 0.0
        return _describe_fault(container, fault, event=event, after_s=after_s)
    hook = find_hook_event(container, events)
    admin_text = format_admin_text(container, hook) if reason.code == "hook_failed" else ""
    if reason.code == "out_of_memory" or container.restarts >= _MAX_RESTARTS:
        return replace(_make_failing_message(Stage.STARTING, reason, event=event), admin_text=admin_text)
    sentence = _format_hook_failure(container, events) if reason.code == "hook_failed" else reason.sentence
    sentence = join_sentences(sentence, gettext("It is started again."))
    return ProgressMessage(stage=Stage.STARTING, sentence=sentence, event=event, is_alarm=True, admin_text=admin_text)


def _find_pull_trouble(container: Container, events: Sequence[SourcedEvent]) -> ProgressMessage | None:
    image = container.image
    if container.waiting == "InvalidImageName":
        text = gettext("{image} is not the name of an image.", image=image)
        event = find_newest_event(events, {EventSource.KUBELET}, reasons={"InspectFailed", "Failed"})
        return _make_failing_message(Stage.PULLING, StartFailure(code="invalid_image", sentence=text), event=event)
    if container.waiting == "ErrImageNeverPull":
        text = gettext("The image {image} is not on the node, and the cluster is not allowed to fetch it.", image=image)
        event = find_newest_event(events, {EventSource.KUBELET}, reasons={"ErrImageNeverPull", "Failed"})
        return _make_failing_message(
            Stage.PULLING, StartFailure(code="image_not_found", sentence=text), event=event, after_s=CONFIRMED_AFTER_S
        )
    if container.waiting == "SignatureValidationFailed":
        text = gettext("The image {image} is not signed as the cluster demands.", image=image)
        failure = StartFailure(code="image_pull_denied", sentence=text)
        return _make_failing_message(Stage.PULLING, failure, after_s=CONFIRMED_AFTER_S)
    return _describe_failed_pull(container, events)


def _describe_failed_pull(container: Container, events: Sequence[SourcedEvent]) -> ProgressMessage:
    failed = _list_failed_pulls(container.image, events)
    event = failed[-1] if failed else None
    # Read the event, too: while a kubelet before 1.32 waits to retry, the status does not say why the pull failed.
    causes = [classify_pull_failure(text) for text in (container.message, event.message if event else "") if text]
    failure = next((cause for cause in causes if cause is not PullFailure.OTHER), PullFailure.OTHER)
    sentence = format_pull_failure(failure, container.image)
    code = _FAILURE_CODES.get(failure)
    if failure is PullFailure.DENIED and find_newest_event(
        events, {EventSource.KUBELET}, reasons={"FailedToRetrieveImagePullSecret"}
    ):
        sentence = join_sentences(sentence, format_missing_secret())
    needs_admin = failure in (PullFailure.DAMAGED_STORE, PullFailure.UNTRUSTED)
    admin_text = format_admin_text(container, event) if needs_admin else ""
    if code is None:
        return ProgressMessage(
            stage=Stage.PULLING, sentence=sentence, event=event, is_alarm=True, admin_text=admin_text
        )
    # Tries that failed for another reason, such as a registry that did not answer, confirm nothing.
    tries = sum(each.count for each in failed if classify_pull_failure(each.message) is failure)
    after_s = 0.0 if tries >= _SECOND_TRY else CONFIRMED_AFTER_S
    if code == "image_not_found" and container.waiting == "ImagePullBackOff":
        after_s = min(after_s, _ABSENT_AFTER_S)
    message = _make_failing_message(
        Stage.PULLING, StartFailure(code=code, sentence=sentence), event=event, after_s=after_s
    )
    return replace(message, admin_text=admin_text)


def format_missing_secret() -> str:
    """Return the message that the image pull secret is missing."""
    return gettext("The secret for the image's registry is missing.")


def _list_failed_pulls(image: str, events: Sequence[SourcedEvent]) -> list[SourcedEvent]:
    return [
        event
        for event in events
        if event.source is EventSource.KUBELET
        and event.reason == "Failed"
        and event.message.startswith("Failed to pull image")
        and parse_image_name(event.message) in ("", image)
    ]


def _make_failing_message(
    stage: Stage, failure: StartFailure, *, event: SourcedEvent | None = None, after_s: float = 0.0
) -> ProgressMessage:
    return ProgressMessage(
        stage=stage, sentence=failure.sentence, event=event, is_alarm=True, failure=failure, after_s=after_s
    )
