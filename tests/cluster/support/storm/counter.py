"""Counts what the API server's own pods hold, at every change of one, and knows nothing of gpuspawner or of the hub."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from kubernetes.client import ApiClient, ApiException, CoreV1Api
from kubernetes.utils.quantity import parse_quantity
from urllib3.exceptions import HTTPError

from tests.cluster.support.storm.claims import Server
from tests.cluster.support.storm.rules import AMOUNTS, Key, Rules
from tests.cluster.support.storm.world import CARD_LABEL, TYPES

USER = "hub.jupyter.org/username"
SERVER = "hub.jupyter.org/servername"
WATCH_S = 2
"""How long one watch lasts: the next goes on where it ended."""
AGAIN_S = 0.2
"""How soon a watch that broke off is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod as it is now.

    :param node: empty before it has one.
    """

    server: Server
    uid: str
    node: str
    load: Counter[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """More than there may be, as it was first seen.

    :param at: on the monotonic clock.
    :param server: the one whose pod was too much.
    """

    at: float
    server: Server
    amount: float
    most: float


class PodCounter:
    """The pods of one namespace, from when the block begins: what their owners hold, and held at most."""

    def __init__(self, api: ApiClient, namespace: str, *, rules: Rules) -> None:
        self.exceeded: dict[Key, Excess] = {}
        self.gaps = 0
        """How often changes were forgotten before they were seen, as by an API server that was restarted."""
        self.peaks: Counter[Key] = Counter()
        self.changes = 0
        self._core = CoreV1Api(api)
        self._namespace = namespace
        self._rules = rules
        self._pods: dict[str, Pod] = {}
        self._uids: dict[Server, str] = {}
        self._sums: Counter[Key] = Counter()
        self._is_over = threading.Event()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count inside the block, in a thread."""
        pods, version = self._list()
        assert pods == []
        with ThreadPoolExecutor(1) as thread:
            following = thread.submit(self._follow, version)
            try:
                yield
            finally:
                self._is_over.set()
            following.result()

    @property
    def servers(self) -> set[Server]:
        """The servers that have a pod now."""
        return {pod.server for pod in self.pods}

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods that there are now."""
        return tuple(self._pods.values())

    def find(self, server: Server) -> Pod | None:
        """Return the pod that a server has now."""
        return next((pod for pod in self.pods if pod.server == server), None)

    @property
    def uids(self) -> dict[Server, str]:
        """The uid of each server's pod, the last one where it is gone."""
        return dict(self._uids)

    def _list(self) -> tuple[list[dict[str, Any]], str]:
        listed = json.loads(self._core.list_namespaced_pod(self._namespace, _preload_content=False).data)
        return listed["items"], listed["metadata"]["resourceVersion"]

    def _follow(self, version: str) -> None:
        while not self._is_over.is_set():
            try:
                version = self._watch(version) or self._catch_up()
            except (ApiException, HTTPError, ValueError):  # no answer yet, or cut off in the middle of a line
                self._is_over.wait(AGAIN_S)

    def _watch(self, version: str) -> str:
        """Count changes for a while and return where to go on, empty where the API server has forgotten that."""
        try:
            response = self._core.list_namespaced_pod(
                self._namespace, watch=True, resource_version=version, timeout_seconds=WATCH_S, _preload_content=False
            )
        except ApiException as error:
            if error.status == HTTPStatus.GONE:
                return ""
            raise
        # Closed also where the watch breaks off in the middle of a line.
        with closing(response):
            for line in response:
                event = json.loads(line)
                if event["object"].get("code") == HTTPStatus.GONE:
                    return ""
                assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
                version = event["object"]["metadata"]["resourceVersion"]
                self._count(event["object"], is_gone=event["type"] == "DELETED")
        return version

    def _catch_up(self) -> str:
        self.gaps += 1
        pods, version = self._list()
        for name in self._pods.keys() - {pod["metadata"]["name"] for pod in pods}:
            self._sums -= self._pods.pop(name).load
        for pod in pods:
            self._count(pod, is_gone=False)
        return version

    def _count(self, pod: Mapping[str, Any], *, is_gone: bool) -> None:
        self.changes += 1
        name = pod["metadata"]["name"]
        if before := self._pods.get(name):
            self._sums -= before.load
        if is_gone:
            self._pods.pop(name, None)
            return
        annotations = pod["metadata"]["annotations"]
        server = (annotations[USER], annotations.get(SERVER, ""))
        gpu, count = _held(pod["spec"])
        # A pod that has finished, as one does on a real node on its way out, holds nothing any more:
        # https://kubernetes.io/docs/concepts/policy/resource-quotas/
        is_finished = pod["status"].get("phase") in {"Succeeded", "Failed"}
        load = Counter() if is_finished else self._rules.load(server[0], gpu, count=count)
        uid = pod["metadata"]["uid"]
        self._pods[name] = Pod(server=server, uid=uid, node=pod["spec"].get("nodeName", ""), load=load)
        self._uids[server] = uid
        self._sums += load
        for key in load:
            self.peaks[key] = max(self.peaks[key], self._sums[key])
            self._judge(key, server, amount=self._sums[key])
        for name, amount in _limits(pod["spec"]).items():
            self._judge((name, server[0]), server, amount=amount)

    def _judge(self, key: Key, server: Server, *, amount: float) -> None:
        most = self._rules.most(key)
        if amount > most and key not in self.exceeded:
            self.exceeded[key] = Excess(at=time.monotonic(), server=server, amount=amount, most=most)


def _limits(spec: Mapping[str, Any]) -> dict[str, float]:
    """Return how much CPU (cores) and memory (GiB) a pod may take; without a limit that is all there is."""
    limits = spec["containers"][0]["resources"].get("limits", {})
    units = dict(zip(AMOUNTS, (1, 2**30), strict=True))
    return {name: float(parse_quantity(limits[name])) / units[name] if name in limits else math.inf for name in units}


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
