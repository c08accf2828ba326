"""Looks at one start's pod, its events and the cluster, all of it from watches that are there anyway.

Called once a second for each server that starts, so it says that nothing is new as cheaply as that can be told.

Keeps what is worked out for many servers at once from taking all of the hub's time: one after the other, with rests.

The hub has one thread. Fifty servers that wait for the same node all need a verdict, and give up in the same second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.model import Facts
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict, predict_verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.kubespawner.events import PodEvent, PodEventIndex
from gpuspawner.hub.start.cancellation import find_pod
from gpuspawner.hub.start.state import StartingSpawner
from gpuspawner.hub.start.stream import ProgressFeed, read_uid


class WorkThrottle:
    """One kind of work.

    :param share: part of the time that it may take, above 0, at most 1.
    :param clock: monotonic seconds.
    """

    def __init__(self, share: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._free_at = float("-inf")
        self._last_s = 0.0

    async def wait(self, *, patience_s: float) -> bool:
        """Wait for one's turn; False at once where it would come later than after so many seconds."""
        now = self._clock()
        at = max(now, self._free_at)
        if at - now > patience_s:
            return False
        # Others come after this one, which takes as long as the last did.
        self._free_at = at + self._last_s / self._share
        if at > now:
            await asyncio.sleep(at - now)
        return True

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Note how long the work inside takes."""
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._last_s = now - began
            self._free_at = max(self._free_at, now + self._last_s * (1 / self._share - 1))


RECHECK_S = 3.0
"""Seconds after which time alone may have moved something, and it is looked at again."""

_VERDICT_S = 5.0
"""Seconds between two verdicts on one pod at least."""

_VERDICT_MAX_AGE_S = 15.0
"""Seconds after which a verdict says nothing any more."""

_NEW_NODE_S = 10.0
"""Seconds for which a node may yet be unknown, or not ready for a moment, that a pod has just got."""

_VERDICT_SHARE = 0.05
"""Part of the hub's time that verdicts on all servers that wait may take."""


class StartObserver:
    """One start, as far as it can be seen.

    :param spawner: the person's; not changed.
    """

    _events = PodEventIndex()
    _throttle = WorkThrottle(_VERDICT_SHARE)

    def __init__(self, spawner: StartingSpawner, feed: ProgressFeed) -> None:
        self._spawner = spawner
        self._feed = feed
        self._seen: object = None
        self._looked_at = float("-inf")
        self._verdict: Verdict | None = None
        self._judged_at = float("-inf")
        self._node = ""
        """The last that the pod was on."""
        self._bound_at = 0.0
        self._was_ready = False

    async def observe(self, *, even_if_unchanged: bool = False) -> Facts | None:
        """Return what is known, None when that is what it was the last time.

        :param even_if_unchanged: also when it is.
        """
        pod = self._pod()
        reflector = self._spawner.event_reflector
        events = [] if reflector is None else self._events.list_events(reflector, self._spawner.pod_name)
        seen, now = _read_versions(pod, events), self._feed.elapsed_s
        if not even_if_unchanged and seen == self._seen and now - self._looked_at < RECHECK_S:
            return None
        self._seen, self._looked_at = seen, now
        gpu, node = self._feed.gpu, as_text(as_dict((pod or {}).get("spec")).get("nodeName"))
        if node and node != self._node:
            self._node, self._bound_at, self._was_ready = node, now, False
        # The pod of a node that is gone may have gone with it.
        offer = None if pod is None and not self._node else await self._spawner.make_offer()
        judged = None if pod is None or offer is None or node else await self._predict_verdict(pod, offer)
        return Facts(
            pod=pod,
            events=events,
            since_s=now,
            timeout_s=float(self._spawner.start_timeout),
            verdict=judged,
            judged_at_s=None if judged is None else self._judged_at,
            queue=None if pod is None or offer is None else await offer.find_queue_place(pod),
            gpu_name="" if gpu is None else gpu.display_name,
            lacks_events=self._feed.lacks_events,
            is_node_ready=None if offer is None or (pod is not None and not node) else self._is_ready(offer.inventory),
        )

    def _pod(self) -> Mapping[str, object] | None:
        """Return the pod of this very start: one that was there before is on its way out, or was left by the last."""
        if not self._feed.is_sent:
            return None
        pod = find_pod(self._spawner)
        return None if pod is None or read_uid(pod) == self._feed.former_pod else pod

    def _is_ready(self, inventory: Inventory) -> bool | None:
        """Tell whether the pod's node is well; None where that is not known, or it may be too new to be known."""
        if not self._node or inventory.age_s is None or inventory.age_s > MAX_DATA_AGE_S:
            return None
        is_ready = _is_ready(self._node, inventory)
        self._was_ready = self._was_ready or is_ready is True
        is_early = self._feed.elapsed_s - self._bound_at < _NEW_NODE_S
        return None if is_ready is False and (is_early or not self._was_ready) else is_ready

    async def _predict_verdict(self, pod: Mapping[str, object], offer: Offer) -> Verdict | None:
        """Return the verdict on a pod that waits, an older one where all verdicts together took long enough."""
        now = self._feed.elapsed_s
        # What looks hopeless is looked at again before others are looked at at all, as it takes two verdicts to end it.
        is_doubted = self._verdict is not None and self._verdict.outcome is Outcome.NEVER
        patience_s = _VERDICT_S if is_doubted else 0
        if now - self._judged_at < _VERDICT_S or not await self._throttle.wait(patience_s=patience_s):
            return self._verdict if now - self._judged_at < _VERDICT_MAX_AGE_S else None
        located: Pod | None = await offer.add_volume_topology(pod)
        if located is None:
            return None
        self._judged_at = self._feed.elapsed_s
        with self._throttle.measure():
            self._verdict = predict_verdict(located, offer.inventory, gpu=self._feed.gpu)
        return self._verdict


def _read_versions(pod: Mapping[str, object] | None, events: list[PodEvent]) -> object:
    """Return what is another value when a pod or one of its events has changed."""
    return [_read_version(each) for each in (pod or {}, *events)]


def _read_version(each: Mapping[str, object]) -> tuple[object, object]:
    metadata = as_dict(each.get("metadata"))
    return metadata.get("uid"), metadata.get("resourceVersion")


def _is_ready(name: str, inventory: Inventory) -> bool | None:
    """Tell whether a node is well; False for one that is gone, None where nodes cannot be seen."""
    if inventory.nodes is None:
        return None
    if inventory.occupancy is not None:
        node = inventory.occupancy.get_node(name)
    else:
        node = next((each for each in inventory.nodes if each.name == name), None)
    return node is not None and node.ready
