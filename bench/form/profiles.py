"""The form of a hub with a large ``profile_list``: 30 profiles with 3 options of 6 entries, and the suite's cluster.

The hub's process has read the cluster and shown a form to another user. Then others open their first form, of whose
pods none is built yet, and one of them opens many more. Of the first forms, the median is measured, and how long they
keep the event loop from everything else.

    python -m bench.form.profiles

measures these forms alone.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

from jupyterhub.objects import Hub
from kubespawner.clients import load_config
from traitlets.config import Config

from bench.control_plane import ControlPlane, control_plane
from bench.result import Result
from bench.scale import gauges, objects, populate
from bench.scale.asking import Subject
from bench.scale.populate import Size
from bench.scale.subject import Commands
from gpuspawner.core.cluster.model import Pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.kube.store import StoreTiming

PROFILES = 30
OPTIONS = 3
ENTRIES = 6
PEOPLE = 10
LATER_FORMS = 200
PICKS = 100
SIZE = Size(1000, 10_000)
BUDGETS = {"profiles_first_ms": 300.0, "profiles_unchanged_p99_ms": 10.0, "profiles_p99_ms": 10.0}
TIMEOUT_S = 300.0
_PACE = StoreTiming(first_sync_timeout_s=100.0)
"""The first caller waits until everything is read, instead of three seconds as in the hub."""
_MOST_SHOWN = 35
"""Functions in a table of where time goes."""


def measure(plane: ControlPlane) -> dict[str, float]:
    """Return the figures of a hub's process in front of a control plane that has the suite's nodes and pods."""
    with Subject("profiles", plane) as hub:
        hub.ask("open", timeout_s=TIMEOUT_S)
        first = hub.ask("first", PEOPLE, timeout_s=TIMEOUT_S)
        later = hub.ask("later", LATER_FORMS, timeout_s=TIMEOUT_S)
        picked = hub.ask("picked", PICKS, timeout_s=TIMEOUT_S)
    return {
        "profiles_first_ms": first["p50_ms"],
        "profiles_first_cpu_ms": first["cpu_p50_ms"],
        "profiles_block_ms": first["stall_ms"],
        "profiles_block_cpu_ms": first["stall_cpu_ms"],
        "profiles_p50_ms": later["p50_ms"],
        "profiles_p99_ms": later["p99_ms"],
        "profiles_cpu_p50_ms": later["cpu_p50_ms"],
        "profiles_cpu_p99_ms": later["cpu_p99_ms"],
        "profiles_unchanged_p99_ms": later["unchanged_p99_ms"],
        "profiles_picked_p99_ms": picked["p99_ms"],
        "profiles_html_bytes": int(later["html_bytes"]),
    }


@asynccontextmanager
async def profile_cards() -> AsyncIterator[Commands]:
    """Open a hub's process, as far as it shows forms."""
    load_config()
    hub = _Hub()
    try:
        yield {"open": hub.open, "first": hub.first, "later": hub.later, "picked": hub.picked, "profile": hub.profile}
    finally:
        await GPUSpawner._stop_all_reflectors()
        await GPUSpawner.offer_factory.stop()


class _Hub:
    """The spawners of several people, one after the other."""

    def __init__(self) -> None:
        self._numbers = count()
        self._spawner = self._make_spawner()

    def _make_spawner(self) -> Any:
        """Return the spawner of a user who has seen no form yet."""
        name = f"user-{next(self._numbers)}"
        config = Config({"KubeSpawner": {"profile_list": profiles(), "namespace": "team-0"}})
        user = SimpleNamespace(name=name, id=1, url=f"/user/{name}/", settings={}, groups=[], escaped_name=name)
        return GPUSpawner(
            hub=Hub(ip="127.0.0.1", port=8081),
            user=user,
            config=config,
            api_token="secret",  # noqa: S106 - never sent
            oauth_client_id="unused",
        )

    async def open(self, _: int) -> Mapping[str, float]:
        """Read the cluster, and show one form, so that what any form takes is there before."""
        await GPUSpawner.offer_factory.get_store(self._spawner.api, pace=_PACE).read_inventory()
        await self._spawner.get_options_form()
        return {}

    async def first(self, people: int) -> Mapping[str, float]:
        """Show the first forms of so many people."""
        forms = gauges.Stopwatch()
        async with gauges.Ticker(gauges.FINE_S) as ticker:
            for _ in range(people):
                self._spawner = self._make_spawner()
                with forms.lap():
                    await self._spawner.get_options_form()
        return {
            **forms.percentiles(),
            "stall_ms": 1000 * ticker.longest_s,
            "stall_cpu_ms": 1000 * ticker.longest_cpu_s,
        }

    async def later(self, number: int) -> Mapping[str, float]:
        """Show the last one more forms, half of them after a pod changed."""
        unchanged, changed, html = gauges.Stopwatch(), gauges.Stopwatch(), ""
        for turn in range(2 * number):
            has_changed = turn % 2 == 1
            if has_changed:
                await self._change_pod(turn)
            with (changed if has_changed else unchanged).lap():
                html = await self._spawner.get_options_form()
        return {
            **changed.percentiles(),
            "unchanged_p99_ms": unchanged.percentiles()["p99_ms"],
            "html_bytes": len(html.encode()),
        }

    async def picked(self, number: int) -> Mapping[str, float]:
        """Show more forms, each with entries of one profile that no user had picked before."""
        forms = gauges.Stopwatch()
        for turn in range(number):
            picks = {f"option-{n}": f"entry-{(turn + 1) // ENTRIES**n % ENTRIES}" for n in range(OPTIONS)}
            self._spawner.user_options = {"profile": "profile-0", **picks}
            with forms.lap():
                await self._spawner.get_options_form()
        return forms.percentiles()

    async def profile(self, is_first: int) -> Mapping[str, float]:
        """Print to standard error where the time of ten first forms, or of later ones, goes."""
        profiler = cProfile.Profile()
        for turn in range(10):
            if is_first:
                self._spawner = self._make_spawner()
            else:
                await self._change_pod(turn)
            profiler.enable()
            await self._spawner.get_options_form()
            profiler.disable()
        for order in ("cumulative", "tottime"):
            pstats.Stats(profiler, stream=sys.stderr).sort_stats(order).print_stats(_MOST_SHOWN)
        return {}

    async def _change_pod(self, number: int) -> None:
        """Take a new pod in on some node, as the watch would."""
        inventory = (await self._spawner.make_offer()).inventory
        if inventory.occupancy is None or inventory.nodes is None:
            raise RuntimeError("the cluster is not known")
        node = inventory.nodes[number * 7919 % len(inventory.nodes)].name
        pod = Pod(name=f"new-{number % 500}", namespace="new", node=node, requests={"cpu": 100 + number % 700})
        inventory.occupancy.put_pod(replace(pod, created=str(number)))


def profiles() -> list[dict[str, Any]]:
    """Return profiles with a GPU type each, and lists for the number of GPUs, the size and the image."""
    return [_profile(number) for number in range(PROFILES)]


def _profile(number: int) -> dict[str, Any]:
    overrides = (
        [{"extra_resource_limits": {objects.GPU: str(n + 1)}} for n in range(ENTRIES)],
        [{"cpu_limit": 2 + n, "mem_limit": f"{4 + 4 * n}G", "mem_guarantee": f"{2 + 2 * n}G"} for n in range(ENTRIES)],
        [{"image": f"images.example/image:{n}"} for n in range(ENTRIES)],
    )
    options = {
        f"option-{n}": {
            "display_name": f"Option {n}",
            "choices": {
                f"entry-{entry}": {"display_name": f"Entry {entry}", "kubespawner_override": override}
                for entry, override in enumerate(overrides[n])
            },
        }
        for n in range(OPTIONS)
    }
    return {
        "display_name": f"Profile {number}",
        "slug": f"profile-{number}",
        "description": "For notebooks with one kind of GPU, for the lab's courses and for projects.",
        "kubespawner_override": {
            "node_selector": {objects.PRODUCT: objects.product(number % objects.GPU_TYPES)},
            "tolerations": [{"key": objects.GPU, "operator": "Exists"}],
            "environment": {"PROFILE": f"profile-{number}"},
        },
        "profile_options": options,
    }


def main() -> None:
    """Measure these forms alone, and print where their time goes where a limit is exceeded."""
    with control_plane(scheduler=False) as plane:
        populate.prepare(plane)
        populate.grow(plane, Size(0, 0), to=SIZE)
        result = Result(name="form", values=measure(plane), budgets=BUDGETS)
        print("\n".join(result.lines()), flush=True)
        if not result.holds():
            with Subject("profiles", plane) as hub:
                hub.ask("open", timeout_s=TIMEOUT_S)
                for is_first in (1, 0):
                    hub.ask("profile", is_first, timeout_s=TIMEOUT_S)


if __name__ == "__main__":
    main()
