"""The REST API: the contract's JSON does what the form does, and wrong options are refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import V1Pod

from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

CARD = WHOLE_CARD.slug
CONTRACT = {"v": 1, "image": "lab", "cpu": 2, "memory": "2G", "gpu": CARD, "gpu_count": 2}
FORM = {"image": "lab", "cpu": "2", "memory": "2", "gpu": CARD, "gpu_count": "2"}


@pytest.mark.smoke
def test_a_wrong_field_is_refused_by_name_and_leaves_neither_pod_nor_volume_claim(servers: Servers, pods: Pods) -> None:
    answer = servers.ask("tidy", {"gpu": "geforce"})

    assert (answer.status, "gpu: " in answer.message, CARD in answer.message) == (400, True, True), answer
    assert (pods.find("tidy"), "tidy" in pods.claims()) == (None, False)


def test_an_accepted_request_makes_both(servers: Servers, pods: Pods) -> None:
    with servers.asked("owner", {"gpu": None}):
        pods.of("owner")

        assert "owner" in pods.claims()


@pytest.fixture(scope="module")
def both_pods(servers: Servers, pods: Pods) -> tuple[V1Pod, V1Pod]:
    """The pods of one choice, made through the form and through REST, one after the other by the same user."""
    visitor = visit(servers.hub.url, "twin")
    fields = visitor.get("/hub/spawn").fields()
    visitor.post("/hub/spawn/twin", {**fields, **FORM})
    by_form = pods.of("twin")
    servers.stop("twin")
    with servers.asked("twin", CONTRACT):
        return by_form, pods.of("twin")


@pytest.mark.smoke
def test_the_contracts_json_makes_the_same_pod_as_the_form(both_pods: tuple[V1Pod, V1Pod]) -> None:
    by_form, by_rest = both_pods

    assert choice_in(by_rest) == choice_in(by_form)


def test_options_may_also_come_under_their_own_key(servers: Servers, pods: Pods) -> None:
    servers.hub.client.create_user("wrapped")

    answer = servers.hub.client.start_server("wrapped", {"user_options": CONTRACT})

    try:
        assert (answer.status in {201, 202}, pods.of("wrapped").metadata.annotations["gpuspawner.jupyter.org/gpu"]) == (
            True,
            CARD,
        )
    finally:
        servers.stop("wrapped")


def choice_in(pod: V1Pod) -> dict[str, Any]:
    """Return the parts of a pod that a choice decides."""
    notebook = pod.spec.containers[0]
    ours = {key: value for key, value in pod.metadata.annotations.items() if key.startswith("gpuspawner.")}
    del ours["gpuspawner.jupyter.org/created-by-start"]  # a token of this start
    return {
        "image": notebook.image,
        "limits": notebook.resources.limits,
        "requests": notebook.resources.requests,
        "node_selector": pod.spec.node_selector,
        "tolerations": [(item.key, item.operator, item.effect) for item in pod.spec.tolerations],
        "annotations": ours,
    }
