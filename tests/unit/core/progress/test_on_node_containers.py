from __future__ import annotations

import pytest

from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.model import StartFailure
from gpuspawner.core.progress.on_node import find_container_trouble
from tests.unit.core.starts import IMAGE, Json, container, ended, event, pod, waits

NOT_FOUND = f'rpc error: code = NotFound desc = failed to resolve reference "{IMAGE}": {IMAGE}: not found'
DENIED = "rpc error: code = Unknown desc = pull access denied, repository does not exist or may require authorization"
FAILED = "Failed to pull image"


@pytest.mark.parametrize(
    ("state", "code", "after_s", "sentence"),
    [
        (
            waits("ErrImagePull", NOT_FOUND),
            "image_not_found",
            20,
            f"The image {IMAGE} does not exist, or not under this tag.",
        ),
        (
            waits("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": ErrImagePull: {DENIED}'),
            "image_pull_denied",
            20,
            f"The image {IMAGE} does not exist, or the cluster may not fetch it.",
        ),
        (
            waits("ErrImagePull", "no match for platform in manifest: not found"),
            "image_not_found",
            20,
            f"The image {IMAGE} was not made for the processors of the node.",
        ),
        (
            waits("InvalidImageName", "couldn't parse image name"),
            "invalid_image",
            0,
            f"{IMAGE} is not the name of an image.",
        ),
        (
            waits("ErrImageNeverPull"),
            "image_not_found",
            20,
            f"The image {IMAGE} is not on the node, and the cluster is not allowed to fetch it.",
        ),
        (
            waits("SignatureValidationFailed"),
            "image_pull_denied",
            20,
            f"The image {IMAGE} is not signed as the cluster demands.",
        ),
        (
            waits("CreateContainerConfigError", 'secret "tokens" not found'),
            "container_config",
            20,
            "Something that the server is set up with is missing in the cluster.",
        ),
        (
            waits("CreateContainerError", "failed to generate spec"),
            "container_config",
            120,
            "The node cannot start the server as it is set up.",
        ),
        (
            waits("RunContainerError", 'exec: "jupyterhub-singleuser": executable file not found in $PATH: unknown'),
            "container_config",
            20,
            f"The image {IMAGE} does not hold the program that a server starts with.",
        ),
    ],
)
def test_what_keeps_a_container_from_running(state: Json, code: str, after_s: float, sentence: str):
    found = find_container_trouble(pod(node="n", containers=[container(state)]), ())
    assert found is not None
    assert (found.failure, found.after_s, found.is_alarm) == (StartFailure(code=code, sentence=sentence), after_s, True)


@pytest.mark.parametrize(
    "message",
    ["toomanyrequests: You have reached your pull rate limit", "dial tcp: lookup x: no such host", "", "i/o timeout"],
)
def test_what_may_mend_itself_ends_nothing(message: str):
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", message))]), ())
    assert found is not None
    assert (found.failure, found.is_alarm) == (None, True)


@pytest.mark.parametrize("reason", ["CreateContainerError", "CreateContainerConfigError", "RunContainerError"])
@pytest.mark.parametrize(
    "message", ["context deadline exceeded", 'failed to reserve container name "notebook_jupyter-ada_hub_1_0"']
)
def test_a_node_that_has_too_much_to_do_ends_nothing(reason: str, message: str):
    found = find_container_trouble(pod(node="n", containers=[container(waits(reason, message))]), ())
    assert found is not None
    assert (found.failure, found.is_alarm) == (None, True)
    assert found.sentence == "The node cannot prepare your server yet; it tries again."


@pytest.mark.parametrize(("restarts", "code"), [(1, None), (3, "crashed")])
def test_too_little_memory_for_a_program_beside_the_server_is_not_the_servers(restarts: int, code: str | None):
    state = container(waits("CrashLoopBackOff"), last=ended("OOMKilled", 137), restarts=restarts, name="proxy")
    found = find_container_trouble(pod(node="n", containers=[state]), ())
    assert found is not None
    assert (found.failure and found.failure.code, found.is_alarm) == (code, True)
    again = container({"running": {}}, last=ended("OOMKilled", 137), restarts=restarts, name="proxy")
    assert find_container_trouble(pod(node="n", containers=[again]), ()) is None


@pytest.mark.parametrize(("counts", "after_s"), [((1,), 10.0), ((2,), 0.0), ((1, 1), 0.0)], ids=repr)
def test_the_second_pull_that_fails_is_enough(counts: tuple[int, ...], after_s: float):
    """While kubelet holds back, kubelets before 1.32 tell the cause in the event alone."""
    raw = [
        event("kubelet", "Failed", f'{FAILED} "{IMAGE}": {NOT_FOUND}', at_s=at, count=n) for at, n in enumerate(counts)
    ]
    raw += [event("kubelet", "Failed", "Error: ErrImagePull", at_s=8), event("kubelet", "Pulling", at_s=9)]
    held_back = pod(containers=[container(waits("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'))])
    found = find_container_trouble(held_back, parse_events(raw))
    assert found is not None
    assert found.failure is not None
    assert (found.failure.code, found.after_s) == ("image_not_found", after_s)


@pytest.mark.parametrize(
    ("message", "state", "expected"),
    [
        (NOT_FOUND, "ErrImagePull", ("image_not_found", 20.0)),
        (NOT_FOUND, "ImagePullBackOff", ("image_not_found", 10.0)),
        ("manifest unknown", "ImagePullBackOff", ("image_not_found", 10.0)),
        (DENIED, "ImagePullBackOff", ("image_pull_denied", 20.0)),
        ("dial tcp 10.0.0.1:443: i/o timeout", "ImagePullBackOff", None),
        ("unexpected status: 503 Service Unavailable", "ImagePullBackOff", None),
        ("unexpected status: 500 Internal Server Error", "ImagePullBackOff", None),
    ],
    ids=["said once", "said twice", "unknown manifest", "denied", "timeout", "503", "500"],
)
def test_an_image_that_kubelet_says_twice_is_missing_ends_the_start_sooner(
    message: str, state: str, expected: tuple[str, float] | None
):
    found = find_container_trouble(pod(containers=[container(waits(state, message))]), ())
    assert found is not None
    assert (found.failure and (found.failure.code, found.after_s)) == expected


def test_a_try_that_failed_because_the_registry_did_not_answer_confirms_nothing():
    raw = [event("kubelet", "Failed", f'{FAILED} "{IMAGE}": i/o timeout', count=4)]
    raw += [event("kubelet", "Failed", f'{FAILED} "{IMAGE}": {NOT_FOUND}', at_s=9)]
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", NOT_FOUND))]), parse_events(raw))
    assert found is not None
    assert found.after_s == 20.0


def test_pulls_of_other_images_that_failed_do_not_count():
    raw = [event("kubelet", "Failed", f'{FAILED} "other": {NOT_FOUND}', count=5)]
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", NOT_FOUND))]), parse_events(raw))
    assert found is not None
    assert (found.after_s, found.event) == (20.0, None)


def test_a_missing_secret_is_reported_beside_an_image_that_is_denied():
    raw = [event("kubelet", "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (regcred)")]
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", DENIED))]), parse_events(raw))
    assert found is not None
    assert found.sentence.endswith(" The secret for the image's registry is missing.")


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("kind", ["containers", "init_containers"])
def test_too_little_memory_ends_a_start_at_once(is_running: bool, kind: str):
    state = {"running": {}} if is_running else waits("CrashLoopBackOff")
    trouble = find_container_trouble(pod(**{kind: [container(state, last=ended("OOMKilled", 137), restarts=1)]}), ())
    assert trouble is not None
    assert (trouble.failure and trouble.failure.code, trouble.after_s) == ("out_of_memory", 0.0)


@pytest.mark.parametrize(("restarts", "code"), [(0, None), (2, None), (3, "crashed"), (9, "crashed")])
def test_a_program_that_ends_has_three_more_tries(restarts: int, code: str | None):
    state = container(waits("CrashLoopBackOff"), last=ended("Error", 3), restarts=restarts)
    trouble = find_container_trouble(pod(containers=[state]), ())
    assert trouble is not None
    assert (trouble.failure.code if trouble.failure else None) == code
    assert "with exit code 3." in trouble.sentence


@pytest.mark.parametrize("state", [ended("Error", 127), ended("StartError", 128, "no such file or directory")])
def test_an_image_without_the_program_is_not_tried_for_long(state: Json):
    trouble = find_container_trouble(pod(containers=[container(waits("CrashLoopBackOff"), last=state, restarts=1)]), ())
    assert trouble is not None
    assert trouble.failure is not None
    assert (trouble.failure.code, trouble.after_s) == ("container_config", 20.0)
    assert trouble.sentence == f"The image {IMAGE} does not hold the program that a server starts with."


@pytest.mark.parametrize(
    "state",
    [
        container(waits("ContainerCreating")),
        container(waits("PodInitializing")),
        container({"running": {}}),
        container({"running": {}}, last=ended("Error", 1), restarts=2),
        container(ended("Completed", 0)),
        container(ended("Completed", 0), last=ended("OOMKilled", 137), restarts=1),
    ],
)
def test_what_goes_on_as_it_should_is_no_trouble(state: Json):
    assert find_container_trouble(pod(containers=[state]), ()) is None


def test_the_worst_is_reported():
    states = [container(waits("ErrImagePull", "i/o timeout"), name="a"), container(waits("InvalidImageName"))]
    found = find_container_trouble(pod(containers=states), ())
    assert found is not None
    assert found.failure is not None
