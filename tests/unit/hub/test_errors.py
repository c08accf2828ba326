"""Errors reach users as one sentence, in JupyterHub's pages, progress and REST API alike."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.utils import format_exception
from kubernetes_asyncio.client.rest import ApiException
from tornado import web

from gpuspawner.core.errors import PolicyError, Problem, SelectionError
from gpuspawner.hub.errors import (
    COUNTS_REFUSALS,
    ClusterFailure,
    FailureCount,
    RefusedStart,
    SlowStartError,
    explain_cluster_error,
    find_start_failure,
    is_hub_failure,
    make_refusal,
    make_unread_cluster_failure,
)
from tests.unit.hostile import PIECES, make_text, measure_cpu_s

PROBLEMS = (
    Problem(field="cpu", code="off_step", message="The number of CPUs must be a multiple of 1."),
    Problem(field="gpu", code="unknown_choice", message='There is no "100%s".'),
)
SENTENCE = 'cpu: The number of CPUs must be a multiple of 1. gpu: There is no "100%s".'


def api_error(status: int, message: str = "") -> ApiException:
    error = ApiException(status=status, reason="Reason")
    error.body = json.dumps({"kind": "Status", "message": message}) if message else None
    return error


def told(error: BaseException) -> tuple[int, str]:
    explained = explain_cluster_error(error)
    assert explained is not None
    return explained.status_code, format_exception(explained)[0]


def test_a_refusal_names_every_field():
    error = make_refusal(SelectionError(*PROBLEMS))
    assert (error.status_code, error.reason) == (400, "off_step")
    assert format_exception(error) == (SENTENCE, None)


@pytest.mark.parametrize(("code", "status"), [("gpu_quota", 403), ("policy_unreadable", 503)])
def test_what_a_policy_refuses_is_forbidden_or_for_later(code: str, status: int):
    error = make_refusal(PolicyError(Problem(field="", code=code, message="No more.")))
    assert (error.status_code, error.reason, error.jupyterhub_message) == (status, code, "No more.")


def test_a_refusal_of_many_fields_stays_readable():
    problems = [Problem(field=f"f{number}", code="unknown_field", message="No.") for number in range(500)]
    message = make_refusal(SelectionError(*problems)).jupyterhub_message
    assert message.endswith("f9: No. And 490 more.")


def test_the_rest_api_tells_the_same_sentence():
    error = make_refusal(SelectionError(*PROBLEMS))
    # The texts that JupyterHub 5 and JupyterHub 6 write into the answer.
    written = error.log_message % error.args if COUNTS_REFUSALS else error.message
    assert written == SENTENCE


def test_a_refusal_is_what_the_hub_takes_for_one():
    error = RefusedStart("No.", reason="quota", status_code=409)
    assert isinstance(error, web.HTTPError)
    assert (error.status_code, error.reason) == (409, "quota")
    assert format_exception(error) == ("No.", None)


def test_links_are_for_pages_and_plain_text_is_for_all_clients():
    error = RefusedStart("No. You could choose B.", reason="never_fits", html='No. <a href="/">B</a>')
    assert format_exception(error) == ("No. You could choose B.", 'No. <a href="/">B</a>')


def test_a_start_that_takes_too_long_is_a_timeout_to_the_hub():
    error = SlowStartError("It took too long.")
    assert isinstance(error, TimeoutError)
    assert (explain_cluster_error(error), format_exception(error)) == (None, ("It took too long.", None))


def test_a_cluster_that_cannot_be_read_is_no_mistake_of_the_user():
    error = make_unread_cluster_failure("It is down.")
    sentence = "The hub can't see the cluster's GPUs and nodes right now, so nothing was started. It is down."
    assert (error.status_code, format_exception(error)[0]) == (503, sentence)


@pytest.mark.parametrize(
    "error",
    [
        aiohttp.ClientConnectionError("refused"),
        aiohttp.ServerTimeoutError(),
        TimeoutError("Could not create pod jupyterhub/jupyter-ada"),
    ],
)
def test_an_api_server_that_does_not_answer_is_reported_in_one_sentence(error: Exception):
    sentence = "The Kubernetes API server cannot be reached, so the server was not started. Please try again later."
    assert told(error) == (503, sentence)


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (api_error(401), 503, "Kubernetes refused the hub's credentials, so the server was not started."),
        (api_error(429), 503, "The Kubernetes API server is overloaded, so the server was not started."),
        (api_error(500), 503, "Kubernetes refused to create the server (500): Reason"),
        (
            api_error(500, 'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: EOF'),
            503,
            "The admission webhook mpod.kb.io of the cluster cannot be reached or fails, so the server was not started."
            " Please try again later.",
        ),
        (
            api_error(
                500,
                'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post'
                ' "https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": no endpoints'
                ' available for service "kueue-webhook-service"',
            ),
            503,
            "The admission webhook mpod.kb.io (kueue-system/kueue-webhook-service) of the cluster cannot be reached or"
            " fails, so the server was not started. Please try again later.",
        ),
        (api_error(422, "spec is wrong"), 503, "Kubernetes refused to create the server (422): Reason"),
        (
            api_error(403, 'pods is forbidden: User "system:serviceaccount:jhub:hub" cannot create resource "pods"'),
            503,
            "Kubernetes refused to create the server (403): Reason",
        ),
        (
            api_error(403, "exceeded quota: gpus"),
            409,
            "Kubernetes refused to create the server (403): exceeded quota: gpus",
        ),
    ],
)
def test_a_refusal_by_kubernetes_is_explained_in_one_sentence(error: Exception, status: int, sentence: str):
    assert told(error) == (status, sentence)


def test_a_quota_is_no_failure_of_the_hub():
    assert isinstance(explain_cluster_error(api_error(403, "exceeded quota: gpus")), RefusedStart)
    assert isinstance(explain_cluster_error(api_error(403, "may not")), ClusterFailure)


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_a_long_answer_of_a_webhook_costs_less_than_20_ms(piece: str):
    error = api_error(403, make_text(piece))
    assert measure_cpu_s(lambda: explain_cluster_error(error, pod_name="jupyter-ada", namespace="hub")) < 0.02


@pytest.mark.parametrize(
    "answer",
    [
        'admission webhook "rules.example" denied the request: no GPUs on Sundays',
        "pods \"jupyter-ada\" is forbidden: ValidatingAdmissionPolicy 'gpus' with binding 'b' denied request: no",
        'pods "jupyter-ada" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes',
    ],
)
@pytest.mark.parametrize("status", [400, 403, 422])
def test_what_the_clusters_rules_refuse_is_no_failure_of_the_hub(answer: str, status: int):
    error = explain_cluster_error(api_error(status, answer))
    assert isinstance(error, RefusedStart)
    assert (error.reason, error.status_code) == ("refused_by_admission", 409)
    assert format_exception(error)[0] == f"Kubernetes refused to create the server ({status}): {answer}"


def test_a_long_answer_is_cut():
    answer = 'admission webhook "rules.example" denied the request: ' + "x" * 5000
    assert len(told(api_error(422, answer))[1]) < 400


def test_an_answer_names_no_other_server():
    denial = 'admission webhook "one.example" denied the request:'
    answer = f"{denial} jupyter-ada and jupyter-bob share claim-bob in hub/jupyter-eve"
    explained = explain_cluster_error(api_error(403, answer), pod_name="jupyter-ada", namespace="hub")
    sentence = f"Kubernetes refused to create the server (403): {denial} jupyter-ada and … share … in hub/…"
    assert format_exception(explained)[0] == sentence


@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"message": 3}', b"\xff"])
def test_an_answer_without_a_message_is_reported_by_its_reason(body: Any):
    error = api_error(500)
    error.body = body
    assert told(error) == (503, "Kubernetes refused to create the server (500): Reason")


@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError("pod a/b did not start in 60 seconds!"), OSError("x")])
def test_other_errors_are_left_alone(error: Exception):
    assert explain_cluster_error(error) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(RefusedStart("No.", reason="quota"), False, id="refused"),
        pytest.param(ClusterFailure("No."), False, id="cluster"),
        pytest.param(web.HTTPError(403), False, id="a hook refuses"),
        pytest.param(api_error(500), False, id="Kubernetes"),
        pytest.param(aiohttp.ClientConnectionError(), False, id="network"),
        pytest.param(SlowStartError("It took too long."), False, id="slow"),
        pytest.param(TimeoutError(), False, id="timer"),
        pytest.param(web.HTTPError(500), True, id="a hook fails"),
        pytest.param(KeyError("x"), True, id="bug"),
        pytest.param(OSError("x"), True, id="disk"),
    ],
)
def test_only_what_a_restart_of_the_hub_may_help_against_counts(error: Exception, expected: bool):
    assert is_hub_failure(error) == expected


def test_what_a_start_failed_with_is_found_only_while_it_is_handled():
    found: list[Any] = [find_start_failure()]
    try:
        {}["x"]
    except KeyError:
        found.append(find_start_failure())
    found.append(find_start_failure())
    assert [type(each) for each in found] == [type(None), KeyError, type(None)]


def test_a_refusal_is_found_behind_an_error_of_the_clean_up():
    refused, found = RefusedStart("No.", reason="quota"), []
    try:
        raise refused
    except RefusedStart:
        with contextlib.suppress(OSError):
            try:
                raise OSError("the API server is gone")
            finally:
                found.append(find_start_failure())
    assert found == [refused]


@pytest.mark.parametrize("is_hub", [True, False])
async def test_what_does_not_count_is_taken_from_the_count_of_the_hubs_handlers(
    monkeypatch: pytest.MonkeyPatch, is_hub: bool
):
    users: dict[str, Any] = {"failure_count": 0}
    hub = JupyterHub()
    hub.tornado_application = web.Application(**users)
    monkeypatch.setattr(JupyterHub, "_instance", hub if is_hub else None)
    start = asyncio.get_running_loop().create_future()
    FailureCount().settle(start, TimeoutError(), user=SimpleNamespace(name="ada", settings=users))
    counts = hub.tornado_application.settings if is_hub else users
    assert counts["failure_count"] == -1
