"""Collects the facts about one start: the pod, its events, its node, and the verdict (whether the pod can start).

Most facts come from the hub's memory. Only volume claims and queue positions need requests to the API server. While a
progress page is open, the hub observes the start each second, so an observation without changes must be cheap. A
throttle limits the time that the hub's only thread spends on verdicts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpuspawner.core.autoscaling.node_pools import find_scale_up_minutes
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.model import Facts
from gpuspawner.core.progress.pod_status import is_gated
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.kubespawner.hub_pods import POD_EVENTS, PodEvent, find_pod
from gpuspawner.hub.start.endings import list_events_since
from gpuspawner.hub.start.state import StartingSpawner
from gpuspawner.hub.start.stream import ProgressFeed, read_uid


class WorkThrottle:
    """Limits one kind of work to a share of the event loop's time.

    :param share: the share, above 0 and at most 1.
    """

    def __init__(self, share: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._free_at = float("-inf")
        self._last_s = 0.0

    async def wait(self, *, patience_s: float) -> bool:
        """Wait until the work is allowed and return True, or return False at once if the wait would be too long."""
        now = self._clock()
        at = max(now, self._free_at)
        if at - now > patience_s:
            return False
        # This assumes that the work takes as long as last time. If it takes longer, measure() corrects the time.
        self._free_at = at + self._last_s / self._share
        if at > now:
            await asyncio.sleep(at - now)
        return True

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure how long the work in a ``with`` block takes.

        The longer the work takes, the later :meth:`wait` allows the next work.
        """
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._last_s = now - began
            self._free_at = max(self._free_at, now + self._last_s * (1 / self._share - 1))


RECHECK_S = 3.0
"""After this many seconds, the hub collects the facts again even without a change: messages depend on time, too."""

_VERDICT_S = 5.0
"""Minimum number of seconds between two verdicts (predictions whether the pod of a start can run)."""

_VERDICT_MAX_AGE_S = 15.0
"""Maximum age in seconds of a verdict (the prediction whether a pod can run); the hub ignores an older verdict."""

_NEW_NODE_S = 10.0
"""For this many seconds after a pod is bound to a node, a missing or unready node counts as still starting."""

_VERDICT_SHARE = 0.05
"""Maximum share of the event loop's time that the hub spends on verdicts (predictions whether pending pods can run)."""


class StartObserver:
    """Collects the facts about the pod of one start."""

    _throttle = WorkThrottle(_VERDICT_SHARE)

    def __init__(self, spawner: StartingSpawner, feed: ProgressFeed) -> None:
        self._spawner = spawner
        self._feed = feed
        self._seen: object = None
        self._looked_at = float("-inf")
        self._verdict: Verdict | None = None
        self._judged_at = float("-inf")
        self._node = ""
        """Name of the last node to which the pod was bound."""
        self._bound_at = 0.0
        self._was_ready = False

    async def observe(self, *, even_if_unchanged: bool = False) -> Facts | None:
        """Return the facts about the start, or None if nothing has changed and the last facts are less than 3 s old."""
        pod = self._pod()
        reflector = self._spawner.event_reflector
        events: Sequence[PodEvent] = []
        if reflector is not None:
            events = POD_EVENTS.list_events(reflector, self._spawner.pod_name)
        if pod is None and self._feed.is_resumed:
            events = list_events_since(events, self._feed.began_at)
        seen, now = _read_versions(pod, events), self._feed.elapsed_s
        if not even_if_unchanged and seen == self._seen and now - self._looked_at < RECHECK_S:
            return None
        self._seen, self._looked_at = seen, now
        gpu, node = self._feed.gpu, as_text(as_dict((pod or {}).get("spec")).get("nodeName"))
        if node and node != self._node:
            self._node, self._bound_at, self._was_ready = node, now, False
        waiting = None if node else pod
        offer = None
        if waiting is not None and (self._is_verdict_due() or is_gated(waiting)):
            offer = await self._spawner.make_offer()
        verdict = None if waiting is None else await self._predict_verdict(waiting, offer)
        return Facts(
            pod=pod,
            events=events,
            since_s=now,
            timeout_s=float(self._spawner.start_timeout),
            verdict=verdict,
            judged_at_s=None if verdict is None else self._judged_at,
            queue=None if waiting is None or offer is None else await offer.find_queue_place(waiting),
            gpu_name="" if gpu is None else gpu.display_name,
            new_node_minutes=None if gpu is None else find_scale_up_minutes(gpu),
            lacks_events=self._feed.lacks_events,
            # If the pod is gone, this checks the pod's last node: the loss of the node may be the reason.
            is_node_ready=self._is_node_ready() if waiting is None else None,
        )

    def _pod(self) -> Mapping[str, object] | None:
        if not self._feed.is_sent:
            return None
        pod = find_pod(self._spawner)
        return None if pod is None or read_uid(pod) == self._feed.former_pod else pod

    def _is_node_ready(self) -> bool | None:
        """Return whether the pod's node is ready, or None if that is unknown or the node may still be starting."""
        if not self._node:
            return None
        # make_offer() would be slow: it first decodes the changes of all pods.
        store = self._spawner.offer_factory.find_store(self._spawner.api)
        inventory = Inventory() if store is None else store.inventory
        if inventory.age_s is None or inventory.age_s > MAX_DATA_AGE_S:
            return None
        is_ready = _is_ready(self._node, inventory)
        self._was_ready = self._was_ready or is_ready is True
        is_early = self._feed.elapsed_s - self._bound_at < _NEW_NODE_S
        return None if is_ready is False and (is_early or not self._was_ready) else is_ready

    def _is_verdict_due(self) -> bool:
        return self._feed.elapsed_s - self._judged_at >= _VERDICT_S

    async def _predict_verdict(self, pod: Mapping[str, object], offer: Offer | None) -> Verdict | None:
        # The hub ends a start only if a second verdict is also NEVER. Wait for the throttle instead of skipping it.
        is_confirming = self._verdict is not None and self._verdict.outcome is Outcome.NEVER
        patience_s = _VERDICT_S if is_confirming else 0
        if offer is None or not self._is_verdict_due() or not await self._throttle.wait(patience_s=patience_s):
            return self._verdict if self._feed.elapsed_s - self._judged_at < _VERDICT_MAX_AGE_S else None
        located: Pod | None = await offer.add_volume_topology(pod)
        if located is None:
            return None
        self._judged_at = self._feed.elapsed_s
        with self._throttle.measure():
            found = offer.predict_verdict(located, gpu=self._feed.gpu)
        self._verdict = await offer.add_node_growth(found, gpu=self._feed.gpu)
        return self._verdict


def _read_versions(pod: Mapping[str, object] | None, events: Sequence[PodEvent]) -> object:
    return [_read_version(each) for each in (pod or {}, *events)]


def _read_version(each: Mapping[str, object]) -> tuple[object, object]:
    metadata = as_dict(each.get("metadata"))
    return metadata.get("uid"), metadata.get("resourceVersion")


def _is_ready(name: str, inventory: Inventory) -> bool | None:
    if inventory.nodes is None:
        return None
    if inventory.occupancy is not None:
        node = inventory.occupancy.get_node(name)
    else:
        node = next((each for each in inventory.nodes if each.name == name), None)
    return node is not None and node.ready
