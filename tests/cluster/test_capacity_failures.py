"""50 servers in a row find no room until their time is up: no failures of the hub, which goes on for other users.

JupyterHub ends itself after as many failures in a row as ``consecutive_failure_limit`` says; zero-to-jupyterhub sets 5,
so that plain KubeSpawner's hub goes down with five users who wait for a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient

from bench.spawn import WEB_SERVER
from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import KINDS, WHOLE_CARD
from tests.cluster.support.own_pods import running_pod
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for
from tests.cluster.test_pairs import PAIRS

FULL = KINDS["T4"]
LABELS = {label: values[0] for label, values in FULL.match.items()}
USERS = tuple(f"waiting-{number}" for number in range(50))
FAILURE_LIMIT = 5
START_TIMEOUT_S = 15
COUNTED = re.compile(r"(\d+) consecutive spawn failures")


@pytest.fixture(scope="module", autouse=True)
def no_room(cluster: Cluster) -> Iterator[None]:
    """Have all GPUs of a type in use."""
    with running_pod(cluster, "filler", limits={FULL.resource: str(FULL.total)}, where=LABELS):
        yield


def hub_settings(cluster: Cluster, namespace: str, python: Path) -> HubSettings:
    """Return settings of a hub that gives up as soon as zero-to-jupyterhub's does."""
    # A web server in place of JupyterLab: no browser opens it.
    cheap = {"cmd": WEB_SERVER, "volumes": [], "volume_mounts": [], "working_dir": "/"}
    extra = {
        "Spawner": {"consecutive_failure_limit": FAILURE_LIMIT},
        "KubeSpawner": {"start_timeout": START_TIMEOUT_S, **cheap},
    }
    return HubSettings(namespace=namespace, python=python, extra=extra, gpuspawner=offer(cluster))


@pytest.mark.parametrize(("version", "python"), PAIRS.values(), ids=PAIRS)
def test_50_capacity_failures_in_a_row_leave_the_hub_running(
    cluster: Cluster, api: ApiClient, version: str, python: Path
) -> None:
    namespace = f"no-room-{version.replace('.', '-')}"
    settings = hub_settings(cluster, namespace, python)
    with Hub(cluster, settings) as hub:
        servers = Servers(hub, Pods(api, namespace))
        pid = hub.hub_pid
        # A hub that has just started has to read which types there are.
        wait_for(lambda: FULL.slug in types_offered(hub), "the type in the form")

        at_once(lambda user: servers.begin(user, {"gpu": FULL.slug}), USERS)
        wait_for(lambda: all(is_at_rest(servers, user) for user in USERS), "the end of every start")

        assert (hub.failure(), hub.hub_pid) == ("", pid)
        told = at_once(servers.last_told, USERS)
        assert [text for text in told if "No room for your server" not in text] == []
        assert COUNTED.findall(hub.log.read_text()) == []
        assert wait_for(lambda: not servers.pods.all(), "no pod left")
        with servers.running({"lucky": {"gpu": WHOLE_CARD.slug}}):
            assert servers.state("lucky")["ready"]


def types_offered(hub: Hub) -> set[str]:
    return set(visit(hub.url, "first").get("/hub/spawn").offered())


def is_at_rest(servers: Servers, user: str) -> bool:
    state = servers.state(user)
    return not state.get("pending") and not state.get("ready")


def at_once(act: Callable[[str], Any], users: Iterable[str]) -> list[Any]:
    users = list(users)
    with ThreadPoolExecutor(len(users)) as people:
        return list(people.map(act, users))
