"""Fills an API server with simulated nodes and pods as fast as it takes them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from bench.control_plane import ControlPlane
from bench.scale import objects
from bench.scale.objects import Manifest

CONNECTIONS = 12
PROGRESS_S = 10.0
NODES = "/api/v1/nodes"


@dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster is."""

    nodes: int
    pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


def prepare(plane: ControlPlane) -> None:
    """Make the namespaces that pods go to."""
    with plane.connect() as api:
        for number in range(objects.NAMESPACES):
            api.create("/api/v1/namespaces", objects.namespace(number))


def grow(plane: ControlPlane, since: Size, *, to: Size) -> None:
    """Make the nodes and pods that are missing, printing progress.

    All pods are bound, and pending: a status would be one more write for each and changes nothing of what is measured
    but its bytes.
    """
    _create(plane, _nodes(range(since.nodes, to.nodes)), what="nodes", number=to.nodes - since.nodes)
    _create(plane, _pods(since, to), what="pods", number=to.pods - since.pods)


def pods_path(manifest: Manifest) -> str:
    """Return the collection that a pod belongs to."""
    return f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods"


def _nodes(numbers: range) -> Iterator[tuple[str, Manifest]]:
    for number in numbers:
        yield NODES, objects.node(number)


def _pods(since: Size, to: Size) -> Iterator[tuple[str, Manifest]]:
    """Yield the pods that are missing, spread over the new nodes."""
    pods, nodes = to.pods - since.pods, to.nodes - since.nodes
    ranks: Counter[int] = Counter()
    for number in range(pods):
        on = since.nodes + number * nodes // pods
        manifest = objects.pod(since.pods + number, on=on, rank=ranks[on])
        ranks[on] += 1
        yield pods_path(manifest), manifest


def _create(plane: ControlPlane, manifests: Iterable[tuple[str, Manifest]], *, what: str, number: int) -> None:
    """Create objects over several connections; the first error ends it."""
    work = _Work(manifests)
    began = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as workers:
        working = [workers.submit(work.do, plane) for _ in range(CONNECTIONS)]
        try:
            while wait(working, timeout=PROGRESS_S).not_done:
                took_s = time.monotonic() - began
                left_s = (number - work.done) * took_s / max(1, work.done)
                print(f"scale: {work.done:,} of {number:,} {what}, about {left_s:.0f} s to go", flush=True)
            for each in working:
                each.result()
        finally:
            work.stop()
    took_s = time.monotonic() - began
    print(f"scale: {number:,} {what} in {took_s:.0f} s", flush=True)


class _Work:
    """The objects to create.

    :ivar done: how much was.
    """

    def __init__(self, manifests: Iterable[tuple[str, Manifest]]) -> None:
        self.done = 0
        self._manifests = iter(manifests)
        self._lock = threading.Lock()

    def do(self, plane: ControlPlane) -> None:
        """Create until nothing is left, over a connection of one's own."""
        with plane.connect() as api:
            while (found := self._next()) is not None:
                try:
                    api.create(*found)
                except BaseException:
                    self.stop()
                    raise

    def stop(self) -> None:
        """Leave the rest."""
        with self._lock:
            self._manifests = iter(())

    def _next(self) -> tuple[str, Manifest] | None:
        with self._lock:
            found = next(self._manifests, None)
            self.done += found is not None
            return found
