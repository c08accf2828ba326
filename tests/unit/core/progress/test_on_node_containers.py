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
    assert (found.failure, found.after_s, found.is_alarm) == (StartFailure(code=code, sentence=sentence), after_s, True)


NO_DRIVER = (
    "error running hook #0: nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot"
    " open shared object file: no such file or directory"
)
OLD_DRIVER = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"
NO_SUBPATH = 'error mounting "/var/lib/kubelet/pods/1/volume-subpaths/x" to rootfs at "/x": no such file or directory'
HELD_BACK = "back-off 20s restarting failed container=notebook pod=jupyter-ada_hub(1)"
DEVICE_FAILURE = StartFailure(
    code="node_faulty",
    sentence="The GPU driver or a device of the node is out of order, so your server can't start there. A new start may"
    " get another node.",
)
DISK_FAILURE = StartFailure(
    code="node_faulty",
    sentence="A disk or file that your server needs is missing on the node, so your server can't start there. A new"
    " start may get another node.",
)
OLD_DRIVER_FAILURE = StartFailure(
    code="driver_too_old",
    sentence=f"The GPU driver of the node is too old for the image {IMAGE}. Choose another image, or ask an admin.",
)


@pytest.mark.parametrize(
    ("message", "failure", "after_s"),
    [
        (NO_DRIVER, DEVICE_FAILURE, 45.0),
        (NO_SUBPATH, DISK_FAILURE, 45.0),
        (OLD_DRIVER, OLD_DRIVER_FAILURE, 20.0),
    ],
    ids=["driver", "disk", "old driver"],
)
def test_a_fault_of_the_node_is_not_the_image_s_and_the_log_names_the_node(
    message: str, failure: StartFailure, after_s: float
):
    states = (
        container(waits("RunContainerError", message), restarts=1),
        container(waits("CreateContainerError", message)),
        container(waits("CrashLoopBackOff", HELD_BACK), last=ended("StartError", 128, message), restarts=2),
    )
    for state in states:
        found = find_container_trouble(pod(node="gpu-3", containers=[state]), ())
        assert (found.failure, found.after_s) == (failure, after_s)
        assert found.admin_text == f"container notebook on the node gpu-3: {message}"
        assert "gpu-3" not in found.sentence


def test_a_line_of_the_log_holds_no_line_breaks_and_has_an_end():
    state = container(waits("RunContainerError", f"{NO_DRIVER}\n\x1b[31mstart of ada\u202e{'x' * 9000}"))
    found = find_container_trouble(pod(node="gpu-3", containers=[state]), ())
    assert (found.admin_text.isprintable(), len(found.admin_text)) == (True, 1000)


def test_a_node_that_has_lost_a_part_of_an_image_tries_again_and_is_named_in_the_log():
    message = "rpc error: code = NotFound desc = failed to unpack image: content digest sha256:0c18: not found"
    failed = event("kubelet", "Failed", f'{FAILED} "{IMAGE}": {message}', count=4)
    for state in ("ErrImagePull", "ImagePullBackOff", "CreateContainerError"):
        raw = pod(node="n1", containers=[container(waits(state, message))])
        found = find_container_trouble(raw, parse_events([failed]))
        assert (found.failure, found.is_alarm) == (None, True)
        assert found.sentence == f"The node's copy of the image {IMAGE} is damaged. The node tries again."
        assert found.admin_text == f"container notebook on the node n1: {message}"


@pytest.mark.parametrize(
    "message",
    [
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "http: server gave HTTP response to HTTPS client",
    ],
    ids=["certificate", "HTTP"],
)
def test_a_registry_that_the_node_does_not_trust_ends_the_start_like_one_that_refuses(message: str):
    raw = [event("kubelet", "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (regcred)")]
    own = pod(node="n1", containers=[container(waits("ErrImagePull", message))])
    found = find_container_trouble(own, parse_events(raw))
    sentence = f"The node can't connect securely to the registry of the image {IMAGE}. Ask an admin."
    assert found.admin_text == f"container notebook on the node n1: {message}"
    assert (found.failure, found.after_s) == (StartFailure(code="image_pull_denied", sentence=sentence), 20.0)


HOOK_TEXT = (
    'Exec lifecycle hook ([gitpuller https://x.example/secret]) for Container "notebook" in Pod "jupyter-ada" failed -'
    " error: command 'gitpuller https://x.example/secret' exited with 126: , message: \"not found\""
)
STARTED = event("kubelet", "Started", at_s=1)
HOOK_FAILED = event("kubelet", "FailedPostStartHook", "PostStartHook failed", at_s=1)


@pytest.mark.parametrize(
    ("state", "sentence", "text"),
    [
        (
            container(waits("PostStartHookError", HOOK_TEXT), last=ended("Error", 137)),
            "The postStart hook of your server failed with exit code 126. It is started again.",
            HOOK_TEXT,
        ),
        (
            container(waits("PostStartHookError"), last=ended("Completed", 0)),
            "The postStart hook of your server failed. It is started again.",
            "PostStartHook failed",
        ),
        (
            container(waits("CrashLoopBackOff", HELD_BACK), last=ended("Error", 143), restarts=2),
            "The postStart hook of your server failed. It is started again.",
            "PostStartHook failed",
        ),
    ],
    ids=["with a code", "ended by SIGTERM", "held back"],
)
def test_a_hook_that_fails_is_named_and_only_the_log_has_its_text(state: Json, sentence: str, text: str):
    found = find_container_trouble(pod(node="n1", containers=[state]), parse_events([STARTED, HOOK_FAILED]))
    assert (found.sentence, found.is_alarm, found.failure) == (sentence, True, None)
    assert found.admin_text == f"container notebook on the node n1: {text}"


def test_a_hook_that_fails_has_three_more_tries():
    state = container(waits("CrashLoopBackOff", HELD_BACK), last=ended("Error", 137), restarts=3)
    found = find_container_trouble(pod(containers=[state]), parse_events([STARTED, HOOK_FAILED]))
    sentence = "The postStart hook of your server failed. Ask an admin."
    assert (found.failure, found.after_s) == (StartFailure(code="hook_failed", sentence=sentence), 0.0)


FROM_SIDECAR = {**HOOK_FAILED, "involvedObject": {"uid": "1", "fieldPath": "spec.containers{proxy}"}}


@pytest.mark.parametrize(
    ("last", "events", "sentence"),
    [
        (ended("Error", 3), [STARTED, HOOK_FAILED], "The program of your server ended"),
        (ended("OOMKilled", 137), [STARTED, HOOK_FAILED], "Your server needed more memory"),
        (ended("Error", 137), [HOOK_FAILED, event("kubelet", "Started", at_s=9)], "The program of your server ended"),
        (ended("Error", 137), [STARTED, FROM_SIDECAR], "The program of your server ended"),
    ],
    ids=["a program that ended", "too little memory", "a start since then", "another container"],
)
def test_a_hook_is_not_blamed_for_what_the_program_did(last: Json, events: list[Json], sentence: str):
    state = container(waits("CrashLoopBackOff", HELD_BACK), last=last, restarts=1)
    found = find_container_trouble(pod(containers=[state]), parse_events(events))
    assert found.sentence.startswith(sentence)


@pytest.mark.parametrize(
    "message",
    ["toomanyrequests: You have reached your pull rate limit", "dial tcp: lookup x: no such host", "", "i/o timeout"],
)
def test_what_may_mend_itself_ends_nothing(message: str):
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", message))]), ())
    assert (found.failure, found.is_alarm) == (None, True)


@pytest.mark.parametrize("reason", ["CreateContainerError", "CreateContainerConfigError", "RunContainerError"])
@pytest.mark.parametrize(
    "message", ["context deadline exceeded", 'failed to reserve container name "notebook_jupyter-ada_hub_1_0"']
)
def test_a_node_that_has_too_much_to_do_ends_nothing(reason: str, message: str):
    found = find_container_trouble(pod(node="n", containers=[container(waits(reason, message))]), ())
    assert (found.failure, found.is_alarm) == (None, True)
    assert found.sentence == "The node cannot prepare your server yet; it tries again."


@pytest.mark.parametrize(("restarts", "code"), [(1, None), (3, "crashed")])
def test_too_little_memory_for_a_program_beside_the_server_is_not_the_servers(restarts: int, code: str | None):
    state = container(waits("CrashLoopBackOff"), last=ended("OOMKilled", 137), restarts=restarts, name="proxy")
    found = find_container_trouble(pod(node="n", containers=[state]), ())
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
    assert (found.failure and (found.failure.code, found.after_s)) == expected


def test_a_try_that_failed_because_the_registry_did_not_answer_confirms_nothing():
    raw = [event("kubelet", "Failed", f'{FAILED} "{IMAGE}": i/o timeout', count=4)]
    raw += [event("kubelet", "Failed", f'{FAILED} "{IMAGE}": {NOT_FOUND}', at_s=9)]
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", NOT_FOUND))]), parse_events(raw))
    assert found.after_s == 20.0


def test_pulls_of_other_images_that_failed_do_not_count():
    raw = [event("kubelet", "Failed", f'{FAILED} "other": {NOT_FOUND}', count=5)]
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", NOT_FOUND))]), parse_events(raw))
    assert (found.after_s, found.event) == (20.0, None)


def test_a_missing_secret_is_reported_beside_an_image_that_is_denied():
    raw = [event("kubelet", "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (regcred)")]
    found = find_container_trouble(pod(containers=[container(waits("ErrImagePull", DENIED))]), parse_events(raw))
    assert found.sentence.endswith(" The secret for the image's registry is missing.")


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("kind", ["containers", "init_containers"])
def test_too_little_memory_ends_a_start_at_once(is_running: bool, kind: str):
    state = {"running": {}} if is_running else waits("CrashLoopBackOff")
    trouble = find_container_trouble(pod(**{kind: [container(state, last=ended("OOMKilled", 137), restarts=1)]}), ())
    assert (trouble.failure and trouble.failure.code, trouble.after_s) == ("out_of_memory", 0.0)


@pytest.mark.parametrize(("restarts", "code"), [(0, None), (2, None), (3, "crashed"), (9, "crashed")])
def test_a_program_that_ends_has_three_more_tries(restarts: int, code: str | None):
    state = container(waits("CrashLoopBackOff"), last=ended("Error", 3), restarts=restarts)
    trouble = find_container_trouble(pod(containers=[state]), ())
    assert (trouble.failure.code if trouble.failure else None) == code
    assert "with exit code 3." in trouble.sentence


@pytest.mark.parametrize(
    "state", [ended("Error", 127), ended("StartError", 128, 'exec: "/x": stat /x: no such file or directory')]
)
def test_an_image_without_the_program_is_not_tried_for_long(state: Json):
    trouble = find_container_trouble(pod(containers=[container(waits("CrashLoopBackOff"), last=state, restarts=1)]), ())
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
    assert found.failure is not None
