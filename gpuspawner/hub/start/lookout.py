"""Looks at one start's pod, its events and the cluster, all of it from watches that are there anyway.

Called once a second for each server that starts, so it says that nothing is new as cheaply as that can be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.occupancy import Inventory
from gpuspawner.core.progress.stages import Facts
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.core.verdict.verdict import FRESH_S, Outcome, Verdict, verdict
from gpuspawner.hub.config.offers import Offer
from gpuspawner.hub.kubespawner.pod_events import Event, PodEvents
from gpuspawner.hub.start.cancelling import pod_of
from gpuspawner.hub.start.following import Following, uid_of
from gpuspawner.hub.start.turns import Turns

QUIET_S = 3.0
"""Seconds after which time alone may have moved something, and it is looked at again."""

_VERDICT_S = 5.0
"""Seconds between two verdicts on one pod at least."""

_STALE_S = 15.0
"""Seconds after which a verdict says nothing any more."""

_EARLY_S = 10.0
"""Seconds for which a node may yet be unknown, or not ready for a moment, that a pod has just got."""

_SHARE = 0.05
"""Part of the hub's time that verdicts on all servers that wait may take."""


class Lookout:
    """One start, as far as it can be seen.

    :param spawner: the person's; not changed.
    """

    _events = PodEvents()
    _turns = Turns(_SHARE)

    def __init__(self, spawner: Any, following: Following) -> None:
        self._spawner = spawner
        self._following = following
        self._seen: object = None
        self._looked_at = float("-inf")
        self._verdict: Verdict | None = None
        self._judged_at = float("-inf")
        self._node = ""
        """The last that the pod was on."""
        self._bound_at = 0.0
        self._was_ready = False

    async def look(self, *, whatever: bool = False) -> Facts | None:
        """Return what is known, None when that is what it was the last time.

        :param whatever: also when it is.
        """
        pod = self._pod()
        reflector = self._spawner.event_reflector
        events = [] if reflector is None else self._events.of(reflector, self._spawner.pod_name)
        seen, now = _versions(pod, events), self._following.elapsed_s
        if not whatever and seen == self._seen and now - self._looked_at < QUIET_S:
            return None
        self._seen, self._looked_at = seen, now
        gpu, node = self._following.gpu, text(mapping((pod or {}).get("spec")).get("nodeName"))
        if node and node != self._node:
            self._node, self._bound_at, self._was_ready = node, now, False
        # The pod of a node that is gone may have gone with it.
        offer = None if pod is None and not self._node else await self._spawner._offer()
        judged = None if pod is None or offer is None or node else await self._judged(pod, offer)
        return Facts(
            pod=pod,
            events=events,
            since_s=now,
            timeout_s=float(self._spawner.start_timeout),
            verdict=judged,
            judged_at_s=None if judged is None else self._judged_at,
            queue=None if pod is None or offer is None else await offer.queue_place(pod),
            gpu_name="" if gpu is None else gpu.display_name,
            lacks_events=self._following.lacks_events,
            is_node_ready=None if offer is None or (pod is not None and not node) else self._is_ready(offer.inventory),
        )

    def _pod(self) -> Mapping[str, object] | None:
        """Return the pod of this very start: one that was there before is on its way out, or was left by the last."""
        if not self._following.is_sent:
            return None
        pod = pod_of(self._spawner)
        return None if pod is None or uid_of(pod) == self._following.former_pod else pod

    def _is_ready(self, inventory: Inventory) -> bool | None:
        """Tell whether the pod's node is well; None where that is not known, or it may be too new to be known."""
        if not self._node or inventory.age_s is None or inventory.age_s > FRESH_S:
            return None
        is_ready = _is_ready(self._node, inventory)
        self._was_ready = self._was_ready or is_ready is True
        is_early = self._following.elapsed_s - self._bound_at < _EARLY_S
        return None if is_ready is False and (is_early or not self._was_ready) else is_ready

    async def _judged(self, pod: Mapping[str, object], offer: Offer) -> Verdict | None:
        """Return the verdict on a pod that waits, an older one where all verdicts together took long enough."""
        now = self._following.elapsed_s
        # What looks hopeless is looked at again before others are looked at at all, as it takes two verdicts to end it.
        is_doubted = self._verdict is not None and self._verdict.outcome is Outcome.NEVER
        patience_s = _VERDICT_S if is_doubted else 0
        if now - self._judged_at < _VERDICT_S or not await self._turns.wait(patience_s=patience_s):
            return self._verdict if now - self._judged_at < _STALE_S else None
        located: Pod | None = await offer.located(pod)
        if located is None:
            return None
        self._judged_at = self._following.elapsed_s
        with self._turns.taken():
            self._verdict = verdict(located, offer.inventory, gpu=self._following.gpu)
        return self._verdict


def _versions(pod: Mapping[str, object] | None, events: list[Event]) -> object:
    """Return what is another value when a pod or one of its events has changed."""
    return [_version(each) for each in (pod or {}, *events)]


def _version(each: Mapping[str, object]) -> tuple[object, object]:
    metadata = mapping(each.get("metadata"))
    return metadata.get("uid"), metadata.get("resourceVersion")


def _is_ready(name: str, inventory: Inventory) -> bool | None:
    """Tell whether a node is well; False for one that is gone, None where nodes cannot be seen."""
    if inventory.nodes is None:
        return None
    if inventory.occupancy is not None:
        node = inventory.occupancy.node(name)
    else:
        node = next((each for each in inventory.nodes if each.name == name), None)
    return node is not None and node.ready
