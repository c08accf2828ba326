"""A spawner whose hub takes the time to be later than it is, as long as a file beside this one says so.

Copied into a hub's folder, from where the hub's process imports it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuspawner.hub.config.offer import OfferFactory
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.kube.store import ClusterStore, StoreTiming

SKEW = Path(__file__).with_name("skew_s")


def clock() -> float:
    """Return monotonic seconds, and those in the file."""
    return time.monotonic() + (float(SKEW.read_text()) if SKEW.exists() else 0.0)


class LateOffers(OfferFactory):
    def get_store(self, api: Any, *, pace: StoreTiming, **options: Any) -> ClusterStore:
        return super().get_store(api, pace=replace(pace, clock=clock), **options)


class LateSpawner(GPUSpawner):
    offer_factory = LateOffers(parse_settings)
