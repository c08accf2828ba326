"""Pods that are created, changed and deleted all the time, as on a busy cluster: so many times a second.

They name their simulated node themselves, so that no scheduler has a say, and take CPU and memory but no GPU: what they
change is all there is to read, and no GPU count. It is done in a process of its own, so that it does not take turns
with what measures.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from kubernetes import config
from kubernetes.client import ApiClient, CoreV1Api

from bench.freshness.cluster import answered, prepare_namespace, unscheduled_pod
from devcluster import Cluster, DevclusterError
from devcluster.namespaces import die_with_parent

PER_S = 100
NAMESPACE = "bench-events"
WORKERS = 4
PODS_EACH = 25
"""Pods of one worker at a time."""
LONGEST_DELAY_S = 0.2
"""The largest delay that a worker makes up for: a burst after a pause is not so many a second."""
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10

_spawning = multiprocessing.get_context("spawn")


class Events:
    """The events of one cluster; inside the block they go on.

    :param nodes: names of simulated nodes.
    """

    def __init__(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._cluster = cluster
        self._count = _spawning.Value("L", 0)
        self._is_over = _spawning.Event()
        arguments = (cluster.kubeconfig, tuple(nodes), self._count, self._is_over)
        self._process = _spawning.Process(target=_make, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        """Begin, and return once there are as many pods as there will be."""
        with self._cluster.api_client() as api:
            prepare_namespace(api, NAMESPACE)
        self._process.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.count < WORKERS * PODS_EACH:
            if not self._process.is_alive() or time.monotonic() > deadline:
                self.__exit__()
                raise DevclusterError("the pods of the pod events could not be made")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._process.join(STOP_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    @property
    def count(self) -> int:
        """Return how many the API server has accepted so far."""
        return int(self._count.value)


def _make(kubeconfig: Path, nodes: Sequence[str], count: Any, is_over: Any) -> None:
    """Run in the process: as many workers as it takes for the API server's answers not to set the pace."""
    die_with_parent(signal.SIGKILL)
    stop = threading.Event()
    workers = [
        threading.Thread(target=_work, args=(_Pods(kubeconfig, nodes, number=number), count, stop), daemon=True)
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    is_over.wait()
    stop.set()
    for worker in workers:
        worker.join(STOP_TIMEOUT_S / 2)


def _work(pods: _Pods, count: Any, stop: threading.Event) -> None:
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        pods.change()
        with count.get_lock():
            count.value += 1
        due = max(due + WORKERS / PER_S, time.monotonic() - LONGEST_DELAY_S)


class _Pods:
    """The pods of one worker."""

    def __init__(self, kubeconfig: Path, nodes: Sequence[str], *, number: int) -> None:
        api: ApiClient = config.new_client_from_config(config_file=str(kubeconfig))
        self._core: Any = CoreV1Api(api)
        self._nodes = nodes
        self._random = random.Random(number)  # noqa: S311 - the same pods in every run
        self._names: deque[str] = deque()
        self._prefix = f"event-{number}"
        self._number = 0

    def change(self) -> None:
        """Make one event: fill up first, then create, patch, patch and delete in turn."""
        self._number += 1
        turn = self._number % 4
        if len(self._names) < PODS_EACH or turn == 0:
            self._create()
        elif turn == 1 and len(self._names) > PODS_EACH:
            answered(
                self._core.delete_namespaced_pod(
                    self._names.popleft(), NAMESPACE, grace_period_seconds=0, _preload_content=False
                )
            )
        else:
            patch = {"metadata": {"annotations": {"bench/turn": str(self._number)}}}
            name = self._random.choice(self._names)
            answered(self._core.patch_namespaced_pod(name, NAMESPACE, patch, _preload_content=False))

    def _create(self) -> None:
        name = f"{self._prefix}-{self._number}"
        requests = {"cpu": f"{self._random.randint(1, 20)}m", "memory": f"{self._random.randint(1, 64)}Mi"}
        pod = unscheduled_pod(name, requests=requests, node=self._random.choice(self._nodes))
        answered(self._core.create_namespaced_pod(NAMESPACE, pod, _preload_content=False))
        self._names.append(name)
