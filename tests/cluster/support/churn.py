"""Pods that come and go on simulated nodes, and which counts of free GPUs were true at which time."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kubernetes import client
from kubernetes.client import ApiException

RESOURCE = "nvidia.com/gpu"
NAMESPACE = "default"
PAUSE_S = 0.15

Counts = tuple[int, ...]
"""Free GPUs of each node, in the order of the nodes."""


@dataclass(frozen=True, slots=True)
class Span:
    """Counts that may have been true from ``begin`` on, until ``end``: a write takes effect somewhere in its time."""

    counts: Counts
    begin: float
    end: float


class Churn:
    """Creates and deletes pods in a thread, directly at the API server, and keeps record of it.

    :param nodes: simulated nodes and how many GPUs each has; nothing else may use them.
    """

    def __init__(self, api: client.ApiClient, nodes: dict[str, int], *, seed: int) -> None:
        self._core = client.CoreV1Api(api)
        self._nodes = nodes
        self._random = random.Random(seed)
        self._pods: dict[str, tuple[str, int]] = {}
        self._number = 0
        self._begun: list[tuple[Counts, float]] = [(self._counts(), time.monotonic())]
        self._ended: list[float] = []
        self._is_over = False
        self._may_run = threading.Event()
        self._is_idle = threading.Event()
        self.failed = 0

    @contextmanager
    def running(self) -> Iterator[Churn]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        self.go_on()
        try:
            yield self
        finally:
            self._is_over = True
            self._may_run.set()
            thread.join(60)
            for name in list(self._pods):
                with contextlib.suppress(ApiException):
                    self._core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)

    def pause(self) -> Counts:
        """Wait for the write under way, make no more, and return the counts that are true now."""
        self._may_run.clear()
        assert self._is_idle.wait(60)
        return self._begun[-1][0]

    def go_on(self) -> None:
        self._is_idle.clear()
        self._may_run.set()

    def spans(self) -> list[Span]:
        ends = [*self._ended, float("inf")]
        return [Span(counts, begin, end) for (counts, begin), end in zip(self._begun, ends, strict=True)]

    @property
    def writes(self) -> int:
        return len(self._ended)

    def _run(self) -> None:
        while not self._is_over:
            if not self._may_run.is_set():
                self._is_idle.set()
            self._may_run.wait()
            self._write()
            time.sleep(self._random.random() * PAUSE_S)

    def _write(self) -> None:
        free = dict(zip(self._nodes, self._counts(), strict=True))
        open_ = [name for name, count in free.items() if count]
        creates = open_ and (not self._pods or self._random.random() < 0.5)
        if creates:
            self._number += 1
            name, node = f"churn-{self._number}", self._random.choice(open_)
            gpus = self._random.randint(1, min(2, free[node]))
        else:
            name = self._random.choice(list(self._pods))
            node, gpus = self._pods[name]
        begin = time.monotonic()
        try:
            if creates:
                self._core.create_namespaced_pod(NAMESPACE, _pod(name, node, gpus))
            else:
                self._core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
        except Exception:  # noqa: BLE001  # an API server that is killed fails in many ways
            self.failed += 1
            if self._exists(name) != bool(creates):
                return
        if creates:
            self._pods[name] = (node, gpus)
        else:
            del self._pods[name]
        self._begun.append((self._counts(), begin))
        self._ended.append(time.monotonic())

    def _exists(self, name: str) -> bool:
        while True:
            time.sleep(0.3)
            try:
                self._core.read_namespaced_pod(name, NAMESPACE)
            except ApiException as error:
                if error.status == 404:
                    return False
            except Exception:  # noqa: BLE001  # see above
                continue
            else:
                return True

    def _counts(self) -> Counts:
        used = dict.fromkeys(self._nodes, 0)
        for node, gpus in self._pods.values():
            used[node] += gpus
        return tuple(total - used[name] for name, total in self._nodes.items())


def _pod(name: str, node: str, gpus: int) -> dict[str, object]:
    container = {"name": "main", "image": "none", "resources": {"limits": {RESOURCE: str(gpus)}}}
    spec = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}
