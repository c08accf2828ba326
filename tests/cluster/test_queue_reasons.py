"""Why servers wait in a queue of the real Kueue, and which of them their users need not wait for.

Each user has a LocalQueue and a WorkloadPriorityClass of their own, by the names in the labels of their pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_client import Answer
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import KINDS
from tests.cluster.support.kueue import GROUP, VERSION, Kueue, installed_kueue
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.told import listening
from tests.cluster.support.waiting import wait_for

NAMESPACE = "reasons"
CARD = KINDS["V100"]
"""Its nodes are simulated: a server that is admitted is ready at once."""
ONE = {"gpu": CARD.slug, "gpu_count": 1}
TWO = {"gpu": CARD.slug, "gpu_count": 2}
HOPELESS_WITHIN_S = 60
MAY_PREEMPT = "Availability unknown: the queue queue-winner decides when it may start."
OTHER_GATE = "example.com/approval"
REASON = "Your server had to give way to something of higher priority."


@pytest.fixture(scope="module")
def kueue(cluster: Cluster, api: ApiClient) -> Iterator[Kueue]:
    with installed_kueue(cluster, api) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: Cluster, api: ApiClient, kueue: Kueue) -> Iterator[Servers]:
    labels = {f"{GROUP}/queue-name": "queue-{username}", f"{GROUP}/priority-class": "class-{username}"}
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=offer(cluster, queue={"local_queue": "default", "timeout": 300}),
        extra={"KubeSpawner": {"extra_labels": labels}},
    )
    with Hub(cluster, settings) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


def kueue_object(kind: str, name: str, *, namespace: str = "", **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, **body}


def flavor(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return kueue_object("ResourceFlavor", name, spec={"nodeLabels": dict(labels or {})})


def cluster_queue(name: str, *flavors: str, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    quota = {"cpu": 64, "memory": "256Gi", CARD.resource: gpus}
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": each, "resources": resources} for each in flavors]}
    return kueue_object("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group], **spec})


def local_queue(user: str, cluster_queue: str, **spec: Any) -> dict[str, Any]:
    return kueue_object(
        "LocalQueue", f"queue-{user}", namespace=NAMESPACE, spec={"clusterQueue": cluster_queue, **spec}
    )


def priority_class(user: str, value: int = 1) -> dict[str, Any]:
    return kueue_object("WorkloadPriorityClass", f"class-{user}", value=value, description="of a test")


ANY, NO_SUCH = flavor("any"), flavor("no-such", {"nvidia.com/gpu.product": "NO-SUCH-CARD"})

HOPELESS = [
    pytest.param(
        "greedy",
        [priority_class("greedy"), ANY, cluster_queue("small", "any"), local_queue("greedy", "small")],
        "Your server asks for more than the whole quota of the queue queue-greedy.",
        id="ExceedsMaxQuota",
    ),
    pytest.param(
        "odd",
        [priority_class("odd"), NO_SUCH, cluster_queue("other", "no-such", gpus=8), local_queue("odd", "other")],
        "The queue queue-odd has nothing of the kind that your server asks for.",
        id="NoMatchingFlavor",
    ),
    pytest.param(
        "queueless",
        [priority_class("queueless")],
        "The queue queue-queueless does not exist.",
        id="no LocalQueue",
    ),
    pytest.param(
        "held",
        [priority_class("held"), ANY, cluster_queue("held", "any", stopPolicy="Hold"), local_queue("held", "held")],
        "The queue queue-held is stopped, or not set up completely.",
        id="stopped ClusterQueue",
    ),
    pytest.param(
        "classless",
        [ANY, cluster_queue("fine", "any"), local_queue("classless", "fine")],
        "The queue hasn't accepted your server. Its priority class class-classless may not exist.",
        id="no WorkloadPriorityClass",
    ),
]


REFUSED = {
    "greedy": "the server requests 2 × Tesla V100 16 GB; the queue queue-greedy never admits more than 1",
    "odd": "the queue queue-odd has nothing of the kind that your server asks for",
    "queueless": "the queue queue-queueless does not exist",
    "held": "the queue queue-held is stopped, or not set up completely",
}


@pytest.mark.parametrize(
    ("user", "objects"), [pytest.param(*each.values[:2], id=each.id) for each in HOPELESS if each.values[0] in REFUSED]
)
def test_a_server_that_kueue_can_never_admit_is_refused_with_the_reason(
    kueue: Kueue, servers: Servers, user: str, objects: list[Mapping[str, Any]]
) -> None:
    with kueue.objects(*objects):
        answers: list[Answer] = []

        def is_refused() -> bool:
            # Kueue writes into a new LocalQueue that its ClusterQueue is stopped.
            answers[:] = [servers.ask(user, TWO)]
            servers.stop(user)
            return answers[0].status == HTTPStatus.CONFLICT

        wait_for(is_refused, "a refusal", timeout_s=60)

        assert f"Can't start: {REFUSED[user]}." in answers[0].message
        assert servers.pods.find(user) is None


def test_a_server_that_kueue_preempts_ends_and_its_user_reads_why_and_not_for_whom(
    kueue: Kueue, servers: Servers
) -> None:
    objects = [
        priority_class("loser", 1),
        priority_class("winner", 1000),
        ANY,
        cluster_queue("contested", "any", preemption={"withinClusterQueue": "LowerPriority"}),
        *(local_queue(user, "contested") for user in ("loser", "winner")),
    ]
    visitor = visit(servers.hub.url, "loser")
    with kueue.objects(*objects), servers.running({"loser": ONE}):
        servers.wait_verdict("winner", CARD.slug, 1, sentence=MAY_PREEMPT)
        with servers.asked("winner", ONE):
            servers.pods.wait_bound("winner")
            servers.pods.wait_gone("loser")
            wait_for(lambda: REASON in visitor.get("/hub/spawn").text, "the reason on the page", timeout_s=90)

        assert "winner" not in visitor.get("/hub/spawn").text


@pytest.fixture(scope="module")
def late_servers(servers: Servers) -> Iterator[Servers]:
    """Have another gate on all pods: then the queue alone does not decide, and the hub refuses no start for it."""
    hub, settings = servers.hub, servers.hub.settings
    gated = {**settings.extra["KubeSpawner"], "extra_pod_config": {"schedulingGates": [{"name": OTHER_GATE}]}}
    hub.settings = replace(settings, extra={**settings.extra, "KubeSpawner": gated})
    hub.restart()
    yield servers
    hub.settings = settings
    hub.restart()


@pytest.mark.parametrize(("user", "objects", "sentence"), HOPELESS)
def test_a_server_that_kueue_can_never_admit_ends_with_the_reason_and_is_never_said_to_be_next(
    kueue: Kueue, late_servers: Servers, user: str, objects: list[Mapping[str, Any]], sentence: str
) -> None:
    servers = late_servers
    with kueue.objects(*objects), servers.asked(user, TWO), listening(servers.hub, user) as told:
        end = told.wait_over(timeout_s=HOPELESS_WITHIN_S + 10)

        assert (end.get("failed"), sentence in str(end["message"])) == (True, True), told.sentences
        assert end["at"] <= HOPELESS_WITHIN_S
        assert [each for each in told.sentences if "next" in each] == []
        servers.pods.wait_gone(user)


def test_a_server_whose_queue_appears_while_it_waits_is_admitted(kueue: Kueue, late_servers: Servers) -> None:
    servers = late_servers
    late = [ANY, cluster_queue("late", "any"), local_queue("early", "late")]
    with kueue.objects(priority_class("early")), servers.asked("early", ONE), listening(servers.hub, "early") as told:
        told.wait("The queue queue-early does not exist.")
        with kueue.objects(*late):
            wait_for(lambda: gates(servers, "early") == [OTHER_GATE], "the server admitted")
            servers.stop("early")

    assert [each for each in told.events if each.get("failed") and "does not exist" in str(each["message"])] == []


def gates(servers: Servers, user: str) -> list[str]:
    return [each.name for each in servers.pods.of(user).spec.scheduling_gates or []]
