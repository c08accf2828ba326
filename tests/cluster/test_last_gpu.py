"""Ten users want the last GPU at the same moment: one gets it, nine wait and see why, and none meets an error."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pytest

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_client import Answer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.onlooker import Onlooker
from tests.cluster.support.own_pods import running_pod
from tests.cluster.support.pods import USER_ANNOTATION, Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

R = TypeVar("R")

RACERS = frozenset(f"racer-{number}" for number in range(10))
OPTIONS = {"image": "lab", "cpu": 0.5, "memory": "512M", "gpu": WHOLE_CARD.slug, "gpu_count": 1}
FIELDS = {"image": "lab", "cpu": "0.5", "memory": "512M", "gpu": WHOLE_CARD.slug, "gpu_count": "1"}
TOTAL = WHOLE_CARD.total
TOO_FEW = "Insufficient nvidia.com/gpu"
SERVER_ERROR = re.compile(r"\] 5\d\d [A-Z]+ /.*")
"""A request in JupyterHub's log that was answered with a fault of the hub's own."""


@pytest.mark.smoke
def test_of_ten_users_one_gets_the_last_gpu_and_nine_a_truthful_wait(
    cluster: Cluster, hub: Hub, servers: Servers, pods: Pods
) -> None:
    onlooker = Onlooker(hub.url, "onlooker", choice=FIELDS)
    settle(onlooker, free=TOTAL)
    logged = len(hub.log.read_text())
    with running_pod(cluster, "holder", limits={WHOLE_CARD.resource: str(TOTAL - 1)}):
        settle(onlooker, free=1)
        with onlooker.looking() as glances, racing(servers) as answers:
            assert [answer for answer in answers if answer.status not in {201, 202}] == []
            first = lucky_one(pods, waiting=9)
            assert wait_truthfully(servers, RACERS - {first}) == dict.fromkeys(RACERS - {first}, 9)

            servers.stop(first)

            second = lucky_one(pods, waiting=8)
            assert wait_truthfully(servers, RACERS - {first, second}) == dict.fromkeys(RACERS - {first, second}, 8)
            assert pods.gpus_listed(second) == 1
        settle(onlooker, free=1)
    settle(onlooker, free=TOTAL)

    assert {glance.counts for glance in glances} == {(0, TOTAL), (1, TOTAL)}
    assert SERVER_ERROR.findall(hub.log.read_text()[logged:]) == []


@contextmanager
def racing(servers: Servers) -> Iterator[list[Answer]]:
    """Have all racers ask for a server at the same moment; yield the hub's answers, and stop the servers in the end."""
    line = threading.Barrier(len(RACERS))

    def ask(user: str) -> Answer:
        line.wait(30)
        return servers.hub.client.start_server(user, OPTIONS)

    for user in RACERS:
        servers.hub.client.create_user(user)
    try:
        yield all_at_once(ask, RACERS)
    finally:
        all_at_once(servers.stop, RACERS)


def lucky_one(pods: Pods, *, waiting: int) -> str:
    """Wait until one racer's pod runs and the others are found unschedulable; return whose runs."""

    def look() -> str:
        found = {pod.metadata.annotations[USER_ANNOTATION]: pod for pod in pods.all()}
        states = sorted((pod.status.phase, pod.spec.node_name) for pod in found.values() if pod.spec.node_name)
        assert len(states) <= 1, states
        return next((user for user, pod in found.items() if pod.status.phase == "Running"), "")

    lucky = wait_for(look, "a racer's pod running")
    others = {pod.metadata.annotations[USER_ANNOTATION] for pod in pods.all()} - {lucky}
    assert len(others) == waiting
    assert {TOO_FEW in pods.wait_unschedulable(user) for user in others} == {True}
    assert {(pod.status.phase, pod.spec.node_name) for pod in map(pods.of, others)} == {("Pending", None)}
    return lucky


def wait_truthfully(servers: Servers, users: Iterable[str]) -> dict[str, int]:
    """Return how many servers their forms say are ahead of one more, for users whose own is still on its way.

    A form for a second server: the first one's page shows its progress instead.
    """

    def ahead(user: str) -> int:
        assert servers.state(user)["pending"] == "spawn"
        servers.wait_told(user, TOO_FEW)
        glance = Onlooker(servers.hub.url, user, choice=FIELDS).look(f"/hub/spawn/{user}/second")
        assert (glance.counts, glance.outcome) == ((0, TOTAL), "waits")
        return int(re.findall(r"(\d+) servers are ahead of yours", glance.verdict)[0])

    users = sorted(users)
    return dict(zip(users, all_at_once(ahead, users), strict=True))


def settle(onlooker: Onlooker, *, free: int) -> None:
    wait_for(lambda: onlooker.look().counts == (free, TOTAL), f"{free} of {TOTAL} free on the form")


def all_at_once(act: Callable[[str], R], users: Iterable[str]) -> list[R]:
    users = list(users)
    with ThreadPoolExecutor(len(users)) as people:
        return list(people.map(act, users))
