"""Counts GPUs in the API server's own pods, at every change of one, and knows nothing of gpuspawner or of the hub."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api

from tests.cluster.support.storm.claims import Server
from tests.cluster.support.storm.rules import Key, Rules
from tests.cluster.support.storm.world import CARD_LABEL, TYPES

USER = "hub.jupyter.org/username"
SERVER = "hub.jupyter.org/servername"
WATCH_S = 2
"""How long one watch lasts: the next goes on where it ended."""


class PodCounter:
    """The pods of one namespace, from when the block begins: what their owners hold, and held at most."""

    def __init__(self, api: ApiClient, namespace: str, *, rules: Rules) -> None:
        self.exceeded: dict[Key, float] = {}
        """What was exceeded → the most that there was."""
        self.peaks: Counter[Key] = Counter()
        self.changes = 0
        self._core = CoreV1Api(api)
        self._namespace = namespace
        self._rules = rules
        self._pods: dict[str, tuple[Server, Counter[Key]]] = {}
        self._uids: dict[Server, str] = {}
        self._sums: Counter[Key] = Counter()
        self._is_over = threading.Event()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count inside the block, in a thread.

        :raises AssertionError: a change was missed.
        """
        listed = json.loads(self._core.list_namespaced_pod(self._namespace, _preload_content=False).data)
        assert listed["items"] == []
        with ThreadPoolExecutor(1) as thread:
            following = thread.submit(self._follow, listed["metadata"]["resourceVersion"])
            try:
                yield
            finally:
                self._is_over.set()
            following.result()

    @property
    def servers(self) -> set[Server]:
        """The servers that have a pod now."""
        return {server for server, _ in tuple(self._pods.values())}

    @property
    def uids(self) -> dict[Server, str]:
        """The uid of each server's pod, the last one where it is gone."""
        return dict(self._uids)

    def _follow(self, version: str) -> None:
        while not self._is_over.is_set():
            response = self._core.list_namespaced_pod(
                self._namespace,
                watch=True,
                resource_version=version,
                timeout_seconds=WATCH_S,
                _preload_content=False,
            )
            for line in response:
                event = json.loads(line)
                assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
                version = event["object"]["metadata"]["resourceVersion"]
                self._count(event["object"], is_gone=event["type"] == "DELETED")

    def _count(self, pod: Mapping[str, Any], *, is_gone: bool) -> None:
        self.changes += 1
        name = pod["metadata"]["name"]
        _, before = self._pods.pop(name, (None, Counter()))
        self._sums -= before
        if is_gone:
            return
        annotations = pod["metadata"]["annotations"]
        server = (annotations[USER], annotations.get(SERVER, ""))
        gpu, count = _held(pod["spec"])
        # A pod that has finished, as one does on a real node on its way out, holds nothing any more:
        # https://kubernetes.io/docs/concepts/policy/resource-quotas/
        is_finished = pod["status"].get("phase") in {"Succeeded", "Failed"}
        load = Counter() if is_finished else self._rules.load(server[0], gpu, count=count)
        self._pods[name] = (server, load)
        self._uids[server] = pod["metadata"]["uid"]
        self._sums += load
        for key in load:
            self.peaks[key] = max(self.peaks[key], self._sums[key])
            if self._sums[key] > self._rules.most(key):
                self.exceeded[key] = max(self.exceeded.get(key, 0), self._sums[key])


def _held(spec: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return which GPU type a pod asks for, by the nodes it may be on, and how many."""
    limits = spec["containers"][0]["resources"].get("limits", {})
    counts = {resource: int(limits[resource]) for resource in set(TYPES.values()) & limits.keys()}
    if not counts:
        return None, 0
    ((resource, count),) = counts.items()
    gpu = spec["nodeSelector"][CARD_LABEL]
    assert TYPES[gpu] == resource, spec
    return gpu, count
