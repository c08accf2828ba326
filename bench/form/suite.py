"""The cost of 500 open forms for the hub on a cluster of 1,000 nodes with 20 pod events a second.

The forms belong to 500 people. First they refresh themselves as they did before: each gets the whole page, every ten
seconds. Then they ask for what is new, and again when the hub wants to be asked. Measured is the processor time of the
hub's process, with all that it does meanwhile. Its work without any form is measured before that. At the end, when
no pod changes any more, each form asks twice: the second answer is to be that nothing is new. After that, another hub's
process shows a large ``profile_list`` on the same cluster: see :mod:`bench.form.profiles`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.control_plane import ControlPlane, control_plane
from bench.form import profiles
from bench.form.clients import Crowd, Tally
from bench.form.events import PER_S, pod_events
from bench.form.hub import RunningHub, running_hub
from bench.result import Result
from bench.scale import objects, populate
from bench.scale.churn import Churn
from bench.scale.populate import Size
from devcluster.errors import DevclusterError

SIZE = profiles.SIZE
FORMS = 500
GPU_TYPES = 24
IMAGES = 20

CPU_BUDGET_PERCENT = 10.0
POLL_BYTES_BUDGET = 4096
MISSING_EVENTS_BUDGET_PERCENT = 10.0
ALONE_S = 10.0
PAGES_S = 30.0
SETTLE_S = 90.0
"""So long all forms that opened together keep asking together, before the hub has spread them."""
WINDOW_S = 90.0
QUIET_S = 5.0
"""So long after the last event the hub has counted all of them."""


@dataclass(slots=True, kw_only=True)
class Found:
    """The measured values.

    :param alone: CPU of the hub without a form, in percent of a core; ``pages``, ``settling`` and ``data`` with them.
    :ivar quiet: the answers in the end, when each form knows what is so.
    """

    alone: float
    pages: float
    settling: float
    data: float
    page_tally: Tally
    tally: Tally
    quiet: Tally = field(default_factory=Tally)


def measure() -> Result:
    """Start a control plane, fill it, start a hub, measure, and stop everything."""
    with control_plane(scheduler=False) as plane:
        populate.prepare(plane)
        populate.grow(plane, Size(0, 0), to=SIZE)
        with running_hub(plane, settings()) as hub:
            found, churn = asyncio.run(_measure(hub, plane))
            if errors := hub.errors():
                raise DevclusterError("the hub logged errors:\n" + "\n".join(errors[:5]))
        figures = profiles.measure(plane)
    return _result(found, churn, figures)


async def _measure(hub: RunningHub, plane: ControlPlane) -> tuple[Found, Churn]:
    crowd = Crowd(hub.url, [choice(number) for number in range(FORMS)])
    began = time.monotonic()
    await crowd.open()
    print(f"form: {FORMS} forms opened in {time.monotonic() - began:.0f} s", flush=True)
    try:
        with pod_events(plane, nodes=SIZE.nodes) as churn:
            found = await _with_events(hub, crowd)
        await asyncio.sleep(QUIET_S)
        await crowd.ask_once(Tally())
        await crowd.ask_once(found.quiet)
        print(f"form: without events {found.quiet.unchanged} of {found.quiet.answers} without news", flush=True)
        return found, churn
    finally:
        await crowd.close()


async def _with_events(hub: RunningHub, crowd: Crowd) -> Found:
    alone = await _percent(hub, asyncio.sleep(ALONE_S))
    print(f"form: without refreshes {alone:.1f} % of a core", flush=True)
    pages = Tally()
    page_percent = await _percent(hub, crowd.keep_asking(lambda: pages, ask="ask_for_page", seconds=PAGES_S))
    print(f"form: {len(pages.sizes)} whole pages: {page_percent:.1f} % of a core", flush=True)
    return await _with_data(hub, crowd, alone=alone, pages=(page_percent, pages))


async def _with_data(hub: RunningHub, crowd: Crowd, *, alone: float, pages: tuple[float, Tally]) -> Found:
    current = [Tally()]
    asking = asyncio.ensure_future(crowd.keep_asking(lambda: current[0], ask="ask", seconds=SETTLE_S + WINDOW_S))
    settling = await _percent(hub, asyncio.wait([asking], timeout=SETTLE_S))
    print(f"form: {current[0].answers} answers while the forms spread: {settling:.1f} % of a core", flush=True)
    tally = current[0] = Tally()
    data = await _percent(hub, asyncio.wait([asking], timeout=WINDOW_S))
    await asking
    print(f"form: {tally.answers} answers, {tally.unchanged} without news: {data:.1f} % of a core", flush=True)
    return Found(alone=alone, pages=pages[0], settling=settling, data=data, page_tally=pages[1], tally=tally)


async def _percent(hub: RunningHub, doing: Any) -> float:
    """Return the percentage of a core that a hub takes while something is done."""
    began, before = time.monotonic(), hub.cpu_s()
    await doing
    return 100 * (hub.cpu_s() - before) / (time.monotonic() - began)


def settings() -> dict[str, Any]:
    """Return settings of a site with so many GPU types and images."""
    found = objects.settings()
    text = next(iter(found["images"].values()))["description"]
    return {
        **found,
        "discover_gpus": False,
        "images": {
            f"image-{n}": {"display_name": f"Image {n}", "description": text, "image": f"images.example/image:{n}"}
            for n in range(IMAGES)
        },
        "gpus": dict(list(found["gpus"].items())[:GPU_TYPES]),
    }


def choice(number: int) -> dict[str, str]:
    """Return what a person has picked."""
    return {
        "image": f"image-{number % IMAGES}",
        "cpu": str(4 + number % 30),
        "memory": str(8 + 4 * (number % 24)),
        "gpu": objects.gpu_slug(number % GPU_TYPES),
        "gpu_count": str(1 + number % objects.GPUS_PER_NODE),
    }


def _result(found: Found, churn: Churn, figures: Mapping[str, float]) -> Result:
    sizes, tally = found.tally.sizes, found.tally
    return Result(
        name="form",
        values={
            "hub_cpu_percent": found.data,
            "settling_hub_cpu_percent": found.settling,
            "page_hub_cpu_percent": found.pages,
            "alone_hub_cpu_percent": found.alone,
            "poll_bytes": max(sizes, default=0),
            "poll_bytes_p50": statistics.median(sizes) if sizes else 0,
            "page_poll_bytes": round(statistics.median(found.page_tally.sizes)),
            "unchanged_percent": 100 * tally.unchanged / max(1, tally.answers),
            "quiet_news_percent": 100 * len(found.quiet.sizes) / FORMS,
            "pause_p50_s": statistics.median(tally.pauses_s),
            "events_per_s": churn.events_per_s,
            "missing_events_percent": max(0.0, 100 * (1 - churn.events_per_s / PER_S)),
            **figures,
        },
        budgets={
            "hub_cpu_percent": CPU_BUDGET_PERCENT,
            "poll_bytes": POLL_BYTES_BUDGET,
            "quiet_news_percent": 0.0,
            "missing_events_percent": MISSING_EVENTS_BUDGET_PERCENT,
            **profiles.BUDGETS,
        },
        details={
            "forms": FORMS,
            "nodes": SIZE.nodes,
            "pods": SIZE.pods,
            "gpu_types": GPU_TYPES,
            "images": IMAGES,
            "profiles": [profiles.PROFILES, profiles.OPTIONS, profiles.ENTRIES],
            "answers": tally.answers,
            "pages": len(found.page_tally.sizes),
        },
    )
