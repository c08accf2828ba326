"""Many servers at once through GPUSpawner against the same through plain KubeSpawner.

Two hubs on one real cluster are sent the same at the same moment: what a machine does slowly in one minute and fast in
the next, it does so for both, which turns of one and the other would have to be many to average out. The figure is what
all rounds together took of one, over the other. A full garbage collection falls into one round in five and is a part of
what spawns cost, which a median of the rounds would not see; that is shown beside it. Every few rounds both hubs get a
new process: one may be a bit faster or slower than its like for as long as it lives, and more rounds of the same two
would not make up for that.

Both hubs are sent what their form would store (KubeSpawner's the profile of a hand-written ``profile_list``) and make
equal pods of it: CPU, memory and one GPU on a node with a label. In them runs busybox's web server, which answers the
hub's check at once (with 404, which is an answer): twenty JupyterLabs would measure JupyterLab. The GPU is an extended
resource that the node's status was given for the purpose, because its stand-in GPUs are fewer than the servers.

Neither makes a volume claim. Where KubeSpawner has to make one first, GPUSpawner looks at a draft of the pod before
that, which takes one manifest more.

No request asks the hub whether it is done: answers would be a third of the processor time that is measured, and more of
it the longer a round takes. Its log says when a server is ready.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api

from bench.result import Result
from devcluster import Cluster, DevclusterError
from devcluster.hub import Hub
from devcluster.hub_client import Answer
from devcluster.hub_config import HubSettings
from devcluster.processes import poll

WALL_RATIO_BUDGET = 1.05
CPU_RATIO_BUDGET = 1.15
"""GPUSpawner's own part of a start costs about a tenth of KubeSpawner's processor time: docs/decisions/0054."""
RESOURCE = "bench.example/gpu"
LABEL = "bench.example/card"
ROUNDS_OF_A_PROCESS = 4
START_TIMEOUT_S = 180
PROXY_TIMEOUT_S = 10
POLL_INTERVAL_S = 0.05
READY = re.compile(rb"User \S+ took [0-9.]+ seconds to start")
"""JupyterHub's log line for each server that is ready."""
Start = tuple[Hub, str]
"""A hub and the name of a user whose server it starts."""
CPU_CLOCK = 2
"""CPUCLOCK_SCHED in the number of a process's clock (Linux, include/linux/posix-timers_types.h)."""
FLEET = Path(__file__).resolve().parent.parent / "devcluster" / "fleet.yaml"
WEB_SERVER = ["/bin/busybox", "httpd", "-f", "-p", "8888", "-h", "/mnt"]


@dataclass(frozen=True, slots=True)
class Round:
    """The cost of one start of all of a hub's servers.

    :param wall_s: from the first request until the hub's log calls the last server ready.
    :param cpu_s: processor time of the hub's process meanwhile.
    """

    wall_s: float
    cpu_s: float


def measure(*, rounds: int, servers: int) -> Result:
    """Start a cluster and two hubs, measure the rounds and stop everything."""
    with ExitStack() as started:
        name = f"bench-{os.getpid()}"
        started.callback(Cluster.remove, name)
        print(f"spawn: starting cluster {name}", flush=True)
        cluster = Cluster.up(name=name, simulated_nodes=FLEET)
        _offer_resource(cluster, servers * 2)
        hubs = {
            "gpuspawner": started.enter_context(Hub(cluster, _gpuspawner(cluster))),
            "kubespawner": started.enter_context(Hub(cluster, _kubespawner(cluster))),
        }
        api = started.enter_context(cluster.api_client())
        found: dict[str, list[Round]] = {which: [] for which in hubs}
        for number in range(rounds):
            if number % ROUNDS_OF_A_PROCESS == 0:
                _renew(hubs.values(), api, servers, again=number > 0)
            # Who is asked first is first in the kubelet's queue as well.
            order = sorted(hubs, reverse=bool(number % 2))
            took = _round([hubs[which] for which in order], api, servers)
            for which, one in zip(order, took, strict=True):
                found[which].append(one)
                print(
                    f"spawn: {number + 1}/{rounds} {which:<12}{one.wall_s:6.2f} s wall, {one.cpu_s:5.2f} s hub CPU",
                    flush=True,
                )
    return _compare(found, servers)


def _renew(hubs: Collection[Hub], api: ApiClient, servers: int, *, again: bool) -> None:
    """Give both hubs a new process, where they had one before, and one round that does not count.

    A hub's first spawns load modules and open connections: not what is compared.
    """
    if again:
        for hub in hubs:
            hub.restart()
    _round(hubs, api, servers)


def _compare(found: Mapping[str, list[Round]], servers: int) -> Result:
    ours, theirs = found["gpuspawner"], found["kubespawner"]
    wall = [(one.wall_s, other.wall_s) for one, other in zip(ours, theirs, strict=True)]
    cpu = [(one.cpu_s, other.cpu_s) for one, other in zip(ours, theirs, strict=True)]
    return Result(
        name="spawn",
        values={
            "wall_ratio": _ratio(wall),
            "hub_cpu_ratio": _ratio(cpu),
            "gpuspawner_wall_s": statistics.mean(one.wall_s for one in ours),
            "kubespawner_wall_s": statistics.mean(one.wall_s for one in theirs),
            "gpuspawner_hub_cpu_s": statistics.mean(one.cpu_s for one in ours),
            "kubespawner_hub_cpu_s": statistics.mean(one.cpu_s for one in theirs),
            "wall_median_ratio": _median_ratio(wall),
            "hub_cpu_median_ratio": _median_ratio(cpu),
        },
        budgets={"wall_ratio": WALL_RATIO_BUDGET, "hub_cpu_ratio": CPU_RATIO_BUDGET},
        details={
            "servers": servers,
            "wall_ratio_95_percent": _interval(wall),
            "hub_cpu_ratio_95_percent": _interval(cpu),
            "rounds": {which: [[one.wall_s, one.cpu_s] for one in each] for which, each in found.items()},
        },
    )


Pair = tuple[float, float]
"""The cost of one round of GPUSpawner, and of KubeSpawner."""


def _ratio(pairs: Sequence[Pair]) -> float:
    """Return what all rounds together took of one, over the other."""
    return sum(one for one, _ in pairs) / sum(other for _, other in pairs)


def _median_ratio(pairs: Sequence[Pair]) -> float:
    return statistics.median(one / other for one, other in pairs)


def _interval(pairs: Sequence[Pair]) -> list[float]:
    """Return between which two values the ratio would lie in 95 of 100 repetitions (bootstrap).

    Rounds of the same two processes are drawn together: they have in common what those are like.
    """
    draw = random.Random(0)  # noqa: S311 - the same file gives the same interval
    lives = [pairs[first : first + ROUNDS_OF_A_PROCESS] for first in range(0, len(pairs), ROUNDS_OF_A_PROCESS)]
    ratios = sorted(_ratio([*chain(*draw.choices(lives, k=len(lives)))]) for _ in range(1000))
    return [ratios[25], ratios[-26]]


def _round(hubs: Collection[Hub], api: ApiClient, servers: int) -> list[Round]:
    """Start so many servers on each hub at once, wait until they are ready, and stop them again."""
    users = [f"user-{number}" for number in range(servers)]
    for hub in hubs:
        for user in users:
            hub.client.create_user(user)
    races = [_Race(hub, servers) for hub in hubs]
    starts = [(hub, user) for user in users for hub in hubs]
    answers = _all_at_once(lambda one: one[0].client.start_server(one[1], _options(one[0])), starts)
    if refused := [answer for answer in answers if answer.status not in {201, 202}]:
        raise DevclusterError(f"the hub refused a server: {refused[0]}")

    def are_over() -> bool:
        over = [race.is_over() for race in races]  # each is looked at each time, also behind one that is not there yet
        return all(over)

    are_ready = poll(are_over, timeout_s=START_TIMEOUT_S, interval_s=POLL_INTERVAL_S)
    if not are_ready or not poll(lambda: all(_served(hub) == servers for hub in hubs), timeout_s=PROXY_TIMEOUT_S):
        told = "\n".join(f"{_served(hub)} of {servers} servers became ready:\n{hub.log_tail()}" for hub in hubs)
        raise DevclusterError(told)
    _all_at_once(lambda one: one[0].client.stop_server(one[1]), starts)
    core = CoreV1Api(api)

    def at_rest(hub: Hub) -> bool:
        pending = any(user["pending"] or user["servers"] for user in hub.client.users())
        return not pending and not core.list_namespaced_pod(hub.settings.namespace).items

    if not poll(lambda: all(map(at_rest, hubs)), timeout_s=START_TIMEOUT_S, interval_s=POLL_INTERVAL_S):
        raise DevclusterError("the servers' pods did not go away")
    return [race.took for race in races if race.took is not None]


class _Race:
    """One hub on its way to the last ready server; begins when it is made."""

    def __init__(self, hub: Hub, servers: int) -> None:
        self.took: Round | None = None
        self._hub = hub
        self._servers = servers
        self._logged = hub.log.stat().st_size
        self._cpu_s = cpu_s(hub.hub_pid)
        self._began = time.monotonic()

    def is_over(self) -> bool:
        """Tell whether all servers are ready, and note what it took when that is seen for the first time."""
        if self.took is None and _ready(self._hub, since=self._logged) == self._servers:
            self.took = Round(time.monotonic() - self._began, cpu_s(self._hub.hub_pid) - self._cpu_s)
        return self.took is not None


def _options(hub: Hub) -> dict[str, object]:
    """Return what the hub's form would store."""
    if "GPUSpawner" not in hub.settings.spawner_class:
        return {"profile": "bench"}
    options = {"v": 1, "image": "web", "cpu": 0.5, "memory": "128M", "gpu": "bench", "gpu_count": 1}
    return {**options, "profile": "Web server · 0.5 CPU · 128 MiB · 1 × GPU"}


def _all_at_once(act: Callable[[Start], Answer], starts: Sequence[Start]) -> list[Answer]:
    with ThreadPoolExecutor(len(starts)) as people:
        return list(people.map(act, starts))


def _ready(hub: Hub, *, since: int) -> int:
    """Return how many servers became ready after the log had this many bytes."""
    with hub.log.open("rb") as log:
        log.seek(since)
        return len(READY.findall(log.read()))


def _served(hub: Hub) -> int:
    """Return how many servers the hub says users can open: the proxy knows them a moment after they are ready."""
    return sum(bool(user["server"]) for user in hub.client.users())


def cpu_s(pid: int) -> float:
    """Return the processor time of a process with all its threads, in user and kernel mode.

    From the process's own clock (clock_getcpuclockid(3)), as /proc counts in hundredths of a second.
    """
    return time.clock_gettime(~pid << 3 | CPU_CLOCK)


def _offer_resource(cluster: Cluster, amount: int) -> None:
    """Give the real node a label and an extended resource that no device plugin has to provide.

    https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
    """
    with cluster.api_client() as api:
        core: Any = CoreV1Api(api)
        core.patch_node(cluster.real_node, {"metadata": {"labels": {LABEL: "yes"}}})
        core.patch_node_status(cluster.real_node, {"status": {"capacity": {RESOURCE: str(amount)}}})
        if not poll(
            lambda: RESOURCE in core.read_node(cluster.real_node).status.allocatable, timeout_s=START_TIMEOUT_S
        ):
            raise DevclusterError(f"the node does not offer {RESOURCE}")


def _common(cluster: Cluster) -> dict[str, Any]:
    return {"image": cluster.notebook_image, "cmd": WEB_SERVER, "volumes": [], "volume_mounts": [], "working_dir": "/"}


def _gpuspawner(cluster: Cluster) -> HubSettings:
    card = {
        "display_name": "GPU",
        "vendor": "nvidia",
        "resource": RESOURCE,
        "match": {LABEL: ["yes"]},
        "max_count": 1,
    }
    offer = {
        "images": {"web": {"display_name": "Web server", "image": cluster.notebook_image}},
        "cpu": {"min": 0.5, "max": 2, "step": 0.5, "default": 0.5, "guarantee": 0.02},
        "memory": {"min": "128M", "max": "1G", "step": "128M", "default": "128M", "guarantee": 0.25},
        "gpus": {"bench": card},
        # One more question to the API server for each start, which KubeSpawner does not ask.
        "dry_run": False,
    }
    return HubSettings(namespace="bench-gpuspawner", gpuspawner=offer, extra={"KubeSpawner": _common(cluster)})


def _kubespawner(cluster: Cluster) -> HubSettings:
    equal = {
        "cpu_limit": 0.5,
        "cpu_guarantee": 0.01,
        "mem_limit": "128M",
        "mem_guarantee": "32M",
        "extra_resource_limits": {RESOURCE: "1"},
        "node_selector": {LABEL: "yes"},
    }
    profiles = [{"display_name": "GPU", "slug": "bench", "kubespawner_override": equal}]
    return HubSettings(
        namespace="bench-kubespawner",
        spawner_class="kubespawner.KubeSpawner",
        extra={"KubeSpawner": {**_common(cluster), "profile_list": profiles}},
    )
