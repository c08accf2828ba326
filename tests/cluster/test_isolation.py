"""Users hold exactly the GPUs they chose: what the kernel says inside their pods, who are root there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, V1Pod

from tests.cluster.support import nodes
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

PROBE = (Path(__file__).parent / "support" / "probe.py").read_text()
CHOICES: dict[str, dict[str, object]] = {
    "one": {"gpu": WHOLE_CARD.slug, "gpu_count": 1},
    "two": {"gpu": WHOLE_CARD.slug, "gpu_count": 2},
    "none": {"gpu": None},
}
COUNTS = {"one": 1, "two": 2, "none": 0}


@dataclass(frozen=True, slots=True)
class Users:
    """Three users whose servers run at the same time, and what a probe found in each."""

    servers: Servers
    python: Path

    def probe(self, user: str, *numbers: str, **environment: str) -> dict[str, Any]:
        settings = [f"{name}={value}" for name, value in environment.items()]
        command = ["/usr/bin/env", *settings, str(self.python), "-c", PROBE, *numbers]
        done = self.servers.pods.run(user, *command)
        assert done.status == 0, done
        return dict(json.loads(done.out))

    def pod(self, user: str) -> V1Pod:
        return self.servers.pods.of(user)

    def numbers(self, user: str) -> set[str]:
        """Return the device numbers a user's pod was given."""
        return {device["number"] for device in self.probe(user)["devices"].values()}

    def numbers_of_others(self, user: str) -> set[str]:
        return set().union(*(self.numbers(other) for other in CHOICES if other != user))


@pytest.fixture(scope="module")
def users(api: ApiClient, servers: Servers) -> Iterator[Users]:
    # Without the simulated nodes all three share the one node that has devices, the server without a GPU too.
    simulated = [node.metadata.name for node in nodes.simulated(api)]
    with nodes.cordoned(api, simulated), servers.running(CHOICES):
        yield Users(servers, servers.hub.settings.python)


@pytest.mark.smoke
@pytest.mark.parametrize("user", CHOICES)
def test_a_user_sees_as_many_devices_as_chosen(users: Users, user: str) -> None:
    assert len(users.probe(user)["devices"]) == COUNTS[user]


@pytest.mark.smoke
def test_no_two_users_share_a_device(users: Users) -> None:
    assert len(set().union(*(users.numbers(user) for user in CHOICES))) == sum(COUNTS.values())


@pytest.mark.parametrize("user", ["one", "two"])
def test_a_user_may_open_each_device_of_their_own(users: Users, user: str) -> None:
    # ENXIO: the kernel let it through and found no driver, for there is no hardware.
    assert {device["answer"] for device in users.probe(user)["devices"].values()} == {"ENXIO"}


@pytest.mark.smoke
@pytest.mark.parametrize("user", CHOICES)
def test_a_device_file_a_user_makes_for_anothers_gpu_cannot_be_opened(users: Users, user: str) -> None:
    others = users.numbers_of_others(user)

    assert users.probe(user, *others)["forged"] == dict.fromkeys(others, "EPERM")


@pytest.mark.smoke
@pytest.mark.parametrize("user", CHOICES)
def test_setting_nvidia_visible_devices_in_the_notebook_gains_nothing(users: Users, user: str) -> None:
    others = users.numbers_of_others(user)

    found = users.probe(user, *others, NVIDIA_VISIBLE_DEVICES="all")

    assert (len(found["devices"]), set(found["forged"].values())) == (COUNTS[user], {"EPERM"})


def test_a_server_without_gpu_gets_void_as_its_variable(users: Users) -> None:
    assert users.probe("none")["variable"] == "void"


def test_the_variable_on_a_gpu_pod_is_the_device_plugins_own(users: Users) -> None:
    assert re.fullmatch(r"GPU-[0-9a-f-]+,GPU-[0-9a-f-]+", users.probe("two")["variable"])


@pytest.mark.parametrize("user", CHOICES)
def test_nvidia_smi_lists_the_users_gpus(users: Users, user: str) -> None:
    assert users.servers.pods.gpus_listed(user) == COUNTS[user]


def test_a_variable_in_the_user_options_is_refused(servers: Servers, pods: Pods) -> None:
    answer = servers.ask("sneaky", {"gpu": None, "environment": {"NVIDIA_VISIBLE_DEVICES": "all"}})

    assert (answer.status, "environment" in answer.message, pods.find("sneaky")) == (400, True, None)


def test_a_variable_beside_the_user_options_is_refused(servers: Servers) -> None:
    answer = servers.ask("sneaky", {"NVIDIA_VISIBLE_DEVICES": "all"})

    assert (answer.status, "NVIDIA_VISIBLE_DEVICES" in answer.message) == (400, True)
