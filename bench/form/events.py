"""Pods with GPUs that come and go at a steady pace; each stays for some time, so that counts stay changed."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bench.control_plane import ControlPlane
from bench.scale import objects
from bench.scale.churn import Churn
from bench.scale.populate import pods_path

PER_S = 20
CONNECTIONS = 4
KEPT = 25
"""Pods of each connection that are there at a time; one stays for about twenty seconds."""


@contextmanager
def pod_events(plane: ControlPlane, *, nodes: int) -> Iterator[Churn]:
    """Change pods at :data:`PER_S` as long as this is open."""
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
    """Make events until it is over, and return how many."""
    with plane.connect() as api:
        events, due = 0, time.monotonic()
        for step in _steps(numbers, nodes=nodes):
            due = max(due + CONNECTIONS / PER_S, time.monotonic() - 1.0)
            if is_over.wait(max(0.0, due - time.monotonic())):
                break
            what, path, manifest = step
            getattr(api, what)(path, *([manifest] if manifest else []))
            events += 1
    return events


def _steps(numbers: Iterator[int], *, nodes: int) -> Iterator[tuple[str, str, objects.Manifest | None]]:
    """Yield what to do: a pod is created, two writes of its status follow, and then the oldest one goes."""
    kept: deque[str] = deque()
    for number in numbers:
        # Without a pod before it on the node it gets a GPU, where the node has any left.
        manifest = objects.pod(number, on=number * 7919 % nodes, rank=0, name=f"event-{number}")
        collection = pods_path(manifest)
        path = f"{collection}/{manifest['metadata']['name']}"
        yield "create", collection, manifest
        kept.append(path)
        for step in range(2):
            yield "patch", f"{path}/status", objects.status(step)
        if len(kept) > KEPT:
            yield "delete", kept.popleft(), None
