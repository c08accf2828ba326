"""The cost of 500 open progress pages for the hub, beside the same pages with plain KubeSpawner.

Two hubs on one cluster have as many servers that wait for GPUs which all are in use. Their pages are opened through the
proxy, as browsers do, first one hub's, then the other's. Measured is the processor time of the hub's own process, with
everything it does meanwhile: it follows the servers and the cluster, and answers the pages. Its work without a page
is measured before that and shown beside it.

Pages tell users after a minute that it takes a while, and again every few seconds; most of those that are open when
GPUs are scarce have come to that. Here they do so at once, at both hubs.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api

from bench.freshness.cluster import prepare_namespace, unscheduled_pod
from bench.progress.pages import Pages
from bench.result import Result
from bench.spawn import cpu_s
from devcluster import Cluster, DevclusterError
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.processes import poll

BUDGET_PERCENT = 25.0
PAGES = 500
SERVERS = 100
WINDOW_S = 30.0
ROUNDS = 2
SETTLE_S = 5.0
ASKED_AT_ONCE = 20
START_TIMEOUT_S = 120
NAMESPACE = "bench-progress"
CARD, NODE, RESOURCE, TOTAL = "t4", "t4-1", "nvidia.com/gpu", 4
"""The GPU type that all wait for (devcluster/fleet.yaml)."""
LABEL = {"nvidia.com/gpu.product": "Tesla-T4"}
FLEET = Path(__file__).resolve().parents[2] / "devcluster" / "fleet.yaml"
USERS = tuple(f"user-{number}" for number in range(SERVERS))


def measure() -> Result:
    """Start a cluster and two hubs, measure with and without open pages, and stop everything."""
    with ExitStack() as started:
        name = f"bench-{os.getpid()}"
        started.callback(Cluster.remove, name)
        print(f"progress: starting cluster {name}", flush=True)
        cluster = Cluster.up(name=name, simulated_nodes=FLEET)
        api = started.enter_context(cluster.api_client())
        _take_all(api)
        hubs = {
            "gpuspawner": started.enter_context(Hub(cluster, _gpuspawner(cluster))),
            "kubespawner": started.enter_context(Hub(cluster, _kubespawner())),
        }
        for hub in hubs.values():
            _start_servers(hub, api)
        time.sleep(SETTLE_S)
        alone = _percents(hubs)
        print(f"progress: without pages {alone}", flush=True)
        found: dict[str, list[float]] = {which: [] for which in hubs}
        told: dict[str, list[float]] = {which: [] for which in hubs}
        for number in range(ROUNDS):
            for which in sorted(hubs, reverse=bool(number % 2)):
                percent, per_s = _with_pages(hubs[which])
                found[which].append(percent)
                told[which].append(per_s)
                print(f"progress: {which:<12}{percent:6.1f} % of a core, {per_s:.0f} events/s", flush=True)
    return _result(found, told, alone=alone)


def _with_pages(hub: Hub) -> tuple[float, float]:
    """Return the percentage of a core that a hub takes with all pages open, and how many events a second they get."""
    with Pages(hub.url, token=hub.token, users=[USERS[number % SERVERS] for number in range(PAGES)]) as pages:
        time.sleep(SETTLE_S)
        before = pages.events
        percent = _percents({"": hub})[""]
        pages.check()
        return percent, (pages.events - before) / WINDOW_S


def _percents(hubs: Mapping[str, Hub]) -> dict[str, float]:
    began, before = time.monotonic(), {which: cpu_s(hub.hub_pid) for which, hub in hubs.items()}
    time.sleep(WINDOW_S)
    took_s = time.monotonic() - began
    return {which: 100 * (cpu_s(hub.hub_pid) - before[which]) / took_s for which, hub in hubs.items()}


def _start_servers(hub: Hub, api: ApiClient) -> None:
    """Ask for all servers, and return when each has a pod that waits."""
    ours = "GPUSpawner" in hub.settings.spawner_class
    options: dict[str, object] = {"gpu": CARD, "gpu_count": 1} if ours else {"profile": "bench"}

    def ask(user: str) -> None:
        hub.client.create_user(user)
        answer = hub.client.start_server(user, options)
        if answer.status not in {201, 202}:
            raise DevclusterError(f"the hub refused a server: {answer}")

    with ThreadPoolExecutor(ASKED_AT_ONCE) as people:
        list(people.map(ask, USERS))
    core: Any = CoreV1Api(api)

    def waiting() -> int:
        pods = core.list_namespaced_pod(hub.settings.namespace).items
        return len([pod for pod in pods if pod.status.conditions])

    if not poll(lambda: waiting() == SERVERS, timeout_s=START_TIMEOUT_S):
        raise DevclusterError(f"{waiting()} of {SERVERS} servers' pods wait:\n{hub.log_tail()}")


def _take_all(api: ApiClient) -> None:
    """Have all GPUs of the type in use."""
    prepare_namespace(api, NAMESPACE)
    core: Any = CoreV1Api(api)
    pod = unscheduled_pod("taker", requests={"cpu": "10m", "memory": "16Mi", RESOURCE: str(TOTAL)}, node=NODE)
    core.create_namespaced_pod(NAMESPACE, pod)


def _result(found: Mapping[str, list[float]], told: Mapping[str, list[float]], *, alone: Mapping[str, float]) -> Result:
    means = {which: statistics.mean(values) for which, values in found.items()}
    return Result(
        name="progress",
        values={
            "pages_cpu_percent": means["gpuspawner"],
            "kubespawner_pages_cpu_percent": means["kubespawner"],
            "no_pages_cpu_percent": alone["gpuspawner"],
            "kubespawner_no_pages_cpu_percent": alone["kubespawner"],
            "events_per_s": statistics.mean(told["gpuspawner"]),
            "kubespawner_events_per_s": statistics.mean(told["kubespawner"]),
        },
        budgets={"pages_cpu_percent": BUDGET_PERCENT},
        details={"pages": PAGES, "servers": SERVERS, "window_s": WINDOW_S, "rounds": dict(found)},
    )


def _common(**more: Any) -> dict[str, dict[str, Any]]:
    return {
        "JupyterHub": {"concurrent_spawn_limit": 0, "tornado_settings": {"slow_spawn_timeout": 0}},
        "Spawner": {"start_timeout": 3600},
        "KubeSpawner": {"slow_spawn_message_threshold": 5, "slow_spawn_message_frequency": 5, **more},
    }


def _gpuspawner(cluster: Cluster) -> HubSettings:
    offer = {
        "images": {"lab": {"display_name": "JupyterLab", "image": cluster.notebook_image}},
        "cpu": {"min": 0.5, "max": 4, "step": 0.5, "default": 1, "guarantee": 0.05},
        "memory": {"min": "512M", "max": "8G", "step": "512M", "default": "1G", "guarantee": 0.05},
        "gpus": {CARD: {"display_name": "GPU", "resource": RESOURCE, "match": LABEL, "max_count": 1}},
    }
    return HubSettings(namespace="bench-progress-gpuspawner", gpuspawner=offer, extra=_common())


def _kubespawner() -> HubSettings:
    equal = {
        "cpu_limit": 1,
        "cpu_guarantee": 0.05,
        "mem_limit": "1G",
        "mem_guarantee": "50M",
        "extra_resource_limits": {RESOURCE: "1"},
        "node_selector": LABEL,
    }
    profiles = [{"display_name": "GPU", "slug": "bench", "kubespawner_override": equal}]
    return HubSettings(
        namespace="bench-progress-kubespawner",
        spawner_class="kubespawner.KubeSpawner",
        extra=_common(profile_list=profiles),
    )
