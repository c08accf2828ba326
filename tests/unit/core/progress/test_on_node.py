from __future__ import annotations

import pytest

from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.model import Facts, ProgressMessage, Stage
from gpuspawner.core.progress.on_node import describe_on_node, list_passed_steps
from tests.unit.core.starts import IMAGE, Json, container, ended, event, pod, waits

CREATING = container(waits("ContainerCreating"))
PULLED = f'Successfully pulled image "{IMAGE}" in 42s (42s including waiting). Image size: 5368709120 bytes.'


def told(
    *events: Json, raw: Json | None = None, gpu_name: str = "A100", is_node_ready: bool | None = None
) -> ProgressMessage:
    known = raw or pod(node="n", containers=[CREATING])
    return describe_on_node(Facts(pod=known, gpu_name=gpu_name, is_node_ready=is_node_ready), parse_events(events))


@pytest.mark.parametrize(
    ("gpu_name", "sentence"),
    [("A100", "Found a node with an A100 for your server."), ("", "Found a node for your server.")],
)
def test_a_node_was_found(gpu_name: str, sentence: str):
    found = told(
        event("default-scheduler", "Scheduled", "Successfully assigned hub/jupyter-ada to n"), gpu_name=gpu_name
    )
    assert (found.stage, found.sentence) == (Stage.SCHEDULED, sentence)
    assert found.event.reason == "Scheduled"


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (IMAGE, f"The image {IMAGE} is being fetched."),
        ("registry.example/of-the-mesh:2", "An image that the server needs is being fetched."),
    ],
)
def test_an_image_is_being_fetched(image: str, sentence: str):
    found = told(event("kubelet", "Pulling", f'Pulling image "{image}"'))
    assert (found.stage, found.sentence, found.is_alarm) == (Stage.PULLING, sentence, False)


def test_a_missing_secret_is_reported_while_an_image_is_being_fetched():
    found = told(event("kubelet", "FailedToRetrieveImagePullSecret"), event("kubelet", "Pulling", f'"{IMAGE}"', at_s=1))
    assert (found.sentence, found.is_alarm) == (
        f"The image {IMAGE} is being fetched. The secret for the image's registry is missing.",
        True,
    )


FETCHED = "The image was fetched in 42 s (5 GiB). Your server is starting."
RUNS = "The program of your server is starting."


@pytest.mark.parametrize(
    ("raw", "sentences"),
    [
        (CREATING, []),
        (container({"running": {}}), [FETCHED]),
        (container(waits("CrashLoopBackOff"), last=ended("Error", 1)), []),
    ],
)
def test_a_pull_too_quick_to_be_seen_is_known(raw: Json, sentences: list[str]):
    events = parse_events([event("kubelet", "Pulled", PULLED)])
    current = describe_on_node(Facts(pod=pod(node="n", containers=[raw])), events)
    ready = describe_on_node(Facts(pod=pod(node="n", containers=[raw], conditions={"Ready": {}})), events)
    assert [each.sentence for each in list_passed_steps(current, events)] == sentences
    assert [each.sentence for each in list_passed_steps(ready, events)] == [FETCHED, RUNS]
    assert [each.sentence for each in list_passed_steps(ready, ())] == [RUNS]


def test_an_image_that_was_fetched_is_more_news_than_one_that_was_there():
    there = event("kubelet", "Pulled", 'Container image "pause" already present on machine', at_s=50)
    assert told(event("kubelet", "Pulled", PULLED), there).sentence.startswith("The image was fetched in 42 s")
    assert told(there).sentence == "The image was on the node already. Your server is starting."


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (pod(node="n", containers=[container({"running": {}})]), "The program of your server is starting."),
        (
            pod(node="n", init_containers=[container({"running": {}})], containers=[CREATING]),
            "Your server is being prepared on its node.",
        ),
        (
            pod(node="n", init_containers=[container(ended("Completed", 0))], containers=[CREATING]),
            "Your server is starting.",
        ),
    ],
)
def test_a_start_has_messages_without_any_event(raw: Json, sentence: str):
    found = told(raw=raw)
    assert (found.stage, found.sentence) == (Stage.STARTING, sentence)


@pytest.mark.parametrize(
    ("component", "reason", "message", "sentence"),
    [
        (
            "attachdetach-controller",
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) jupyter-bob',
            "A disk of your server is still in use on another node. That may take some minutes.",
        ),
        (
            "attachdetach-controller",
            "FailedAttachVolume",
            "AttachVolume.Attach failed",
            "A disk of your server cannot be reached yet; it is tried again.",
        ),
        (
            "kubelet",
            "FailedMount",
            'MountVolume.SetUp failed for volume "x" : configmap "x" not found',
            "Something that the server is set up with is missing in the cluster.",
        ),
        (
            "kubelet",
            "FailedMount",
            "Unable to attach or mount volumes: timed out",
            "A disk of your server cannot be reached yet; it is tried again.",
        ),
        (
            "kubelet",
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox",
            "The node cannot prepare your server yet; it tries again.",
        ),
        (
            "kubelet",
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources",
            "The node cannot prepare your server yet; it tries again.",
        ),
    ],
)
def test_what_holds_a_start_up_is_an_alarm_until_it_goes_on(component: str, reason: str, message: str, sentence: str):
    held_up = event(component, reason, message, at_s=1)
    found = told(held_up)
    assert (found.sentence, found.is_alarm, found.admin_text) == (sentence, True, f"the node n: {message}")
    assert told(held_up, event("kubelet", "Pulled", at_s=2)).is_alarm is False


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('MountVolume.SetUp failed for volume "v" : configmap "absent" not found', "container_config"),
        ('MountVolume.SetUp failed for volume "v" : references non-existent secret key: a', None),
        ("Unable to attach or mount volumes: timed out", None),
        (
            'MountVolume.MountDevice failed for volume "secret-data" : driver name efs.csi.aws.com not found in the'
            " list of registered CSI drivers",
            None,
        ),
    ],
    ids=["ConfigMap", "key of a Secret", "timeout", "driver of a volume"],
)
def test_a_start_with_a_missing_volume_is_given_up_after_a_while(message: str, code: str | None):
    found = told(event("kubelet", "FailedMount", message))
    assert (found.failure.code if found.failure else None, found.after_s) == (code, 45.0 if code else 0.0)


def test_a_disk_that_was_attached_is_no_alarm_any_more():
    found = told(
        event("attachdetach-controller", "FailedAttachVolume", at_s=1),
        event("attachdetach-controller", "SuccessfulAttachVolume", at_s=2),
    )
    assert (found.stage, found.is_alarm) == (Stage.SCHEDULED, False)


@pytest.mark.parametrize(("is_node_ready", "code"), [(None, None), (True, None), (False, "node_lost")])
def test_a_node_that_does_not_answer_is_given_up_after_a_while(is_node_ready: bool | None, code: str | None):
    found = told(is_node_ready=is_node_ready)
    assert (found.failure.code if found.failure else None, found.after_s) == (code, 45.0 if code else 0.0)
