"""Pods that come and go at a steady pace, as on a busy cluster."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from bench.api import Api
from bench.control_plane import ControlPlane
from bench.scale import objects
from bench.scale.populate import pods_path

EVENTS_PER_S = 100
CONNECTIONS = 4
STEPS = 4
"""Events of one pod: it is created, two writes of its status follow, it is deleted."""


@dataclass(slots=True)
class Churn:
    """The result: ``events`` in ``took_s`` seconds."""

    events: int = 0
    took_s: float = 0.0

    @property
    def events_per_s(self) -> float:
        """Return the pace that was reached."""
        return self.events / self.took_s if self.took_s else 0.0


@contextmanager
def churning(plane: ControlPlane, *, nodes: int) -> Iterator[Churn]:
    """Change pods at :data:`EVENTS_PER_S` as long as this is open; afterwards the pods are those from before."""
    churn, is_over, numbers = Churn(), threading.Event(), itertools.count()
    began = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as workers:
        working = [workers.submit(_work, plane, numbers, nodes=nodes, is_over=is_over) for _ in range(CONNECTIONS)]
        try:
            yield churn
        finally:
            is_over.set()
            churn.took_s = time.monotonic() - began
        churn.events = sum(each.result() for each in working)


def _work(plane: ControlPlane, numbers: Iterator[int], *, nodes: int, is_over: threading.Event) -> int:
    """Take one pod after the other through its life until it is over; return how many events that made."""
    events, pause_s = 0, CONNECTIONS / EVENTS_PER_S
    due = time.monotonic()
    with plane.connect() as api:
        while not is_over.is_set():
            number = next(numbers)
            manifest = objects.pod(number, on=number * 7919 % nodes, rank=objects.GPUS_PER_NODE, name=f"churn-{number}")
            for step in range(STEPS):
                due = max(due + pause_s, time.monotonic() - 1.0)
                is_over.wait(max(0.0, due - time.monotonic()))
                # The last pod is deleted after the end, and its deletion is not counted.
                _step(api, manifest, step=step)
                events += not is_over.is_set()
    return events


def _step(api: Api, manifest: objects.Manifest, *, step: int) -> None:
    collection = pods_path(manifest)
    path = f"{collection}/{manifest['metadata']['name']}"
    if step == 0:
        api.create(collection, manifest)
    elif step == STEPS - 1:
        api.delete(path)
    else:
        api.patch(f"{path}/status", objects.status(step - 1))
