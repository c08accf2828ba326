"""The rights in helm-values/rbac.yaml are those that the hub uses, no more and no less, and cost what the file says.

A hub's requests are read from the API server's own audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply_rbac, ensure_namespace, remove_rbac
from gpuspawner.cli.cluster.shipped_roles import ResourceRight, read_shipped_rights
from tests.cluster.support.audit import Use, requests_of, uses_of
from tests.cluster.support.endowed import (
    ATTACHING,
    GROWING,
    IMPOSSIBLE,
    ONLY_DRA,
    PROMISED,
    QUEUE,
    QUEUED,
    QUOTA,
    SANDBOXED,
    SCALED,
    Site,
    endowed,
    is_allowed,
)
from tests.cluster.support.fleet import KINDS, WHOLE_CARD
from tests.cluster.support.told import listening
from tests.cluster.support.waiting import wait_for

NAMESPACE = "rights"
LARGE = KINDS["A100 80 GB"].slug
CARD = {"gpu": WHOLE_CARD.slug}
TOO_MANY = {"gpu": LARGE, "gpu_count": QUOTA + 1}

# Every account has these, by roles that Kubernetes binds to all of them: system:basic-user, to ask what one may do, and
# system:discovery, to ask which resources there are.
ANY_ACCOUNTS = {
    (Use("create", "authorization.k8s.io", "selfsubjectaccessreviews", False), ""),
    (None, "/apis/karpenter.sh/v1"),
    (None, "/apis/node.k8s.io/v1"),
    (None, "/apis/resource.k8s.io/v1"),
    (None, "/apis/scheduling.k8s.io/v1"),
    (None, "/apis/storage.k8s.io/v1"),
}
# Kueue does not run here: its objects are there, and a place in a queue is asked for and not found.
PLACES = {
    Use("get", "visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", True),
    Use("list", "kueue.x-k8s.io", "localqueues", True),
    Use("list", "kueue.x-k8s.io", "workloads", True),
}


@pytest.fixture(scope="module")
def site(cluster: Cluster, api: ApiClient) -> Iterator[Site]:
    with endowed(cluster, api, NAMESPACE) as running:
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The signs that a part of the file is not there.

    :param look: reads the text that a user sees.
    :param whole: that, with all rights; :param without: the same without the part.
    :param running: checks more while a user's server runs.
    :param is_watched: it shows by itself, both ways; the hub is not restarted.
    """

    look: Callable[[Site, str], Any]
    whole: Any
    without: Any
    running: Callable[[Site], None] = lambda _site: None
    is_watched: bool = False


def under_a_quota(site: Site, user: str) -> Any:
    most = site.form(user).offered()[LARGE]["max_count"]
    answer = site.servers.ask(user, TOO_MANY)
    # The API server is asked before anything is made, so no claim is left behind.
    return most, answer.status, "exceeded quota: gpus" in answer.message, user in site.servers.pods.claims()


def with_a_home(site: Site, _user: str) -> Any:
    return site.verdict("settled", **CARD)


def of_nodes(site: Site, user: str) -> Any:
    page = site.form(user)
    island, offered = page.island(), page.offered()
    totals = {offered[slug]["total"] for slug in (WHOLE_CARD.slug, SCALED)}
    return LARGE in offered, totals, island["memory"] is not None, island["capacity_notice"]


def of_pods(site: Site, user: str) -> Any:
    page = site.form(user)
    card = page.offered()[WHOLE_CARD.slug]
    counts = (card["total"], card["free"], page.details(WHOLE_CARD.slug))
    return counts, site.verdict(user, **CARD)[0], page.island()["capacity_notice"]


def beside_pods_that_are_unknown(site: Site) -> None:
    assert site.form("onlooker").details(WHOLE_CARD.slug) == "1 in use by servers of this hub"
    with site.servers.asked("without-gpu", {"gpu": None}):
        terms = site.servers.pods.of("without-gpu").spec.affinity.node_affinity
    assert not terms.required_during_scheduling_ignored_during_execution
    assert terms.preferred_during_scheduling_ignored_during_execution


def of_new_nodes(site: Site, user: str) -> Any:
    return tuple(site.verdict(user, gpu=gpu)[0] for gpu in (SCALED, PROMISED, IMPOSSIBLE))


def of_node_groups(site: Site, user: str) -> Any:
    outcome, sentence = site.verdict(user, gpu=GROWING)
    return outcome, sentence.partition(". ")[2].partition(";")[0]


def of_a_runtime_class(site: Site, user: str) -> Any:
    return site.verdict(user, gpu=SANDBOXED)


def of_devices(site: Site, user: str) -> Any:
    return ONLY_DRA in site.form(user).offered(), site.verdict(user, gpu=IMPOSSIBLE)[0]


def with_a_disk(site: Site, _user: str) -> Any:
    return site.verdict(ATTACHING, gpu=LARGE)[0]


def in_a_queue(site: Site, user: str) -> Any:
    return site.verdict(user, gpu=QUEUED)


UNREADABLE_HOME = "Availability unknown: it depends on where the home volume is, which the hub cannot read."
NO_NODES = "GPU capacity is unknown right now. The hub may not list the cluster's nodes."
NO_PODS = "How many GPUs are free is unknown. The hub may not list the pods of all namespaces."
LOSSES = {
    "quotas": Loss(look=under_a_quota, whole=(QUOTA, 403, False, False), without=(8, 409, True, False)),
    "volumes": Loss(
        look=with_a_home, whole=("now", "Starts now: room for 4 like this."), without=("unknown", UNREADABLE_HOME)
    ),
    "volume-limits": Loss(look=with_a_disk, whole="waits", without="now"),
    "nodes": Loss(
        look=of_nodes, whole=(True, {0, 4}, True, ""), without=(False, {None}, False, NO_NODES), is_watched=True
    ),
    "pods": Loss(
        look=of_pods,
        whole=((4, 4, ""), "now", ""),
        without=((4, None, "none in use by servers of this hub"), "unknown", NO_PODS),
        running=beside_pods_that_are_unknown,
    ),
    "runtime-classes": Loss(
        look=of_a_runtime_class,
        whole=("now", "Starts now: room for 4 like this."),
        without=("unknown", "Availability unknown: it depends on what the cluster adds for its runtime class."),
    ),
    "devices": Loss(look=of_devices, whole=(True, "never"), without=(False, "unknown")),
    "nodepools": Loss(
        look=of_new_nodes,
        whole=("after-scale-up", "after-scale-up", "never"),
        without=("unknown", "after-scale-up", "unknown"),
    ),
    "autoscaler": Loss(
        look=of_node_groups,
        whole=("unknown", "All node groups have their largest size"),
        without=("unknown", "One may be added"),
    ),
    "queue-quotas": Loss(
        look=in_a_queue,
        whole=("waits", f"Will wait: the quota of the queue {QUEUE} is in use."),
        without=("unknown", f"Availability unknown: the queue {QUEUE} decides when it may start."),
    ),
}


@pytest.mark.smoke
def test_the_hub_asks_for_all_that_the_file_grants_and_for_nothing_else(cluster: Cluster, site: Site) -> None:
    for loss in LOSSES.values():
        settle(site, loss, loss.whole)
    start_and_stop_in_every_way(site)
    queue_up(site, "queuer")
    granted = uses_of(each for each in read_shipped_rights() if each.is_granted)

    requests = requests_of(cluster, NAMESPACE)

    used = {(each.use, "" if each.use else each.path) for each in requests}
    asked = {each.use for each in requests} - {use for use, _ in ANY_ACCOUNTS}
    assert [each for each in requests if not each.is_allowed] == []
    assert used - {(use, "") for use in asked} == ANY_ACCOUNTS
    assert asked == granted
    assert {each.reviewed for each in requests if each.reviewed} <= granted


def start_and_stop_in_every_way(site: Site) -> None:
    servers, client = site.servers, site.hub.client
    servers.begin("walker", {**CARD, "gpu_count": 2, "run_time": "20m"})
    with listening(site.hub, "walker") as told:
        told.wait("Your server is running.")
    # One by a name, and one whose user changes their mind: no program answers on these nodes.
    client.start_server("walker", {"gpu": LARGE}, name="second")
    with servers.asked("hesitant", {"gpu": None}):
        servers.pods.wait_bound("hesitant")
    remove(site, "/users/walker/servers/second", body={"remove": True})

    site.restart(is_gated=True)

    servers.wait_ready("walker")
    servers.stop("walker")
    servers.pods.wait_gone("walker")
    remove(site, "/users/walker")
    wait_for(lambda: "walker" not in servers.pods.claims(), "no claim of a user who is gone")


def remove(site: Site, path: str, *, body: object = None) -> None:
    """Remove a server or a user; the hub says no while a server is on its way."""
    gone = {204, 404}
    wait_for(lambda: site.hub.client.request("DELETE", path, body=body).status in gone, f"{path} removed")


def queue_up(site: Site, user: str) -> None:
    with site.servers.asked(user, {"gpu": QUEUED}):
        told = site.servers.wait_told(user, QUEUE)
    assert told.startswith(f"Waiting in the queue {QUEUE}. Gives up in ")


def test_without_the_right_to_its_queue_a_server_waits_in_it_all_the_same(cluster: Cluster, site: Site) -> None:
    with site.without("queues"):
        site.restart(is_gated=True)
        known = len(requests_of(cluster, NAMESPACE))
        queue_up(site, "other-queuer")

    refused = {each.use for each in requests_of(cluster, NAMESPACE)[known:] if not each.is_allowed}
    assert refused == PLACES


@pytest.mark.parametrize("part", LOSSES)
def test_without_a_part_the_hub_works_and_loses_what_the_file_says(site: Site, part: str) -> None:
    loss = LOSSES[part]
    with site.without(part):
        if not loss.is_watched:
            site.restart()
        settle(site, loss, loss.without)
        with site.servers.running({"runner": CARD}):
            loss.running(site)
    if loss.is_watched:
        settle(site, loss, loss.whole)


def test_every_part_that_can_be_left_out_was_left_out() -> None:
    # test_preemption.py leaves out priorities.
    assert {*LOSSES, "queues", "priorities"} == {each.part for each in read_shipped_rights()} - {"hub"}


def test_a_second_hubs_rights_take_nothing_from_the_first_hub_and_go_without_it(api: ApiClient) -> None:
    first, second = "first-hub", "second-hub"
    with ExitStack() as stack:
        for namespace in (first, second):
            ensure_namespace(api, namespace)
            stack.callback(CoreV1Api(api).delete_namespace, namespace)
            stack.callback(remove_rbac, api, namespace)

        apply_rbac(api, first)
        wait_for(lambda: (granted_to(api, first), granted_to(api, second)) == (ALL, set()), "only the first has rights")

        apply_rbac(api, second)
        wait_for(lambda: granted_to(api, second) == ALL, "the second has its rights")
        assert granted_to(api, first) == ALL

        remove_rbac(api, second)
        wait_for(lambda: granted_to(api, second) == set(), "the second has none")
        assert granted_to(api, first) == ALL


ALL = {(each, verb) for each in read_shipped_rights() if each.is_granted for verb in each.verbs}


def granted_to(api: ApiClient, namespace: str) -> set[tuple[ResourceRight, str]]:
    """Ask the API server which of the file's rights the hub of a namespace has."""
    user = f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"
    return {(right, verb) for right, verb in ALL if is_allowed(api, right, verb, user=user, namespace=namespace)}


def settle(site: Site, loss: Loss, expected: Any) -> None:
    seen: list[Any] = []

    def is_so() -> bool:
        seen[:] = [loss.look(site, "onlooker")]
        return seen == [expected]

    try:
        wait_for(is_so, "what is expected", timeout_s=30)
    except AssertionError:
        assert seen == [expected]
        raise
