"""From the binding of a pod with a GPU to the changed count on a page, while other pods change all the time.

On a real cluster with a real hub; the bound pods' nodes are simulated, which makes no difference to the API server's
objects and to who reads them. Two pages are asked: one that is loaded after the binding, again and again until it shows
the new count, and one that has been open in a browser since before and refreshes itself.
"""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.freshness import open_pages, peer
from bench.freshness.cluster import TOTAL, Cards
from bench.freshness.events import PER_S, Events
from bench.freshness.form import Form, Loaded, capacity_text
from bench.result import Result
from devcluster import Cluster, DevclusterError
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.simulated import load

OPEN_PAGE_BUDGET_S = 12.0
FRESH_PAGE_BUDGET_S = 1.0
MISSING_EVENTS_BUDGET_PERCENT = 5.0
BINDINGS = 200
"""Bindings that are looked for on freshly loaded pages."""
ROUNDS = 14
"""Bindings that all open pages are watched for; no more than there are GPUs."""
PEER_ANSWERS = 50
PATIENCE_S = 30.0
FLEET = Path(__file__).resolve().parents[2] / "devcluster" / "fleet.yaml"


def measure() -> Result:
    """Start a cluster, a hub and the pod events, measure, and stop everything."""
    with ExitStack() as started:
        name = f"bench-{os.getpid()}"
        started.callback(Cluster.remove, name)
        print(f"freshness: starting cluster {name}", flush=True)
        cluster = Cluster.up(name=name, simulated_nodes=FLEET)
        hub = started.enter_context(Hub(cluster, _settings(cluster)))
        api = started.enter_context(cluster.api_client())
        form, cards = Form(hub.url, "fresh"), Cards(api)
        nodes = [node["metadata"]["name"] for pool in load(FLEET) for node in pool.nodes()]
        events = started.enter_context(Events(cluster, nodes))
        began, before = time.monotonic(), events.count
        fresh = _fresh_pages(form, cards)
        _start_over(form, cards)
        opened = asyncio.run(open_pages.measure(hub.url, cards, row=form.row, rounds=ROUNDS))
        listed = peer.measure(api, expected=cards.free, answers=PEER_ANSWERS)
        per_s = (events.count - before) / (time.monotonic() - began)
    times = {"fresh_page_s": fresh[0], "open_page_s": opened, "page_load_ms": fresh[1], "peer_lists_ms": listed}
    return _result(times, per_s)


def _fresh_pages(form: Form, cards: Cards) -> tuple[list[float], list[float]]:
    """Return how long each binding took to be seen, and each page to be loaded, in seconds."""
    times, loads = [], []
    for number in range(BINDINGS):
        if not cards.free:
            _start_over(form, cards)
        bound = cards.take()
        # Only pages whose request begins after the binding count: each of these does.
        loads += _load_until(form, capacity_text(cards.free))
        times.append(time.monotonic() - bound)
        if not (number + 1) % 50:
            print(f"freshness: fresh pages {number + 1}/{BINDINGS}, {max(times):.3f} s at most", flush=True)
    return times, loads


def _load_until(form: Form, text: str) -> list[float]:
    """Load the form until it says this, and return how many seconds each page took."""
    loaded: list[Loaded] = []
    deadline = time.monotonic() + PATIENCE_S
    while not loaded or loaded[-1].text != text:
        if time.monotonic() > deadline:
            raise DevclusterError(f"the form does not come to say {text!r}, but {loaded[-1].text!r}")
        loaded.append(form.load())
    return [page.took_s for page in loaded]


def _start_over(form: Form, cards: Cards) -> None:
    cards.give_back()
    _load_until(form, capacity_text(TOTAL))


def _result(times: Mapping[str, Sequence[float]], per_s: float) -> Result:
    """Return the figures.

    :param times: in seconds, by a name that ends with the unit to tell them in.
    """
    values: dict[str, float] = {}
    for name, found in times.items():
        what, _, unit = name.rpartition("_")
        scale = 1000 if unit == "ms" else 1
        figures: Mapping[str, Callable[[Sequence[float]], float]] = {"p50": statistics.median, "p99": p99, "max": max}
        values |= {f"{what}_{figure}_{unit}": of(found) * scale for figure, of in figures.items()}
    return Result(
        name="freshness",
        values={**values, "events_per_s": per_s, "missing_events_percent": max(0.0, 100 * (1 - per_s / PER_S))},
        budgets={
            "open_page_p99_s": OPEN_PAGE_BUDGET_S,
            "fresh_page_p99_s": FRESH_PAGE_BUDGET_S,
            "missing_events_percent": MISSING_EVENTS_BUDGET_PERCENT,
        },
        details={
            "samples": {name: len(found) for name, found in times.items()},
            "open_page_s": [round(found, 2) for found in sorted(times["open_page_s"])],
        },
    )


def p99(found: Sequence[float]) -> float:
    """Return the smallest value that 99 of 100 do not exceed; of fewer than 100, the largest."""
    return sorted(found)[math.ceil(0.99 * len(found)) - 1]


def _settings(cluster: Cluster) -> HubSettings:
    offer = {
        "images": {"lab": {"display_name": "JupyterLab", "image": cluster.notebook_image}},
        "cpu": {"min": 0.5, "max": 4, "step": 0.5, "default": 1},
        "memory": {"min": "512M", "max": "8G", "step": "512M", "default": "1G"},
    }
    return HubSettings(namespace="bench-freshness", gpuspawner=offer)
