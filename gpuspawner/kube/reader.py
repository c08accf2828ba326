"""Reads the cluster's nodes and pods into an inventory, for everybody in this process at once.

Whatever goes wrong ends up as an inventory that says what is not known and why: a form must not fail because the API
server does. Knows neither forms nor users.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from gpuspawner.core import decode
from gpuspawner.core.inventory import Inventory
from gpuspawner.kube.pages import APIUnavailableError, ListMethod, list_all

NODES_PER_PAGE = 100
PODS_PER_PAGE = 500
"""About as many bytes as :data:`NODES_PER_PAGE` nodes: a node carries its labels and the list of its images."""

RUNNING_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold or wait for resources; one without a phase yet is among them."""

STILL_USEFUL_S = 60.0
"""Age in seconds up to which an inventory is shown while a newer one takes long."""

_STATUS_REASONS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "Kubernetes refused the hub's credentials.",
    HTTPStatus.TOO_MANY_REQUESTS: "The Kubernetes API server is overloaded.",
}


class CoreAPI(Protocol):
    """What is used of ``kubernetes_asyncio.client.CoreV1Api``."""

    @property
    def list_node(self) -> ListMethod:
        """List nodes."""

    @property
    def list_pod_for_all_namespaces(self) -> ListMethod:
        """List pods everywhere."""


class ClusterReader:
    """One inventory for all who ask: read at most once at a time, kept for a few seconds, failures too.

    :param api: a client that belongs to the running event loop.
    :param request_timeout_s: seconds for each page of a list.
    :param max_age_s: seconds an inventory is good for before it is read again.
    :param log: gets one line when what can be read changes.
    :param clock: monotonic seconds.
    """

    def __init__(
        self,
        api: CoreAPI,
        *,
        request_timeout_s: float = 3.0,
        max_age_s: float = 5.0,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._request_timeout_s = request_timeout_s
        self._max_age_s = max_age_s
        self._log = log or logging.getLogger(__name__)
        self._clock = clock
        self._latest = Inventory(reason="The cluster has not been read yet.")
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def inventory(self) -> Inventory:
        """Return what the cluster has, at most a few seconds old; waits at most about one request's timeout."""
        if self._is_younger_than(self._max_age_s):
            return self._latest
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        # A patient reader of a huge cluster keeps on reading for those who ask next.
        done, _ = await asyncio.wait({self._reading}, timeout=self._request_timeout_s + 0.5)
        if done or self._is_younger_than(STILL_USEFUL_S):
            return self._latest
        return Inventory(reason="The cluster is still being read; open this page again in a few seconds.")

    def _is_younger_than(self, age_s: float) -> bool:
        return self._read_at is not None and self._clock() - self._read_at < age_s

    async def _read(self) -> None:
        inventory = await self._list()
        if inventory.reason != self._latest.reason and (inventory.reason or self._read_at is not None):
            self._log.warning("Capacity: %s", inventory.reason or "Everything can be read again.")
        self._latest, self._read_at = inventory, self._clock()

    async def _list(self) -> Inventory:
        timeout_s = self._request_timeout_s
        try:
            nodes = await list_all(self._api.list_node, decode.node, page_size=NODES_PER_PAGE, timeout_s=timeout_s)
        except APIUnavailableError as error:
            return Inventory(reason=_explain(error, "The hub may not list the cluster's nodes."))
        try:
            pods = await list_all(
                self._api.list_pod_for_all_namespaces,
                decode.pod,
                page_size=PODS_PER_PAGE,
                timeout_s=timeout_s,
                field_selector=RUNNING_PODS,
            )
        except APIUnavailableError as error:
            reason = _explain(error, "The hub may not list the pods of all namespaces.")
            return Inventory(nodes=tuple(nodes), reason=reason)
        return Inventory(nodes=tuple(nodes), pods=tuple(pod for pod in pods if pod is not None))


def _explain(error: APIUnavailableError, forbidden: str) -> str:
    """Return why something could not be listed, as a sentence for people."""
    if error.status is None:
        # Which address was tried is the admin's business, so it is not part of the sentence.
        return "The Kubernetes API server cannot be reached."
    if error.status == HTTPStatus.FORBIDDEN:
        return forbidden
    return _STATUS_REASONS.get(error.status, f"The Kubernetes API server answered with an error ({error.status}).")
